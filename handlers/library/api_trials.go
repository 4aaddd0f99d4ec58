package library

import (
	"context"
	"encoding/json"
	"net/http"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"

	"wending/db"
	"wending/db/entries"
	"wending/handlers/form"
	"wending/handlers/request"
	"wending/handlers/rest"
	"wending/jobs/agent/protocol"
	"wending/jobs/library"
	"wending/jobs/tasks"
	"wending/views/paths"
)

// testResult is the outcome of a test call.
type testResult struct {
	Status       protocol.Status `json:"status"`
	Output       string          `json:"output" example:"巴黎"`
	Reasoning    string          `json:"reasoning"`
	LatencyMS    int64           `json:"latency_ms" doc:"Milliseconds"`
	FirstTokenMS *int64          `json:"first_token_ms" doc:"Milliseconds to the first token of the answer; null unless the answer was streamed"`
	InputTokens  *int            `json:"input_tokens" doc:"null if unknown"`
	OutputTokens *int            `json:"output_tokens"`
	TotalTokens  *int            `json:"total_tokens"`
	Protocol     string          `json:"protocol" doc:"Protocol used for the call; for a detection, the protocol recognised, or empty if none was"`
	ErrorCode    *string         `json:"error_code" doc:"Why the call failed; null if it succeeded"`
	ErrorMessage *string         `json:"error_message"`
}

func newTestResult(t library.Tested) testResult {
	result := testResult{
		Status: t.Status, Output: request.StorableText(string(t.Text)), Reasoning: request.StorableText(string(t.Reasoning)),
		LatencyMS: t.Latency.Milliseconds(), InputTokens: t.Usage.Input, OutputTokens: t.Usage.Output,
		TotalTokens: t.Usage.Total, Protocol: t.Protocol,
	}
	if t.FirstToken > 0 {
		first := t.FirstToken.Milliseconds()
		result.FirstTokenMS = &first
	}
	if t.ErrorCode != "" {
		result.ErrorCode, result.ErrorMessage = &t.ErrorCode, &t.ErrorMessage
	}
	return result
}

type testOutput struct{ Body testResult }

type questionFields struct {
	Question string `json:"question,omitempty" example:"法国的首都是哪里？"`
}

type detectFields struct {
	URL          string            `json:"url" format:"uri"`
	Headers      map[string]string `json:"headers,omitempty"`
	ExtraPayload map[string]any    `json:"extra_payload,omitempty"`
	Question     string            `json:"question,omitempty"`
}

type previewFields struct {
	System    string         `json:"system,omitempty"`
	User      string         `json:"user,omitempty"`
	Variables map[string]any `json:"variables,omitempty" doc:"Values of the variables, by name"`
}

type previewOutput struct {
	Body struct {
		System  string   `json:"system" example:"你是律师"`
		User    string   `json:"user"`
		Missing []string `json:"missing" doc:"Names of variables without a value"`
	}
}

// registerTrials registers the endpoints that try models, agents and prompts.
func (e *endpoints) registerTrials(api huma.API) {
	schemas := api.OpenAPI().Components.Schemas
	const describe = "The response is 200 even if the call fails; `error_code` then holds the reason."
	rest.Register(api, e.Failed, rest.Endpoint{
		Method: http.MethodPost, Path: paths.API + "/models/{id}/test", ID: "test-model", Tag: "library",
		Summary: "Ask a model a question", Description: describe,
		Faults: []string{request.CodeNotFound}, Body: rest.OptionalBody[questionFields](schemas),
	}, e.testModel)
	rest.Register(api, e.Failed, rest.Endpoint{
		Method: http.MethodPost, Path: paths.API + "/agents/{id}/test", ID: "test-agent", Tag: "library",
		Summary: "Ask an agent a question", Description: describe,
		Faults: []string{request.CodeNotFound}, Body: rest.OptionalBody[questionFields](schemas),
	}, e.testAgent)
	rest.Register(api, e.Failed, rest.Endpoint{
		Method: http.MethodPost, Path: paths.API + "/agents/detect", ID: "detect-protocol", Tag: "library",
		Summary:     "Detect the protocol spoken at an address",
		Description: "Makes a few calls, in the protocols that the address and the responses suggest. " + describe,
		Faults:      []string{request.CodeParameterInvalid}, Body: rest.JSONBody[detectFields](schemas),
	}, e.detectProtocol)
	rest.Register(api, e.Failed, rest.Endpoint{
		Method: http.MethodPost, Path: paths.API + "/prompts/preview", ID: "preview-prompt", Tag: "library",
		Summary: "Render templates with values",
		Faults:  []string{request.CodeParameterInvalid}, Body: rest.JSONBody[previewFields](schemas),
	}, e.previewPrompt)
}

func (e *endpoints) testModel(ctx context.Context, input *entryFormInput) (*testOutput, error) {
	return try(ctx, input, e.Library.Entries.Models, e.Library.TestModel)
}

func (e *endpoints) testAgent(ctx context.Context, input *entryFormInput) (*testOutput, error) {
	return try(ctx, input, e.Library.Entries.Agents, e.Library.TestAgent)
}

func (e *endpoints) detectProtocol(ctx context.Context, input *rest.FormInput) (*testOutput, error) {
	address, faults := form.Address(input.Form, library.Agent{}, e.Check.URL)
	if err := form.Refusal(faults, nil); err != nil {
		return nil, err
	}
	leave, err := request.From(ctx).Gates.Probes.Enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	tested, err := e.Library.Detect(ctx, address.URL, address.Headers, address.ExtraPayload,
		form.TestQuestion(input.Form, request.From(ctx).Locale))
	return &testOutput{newTestResult(tested)}, err
}

func (e *endpoints) previewPrompt(_ context.Context, input *rest.FormInput) (*previewOutput, error) {
	values, err := variablesOf(input.Form)
	if err != nil {
		return nil, err
	}
	system, user := input.Form.Values["system"], input.Form.Values["user"]
	for field, template := range map[string]string{"system": system, "user": user} {
		if utf8.RuneCountInString(template) > tasks.MaxTemplate {
			return nil, request.FieldFault(field, request.LongTextUpTo(tasks.MaxTemplate))
		}
	}
	output := &previewOutput{}
	output.Body.System, output.Body.User = protocol.Render(system, values), protocol.Render(user, values)
	output.Body.Missing = append([]string{}, protocol.MissingNames(values, system, user)...)
	return output, nil
}

// variablesOf returns the variables in a form's field variables, a JSON object, by name.
func variablesOf(submitted *form.Upload) (map[string]string, error) {
	values := map[string]string{}
	text := submitted.Value("variables")
	if text == "" {
		return values, nil
	}
	var given map[string]json.RawMessage
	if json.Unmarshal([]byte(text), &given) != nil {
		return nil, request.FieldFault("variables", request.JSONObject())
	}
	for name, value := range given {
		values[name] = string(value)
		var text string
		if json.Unmarshal(value, &text) == nil {
			values[name] = text
		}
	}
	return values, nil
}

// try asks the entry in the path the question in the form, by calling ask, and returns the outcome.
func try[T any](
	ctx context.Context, input *entryFormInput, kind entries.Kind[T],
	ask func(context.Context, db.Scope, T, string) (library.Tested, error),
) (*testOutput, error) {
	_, row, err := find(ctx, input.EntryPath, kind)
	if err != nil {
		return nil, err
	}
	leave, err := request.From(ctx).Gates.Probes.Enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	tested, err := ask(ctx, request.ScopeOf(ctx), row, form.TestQuestion(input.Form, request.From(ctx).Locale))
	return &testOutput{newTestResult(tested)}, err
}
