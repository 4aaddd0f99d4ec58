package api

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/uuid"

	"wending/db"
	"wending/db/measure"
	"wending/handlers/form"
	"wending/handlers/request"
	"wending/handlers/rest"
	"wending/jobs/tasks"
)

// Variant is one of the variants that a task compares: a target, combined with a version of a prompt or none.
type Variant struct {
	Number        int           `json:"number" doc:"Number, from 1" example:"1"`
	Name          string        `json:"name" doc:"Name of the variant; empty for a plain task" example:"简短 v2 × GPT-4.1"`
	Kind          db.TargetKind `json:"kind" example:"model"`
	TargetID      *uuid.UUID    `json:"target_id" doc:"Id of the saved model or agent; null for a typed URL"`
	TargetName    string        `json:"target_name" doc:"Name of the saved model or agent; empty for a typed URL" example:"GPT-4.1"`
	Protocol      string        `json:"protocol" example:"openai"`
	PromptID      *uuid.UUID    `json:"prompt_id"`
	PromptVersion *int          `json:"prompt_version" example:"2"`
}

func newVariants(variants []db.Variant, targets []db.Target) []Variant {
	list := make([]Variant, len(variants))
	for n, variant := range variants {
		target := targets[variant.Target-1]
		list[n] = Variant{
			variant.Number, variant.Name, target.Kind, target.LibraryID, target.Name, target.Protocol, variant.PromptID,
			variant.PromptVersion,
		}
	}
	return list
}

// createdTask is the response to creating a task.
type createdTask struct {
	Created
	Calls      int `json:"calls" doc:"Number of calls to agents and models, without retries" example:"400"`
	JudgeCalls int `json:"judge_calls,omitempty" doc:"Number of calls to judges, in addition to calls" example:"400"`
	// MeaningCalls assumes that the first reply about each question is certain.
	MeaningCalls int             `json:"meaning_calls,omitempty" doc:"Number of calls that group answers by meaning, in addition to calls, if the answers to every question differ and each first reply is certain" example:"100"`
	Variants     []Variant       `json:"variants"`
	Evaluators   []TaskEvaluator `json:"evaluators" doc:"The evaluators that judge the answers"`
	Warnings     []warning       `json:"warnings" doc:"Problems to know about before the start, such as unknown template variables or targets whose last test failed"`
}

type createdTaskOutput struct{ Body createdTask }

// warning is a problem that a user should know about before starting a task.
type warning struct {
	Code    string   `json:"code" values:"warnings" example:"PRICE_MISSING"`
	Names   []string `json:"names" doc:"The variables, targets or currencies concerned"`
	Message string   `json:"message" example:"未设置单价：GPT-4.1"`
}

type estimateOutput struct {
	Body struct {
		Calls            int       `json:"calls" example:"400"`
		JudgeCalls       int       `json:"judge_calls" doc:"Number of calls to judges, in addition to calls" example:"400"`
		MeaningCalls     int       `json:"meaning_calls" doc:"Number of calls that group answers by meaning, in addition to calls, if the answers to every question differ and each first reply is certain" example:"100"`
		DurationSeconds  *float64  `json:"duration_seconds" doc:"Estimate from rate limits and the duration of earlier calls, including calls to judges; null if unknown" example:"96.5"`
		TotalTokens      *int      `json:"total_tokens" doc:"Estimate from earlier calls, including calls to judges; null if unknown" example:"60000"`
		Cost             *string   `json:"cost" doc:"Estimate from the tokens of earlier calls, including calls to judges, a decimal number; null if unknown" example:"0.42"`
		Currency         *string   `json:"currency" example:"USD"`
		CallsAtMost      *int      `json:"calls_at_most" doc:"Maximum number of calls of an adaptive task, reached if no question is ever settled; null for other tasks" example:"2000"`
		JudgeCallsAtMost *int      `json:"judge_calls_at_most" doc:"The maximum number of calls to judges" example:"2000"`
		CostAtMost       *string   `json:"cost_at_most" doc:"The maximum cost; null if cost is" example:"2.1"`
		Variants         []Variant `json:"variants"`
		Warnings         []warning `json:"warnings"`
		// Detectable is the smallest difference that a comparison with a second task of this size can be expected to detect.
		Detectable measure.Detectable `json:"detectable" doc:"The smallest differences that a comparison of two tasks of this size detects with 80 % power"`
		Basis      measure.Basis      `json:"basis" enum:"comparison,task,assumed" doc:"Source of the variances behind detectable: comparison (the newest finished comparison of the same questions), task (the newest finished task) or assumed" example:"task"`
	}
}

func (h *handler) registerEstimate(api huma.API) {
	body := rest.Multipart[taskFields](api.OpenAPI().Components.Schemas, true)
	body.Content["application/json"] = body.Content["multipart/form-data"]
	rest.Register(api, h.Failed, rest.Endpoint{
		Method: http.MethodPost, Path: tasksPath + "/estimate", ID: "estimate-task", Tag: "tasks",
		Summary:     "Estimate the calls, time and cost of a task",
		Description: "Takes the same body as creating a task, but creates nothing.", Faults: createFaults, Body: body,
	}, h.estimateTask)
}

func (h *handler) estimateTask(ctx context.Context, input *rest.FormInput) (*estimateOutput, error) {
	submitted := input.Form
	if !submitted.Has("task_name") { // the task need not have a name yet
		submitted = submitted.With("task_name", "-")
	}
	n, err := h.read(ctx, submitted, tasks.New{Settings: h.Defaults})
	if err != nil {
		return nil, err
	}
	estimate, err := h.Tasks.Estimate(ctx, request.ScopeOf(ctx), n)
	if err != nil {
		return nil, err
	}
	output := &estimateOutput{}
	body := &output.Body
	body.Calls, body.JudgeCalls, body.MeaningCalls, body.TotalTokens = estimate.Calls, estimate.JudgeCalls,
		estimate.MeaningCalls, estimate.Tokens
	body.Variants, body.Warnings = newVariants(estimate.Variants, bare(n.AllTargets())),
		newWarnings(ctx, estimate.Warnings)
	if estimate.Duration != nil {
		seconds := estimate.Duration.Round(time.Millisecond).Seconds()
		body.DurationSeconds = &seconds
	}
	body.Detectable, body.Basis = estimate.Detectable, estimate.Design.Basis()
	if estimate.Cost != nil {
		cost := estimate.Cost.String()
		body.Cost = &cost
	}
	if most := estimate.AtMost; most != nil {
		body.CallsAtMost, body.JudgeCallsAtMost = &most.Calls, &most.JudgeCalls
		if most.Cost != nil {
			cost := most.Cost.String()
			body.CostAtMost = &cost
		}
	}
	if estimate.Currency != "" {
		body.Currency = &estimate.Currency
	}
	return output, nil
}

// newWarnings returns warnings in the language of the request.
func newWarnings(ctx context.Context, given []tasks.Warning) []warning {
	locale, warnings := request.From(ctx).Locale, []warning{}
	for _, one := range given {
		warnings = append(warnings, warning{one.Code, one.Names, form.WarningText(locale, one)})
	}
	return warnings
}

// bare returns targets without their secrets.
func bare(targets []tasks.NewTarget) (list []db.Target) {
	for _, target := range targets {
		list = append(list, target.Target)
	}
	return list
}

// read parses a form for a task; if a field is invalid, the error is its fault.
func (h *handler) read(ctx context.Context, submitted *form.Upload, base tasks.New) (tasks.New, error) {
	if err := rest.Admit(ctx, submitted); err != nil {
		return base, err
	}
	n, faults := form.Task(ctx, submitted, base, form.Rules{CheckURL: h.Check.Task, Library: h.Library})
	if len(faults) > 0 {
		return n, faults[0].Fault
	}
	return n, nil
}
