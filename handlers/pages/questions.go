package pages

import (
	"errors"
	"log/slog"
	"slices"

	"github.com/labstack/echo/v4"

	"wending/handlers/fault"
	"wending/handlers/form"
	"wending/jobs/dataset"
	"wending/jobs/tasks"
	"wending/views/questions"
	"wending/views/text"
)

// Questions shows the files of questions that forms carry, and keeps them while the forms are being filled in.
type Questions struct {
	Staging form.Staging
	Log     *slog.Logger
}

// Chosen is the file of questions that a form carries, as it was read.
type Chosen struct {
	File    tasks.File
	Set     *dataset.Dataset
	Columns dataset.Columns
	// Fault is what is wrong with it; nil means nothing.
	Fault *fault.Fault
}

// firstRows is how many of a file's rows a preview shows.
const firstRows = 5

// Preview shows what a form's file contains and keeps the file for the form; nil if there is none. A file that came with
// the form replaces the one staged before. One whose columns have other names is read again with those that probably are
// meant: chosen then has it.
func (q Questions) Preview(c echo.Context, f *form.Upload, chosen *Chosen) *questions.Preview {
	if chosen.File.Name == "" || f.Refused != nil {
		return nil
	}
	preview := &questions.Preview{FileName: text.Cut(chosen.File.Name, 200), FileSize: len(chosen.File.Content)}
	q.chooseColumns(c, chosen, preview)
	if chosen.Fault != nil {
		refuse(c, chosen.Fault, preview)
		if len(preview.Choices) > 0 { // once they are chosen the file need not be sent again
			preview.Token = q.stage(c, f)
		}
		return preview
	}
	preview.Token = q.stage(c, f)
	preview.Questions, preview.Columns = len(chosen.Set.Rows), chosen.Set.Columns
	preview.Conversations = chosen.Set.Conversations()
	preview.VariableNames, preview.IgnoredSheets = chosen.Set.VariableNames, chosen.Set.IgnoredSheets
	for _, row := range chosen.Set.Rows[:min(firstRows, len(chosen.Set.Rows))] {
		preview.First = append(preview.First, questions.PreviewRow{
			Number: row.Number, QuestionID: row.QuestionID, Question: row.Question, StandardAnswer: row.StandardAnswer,
		})
	}
	return preview
}

// Refusal says what is wrong with a file that was refused.
func Refusal(c echo.Context, refused *fault.Fault) *questions.Preview {
	preview := &questions.Preview{}
	refuse(c, refused, preview)
	return preview
}

func refuse(c echo.Context, refused *fault.Fault, preview *questions.Preview) {
	preview.Message = refused.Message(Locale(c))
	details, total := refused.Details(Locale(c))
	preview.Total = total
	for _, detail := range details {
		preview.Rows = append(preview.Rows, questions.RowProblem{Row: detail.Row, Column: detail.Column, Message: detail.Message})
	}
}

// chooseColumns offers the columns of a file in which question or standard_answer is missing: those that were chosen, and
// otherwise those that probably are meant, with which the file is read again.
func (q Questions) chooseColumns(c echo.Context, chosen *Chosen, preview *questions.Preview) {
	if chosen.Fault == nil {
		if chosen.Set != nil && chosen.Columns != (dataset.Columns{}) {
			preview.Choices, preview.Chosen = chosen.Set.Columns, chosen.Columns
		}
		return
	}
	refused := (*dataset.Error)(nil)
	if !errors.As(chosen.Fault, &refused) || len(refused.Columns) == 0 {
		return
	}
	preview.Choices, preview.Chosen = refused.Columns, dataset.Guess(refused.Columns)
	if slices.Contains(refused.Columns, chosen.Columns.Question) {
		preview.Chosen.Question = chosen.Columns.Question
	}
	if slices.Contains(refused.Columns, chosen.Columns.Answer) {
		preview.Chosen.Answer = chosen.Columns.Answer
	}
	if set, err := dataset.Read(c.Request().Context(), chosen.File.Name, chosen.File.Content, preview.Chosen); err == nil {
		chosen.Set, chosen.Columns, chosen.Fault = set, preview.Chosen, nil
	}
}

// stage keeps the file that came with a form and returns its token, or that of the file staged before. Without a
// token the file must be chosen again.
func (q Questions) stage(c echo.Context, f *form.Upload) string {
	ctx, token := c.Request().Context(), f.Value("dataset_token")
	if f.File == nil {
		return token
	}
	q.Staging.Drop(ctx, Browser(c), token)
	token, err := q.Staging.Put(ctx, Browser(c), f.File.File)
	if err != nil {
		q.Log.WarnContext(ctx, "could not stage the file, the user must choose it again", "error", err)
		return ""
	}
	f.Values["dataset_token"] = token
	return token
}
