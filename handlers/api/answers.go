package api

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"wending/handlers/form"
	"wending/handlers/request"
	"wending/handlers/rest"
	"wending/jobs/dataset"
)

// answersFields describes the fields of a form with a file of answers.
type answersFields struct {
	TaskName string `json:"task_name" doc:"1–64 characters" minLength:"1" maxLength:"64" example:"线上日志 11 月"`
	File     string `json:"file" doc:"Answer file, at most 32 MB, with at most 1,000 questions, 20 runs per question and 20 variants" format:"binary"`
	Format   string `json:"format,omitempty" values:"answer formats" doc:"Format of the file; auto detects it from the content" default:"auto" example:"promptfoo"`
	Encoding string `json:"dataset_encoding,omitempty" enum:"gb18030" doc:"Encoding of a CSV file; absent means UTF-8"`
	Question string `json:"column_question,omitempty" doc:"Table column with the questions; question by default" example:"prompt"`
	Answer   string `json:"column_answer,omitempty" doc:"Table column with the answers; answer by default" example:"回答"`
	ID       string `json:"column_question_id,omitempty" doc:"Table column with the question ids; question_id by default" example:"编号"`
	Run      string `json:"column_run,omitempty" doc:"Table column with the run numbers, from 1; run by default. Without it, the rows of a question are its runs in order" example:"次数"`
	Standard string `json:"column_standard_answer,omitempty" doc:"Table column with the standard answers; standard_answer by default" example:"参考答案"`
	Variant  string `json:"column_variant,omitempty" doc:"Table column with the variant names; variant by default" example:"model"`
}

func (h *handler) registerAnswers(api huma.API) {
	rest.Register(api, h.Failed, rest.Endpoint{
		Method: http.MethodPost, Path: tasksPath + "/answers", ID: "import-answers", Tag: "tasks",
		Status:  http.StatusCreated,
		Summary: "Import existing answers as a finished task",
		Description: "No agent is called, now or later: retrying and extending the task are refused with 409. Reading, " +
			"facts, reviews, evaluators, comparisons and exports work as for other tasks. A table (CSV, XLSX, JSONL) has " +
			"one row per run (question, answer, and optionally question_id, run, standard_answer, variant, status, " +
			"error_code, error_message, latency_ms, tokens, cost, completed_at) or one row per question (question, " +
			"run_1_response_body, run_2_response_body …), like reports of this product. promptfoo is the JSON that " +
			"promptfoo eval -o writes, inspect an Inspect log (.eval or .json), openai-evals an OpenAI Evals log " +
			"in JSONL. If the file is refused, the error lists the faulty rows with their faults.",
		Faults: []string{request.CodeTaskNameRequired, request.CodeTaskNameTooLong, request.CodeDatasetRequired,
			request.CodeDatasetTooLarge, dataset.CodeFormatUnsupported, dataset.CodeUnreadable, dataset.CodeTooComplex,
			dataset.CodeSchemaInvalid, dataset.CodeEmpty, dataset.CodeTooManyRows, dataset.CodeEncodingInvalid,
			dataset.CodeRowInvalid, request.CodeTaskTooLarge, request.CodeQuotaExceeded, request.CodeParameterInvalid,
			request.CodeRequestInvalid, request.CodeRequestTooLarge},
		Body: rest.Multipart[answersFields](api.OpenAPI().Components.Schemas, true),
	}, h.importAnswers)
}

func (h *handler) importAnswers(ctx context.Context, input *rest.AnswersInput) (*createdTaskOutput, error) {
	n, faults := form.Answers(ctx, input.Form, h.Defaults)
	if len(faults) > 0 {
		return nil, faults[0].Fault
	}
	task, err := h.Tasks.ImportAnswers(ctx, request.ScopeOf(ctx), request.From(ctx).Actor, n)
	if err != nil {
		return nil, err
	}
	request.Made(ctx, task.ID.String(), task.Name)
	return &createdTaskOutput{createdTask{
		Created: newCreated(task), Variants: newVariants(task.Variants, task.Targets),
		Evaluators: newEvaluators(task.Evaluators), Warnings: []warning{},
	}}, nil
}
