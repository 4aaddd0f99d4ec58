package api

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/uuid"

	"wending/db"
	"wending/db/report"
	"wending/db/review"
	"wending/handlers/form"
	"wending/handlers/request"
	"wending/handlers/rest"
)

func (h *handler) registerReviews(api huma.API) {
	h.registerJudging(api)
	rest.Register(api, h.Failed, rest.Endpoint{
		Method: http.MethodPut, Path: tasksPath + "/{task_id}/items/{question_id}/review", ID: "put-review", Tag: "reviews",
		Summary: "Store a person's verdict on a question or an answer",
		Description: "version is the version that the reviewer has seen, 0 for the first verdict. If it is not the latest, " +
			"nothing is stored and the error contains the current review.",
		Faults: []string{request.CodeTaskNotFound, request.CodeQuestionNotFound, request.CodeRunNotFound,
			request.CodeReviewConflict, request.CodeParameterInvalid},
	}, h.putReview)
	rest.Register(api, h.Failed, rest.Endpoint{
		Method: http.MethodDelete, Path: tasksPath + "/{task_id}/items/{question_id}/review", ID: "withdraw-review",
		Tag: "reviews", Summary: "Withdraw a verdict", Status: http.StatusNoContent,
		Description: "To store the next verdict, send the version that was withdrawn.",
		Faults: []string{request.CodeTaskNotFound, request.CodeQuestionNotFound, request.CodeRunNotFound,
			request.CodeNotFound, request.CodeReviewConflict, request.CodeParameterInvalid},
	}, h.withdrawReview)
	rest.Register(api, h.Failed, rest.Endpoint{
		Method: http.MethodGet, Path: tasksPath + "/{task_id}/reviews", ID: "list-reviews", Tag: "reviews",
		Summary: "List the verdicts on a task's questions and answers",
		Faults:  []string{request.CodeTaskNotFound, request.CodeParameterInvalid},
	}, h.listReviews)
	rest.Register(api, h.Failed, rest.Endpoint{
		Method: http.MethodPut, Path: tasksPath + "/{task_id}/review-assignments", ID: "assign-reviews", Tag: "reviews",
		Summary: "Assign a task's questions to reviewers",
		Description: "Replaces the previous assignments of these questions. An empty list of reviewers withdraws them, so " +
			"that every question is open to everyone again.",
		Faults: []string{request.CodeTaskNotFound, request.CodeQuestionNotFound, request.CodeParameterInvalid},
	}, h.assignReviews)
	rest.Register(api, h.Failed, rest.Endpoint{
		Method: http.MethodGet, Path: tasksPath + "/{task_id}/review-assignments", ID: "list-assignments", Tag: "reviews",
		Summary: "List the reviewers to whom questions are assigned",
		Faults:  []string{request.CodeTaskNotFound},
	}, h.listAssignments)
	rest.Register(api, h.Failed, rest.Endpoint{
		Method: http.MethodPut, Path: tasksPath + "/{task_id}/review-settings", ID: "put-review-settings", Tag: "reviews",
		Summary: "Set how a task is reviewed",
		Faults:  []string{request.CodeTaskNotFound, request.CodeParameterInvalid},
	}, h.putReviewSettings)
	rest.Register(api, h.Failed, rest.Endpoint{
		Method: http.MethodPost, Path: tasksPath + "/{task_id}/sign-off", ID: "sign-off", Tag: "reviews",
		Summary: "Sign off a task's report", Status: http.StatusCreated,
		Faults: []string{request.CodeTaskNotFound, request.CodeTaskNotFinished, request.CodeParameterInvalid},
	}, h.signOff)
	rest.Register(api, h.Failed, rest.Endpoint{
		Method: http.MethodGet, Path: tasksPath + "/{task_id}/sign-offs", ID: "list-sign-offs", Tag: "reviews",
		Summary: "List the sign-offs of a task's report",
		Faults:  []string{request.CodeTaskNotFound},
	}, h.listSignOffs)
}

// Review is a person's verdict on an answer, or on all answers to a question.
type Review struct {
	QuestionID string         `json:"question_id" example:"q1"`
	Variant    int            `json:"variant" example:"1"`
	RunIndex   *int           `json:"run_index" doc:"run_index of the answer; null for the question as a whole" example:"2"`
	Reviewer   string         `json:"reviewer" example:"李雷"`
	Verdict    review.Verdict `json:"verdict" example:"PASS"`
	Reasons    []string       `json:"reasons" nullable:"false" doc:"Reasons for the verdict: number, conclusion, omission, citation, format, or one of the project's own" example:"[\"citation\"]"`
	Note       string         `json:"note" example:"第二次回答引用了旧法条"`
	Ratings    review.Ratings `json:"ratings" doc:"Ratings on the project's dimensions, keyed by dimension: a choice, or a number" example:"{\"语气\":\"得体\",\"准确性\":4}"`
	Version    int            `json:"version" doc:"Number of the review's version, from 1" example:"1"`
	IsOutdated bool           `json:"is_outdated" doc:"True if a judged run has since been replaced"`
	CreatedAt  *rest.Moment   `json:"created_at"`
	CarriedBy  *string        `json:"carried_by" doc:"Name of the person who took the verdict over from an earlier task; null if it was given in this task" example:"韩梅"`
	From       *uuid.UUID     `json:"carried_from" doc:"Id of the earlier task; null if the verdict was given in this task"`
}

func newReview(r review.Review) Review {
	return Review{
		QuestionID: r.QuestionID, Variant: r.Variant, RunIndex: r.RunIndex, Reviewer: r.Reviewer, Verdict: r.Verdict,
		Reasons: append([]string{}, r.Reasons...), Note: r.Note, Ratings: r.Ratings,
		Version: r.Version, IsOutdated: r.IsOutdated, CreatedAt: rest.MomentOf(&r.CreatedAt), CarriedBy: r.CarriedBy,
		From: r.CarriedFrom,
	}
}

type putReviewInput struct {
	rest.QuestionPath
	Body struct {
		Reviewer string         `json:"reviewer,omitempty" doc:"Name of the reviewer, 1–64 characters; with accounts, it is always your own" example:"李雷"`
		Verdict  review.Verdict `json:"verdict" example:"PASS"`
		Reasons  []string       `json:"reasons,omitempty" maxItems:"10" doc:"At most 10 reasons for the verdict: number, conclusion, omission, citation, format, or one of the project's own (review_reasons in its settings)" example:"[\"citation\"]"`
		Note     string         `json:"note,omitempty" maxLength:"10000" example:"第二次回答引用了旧法条"`
		Ratings  review.Ratings `json:"ratings,omitempty" doc:"Ratings on the project's dimensions (review_dimensions in its settings), keyed by dimension: a choice, or a number; absent keeps the reviewer's earlier ratings" example:"{\"语气\":\"得体\",\"准确性\":4}"`
		RunIndex *int           `json:"run_index,omitempty" minimum:"1" maximum:"20" doc:"run_index of the answer; absent means the question as a whole"`
		Variant  int            `json:"variant,omitempty" minimum:"1" maximum:"20" default:"1"`
		Version  int            `json:"version,omitempty" minimum:"0" doc:"The version that the reviewer has seen; 0 for the first verdict"`
	}
}

type reviewOutput struct{ Body Review }

func (h *handler) putReview(ctx context.Context, input *putReviewInput) (*reviewOutput, error) {
	task, err := request.Task(ctx, h.Store, input.TaskID)
	if err != nil {
		return nil, err
	}
	reviewer, err := form.ReviewerName(ctx, input.Body.Reviewer)
	if err != nil {
		return nil, err
	}
	note, err := form.Note(input.Body.Note)
	if err != nil {
		return nil, err
	}
	reviews := review.New(h.Store)
	said := review.Opinion{Verdict: input.Body.Verdict, Note: note}
	if len(input.Body.Reasons) > 0 {
		known, err := reviews.ReasonsOf(ctx, task.ID)
		if err != nil {
			return nil, err
		}
		if said.Reasons, err = form.Reasons(input.Body.Reasons, known); err != nil {
			return nil, err
		}
	}
	if input.Body.Ratings != nil {
		rubric, err := reviews.RubricOf(ctx, task.ID)
		if err != nil {
			return nil, err
		}
		if said.Ratings, err = form.Ratings(input.Body.Ratings, rubric); err != nil {
			return nil, err
		}
	}
	place := review.Place{QuestionID: request.StorableText(input.QuestionID), Variant: max(1, input.Body.Variant),
		RunIndex: input.Body.RunIndex, Reviewer: reviewer}
	stored, err := reviews.Put(ctx, task.ID, place, said, input.Body.Version)
	if err != nil {
		return nil, conflicting(err)
	}
	return &reviewOutput{newReview(stored)}, nil
}

// conflicting returns err; if it is a conflict, it adds the current review, for the response.
func conflicting(err error) error {
	if conflict := (*review.ConflictError)(nil); errors.As(err, &conflict) && conflict.Current != nil {
		return rest.NewConflict(err, newReview(*conflict.Current))
	}
	return err
}

type withdrawReviewInput struct {
	rest.QuestionPath
	Reviewer string `query:"reviewer" required:"true" doc:"Name of the reviewer" example:"李雷"`
	Variant  int    `query:"variant" minimum:"1" maximum:"20" default:"1" doc:"Number of the variant; 1 for a task with one variant" example:"1"`
	RunIndex int    `query:"run_index" minimum:"0" maximum:"20" doc:"run_index of the answer; absent means the question as a whole"`
	Version  int    `query:"version" minimum:"0" required:"true" doc:"The version to withdraw" example:"1"`
}

func (h *handler) withdrawReview(ctx context.Context, input *withdrawReviewInput) (*struct{}, error) {
	task, err := request.Task(ctx, h.Store, input.TaskID)
	if err != nil {
		return nil, err
	}
	reviewer, err := form.ReviewerName(ctx, input.Reviewer)
	if err != nil {
		return nil, err
	}
	place := review.Place{QuestionID: request.StorableText(input.QuestionID), Variant: input.Variant, Reviewer: reviewer}
	if input.RunIndex > 0 {
		place.RunIndex = &input.RunIndex
	}
	return nil, conflicting(review.New(h.Store).Withdraw(ctx, task.ID, place, input.Version))
}

type listReviewsInput struct {
	TaskPath
	Reviewer string         `query:"reviewer" doc:"Only verdicts by this reviewer" example:"李雷"`
	Verdict  review.Verdict `query:"verdict" enum:"PASS,FAIL,UNSURE" doc:"Only reviews with this verdict" example:"FAIL"`
}

type reviewsOutput struct {
	Body struct {
		Items []Review `json:"items" doc:"Ordered by question_id"`
	}
}

func (h *handler) listReviews(ctx context.Context, input *listReviewsInput) (*reviewsOutput, error) {
	task, err := request.Task(ctx, h.Store, input.TaskID)
	if err != nil {
		return nil, err
	}
	found, err := review.New(h.Store).List(ctx, task.ID, strings.TrimSpace(request.StorableText(input.Reviewer)),
		input.Verdict)
	if err != nil {
		return nil, err
	}
	output := &reviewsOutput{}
	output.Body.Items = make([]Review, len(found))
	for n, one := range found {
		output.Body.Items[n] = newReview(one)
	}
	return output, nil
}

// SignOff records that a reviewer has completed the review of a task.
type SignOff struct {
	ID        int64        `json:"id" example:"1"`
	Reviewer  string       `json:"reviewer" example:"李雷"`
	Note      string       `json:"note"`
	Passed    int          `json:"passed" doc:"Number of PASS verdicts on questions at that time" example:"90"`
	Failed    int          `json:"failed" example:"8"`
	Unsure    int          `json:"unsure" example:"2"`
	Open      *int         `json:"open_questions" doc:"Number of questions without a verdict at that time; null if it was not recorded" example:"0"`
	IsChanged bool         `json:"is_changed" doc:"True if verdicts have changed since"`
	CreatedAt *rest.Moment `json:"created_at"`
}

func newSignOff(s review.SignOff) SignOff {
	return SignOff{s.ID, s.Reviewer, s.Note, s.Passed, s.Failed, s.Unsure, s.Open, s.IsChanged,
		rest.MomentOf(&s.CreatedAt)}
}

type signOffInput struct {
	TaskPath
	Body struct {
		Reviewer string `json:"reviewer" doc:"1–64 characters" example:"李雷"`
		Note     string `json:"note,omitempty" maxLength:"10000"`
	}
}

type signOffOutput struct{ Body SignOff }

func (h *handler) signOff(ctx context.Context, input *signOffInput) (*signOffOutput, error) {
	task, err := h.resultsTask(ctx, input.TaskID, false)
	if err != nil {
		return nil, err
	}
	reviewer, err := form.ReviewerName(ctx, input.Body.Reviewer)
	if err != nil {
		return nil, err
	}
	note, err := form.Note(input.Body.Note)
	if err != nil {
		return nil, err
	}
	signed, err := review.New(h.Store).SignOff(ctx, task.ID, reviewer, note)
	if err != nil {
		return nil, err
	}
	return &signOffOutput{newSignOff(signed)}, nil
}

type signOffsOutput struct {
	Body struct {
		Items []SignOff `json:"items" doc:"Newest first"`
	}
}

func (h *handler) listSignOffs(ctx context.Context, input *TaskPath) (*signOffsOutput, error) {
	task, err := request.Task(ctx, h.Store, input.TaskID)
	if err != nil {
		return nil, err
	}
	all, err := review.New(h.Store).SignOffs(ctx, task.ID)
	if err != nil {
		return nil, err
	}
	output := &signOffsOutput{}
	output.Body.Items = make([]SignOff, len(all))
	for n, one := range all {
		output.Body.Items[n] = newSignOff(one)
	}
	return output, nil
}

type assignInput struct {
	TaskPath
	Body struct {
		QuestionIDs []string `json:"question_ids,omitempty" maxItems:"1000" doc:"Assigns only these questions, and the others keep their reviewers; absent means all" example:"[\"q1\"]"`
		Reviewers   []string `json:"reviewers" maxItems:"20" doc:"Names of the reviewers, at most 20, each 1–64 characters; empty withdraws all assignments" example:"[\"李雷\",\"韩梅梅\"]"`
		Order       string   `json:"order,omitempty" enum:"number,random" default:"number" doc:"How questions are divided among reviewers: in blocks of consecutive questions, or at random"`
		Overlap     float64  `json:"overlap,omitempty" minimum:"0" maximum:"1" doc:"Share of questions assigned to two reviewers, to measure their agreement" example:"0.2"`
	}
}

// ReviewSettings says how a task is reviewed.
type ReviewSettings struct {
	IsBlindReview    bool `json:"is_blind_review" doc:"True if pages hide evaluators' verdicts on an answer from a reviewer until the reviewer has judged it; the API always returns them" example:"true"`
	HidesReviews     bool `json:"hides_reviews" required:"false" doc:"True if pages hide other people's verdicts on a question or an answer from a reviewer until the reviewer has judged it; the API always returns them" example:"true"`
	ReviewersPerItem *int `json:"reviewers_per_item" required:"false" minimum:"1" maximum:"10" doc:"How many people's verdicts complete a question, so that it waits for nobody else; null if every reviewer is asked for every question" example:"2"`
}

type reviewSettingsInput struct {
	TaskPath
	Body ReviewSettings
}

type reviewSettingsOutput struct{ Body ReviewSettings }

func (h *handler) putReviewSettings(ctx context.Context, input *reviewSettingsInput) (*reviewSettingsOutput, error) {
	task, err := request.Task(ctx, h.Store, input.TaskID)
	if err != nil {
		return nil, err
	}
	if err := review.New(h.Store).Set(ctx, task.ID, db.ReviewSettings(input.Body)); err != nil {
		return nil, err
	}
	return &reviewSettingsOutput{input.Body}, nil
}

// Assignment says who is to review a question.
type Assignment struct {
	QuestionID string   `json:"question_id" example:"q1"`
	Reviewers  []string `json:"reviewers" doc:"Names of the reviewers; empty if every question is open to everyone"`
}

type assignmentsOutput struct {
	Body struct {
		Items []Assignment `json:"items" doc:"Ordered by question_id"`
	}
}

func (h *handler) assignReviews(ctx context.Context, input *assignInput) (*assignmentsOutput, error) {
	task, err := request.Task(ctx, h.Store, input.TaskID)
	if err != nil {
		return nil, err
	}
	reviewers, err := form.ReviewerNames(input.Body.Reviewers)
	if err != nil {
		return nil, err
	}
	err = review.New(h.Store).Assign(ctx, task.ID, input.Body.QuestionIDs, func(questions int) [][]string {
		return review.SplitQuestions(questions, reviewers, input.Body.Order == "random", input.Body.Overlap)
	})
	if err != nil {
		return nil, err
	}
	return h.listAssignments(ctx, &input.TaskPath)
}

func (h *handler) listAssignments(ctx context.Context, input *TaskPath) (*assignmentsOutput, error) {
	task, err := request.Task(ctx, h.Store, input.TaskID)
	if err != nil {
		return nil, err
	}
	assigned, err := review.New(h.Store).Assignments(ctx, task.ID)
	if err != nil {
		return nil, err
	}
	summaries, err := report.New(h.Store).Summaries(ctx, task, 0, "", false)
	if err != nil {
		return nil, err
	}
	output := &assignmentsOutput{}
	output.Body.Items = make([]Assignment, len(summaries))
	for n, item := range summaries {
		output.Body.Items[n] = Assignment{item.QuestionID, append([]string{}, assigned[item.ID]...)}
	}
	return output, nil
}
