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

// registerMeaning registers the endpoints for people's groupings of answers by meaning.
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
	rest.Register(api, h.Failed, rest.Endpoint{
		Method: http.MethodDelete, Path: tasksPath + "/{task_id}/items/{question_id}/meaning", ID: "withdraw-meaning",
		Tag: "reviews", Summary: "Withdraw a person's grouping of the answers to a question", Status: http.StatusNoContent,
		Description: "The model's grouping counts again. version is the version of the grouping to withdraw; if it is " +
			"not the latest or was withdrawn already, nothing changes and the error contains the current grouping. The next " +
			"grouping by a person must state the version that was withdrawn.",
		Faults: []string{request.CodeTaskNotFound, request.CodeQuestionNotFound, request.CodeReviewConflict,
			request.CodeParameterInvalid},
	}, h.withdrawMeaning)
}

type putMeaningInput struct {
	rest.QuestionPath
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
	item, err := h.itemOf(ctx, task, input.QuestionID)
	if err != nil {
		return nil, err
	}
	said := tasks.Regrouping{ItemID: item, Variant: max(1, input.Body.Variant), Groups: input.Body.Groups,
		Reviewer: reviewer, Version: input.Body.Version}
	_, wrong := h.Tasks.Regroup(ctx, task, said)
	present, err := h.meaningAfter(ctx, task, item, said.Variant, wrong)
	if err != nil || present == nil {
		return nil, err
	}
	return &meaningOutput{*present}, nil
}

type withdrawMeaningInput struct {
	rest.QuestionPath
	Reviewer string `query:"reviewer" doc:"Name of the person who withdraws it; with accounts, it is always your own" example:"李雷"`
	Variant  int    `query:"variant" minimum:"1" maximum:"20" default:"1" doc:"Number of the variant; 1 for a task with one variant" example:"1"`
	Version  int    `query:"version" minimum:"1" required:"true" doc:"The version to withdraw" example:"1"`
}

func (h *handler) withdrawMeaning(ctx context.Context, input *withdrawMeaningInput) (*struct{}, error) {
	task, err := request.Task(ctx, h.Store, input.TaskID)
	if err != nil {
		return nil, err
	}
	reviewer, err := form.ReviewerName(ctx, input.Reviewer)
	if err != nil {
		return nil, err
	}
	item, err := h.itemOf(ctx, task, input.QuestionID)
	if err != nil {
		return nil, err
	}
	wrong := review.New(h.Store).Ungroup(ctx, task.ID, item, input.Variant, input.Version, reviewer)
	_, err = h.meaningAfter(ctx, task, item, input.Variant, wrong)
	return nil, err
}

// itemOf returns the internal id of the question with the given id in a task.
func (h *handler) itemOf(ctx context.Context, task db.Task, questionID string) (int64, error) {
	items, _, err := report.New(h.Store).Items(ctx, task.ID,
		report.Filter{QuestionID: request.StorableText(questionID)}, db.Page{Number: 1, Size: 1})
	if err == nil && len(items) == 0 {
		err = &db.NotFoundError{Kind: db.KindQuestion}
	}
	if err != nil {
		return 0, err
	}
	return items[0].ID, nil
}

// meaningAfter returns how a variant's answers to a question are grouped after a person changed it; nil if unknown.
// wrong is the error of the change, or nil; if it is a conflict, the returned error contains the current grouping.
func (h *handler) meaningAfter(ctx context.Context, task db.Task, item int64, variant int,
	wrong error) (*meaning.VariantMeaning, error) {
	if conflict := (*review.GroupingConflictError)(nil); wrong != nil && !errors.As(wrong, &conflict) {
		return nil, wrong
	}
	questions, err := report.New(h.Store).Questions(ctx, task.ID, []int64{item})
	if err != nil {
		return nil, err
	}
	question := questions[item]
	present, _ := question.Likeness(variant).Known.OfVariant(question.Notes())
	if wrong != nil && present != nil {
		wrong = rest.NewConflict(wrong, present)
	}
	return present, wrong
}

// reliabilityOf returns how well the groupings by a task's model agree with people's; nil if there is nothing to
// compare.
func reliabilityOf(ctx context.Context, store *db.Store, task db.Task) (*meaning.Reliability, error) {
	if task.Grouper() == nil {
		return nil, nil //nolint:nilnil // the task has no such model
	}
	of, err := review.New(store).Reliability(ctx, task.ID)
	if err != nil || of.Questions == 0 {
		return nil, err
	}
	return &of, nil
}
