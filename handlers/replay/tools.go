package replay

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"wending/db"
	"wending/db/engine"
	"wending/handlers/request"
	"wending/handlers/rest"
	"wending/views/paths"
)

// toolUse describes a task's use of a tool, as the API returns it.
type toolUse struct {
	Tool    string   `json:"tool" example:"search"`
	Calls   int      `json:"calls" example:"120"`
	Failed  int      `json:"failed" doc:"Number of failed calls" example:"3"`
	Runs    int      `json:"runs" doc:"Number of runs that called the tool" example:"60"`
	P50     *float64 `json:"duration_p50_ms" doc:"Median duration of the calls; null if none has ended" example:"310"`
	P90     *float64 `json:"duration_p90_ms" example:"900"`
	TotalMS *int64   `json:"duration_total_ms" doc:"Total duration of the calls, in milliseconds" example:"41000"`
}

// pathDifference is a run whose tool calls differ from the most common sequence, as the API returns it.
type pathDifference struct {
	Number     int    `json:"number" doc:"Position of the question on the task's pages, from 1" example:"7"`
	QuestionID string `json:"question_id" example:"q7"`
	Variant    int    `json:"variant" example:"1"`
	RunIndex   int    `json:"run_index" example:"3"`
	RunID      int64  `json:"run_id" example:"4711"`
	UnitID     int64  `json:"unit_id" example:"4711"`
	Calls      int    `json:"calls" doc:"Number of tool calls in the run" example:"3"`
	UsualCalls int    `json:"usual_calls" doc:"Number of tool calls on the most common path" example:"2"`
	Step       int    `json:"step" doc:"Number of the first call that differs, from 1" example:"2"`
	Tool       string `json:"tool" doc:"Tool that the run called at this step; empty if it made no further calls" example:"search"`
	Usual      string `json:"usual" doc:"Tool called at this step on the most common path; empty if that path ends earlier" example:"calculator"`
	AtMS       int    `json:"at_ms" doc:"When the difference appears, in milliseconds since the call's start" example:"1250"`
}

type toolsInput struct {
	TaskID string `path:"task_id" doc:"Id of the task" example:"6f0d3c1e-2b7a-4c55-9a60-0f4b8f6a1d21"`
	rest.PageQuery
}

type toolsOutput struct {
	Body struct {
		Tools      []toolUse        `json:"tools" doc:"At most 200, most called first"`
		Items      []pathDifference `json:"items" doc:"Runs whose sequence of tools differs from the most common one among the answered runs of their question and variant; at most the first 1,000"`
		Pagination rest.Pagination  `json:"pagination" doc:"Pagination of items"`
	}
}

func (h *handler) registerTools(whole huma.API) {
	rest.Register(whole, h.Failed, rest.Endpoint{
		Method: http.MethodGet, Path: paths.APITasks + "/{task_id}/tools", ID: "list-tools", Tag: "tasks",
		Summary:     "List the tools that a task's runs called, and the runs that took an unusual path",
		Description: "Covers the current runs whose events are still kept.",
		Faults:      []string{request.CodeTaskNotFound, request.CodeParameterInvalid},
	}, h.listTools)
}

func (h *handler) listTools(ctx context.Context, input *toolsInput) (*toolsOutput, error) {
	task, err := request.Task(ctx, h.Store, input.TaskID)
	if err != nil {
		return nil, err
	}
	report, err := h.Tools.Of(ctx, task)
	if err != nil {
		return nil, err
	}
	output := &toolsOutput{}
	output.Body.Tools, output.Body.Items = []toolUse{}, []pathDifference{}
	for _, one := range report.Tools {
		output.Body.Tools = append(output.Body.Tools,
			toolUse{one.Tool, one.Calls, one.Failed, one.Runs, one.P50, one.P90, one.TotalMS})
	}
	window := input.Window()
	for _, one := range db.OnPage(report.Differing, window) {
		output.Body.Items = append(output.Body.Items, newPathDifference(one))
	}
	output.Body.Pagination = rest.NewPagination(window, len(report.Differing))
	return output, nil
}

func newPathDifference(d engine.PathDifference) pathDifference {
	return pathDifference{
		Number: d.Number, QuestionID: d.QuestionID, Variant: d.Variant, RunIndex: d.RunIndex, RunID: d.RunID,
		UnitID: d.UnitID,
		Calls:  d.Calls, UsualCalls: d.UsualCalls, Step: d.Step, Tool: d.Tool, Usual: d.Usual, AtMS: d.AtMS,
	}
}
