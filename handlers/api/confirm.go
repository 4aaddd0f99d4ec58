package api

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"wending/db/measure"
	"wending/handlers/reading"
	"wending/handlers/request"
	"wending/handlers/rest"
	"wending/jobs/tasks"
	"wending/views/summary"
)

func (h *handler) registerConfirm(api huma.API) {
	rest.Register(api, h.Failed, rest.Endpoint{
		Method: http.MethodPost, Path: tasksPath + "/{task_id}/confirm", ID: "confirm-changes", Tag: "comparison",
		Status:  http.StatusAccepted,
		Summary: "Repeat the changed questions of a comparison, to find out which changes hold",
		Description: "Each question gets fresh runs, in a launch of kind EXTEND, and the comparison's confirmation " +
			"is based on these runs alone. All rates still use each question's first runs. Both tasks must be in " +
			"one project and must have succeeded. 409 if nothing changed, or if the questions cannot have more " +
			"runs.",
		Faults: []string{request.CodeSensitiveContent,
			request.CodeTaskNotFound, request.CodeTaskNotFinished, request.CodeQuestionNotFound,
			request.CodeTaskStateConflict, request.CodeQuotaExceeded,
			request.CodeParameterInvalid},
	}, h.confirmChanges)
}

type confirmInput struct {
	TaskID string `path:"task_id" doc:"Id of the later task: the second of the comparison" example:"0b9e7a55-1c1d-4a37-8f4e-6f2f5f0f9a02"`
	Body   struct {
		Against     string      `json:"against" doc:"The first task, <id> or <id>:<variant>" example:"6f0d3c1e-2b7a-4c55-9a60-0f4b8f6a1d21"`
		Variant     int         `json:"variant,omitempty" minimum:"1" maximum:"20" default:"1" doc:"The later task's variant"`
		Runs        int         `json:"runs,omitempty" minimum:"1" maximum:"20" default:"5" doc:"Number of fresh runs of each question; a question has at most 20 runs in total" example:"5"`
		Sides       tasks.Sides `json:"sides,omitempty" enum:"both,b" doc:"both: both tasks; b: only the later one, compared with the first task's first runs. Absent means both, unless both call the same agent in the same way, so that its earlier answers cannot be reproduced"`
		QuestionIDs []string    `json:"question_ids,omitempty" maxItems:"1000" doc:"Ids of questions of the later task; absent means all questions that changed (is_changed)" example:"[\"q1\"]"`
	}
}

type confirmOutput struct {
	Body struct {
		Created
		Sides     tasks.Sides `json:"sides" enum:"both,b" doc:"The tasks that are repeated" example:"both"`
		Questions int         `json:"questions" doc:"Number of questions that are repeated; the other turns of their conversations are repeated as well" example:"7"`
		Runs      int         `json:"runs" doc:"Number of fresh runs of each question on each side" example:"5"`
	}
}

func (h *handler) confirmChanges(ctx context.Context, input *confirmInput) (*confirmOutput, error) {
	task, err := h.resultsTask(ctx, input.TaskID, false)
	if err != nil {
		return nil, err
	}
	b := summary.ComparedSide{Task: task, Variant: max(1, input.Body.Variant)}
	if err := request.HasVariant(task, b.Variant); err != nil {
		return nil, err
	}
	a, err := h.sideOf(ctx, "against", input.Body.Against)
	if err != nil {
		return nil, err
	}
	confirmation, err := reading.New(h.Store, h.Tasks.Assets).Confirmation(ctx, a, b, nil, input.Body.QuestionIDs)
	if err != nil {
		return nil, err
	}
	confirmation.Sides, confirmation.Runs = input.Body.Sides, input.Body.Runs
	if confirmation.Runs == 0 {
		confirmation.Runs = tasks.DefaultConfirmRuns
	}
	output := &confirmOutput{}
	if output.Body.Sides, err = h.Tasks.Confirm(ctx, request.From(ctx).Actor, confirmation); err != nil {
		return nil, err
	}
	if task, err = request.Task(ctx, h.Store, input.TaskID); err != nil {
		return nil, err
	}
	output.Body.Created, output.Body.Questions, output.Body.Runs = newCreated(task), len(confirmation.B.Items),
		confirmation.Runs
	return output, nil
}

// TestOfPair is the result of testing whether a question changed by more than chance.
type TestOfPair struct {
	P            *float64   `json:"p" doc:"Two-sided p-value of the test of whether the question changed; null if a side has too few runs" example:"0.008"`
	Q            *float64   `json:"q" doc:"p adjusted for all questions compared (Benjamini–Hochberg)" example:"0.04"`
	Test         *string    `json:"test" enum:"verdicts,answers" doc:"verdicts: Fisher's exact test of passes; answers: a permutation test of agreement; null where p is null" example:"verdicts"`
	IsChanged    bool       `json:"is_changed" doc:"True if q is at most 0.10; of these questions, about one in ten may have changed by chance" example:"true"`
	Confirmation *Confirmed `json:"confirmation" doc:"Result of the runs made to confirm the change; null without them"`
}

// Confirmed says whether new runs of a question confirm its change.
type Confirmed struct {
	Outcome measure.Outcome `json:"outcome" enum:"held,not_held,pending,untested" doc:"held: these runs alone show the change again; not_held: they do not; pending: runs are missing; untested: too few runs" example:"held"`
	RunsA   []int           `json:"runs_a" nullable:"false" minItems:"2" maxItems:"2" doc:"The first and the last run_index that count in the first task" example:"[6,10]"`
	RunsB   []int           `json:"runs_b" nullable:"false" minItems:"2" maxItems:"2" doc:"The first and the last run_index that count in the second task" example:"[6,10]"`
	P       *float64        `json:"p" doc:"p-value of the test of these runs alone; null while runs are missing, or if there are too few" example:"0.008"`
	Q       *float64        `json:"q" doc:"p, adjusted for all confirmed questions" example:"0.024"`
}

func newConfirmed(c *measure.Confirmed) *Confirmed {
	if c == nil {
		return nil
	}
	described := &Confirmed{Outcome: c.Outcome, RunsA: []int{c.A.First, c.A.Last}, RunsB: []int{c.B.First, c.B.Last}}
	if c.Tested != nil {
		described.P, described.Q = &c.Tested.P, &c.Tested.Q
	}
	return described
}
