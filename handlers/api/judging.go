package api

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"wending/db/review"
	"wending/handlers/form"
	"wending/handlers/request"
	"wending/handlers/rest"
	"wending/jobs/dataset"
)

// judgedFields describes the fields of the form that imports a review workbook.
type judgedFields struct {
	File     string `json:"file" doc:"Completed review workbook, as downloaded with GET /{task_id}/export?format=xlsx&review=1" format:"binary"`
	Reviewer string `json:"reviewer" doc:"Name of the reviewer; with accounts, the name of the account is used" maxLength:"64" example:"李雷"`
}

type judgedInput struct {
	TaskPath
	rest.AnswersInput
}

// opinion is a verdict with its reasons and note.
type opinion struct {
	Verdict review.Verdict `json:"verdict" example:"FAIL"`
	Reasons []string       `json:"reasons" nullable:"false"`
	Note    string         `json:"note"`
}

// judgedConflict is a row of the workbook that was not stored.
type judgedConflict struct {
	Row        int     `json:"row" doc:"Number of the row in the workbook" example:"4"`
	QuestionID string  `json:"question_id" example:"q1"`
	Variant    int     `json:"variant" example:"1"`
	Mine       opinion `json:"mine" doc:"The verdict in the workbook, which was not stored"`
	Theirs     *Review `json:"theirs" doc:"The present verdict, which was changed since the export; null if it was withdrawn"`
}

type judgedOutput struct {
	Body struct {
		Changed   int              `json:"changed" doc:"Number of verdicts stored" example:"12"`
		Unchanged int              `json:"unchanged" doc:"Number of rows without changes" example:"87"`
		Conflicts []judgedConflict `json:"conflicts" nullable:"false" doc:"Rows that were not stored, because their verdict was changed elsewhere since the export"`
	}
}

func (h *handler) registerJudging(api huma.API) {
	rest.Register(api, h.Failed, rest.Endpoint{
		Method: http.MethodPost, Path: tasksPath + "/{task_id}/reviews/import", ID: "import-reviews", Tag: "reviews",
		Summary: "Import a review workbook",
		Description: "Rows that were not changed are ignored. Nothing is overwritten: a row whose verdict was changed " +
			"elsewhere since the export is a conflict. If a row is faulty, nothing is stored and the error lists the " +
			"faulty rows.",
		Faults: []string{request.CodeTaskNotFound, request.CodeQuestionNotFound, request.CodeDatasetTooLarge,
			dataset.CodeFormatUnsupported, dataset.CodeUnreadable, dataset.CodeTooComplex, dataset.CodeSchemaInvalid,
			dataset.CodeTooManyRows, dataset.CodeRowInvalid, request.CodeParameterInvalid, request.CodeRequestInvalid,
			request.CodeRequestTooLarge, request.CodeQuotaExceeded},
		Body: rest.Multipart[judgedFields](api.OpenAPI().Components.Schemas, true),
	}, h.importReviews)
}

func (h *handler) importReviews(ctx context.Context, input *judgedInput) (*judgedOutput, error) {
	task, err := request.Task(ctx, h.Store, input.TaskID)
	if err != nil {
		return nil, err
	}
	done, err := form.ImportReviews(ctx, h.Store, task, input.Form)
	if err != nil {
		return nil, err
	}
	output := &judgedOutput{}
	output.Body.Changed, output.Body.Unchanged = done.Changed, done.Unchanged
	output.Body.Conflicts = []judgedConflict{}
	for _, one := range done.Conflicts {
		conflict := judgedConflict{Row: one.Row, QuestionID: one.Place.QuestionID, Variant: one.Place.Variant,
			Mine: opinion{one.Mine.Verdict, append([]string{}, one.Mine.Reasons...), one.Mine.Note}}
		if one.Theirs != nil {
			theirs := newReview(*one.Theirs)
			conflict.Theirs = &theirs
		}
		output.Body.Conflicts = append(output.Body.Conflicts, conflict)
	}
	return output, nil
}
