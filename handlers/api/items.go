package api

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"wending/db/report"
	"wending/handlers/request"
	"wending/handlers/rest"
)

// itemProgress is the progress of one question.
type itemProgress struct {
	Number       int              `json:"number" doc:"Position of the question on the task's pages, from 1" example:"1"`
	QuestionID   string           `json:"question_id" example:"q1"`
	Question     string           `json:"question" example:"中国的首都是哪里？"`
	State        report.ItemState `json:"state" doc:"running: a call is in flight; done: all runs are recorded; failed: all runs are recorded, at least one without an answer; waiting: anything else" example:"running"`
	RunsDone     int              `json:"runs_done" doc:"Runs that have ended and are not being repeated by an active launch" example:"3"`
	RunsExpected int              `json:"runs_expected" doc:"Runs expected over all variants" example:"5"`
	RunningSince *rest.Moment     `json:"running_since" doc:"When the oldest call in flight began; null if there is none"`
}

type itemsInput struct {
	TaskPath
	rest.PageQuery
	State string `query:"state" enum:"waiting,running,done,failed" doc:"Only questions in this state" example:"waiting"`
	Query string `query:"query" doc:"Only questions whose question_id or text contains this text, or with a run that has this trace_id or agent_trace_id" example:"首都"`
}

type itemsOutput struct {
	Body struct {
		Items      []itemProgress  `json:"items" doc:"Ordered by number"`
		Pagination rest.Pagination `json:"pagination"`
	}
}

func (h *handler) registerItems(api huma.API) {
	rest.Register(api, h.Failed, rest.Endpoint{
		Method: http.MethodGet, Path: tasksPath + "/{task_id}/items", ID: "list-items", Tag: "tasks",
		Summary:     "List a task's questions with the progress of each",
		Description: "Available as soon as the first launch starts, and after the last one has ended.",
		Faults:      []string{request.CodeTaskNotFound, request.CodeParameterInvalid},
	}, h.listItems)
}

func (h *handler) listItems(ctx context.Context, input *itemsInput) (*itemsOutput, error) {
	task, err := request.Task(ctx, h.Store, input.TaskID)
	if err != nil {
		return nil, err
	}
	filter := report.ItemFilter{State: report.ItemState(input.State), Query: request.SearchText(input.Query)}
	items, total, err := report.NewMonitor(h.Store).Items(ctx, task, filter, input.Window())
	if err != nil {
		return nil, err
	}
	output := &itemsOutput{}
	output.Body.Items, output.Body.Pagination = make([]itemProgress, len(items)), rest.NewPagination(input.Window(), total)
	for n, one := range items {
		output.Body.Items[n] = itemProgress{
			Number: one.Number, QuestionID: one.QuestionID, Question: one.Question, State: one.State,
			RunsDone: one.RunsDone, RunsExpected: one.RunsExpected, RunningSince: rest.MomentOf(one.RunningSince),
		}
	}
	return output, nil
}
