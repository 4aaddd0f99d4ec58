package api

import (
	"context"
	"errors"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"wending/db"
	"wending/db/meaning"
	"wending/db/report"
	"wending/db/review"
	"wending/handlers/form"
	"wending/handlers/request"
	"wending/handlers/rest"
	"wending/jobs/tasks"
)

// registerMeaning registers the endpoint that stores people's groupings of answers.
func (h *handler) registerMeaning(api huma.API) {
	rest.Register(api, h.Failed, rest.Endpoint{
		Method: http.MethodPut, Path: tasksPath + "/{task_id}/items/{question_id}/meaning", ID: "put-meaning", Tag: "reviews",
		Summary: "Store a person's grouping of the answers to a question by meaning",
		Description: "Each question and variant has one grouping by people. It takes precedence over the model's " +
			"grouping, also in later launches, as long as the answers stay the same. version is the version that " +
			"the person has seen, 0 if nobody has grouped the answers yet. If it is not the latest, nothing is " +
			"stored and the error contains the current grouping. Every run that has an answer must be in exactly " +
			"one group, and answers that differ at most in format must be in the same group. The task needs a " +
			"meaning_model.",
		Faults: []string{request.CodeTaskNotFound, request.CodeQuestionNotFound, request.CodeNotFound,
			request.CodeReviewConflict, request.CodeTaskStateConflict, request.CodeParameterInvalid},
	}, h.putMeaning)
}

type putMeaningInput struct {
	ReviewPath
	Body struct {
		Groups   [][]int `json:"groups" minItems:"1" maxItems:"20" doc:"The run_index values in each group of answers that say the same thing" example:"[[1, 3], [2]]"`
		Reviewer string  `json:"reviewer,omitempty" doc:"Name of the reviewer, 1–64 characters; with accounts, it is always your own" example:"李雷"`
		Version  int     `json:"version,omitempty" minimum:"0" doc:"The version of people's grouping that the reviewer has seen; 0 if there was none"`
		Variant  int     `json:"variant,omitempty" minimum:"1" maximum:"20" default:"1"`
	}
}

type meaningOutput struct{ Body meaning.VariantMeaning }

func (h *handler) putMeaning(ctx context.Context, input *putMeaningInput) (*meaningOutput, error) {
	task, err := request.Task(ctx, h.Store, input.TaskID)
	if err != nil {
		return nil, err
	}
	reviewer, err := form.ReviewerName(ctx, input.Body.Reviewer)
	if err != nil {
		return nil, err
	}
	items, _, err := report.New(h.Store).Items(ctx, task.ID,
		report.Filter{QuestionID: request.StorableText(input.QuestionID)}, db.Page{Number: 1, Size: 1})
	if err == nil && len(items) == 0 {
		err = &db.NotFoundError{Kind: db.KindQuestion}
	}
	if err != nil {
		return nil, err
	}
	said := tasks.Regrouping{ItemID: items[0].ID, Variant: max(1, input.Body.Variant), Groups: input.Body.Groups,
		Reviewer: reviewer, Version: input.Body.Version}
	_, wrong := h.Tasks.Regroup(ctx, task, said)
	if conflict := (*review.GroupingConflictError)(nil); wrong != nil && !errors.As(wrong, &conflict) {
		return nil, wrong
	}
	present, err := h.meaningOf(ctx, task, said)
	switch {
	case err != nil:
		return nil, err
	case wrong == nil && present != nil:
		return &meaningOutput{*present}, nil
	case present != nil:
		wrong = rest.NewConflict(wrong, present)
	}
	return nil, wrong
}

// meaningOf returns how one variant's answers to a question are grouped by meaning; nil while that is not known.
func (h *handler) meaningOf(ctx context.Context, task db.Task, of tasks.Regrouping) (*meaning.VariantMeaning, error) {
	questions, err := report.New(h.Store).Questions(ctx, task.ID, []int64{of.ItemID})
	if err != nil {
		return nil, err
	}
	question := questions[of.ItemID]
	one, _ := question.Likeness(of.Variant).Known.OfVariant(question.Notes())
	return one, nil
}

// reliabilityOf returns how far the groupings of a task's model agree with those of people; nil if they cannot be
// compared.
func reliabilityOf(ctx context.Context, store *db.Store, task db.Task) (*meaning.Reliability, error) {
	if task.Grouper() == nil {
		return nil, nil //nolint:nilnil // there is none
	}
	of, err := review.New(store).Reliability(ctx, task.ID)
	if err != nil || of.Questions == 0 {
		return nil, err
	}
	return &of, nil
}
