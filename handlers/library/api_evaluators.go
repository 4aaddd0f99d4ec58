package library

import (
	"context"
	"net/http"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/uuid"

	"wending/db/review"
	"wending/handlers/form"
	"wending/handlers/request"
	"wending/handlers/rest"
	"wending/jobs/evaluate"
	"wending/jobs/export"
	"wending/jobs/library"
	"wending/views/paths"
	"wending/views/text"
)

type verdictOutput struct{ Body export.Evaluation }

// registerEvaluators registers the endpoints that only evaluators have.
func (e *endpoints) registerEvaluators(api huma.API) {
	path := paths.API + "/evaluators"
	rest.Register(api, e.Failed, rest.Endpoint{
		Method: http.MethodPost, Path: path + "/test", ID: "test-evaluator", Tag: "library", Summary: "Judge an answer",
		Description: "Nothing is stored. A judge's model is called once.",
		Faults:      []string{request.CodeParameterInvalid},
		Body:        rest.JSONBody[judgeFields](api.OpenAPI().Components.Schemas),
	}, e.testEvaluator)
	rest.Register(api, e.Failed, rest.Endpoint{
		Method: http.MethodGet, Path: path + "/{id}/versions", ID: "list-evaluator-versions", Tag: "library",
		Summary: "List the versions of an evaluator, newest first",
		Faults:  []string{request.CodeNotFound},
	}, e.listEvaluatorVersions)
	rest.Register(api, e.Failed, rest.Endpoint{
		Method: http.MethodGet, Path: path + "/{id}/versions/{number}", ID: "get-evaluator-version", Tag: "library",
		Summary: "Get a version of an evaluator",
		Faults:  []string{request.CodeNotFound},
	}, e.getEvaluatorVersion)
	rest.Register(api, e.Failed, rest.Endpoint{
		Method: http.MethodGet, Path: path + "/{id}/people", ID: "compare-evaluator", Tag: "library",
		Summary: "Compare an evaluator's verdicts with people's",
		Description: "Over all tasks of the project that used the evaluator, for each of its versions. pass_rate_corrected " +
			"is null, because samples of several tasks are not one random sample.",
		Faults: []string{request.CodeNotFound},
	}, e.compareEvaluator)
	e.registerTuning(api, path)
}

// VersionRecord compares a version of an evaluator with people, on the answers that both have judged.
type VersionRecord struct {
	Version int          `json:"version" example:"2"`
	People  review.Fit   `json:"people" doc:"The version's verdicts beside people's on the same answers"`
	Tasks   []TaskRecord `json:"tasks" nullable:"false" doc:"The tasks that these answers belong to, newest first"`
}

// TaskRecord counts a task's answers by the verdicts of an evaluator and of people.
type TaskRecord struct {
	TaskID    uuid.UUID        `json:"task_id"`
	TaskName  string           `json:"task_name" example:"周报助手 v1.2"`
	Evaluator int              `json:"evaluator" doc:"Number of the evaluator in the task" example:"1"`
	Confusion review.Confusion `json:"confusion"`
}

type recordOutput struct {
	Body struct {
		Items []VersionRecord `json:"items" nullable:"false" doc:"The versions that can be compared with people, newest first"`
	}
}

func (e *endpoints) compareEvaluator(ctx context.Context, input *entryInput) (*recordOutput, error) {
	id, _, err := find(ctx, input.EntryPath, e.Library.Entries.Evaluators)
	if err != nil {
		return nil, err
	}
	records, err := review.New(e.Library.Tasks.Store).Records(ctx, request.ScopeOf(ctx), id)
	output := &recordOutput{}
	output.Body.Items = []VersionRecord{}
	for _, record := range records {
		one := VersionRecord{Version: record.Version, People: record.Fit}
		for _, task := range record.Tasks {
			one.Tasks = append(one.Tasks, TaskRecord{task.TaskID, task.Name, task.Evaluator, task.Confusion})
		}
		output.Body.Items = append(output.Body.Items, one)
	}
	return output, err
}

func (e *endpoints) testEvaluator(ctx context.Context, input *rest.FormInput) (*verdictOutput, error) {
	leave, err := request.From(ctx).Gates.Probes.Enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	rule, config, faults := form.Rule(ctx, input.Form)
	if err := form.Refusal(faults, nil); err != nil {
		return nil, err
	}
	subject, err := subjectOf(input.Form)
	if err != nil {
		return nil, err
	}
	locale := request.From(ctx).Locale
	if rule != nil {
		verdict, err := rule.Evaluate(ctx, subject)
		if err != nil {
			return nil, err
		}
		return &verdictOutput{newVerdict(locale, evaluate.Kind(input.Form.Value("kind")), verdict)}, nil
	}
	values := subject.Values
	values["answer"], values["expected"] = subject.Answer, values["standard_answer"]
	values["history"] = input.Form.Values["history"]
	tried, err := e.Library.TryJudge(ctx, request.ScopeOf(ctx), config, values, false)
	if err != nil {
		return nil, form.JudgeFault(input.Form, err).Fault
	}
	return &verdictOutput{newRating(locale, tried)}, nil
}

func (e *endpoints) listEvaluatorVersions(ctx context.Context,
	input *versionsInput) (*entriesOutput[EvaluatorVersion], error) {
	id, row, err := find(ctx, input.EntryPath, e.Library.Entries.Evaluators)
	if err != nil {
		return nil, err
	}
	versions, err := e.Library.Entries.EvaluatorVersions(ctx, request.ScopeOf(ctx), id, input.Window())
	return pageOf(input.Window(), versions, row.Version, newEvaluatorVersion), err
}

func (e *endpoints) getEvaluatorVersion(ctx context.Context,
	input *versionInput) (*entryOutput[EvaluatorVersion], error) {
	id, number, err := input.read()
	if err != nil {
		return nil, err
	}
	version, err := e.Library.Entries.EvaluatorVersion(ctx, request.ScopeOf(ctx), id, number)
	return &entryOutput[EvaluatorVersion]{newEvaluatorVersion(version)}, err
}

// maxJudged is the maximum length of an answer, in characters, on which an evaluator can be tried.
const maxJudged = 1 << 20

// subjectOf returns what an evaluator is tried on: the answer, variables, latency and tokens in a form.
func subjectOf(submitted *form.Upload) (subject evaluate.Subject, err error) {
	if subject.Values, err = variablesOf(submitted); err != nil {
		return subject, err
	}
	for _, name := range []string{"question", "standard_answer"} {
		subject.Values[name] = submitted.Values[name]
	}
	if subject.Answer = submitted.Values["answer"]; utf8.RuneCountInString(subject.Answer) > maxJudged {
		return subject, request.FieldFault("answer", request.LongTextUpTo(maxJudged))
	}
	if subject.LatencyMS, err = form.Whole(submitted, "latency_ms"); err != nil {
		return subject, err
	}
	if submitted.Value("tokens") != "" {
		tokens, err := form.Whole(submitted, "tokens")
		if err != nil {
			return subject, err
		}
		subject.Tokens = &tokens
	}
	return subject, nil
}

// newVerdict returns the verdict that a rule gave when it was tried.
func newVerdict(locale text.Locale, kind evaluate.Kind, v evaluate.Verdict) export.Evaluation {
	e := export.Evaluation{Kind: string(kind), Status: string(v.Status), Score: v.Score, Passed: v.Passed,
		Reason: locale.Reason(v.Reason)}
	if v.ErrorCode != "" {
		message := locale.Reason(v.ErrorMessage)
		e.ErrorCode, e.Error = &v.ErrorCode, &message
	}
	return e
}

// newRating returns the verdict of a judge that was tried.
func newRating(locale text.Locale, tried library.TriedJudge) export.Evaluation {
	latency := int(tried.Latency.Milliseconds())
	e := export.Evaluation{
		Kind: string(evaluate.Judge), Status: string(evaluate.Succeeded), Score: &tried.Score, Passed: tried.Passed,
		Ratings:   tried.Ratings,
		IsDefault: tried.IsDefault, Reason: tried.Reason, LatencyMS: &latency, Input: tried.Usage.Input,
		Output: tried.Usage.Output, Total: tried.Usage.Total,
	}
	if tried.ErrorCode != "" {
		message := locale.Reason(tried.ErrorMessage)
		e.ErrorCode, e.Error = &tried.ErrorCode, &message
	}
	return e
}
