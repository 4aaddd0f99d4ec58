package library

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"wending/handlers/form"
	"wending/handlers/request"
	"wending/handlers/rest"
	"wending/jobs/dataset"
	"wending/jobs/library"
)

type correctionFields struct {
	QuestionID     string `json:"question_id,omitempty" doc:"Id of the question, if the dataset's file has ids" example:"q1"`
	Question       string `json:"question,omitempty" doc:"Text of the question, if the dataset's file has no ids; the first row with this text counts"`
	StandardAnswer string `json:"standard_answer" doc:"The new standard answer, which must not be blank" example:"30 日内答复"`
	Note           string `json:"note,omitempty" doc:"What the version is for"`
}

// registerCorrections registers the endpoint that corrects a standard answer.
func (e *endpoints) registerCorrections(api huma.API, path string) {
	rest.Register(api, e.Failed, rest.Endpoint{
		Method: http.MethodPost, Path: path + "/answers", ID: "correct-standard-answer", Tag: "library",
		Status: http.StatusCreated, Summary: "Save the next version of a dataset with another standard answer",
		Description: "All other cells are taken from the newest version; the new version is a CSV file. 404 " +
			"QUESTION_NOT_FOUND if the newest version does not have the question.",
		Faults: append([]string{request.CodeNotFound, request.CodeQuestionNotFound, request.CodeParameterInvalid},
			dataset.Codes...),
		Body: rest.JSONBody[correctionFields](api.OpenAPI().Components.Schemas),
	}, e.correctAnswer)
}

func (e *endpoints) correctAnswer(ctx context.Context, input *entryFormInput) (*entryOutput[DatasetVersion], error) {
	id, _, err := find(ctx, input.EntryPath, e.Library.Entries.Datasets)
	if err != nil {
		return nil, err
	}
	answer, note, err := form.StandardAnswer(input.Form.Values)
	if err != nil {
		return nil, err
	}
	said := library.Correction{QuestionID: input.Form.Values["question_id"], Question: input.Form.Values["question"],
		Answer: answer, Note: note}
	leave, err := request.From(ctx).Gates.Files.Enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	next, err := e.Library.CorrectAnswer(ctx, request.ScopeOf(ctx), id, said)
	return &entryOutput[DatasetVersion]{newDatasetVersion(next.DatasetVersion)}, err
}
