package api

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"wending/db"
	"wending/db/engine"
	"wending/handlers/request"
	"wending/handlers/rest"
)

// launch is a launch of a task, as the API returns it.
type launch struct {
	LaunchID string          `json:"launch_id" example:"0b7c2a54-6c0e-4f4c-8f3e-3c9d1a2b4e5f"`
	Number   int             `json:"number" doc:"Number of the launch within its task, from 1" example:"2"`
	Kind     db.LaunchKind   `json:"kind" example:"RETRY_FAILED"`
	Status   db.LaunchStatus `json:"status" example:"SUCCEEDED"`
	// QuestionID and Variant say to what a retry was limited; nil means that it was not.
	QuestionID   *string             `json:"question_id" doc:"Id of the question that was retried; null means all questions" example:"q1"`
	Variant      *int                `json:"variant" doc:"Number of the variant that was retried; null means all variants"`
	RequestedBy  string              `json:"requested_by" doc:"Address that requested the launch" example:"10.0.0.7"`
	RequestedVia string              `json:"requested_via" values:"via" doc:"How the launch was requested; empty if unknown" example:"api"`
	StoppedBy    string              `json:"stopped_by" doc:"Address that stopped the launch; empty if it was not stopped" example:""`
	Units        int                 `json:"units" doc:"Number of runs that the launch makes; for a launch that only calls judges, the number of answers to rate" example:"15"`
	CreatedAt    rest.Moment         `json:"created_at"`
	StartedAt    *rest.Moment        `json:"started_at"`
	FinishedAt   *rest.Moment        `json:"finished_at"`
	Statistics   db.LaunchStatistics `json:"statistics"`
}

func newLaunch(l engine.PastLaunch) launch {
	return launch{
		LaunchID: l.ID.String(), Number: l.Number, Kind: l.Kind, Status: l.Status, QuestionID: l.QuestionID,
		Variant:     l.Variant,
		RequestedBy: l.RequestedBy, RequestedVia: l.RequestedVia, StoppedBy: l.StoppedBy, Units: l.TotalUnits,
		CreatedAt: rest.Moment(l.CreatedAt), StartedAt: rest.MomentOf(l.StartedAt), FinishedAt: rest.MomentOf(l.FinishedAt),
		Statistics: l.Statistics,
	}
}

// LaunchPath holds the path parameters with the ids of a launch and its task.
type LaunchPath struct {
	TaskPath
	LaunchID string `path:"launch_id" doc:"Id of the launch" example:"0b7c2a54-6c0e-4f4c-8f3e-3c9d1a2b4e5f"`
}

type launchesInput struct {
	TaskPath
	rest.PageQuery
}

type launchesOutput struct {
	Body struct {
		Items      []launch        `json:"items"`
		Pagination rest.Pagination `json:"pagination"`
	}
}

type launchOutput struct{ Body launch }

type launchRunsInput struct {
	LaunchPath
	rest.PageQuery
}

// launchRun is a run in the history of the launch that made it.
type launchRun struct {
	QuestionID string `json:"question_id" example:"q1"`
	Run
	IsCurrent bool `json:"is_current" doc:"False if a later launch repeated the run"`
	IsCut     bool `json:"is_cut" doc:"True if response_body is only the beginning of the answer; /runs/{run_id} returns all of it"`
}

type launchRunsOutput struct {
	Body struct {
		Items      []launchRun     `json:"items"`
		Pagination rest.Pagination `json:"pagination"`
	}
}

// historyCut is the maximum number of characters of an answer that the history of a launch contains.
const historyCut = 20_000

func (h *handler) registerLaunches(api huma.API) {
	rest.Register(api, h.Failed, rest.Endpoint{
		Method: http.MethodGet, Path: tasksPath + "/{task_id}/launches", ID: "list-launches", Tag: "launches",
		Summary: "List a task's launches, newest first",
		Faults:  []string{request.CodeTaskNotFound, request.CodeParameterInvalid},
	}, h.listLaunches)
	rest.Register(api, h.Failed, rest.Endpoint{
		Method: http.MethodGet, Path: tasksPath + "/{task_id}/launches/{launch_id}", ID: "get-launch", Tag: "launches",
		Summary: "Get a launch of a task", Faults: []string{request.CodeTaskNotFound, request.CodeLaunchNotFound},
	}, h.getLaunch)
	rest.Register(api, h.Failed, rest.Endpoint{
		Method: http.MethodGet, Path: tasksPath + "/{task_id}/launches/{launch_id}/runs", ID: "list-launch-runs",
		Tag:     "launches",
		Summary: "List the runs of a launch in the order in which they ended",
		Description: "Runs replaced by later launches are listed as long as their history is kept. Answers are cut at " +
			"20,000 characters.",
		Faults: []string{request.CodeTaskNotFound, request.CodeLaunchNotFound, request.CodeParameterInvalid},
	}, h.listLaunchRuns)
}

func (h *handler) listLaunches(ctx context.Context, input *launchesInput) (*launchesOutput, error) {
	task, err := request.Task(ctx, h.Store, input.TaskID)
	if err != nil {
		return nil, err
	}
	launches, total, err := engine.NewHistory(h.Store).Launches(ctx, task.ID, input.Window())
	if err != nil {
		return nil, err
	}
	output := &launchesOutput{}
	output.Body.Items, output.Body.Pagination = []launch{}, rest.NewPagination(input.Window(), total)
	for _, one := range launches {
		output.Body.Items = append(output.Body.Items, newLaunch(one))
	}
	return output, nil
}

// launch returns the launch whose ids are in the path.
func (h *handler) launch(ctx context.Context, path LaunchPath) (engine.PastLaunch, error) {
	task, err := request.Task(ctx, h.Store, path.TaskID)
	if err != nil {
		return engine.PastLaunch{}, err
	}
	id, err := request.ID(path.LaunchID, db.KindLaunch)
	if err != nil {
		return engine.PastLaunch{}, err
	}
	return engine.NewHistory(h.Store).Launch(ctx, task.ID, id)
}

func (h *handler) getLaunch(ctx context.Context, input *LaunchPath) (*launchOutput, error) {
	found, err := h.launch(ctx, *input)
	if err != nil {
		return nil, err
	}
	return &launchOutput{Body: newLaunch(found)}, nil
}

func (h *handler) listLaunchRuns(ctx context.Context, input *launchRunsInput) (*launchRunsOutput, error) {
	found, err := h.launch(ctx, input.LaunchPath)
	if err != nil {
		return nil, err
	}
	task, err := request.Task(ctx, h.Store, input.TaskID)
	if err != nil {
		return nil, err
	}
	runs, total, err := engine.NewHistory(h.Store).Runs(ctx, found.ID, engine.RunFilter{}, historyCut,
		input.Window())
	if err != nil {
		return nil, err
	}
	output := &launchRunsOutput{}
	output.Body.Items, output.Body.Pagination = []launchRun{}, rest.NewPagination(input.Window(), total)
	for _, one := range runs {
		output.Body.Items = append(output.Body.Items, launchRun{
			QuestionID: one.QuestionID, Run: newRun(ctx, one.Run, task, turn{one.Series, one.Turn}), IsCurrent: one.IsCurrent,
			IsCut: one.ResponseLength > historyCut,
		})
	}
	return output, nil
}
