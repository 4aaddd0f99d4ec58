package pages

import (
	"errors"
	"log/slog"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/labstack/echo/v4"

	"wending/handlers/form"
	"wending/handlers/request"
	"wending/jobs/dataset"
	"wending/jobs/tasks"
	"wending/views/text"
	"wending/views/ui"
)

// Questions previews the files of questions in forms, and keeps the files while the forms are being filled in.
type Questions struct {
	Staging form.Staging
	Log     *slog.Logger
}

// Chosen is the file of questions in a form, as far as it could be read.
type Chosen struct {
	File   tasks.File
	Set    *dataset.Dataset
	Layout dataset.Layout
	// IsKept reports that the file belongs to a saved dataset or to another task, so its columns were confirmed when it
	// was uploaded.
	IsKept bool
	// Fault says what is wrong with the file; nil if nothing is.
	Fault *request.Fault
}

// firstRows is the maximum number of rows that a preview shows.
const firstRows = 5

// Preview returns what a form's file contains, and stages the file; nil if there is no file. A file that came with the
// form replaces the one that was staged before. If the file cannot be read as it is, Preview reads it with the columns
// that are probably meant, or as GB18030, and stores that layout in chosen.
func (q Questions) Preview(c echo.Context, f *form.Upload, chosen *Chosen) *ui.Preview {
	if chosen.File.Name == "" || f.Refused != nil {
		return nil
	}
	preview := &ui.Preview{FileName: text.Cut(chosen.File.Name, 200), FileSize: len(chosen.File.Content)}
	if !chosen.IsKept {
		q.chooseEncoding(c, chosen)
		q.chooseColumns(c, f, chosen, preview)
	}
	if chosen.Layout.Encoding != "" && !utf8.Valid(chosen.File.Content) {
		preview.Encoding = chosen.Layout.Encoding
	}
	if chosen.Fault != nil {
		refuse(c, chosen.Fault, preview)
		if len(preview.Choices) > 0 { // once the columns are chosen, the file need not be sent again
			preview.Token = q.Stage(c, f)
		}
		return preview
	}
	preview.Token = q.Stage(c, f)
	preview.Questions, preview.Columns = len(chosen.Set.Rows), chosen.Set.Columns
	preview.Conversations, preview.HasIDs = chosen.Set.Conversations(), chosen.Set.HasIDs
	preview.VariableNames, preview.IgnoredSheets = chosen.Set.VariableNames, chosen.Set.IgnoredSheets
	for _, row := range chosen.Set.Rows[:min(firstRows, len(chosen.Set.Rows))] {
		preview.First = append(preview.First, ui.PreviewRow{
			Number: row.Number, QuestionID: row.QuestionID, Question: row.Question, StandardAnswer: row.StandardAnswer,
		})
	}
	return preview
}

// Refusal returns a preview that says why a file was refused.
func Refusal(c echo.Context, refused *request.Fault) *ui.Preview {
	preview := &ui.Preview{}
	refuse(c, refused, preview)
	return preview
}

func refuse(c echo.Context, refused *request.Fault, preview *ui.Preview) {
	preview.Message = refused.Message(Locale(c))
	details, total := refused.Details(Locale(c))
	preview.Total = total
	for _, detail := range details {
		preview.Rows = append(preview.Rows, ui.RowProblem{Row: detail.Row, Column: detail.Column, Message: detail.Message})
	}
}

// chooseEncoding reads a CSV file that is not UTF-8 as GB18030, if possible; people can check the result in the
// preview.
func (q Questions) chooseEncoding(c echo.Context, chosen *Chosen) {
	refused := (*dataset.Error)(nil)
	if chosen.Fault == nil || !errors.As(chosen.Fault, &refused) || refused.Code != dataset.CodeEncodingInvalid ||
		chosen.Layout.Encoding != "" {
		return
	}
	layout := chosen.Layout
	layout.Encoding = dataset.GB18030
	set, err := dataset.Read(c.Request().Context(), chosen.File.Name, chosen.File.Content, layout)
	again := (*dataset.Error)(nil)
	if errors.As(err, &again) && again.Code == dataset.CodeEncodingInvalid {
		return // it is in a different encoding
	}
	chosen.Layout, chosen.Set, chosen.Fault = layout, set, nil
	if err != nil {
		chosen.Fault = request.DatasetFault(err)
	}
}

// chooseColumns lets the user choose the columns of a file without the columns question, standard_answer or
// question_id. It reads the file again with the chosen columns or, until the user has chosen, with the columns that are
// probably meant.
func (q Questions) chooseColumns(c echo.Context, f *form.Upload, chosen *Chosen, preview *ui.Preview) {
	columns := q.columnsToChoose(chosen)
	if len(columns) == 0 {
		return
	}
	guess, picked := dataset.Guess(columns), chosen.Layout
	guess.Encoding = picked.Encoding
	for _, one := range []struct{ chosen, to *string }{{&picked.ID, &guess.ID}, {&picked.Question, &guess.Question},
		{&picked.Answer, &guess.Answer}} {
		if slices.Contains(columns, *one.chosen) {
			*one.to = *one.chosen
		}
	}
	isAnswered := f.Has("column_question_id") && slices.Contains(columns, picked.Question)
	if isAnswered {
		guess.ID = picked.ID // the user may also have chosen that no column contains ids
	}
	set, err := dataset.Read(c.Request().Context(), chosen.File.Name, chosen.File.Content, guess)
	if err != nil && guess.ID != "" && !isAnswered { // a column with that name need not contain ids
		guess.ID = ""
		set, err = dataset.Read(c.Request().Context(), chosen.File.Name, chosen.File.Content, guess)
	}
	if err == nil {
		chosen.Set, chosen.Layout, chosen.Fault = set, guess, nil
	}
	if chosen.Fault == nil && !q.isWorthAsking(chosen) {
		return
	}
	preview.Choices, preview.Chosen = columns, guess
}

// columnsToChoose returns the columns from which a user can choose; empty if there is nothing to choose.
func (q Questions) columnsToChoose(chosen *Chosen) []string {
	refused := (*dataset.Error)(nil)
	switch {
	case chosen.Fault == nil && chosen.Set != nil &&
		(!chosen.Set.HasIDs || chosen.Layout != dataset.Layout{Encoding: chosen.Layout.Encoding}):
		return chosen.Set.Columns
	case chosen.Fault != nil && errors.As(chosen.Fault, &refused):
		return refused.Columns
	}
	return nil
}

// isWorthAsking reports whether there is still something to choose in a file that could be read: its columns have other
// names, or one of them may contain ids.
func (q Questions) isWorthAsking(chosen *Chosen) bool {
	isNamed := func(column, name string) bool { return column == "" || strings.EqualFold(column, name) }
	return !isNamed(chosen.Layout.Question, dataset.ColumnQuestion) ||
		!isNamed(chosen.Layout.Answer, dataset.ColumnAnswer) ||
		!isNamed(chosen.Layout.ID, dataset.ColumnID) || dataset.Guess(chosen.Set.Columns).ID != "" && !chosen.Set.HasIDs
}

// Stage stages the file that came with a form and returns its token; without a file, it returns the token of the file
// that was staged before. If the token is empty, the file must be chosen again.
func (q Questions) Stage(c echo.Context, f *form.Upload) string {
	ctx, token := c.Request().Context(), f.Value("dataset_token")
	if f.File == nil {
		return token
	}
	q.Staging.Drop(ctx, Browser(c), token)
	token, err := q.Staging.Put(ctx, Browser(c), f.File.File)
	if err != nil {
		q.Log.WarnContext(ctx, "uploaded file not staged, the user must choose it again", "error", err)
		return ""
	}
	return token
}
