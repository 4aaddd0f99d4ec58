package library

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/uuid"

	"wending/db"
	"wending/db/entries"
	"wending/db/outbox"
	"wending/handlers/form"
	"wending/handlers/request"
	"wending/handlers/rest"
	"wending/jobs/agent/protocol"
	"wending/jobs/courier/notify"
	"wending/jobs/dataset"
	"wending/jobs/evaluate"
	"wending/views/paths"
)

// EntryHead holds the fields that all kinds of entries have.
type EntryHead struct {
	ID         uuid.UUID    `json:"id"`
	Name       string       `json:"name" doc:"Unique among the entries of its kind that are not archived" example:"GPT-4.1"`
	CreatedAt  rest.Moment  `json:"created_at"`
	UpdatedAt  rest.Moment  `json:"updated_at"`
	ArchivedAt *rest.Moment `json:"archived_at" doc:"When the entry was archived; null if it was not. An archived entry can be read but no longer selected"`
}

func headOf(e entries.Entry) EntryHead {
	return EntryHead{e.ID, e.Name, rest.Moment(e.CreatedAt), rest.Moment(e.UpdatedAt), rest.MomentOf(e.ArchivedAt)}
}

// Provider is an account through which models are called. Its key and the values of its headers are never returned.
type Provider struct {
	EntryHead
	Protocol    string   `json:"protocol" values:"model protocols"`
	BaseURL     string   `json:"base_url" doc:"Base address, to which the protocol's path is appended" example:"https://api.openai.com/v1"`
	HasAPIKey   bool     `json:"has_api_key"`
	HeaderNames []string `json:"header_names"`
	RateLimit   *string  `json:"rate_limit" doc:"Rate limit of calls: N/s, N/m or unlimited; null means the installation's default" example:"5/s"`
	RetryOn     []string `json:"retry_on" doc:"Failures after which a call is retried: timeout, network, 429, 5xx"`
}

// Model is a saved model, with its provider.
type Model struct {
	EntryHead
	ProviderID uuid.UUID       `json:"provider_id"`
	ModelID    string          `json:"model_id" doc:"The provider's name for the model" example:"gpt-4.1"`
	Parameters json.RawMessage `json:"parameters" doc:"JSON object merged into every request; null if there is none"`
	Prices
	LastTest
}

// Prices says how much a model's or agent's tokens cost.
type Prices struct {
	InputPrice  *string `json:"input_price" doc:"Price per million input tokens, a decimal number; null if unknown" example:"2.5"`
	OutputPrice *string `json:"output_price" doc:"Price per million output tokens, a decimal number; null if unknown" example:"10"`
	Currency    *string `json:"currency" doc:"Currency of the prices; null if unknown" example:"USD"`
}

// Agent is a saved agent. Its headers and the query of its URL are never returned.
type Agent struct {
	EntryHead
	Protocol     string          `json:"protocol" example:"dify-chat"`
	URL          string          `json:"url" doc:"Address without its query, which may contain a secret" example:"https://api.dify.ai/v1/chat-messages"`
	HasQuery     bool            `json:"has_query" doc:"True if the URL has a query, which is not shown"`
	HeaderNames  []string        `json:"header_names"`
	ExtraPayload json.RawMessage `json:"extra_payload" doc:"JSON object merged into the body of every request; null if there is none"`
	BodyTemplate json.RawMessage `json:"body_template" doc:"JSON object sent instead of the protocol's body; its strings may contain {{question}}, {{session_id}} and other variables; null if there is none"`
	Poll         *protocol.Poll  `json:"poll" doc:"How the agent is polled if it accepts jobs; null if it answers immediately"`
	RateLimit    *string         `json:"rate_limit" doc:"Rate limit of calls: N/s, N/m or unlimited; null means the installation's default"`
	RetryOn      []string        `json:"retry_on" doc:"Failures after which a call is retried: timeout, network, 429, 5xx"`
	Prices
	LastTest
}

// LastTest is the outcome of the last test of a model, an agent or a channel.
type LastTest struct {
	TestedAt *rest.Moment `json:"tested_at"`
	TestCode *string      `json:"test_error_code" doc:"Error code of the last test; null if it succeeded or there was none"`
}

func lastTest(t entries.Test) LastTest { return LastTest{rest.MomentOf(t.TestedAt), t.TestCode} }

// Prompt is a prompt with its newest version.
type Prompt struct {
	EntryHead
	Description string `json:"description"`
	Version     int    `json:"version" doc:"Number of the newest version" example:"3"`
	System      string `json:"system" doc:"Template of the system message; if empty, the row's system_prompt is used"`
	User        string `json:"user" doc:"Template of the user message; if empty, the question itself is used" example:"请用一句话回答：{{question}}"`
}

// PromptVersion is one version of a prompt.
type PromptVersion struct {
	Version   int         `json:"version" example:"1"`
	System    string      `json:"system"`
	User      string      `json:"user"`
	Note      string      `json:"note"`
	CreatedAt rest.Moment `json:"created_at"`
}

// Dataset is a dataset with its newest version.
type Dataset struct {
	EntryHead
	Description string `json:"description"`
	DatasetContent
}

// Evaluator is an evaluator with its newest version.
type Evaluator struct {
	EntryHead
	Version int             `json:"version" doc:"Number of the newest version" example:"1"`
	Kind    evaluate.Kind   `json:"kind" example:"exact"`
	Config  json.RawMessage `json:"config" doc:"Settings of the evaluator; their members depend on kind"`
}

// EvaluatorVersion is one version of an evaluator.
type EvaluatorVersion struct {
	Version   int             `json:"version" example:"1"`
	Kind      evaluate.Kind   `json:"kind" example:"exact"`
	Config    json.RawMessage `json:"config" doc:"Settings of the evaluator; their members depend on kind"`
	CreatedAt rest.Moment     `json:"created_at"`
}

// DatasetContent is the content of one version of a dataset.
type DatasetContent struct {
	Version    int      `json:"version" example:"1"`
	FileName   string   `json:"file_name" example:"questions.csv"`
	Size       int      `json:"size" doc:"Size in bytes"`
	SHA256     string   `json:"sha256" doc:"SHA-256 of the file, in hexadecimal"`
	Columns    []string `json:"columns" doc:"Column names, in the order of the file"`
	TotalItems int      `json:"total_items" doc:"Number of questions" example:"100"`
	Note       string   `json:"note"`
}

// DatasetVersion is one version of a dataset.
type DatasetVersion struct {
	DatasetContent
	CreatedAt rest.Moment `json:"created_at"`
}

func contentOf(v entries.DatasetVersion) DatasetContent {
	return DatasetContent{v.Version, v.FileName, v.Size, hex.EncodeToString(v.SHA256), slices.Clone([]string(v.Columns)),
		v.TotalItems, v.Note}
}

func (e *endpoints) viewProvider(row entries.Provider) (Provider, error) {
	p, err := form.Opened(e.Library.OpenProvider(row))
	return Provider{
		headOf(row.Entry), p.Protocol, p.BaseURL, row.SealedKey != nil, namesOf(p.Headers), row.RateLimit,
		append([]string{}, row.RetryOn...),
	}, err
}

func namesOf(headers map[string]string) []string {
	return append([]string{}, slices.Sorted(maps.Keys(headers))...)
}

func (e *endpoints) viewModel(row entries.Model) (Model, error) {
	m, err := form.Opened(e.Library.OpenModel(row))
	return Model{headOf(row.Entry), row.ProviderID, row.ModelID, nullable(m.Parameters),
		Prices{row.InputPrice, row.OutputPrice, row.Currency}, lastTest(row.Test)}, err
}

// nullable returns text for a JSON response: null if it is nil.
func nullable(text json.RawMessage) json.RawMessage {
	if text == nil {
		return json.RawMessage("null")
	}
	return text
}

func (e *endpoints) viewAgent(row entries.Agent) (Agent, error) {
	a, err := form.Opened(e.Library.OpenAgent(row))
	return Agent{
		headOf(row.Entry), row.Protocol, row.URL, row.SealedQuery != nil, namesOf(a.Headers), nullable(a.ExtraPayload),
		nullable(a.Template), a.Poll, row.RateLimit,
		append([]string{}, row.RetryOn...), Prices{row.InputPrice, row.OutputPrice, row.Currency}, lastTest(row.Test),
	}, err
}

func (e *endpoints) viewPrompt(row entries.Prompt) (Prompt, error) {
	return Prompt{headOf(row.Entry), row.Description, row.Version, row.System, row.User}, nil
}

func (e *endpoints) viewDataset(row entries.Dataset) (Dataset, error) {
	return Dataset{headOf(row.Entry), row.Description, contentOf(row.DatasetVersion)}, nil
}

func (e *endpoints) viewEvaluator(row entries.Evaluator) (Evaluator, error) {
	return Evaluator{headOf(row.Entry), row.Version, evaluate.Kind(row.Rule), row.Config}, nil
}

// EntryPath is the path parameter with an entry's id.
type EntryPath struct {
	ID string `path:"id" doc:"Id of the entry" example:"6f0d3c1e-2b7a-4c55-9a60-0f4b8f6a1d21"`
}

func (p EntryPath) id() (uuid.UUID, error) { return request.ID(p.ID, entries.KindEntry) }

// find returns the id in a path and the entry that has it.
func find[T any](ctx context.Context, path EntryPath, kind entries.Kind[T]) (id uuid.UUID, row T, err error) {
	if id, err = path.id(); err != nil {
		return id, row, err
	}
	row, err = kind.Get(ctx, request.ScopeOf(ctx), id)
	return id, row, err
}

type listInput struct {
	rest.PageQuery
	Query    string `query:"query" doc:"Only entries whose name contains this text, ignoring case"`
	Archived bool   `query:"archived" doc:"true lists the archived entries instead of the current ones" default:"false"`
}

type entriesOutput[B any] struct {
	Body struct {
		Items      []B             `json:"items"`
		Pagination rest.Pagination `json:"pagination"`
	}
}

type entryOutput[B any] struct{ Body B }

type entryInput struct{ EntryPath }

type entryFormInput struct {
	EntryPath
	rest.FormInput
}

// resource describes the endpoints of one kind of entry.
type resource[T, B any] struct {
	// name is the plural, which is part of the path; singular is the name of one entry.
	name, singular string
	kind           entries.Kind[T]
	view           func(T) (B, error)
	// save stores the values of a form in row, or in a new entry if row is nil, and returns the entry's id.
	save   func(ctx context.Context, row *T, form *form.Upload) (uuid.UUID, []form.FieldFault, error)
	remove func(ctx context.Context, scope db.Scope, id uuid.UUID) error
	body   *huma.RequestBody
	// faults are the error codes of creating an entry of this kind, in addition to those that all kinds have.
	faults []string
}

func (r resource[T, B]) path() string { return paths.API + "/" + r.name }

// article returns the indefinite article that belongs before the singular name.
func (r resource[T, B]) article() string {
	if strings.ContainsRune("aeiou", rune(r.singular[0])) {
		return "an"
	}
	return "a"
}

// register registers the endpoints that all kinds have.
func (r resource[T, B]) register(api huma.API, failed rest.Failed) {
	rest.Register(api, failed, rest.Endpoint{
		Method: http.MethodGet, Path: r.path(), ID: "list-" + r.name, Tag: "library",
		Summary: "List " + r.name + ", newest first",
		Faults:  []string{request.CodeParameterInvalid},
	}, r.list)
	rest.Register(api, failed, rest.Endpoint{
		Method: http.MethodPost, Path: r.path(), ID: "create-" + r.singular, Tag: "library", Status: http.StatusCreated,
		Summary: "Save " + r.article() + " " + r.singular,
		Faults:  r.faults, Body: r.body,
	}, r.create)
	rest.Register(api, failed, rest.Endpoint{
		Method: http.MethodGet, Path: r.path() + "/{id}", ID: "get-" + r.singular, Tag: "library",
		Summary: "Get " + r.article() + " " + r.singular,
		Faults:  []string{request.CodeNotFound},
	}, r.get)
	rest.Register(api, failed, rest.Endpoint{
		Method: http.MethodPatch, Path: r.path() + "/{id}", ID: "change-" + r.singular, Tag: "library",
		Summary:     "Change " + r.article() + " " + r.singular,
		Description: "Fields that are not sent keep their values. Existing tasks keep their copies.",
		Faults:      []string{request.CodeNotFound, request.CodeParameterInvalid, request.CodeRequestInvalid}, Body: r.body,
	}, r.change)
	rest.Register(api, failed, rest.Endpoint{
		Method: http.MethodDelete, Path: r.path() + "/{id}", ID: "delete-" + r.singular, Tag: "library",
		Status:      http.StatusNoContent,
		Summary:     "Delete " + r.article() + " " + r.singular,
		Description: "An entry that was used is archived instead: it can still be read but no longer selected.",
		Faults:      []string{request.CodeNotFound},
	}, r.delete)
}

func (r resource[T, B]) list(ctx context.Context, input *listInput) (*entriesOutput[B], error) {
	found, total, err := r.kind.List(ctx, request.ScopeOf(ctx),
		entries.Filter{NameContains: request.SearchText(input.Query), Archived: input.Archived}, input.Window())
	if err != nil {
		return nil, err
	}
	output := &entriesOutput[B]{}
	output.Body.Items, output.Body.Pagination = []B{}, rest.NewPagination(input.Window(), total)
	for _, row := range found {
		one, err := r.view(row)
		if err != nil {
			return nil, err
		}
		output.Body.Items = append(output.Body.Items, one)
	}
	return output, nil
}

func (r resource[T, B]) create(ctx context.Context, input *rest.FormInput) (*entryOutput[B], error) {
	if err := rest.Admit(ctx, input.Form); err != nil {
		return nil, err
	}
	return r.store(ctx, nil, input.Form)
}

func (r resource[T, B]) get(ctx context.Context, input *entryInput) (*entryOutput[B], error) {
	_, row, err := find(ctx, input.EntryPath, r.kind)
	if err != nil {
		return nil, err
	}
	one, err := r.view(row)
	return &entryOutput[B]{one}, err
}

func (r resource[T, B]) change(ctx context.Context, input *entryFormInput) (*entryOutput[B], error) {
	_, row, err := find(ctx, input.EntryPath, r.kind)
	if err != nil {
		return nil, err
	}
	return r.store(ctx, &row, input.Form)
}

func (r resource[T, B]) delete(ctx context.Context, input *entryInput) (*struct{}, error) {
	id, err := input.id()
	if err != nil {
		return nil, err
	}
	return nil, r.remove(ctx, request.ScopeOf(ctx), id)
}

// store saves an entry and returns it as a response.
func (r resource[T, B]) store(ctx context.Context, row *T, submitted *form.Upload) (*entryOutput[B], error) {
	id, faults, err := r.save(ctx, row, submitted)
	if err := form.Refusal(faults, err); err != nil {
		return nil, err
	}
	return r.get(ctx, &entryInput{EntryPath{id.String()}})
}

// providerFields describes the fields of a form for a provider.
type providerFields struct {
	Name      string            `json:"name" maxLength:"64" example:"OpenAI"`
	Protocol  string            `json:"protocol" values:"model protocols"`
	BaseURL   string            `json:"base_url" doc:"Base address, to which the protocol's path is appended" format:"uri" example:"https://api.openai.com/v1"`
	APIKey    string            `json:"api_key,omitempty" doc:"Stored encrypted, never returned"`
	Headers   map[string]string `json:"headers,omitempty" doc:"Stored encrypted; only their names are returned"`
	RateLimit string            `json:"rate_limit,omitempty" doc:"Rate limit of calls: N/s, N/m or unlimited; absent means the installation's default" example:"5/s"`
	RetryOn   []string          `json:"retry_on,omitempty" doc:"Failures after which a call is retried: timeout, network, 429, 5xx; the default is all of them"`
}

type modelFields struct {
	ProviderID string         `json:"provider_id" doc:"Id of a saved provider"`
	Name       string         `json:"name,omitempty" maxLength:"64" doc:"Display name; defaults to model_id"`
	ModelID    string         `json:"model_id" doc:"The provider's name for the model" example:"gpt-4.1"`
	Parameters map[string]any `json:"parameters,omitempty" doc:"JSON object merged into every request"`
	PriceFields
}

// PriceFields describes the fields for the prices of a target's tokens.
type PriceFields struct {
	InputPrice  string `json:"input_price,omitempty" doc:"Price per million input tokens, a decimal number" example:"2.5"`
	OutputPrice string `json:"output_price,omitempty" doc:"Price per million output tokens, a decimal number" example:"10"`
	Currency    string `json:"currency,omitempty" doc:"Currency of the prices" example:"USD"`
}

type agentFields struct {
	Name         string            `json:"name" maxLength:"64" example:"客服智能体"`
	Protocol     string            `json:"protocol" doc:"One of the agent protocols; POST /agents/detect finds the protocol of an address" example:"dify-chat"`
	URL          string            `json:"url" doc:"Full address for POST requests, http or https" format:"uri"`
	Headers      map[string]string `json:"headers,omitempty" doc:"Stored encrypted; only their names are returned"`
	ExtraPayload map[string]any    `json:"extra_payload,omitempty" doc:"JSON object merged into the body of every request"`
	BodyTemplate map[string]any    `json:"body_template,omitempty" doc:"JSON object sent instead of the protocol's body; its strings may contain {{question}}, {{session_id}} and other variables"`
	Poll         *protocol.Poll    `json:"poll,omitempty" null:"true" doc:"How the agent is polled if it accepts jobs; null if it answers immediately"`
	RateLimit    string            `json:"rate_limit,omitempty" doc:"Rate limit of calls: N/s, N/m or unlimited; absent means the installation's default"`
	RetryOn      []string          `json:"retry_on,omitempty" doc:"Failures after which a call is retried: timeout, network, 429, 5xx; the default is all of them"`
	PriceFields
}

type promptFields struct {
	Name        string `json:"name" maxLength:"64" example:"简短回答"`
	Description string `json:"description,omitempty"`
	System      string `json:"system,omitempty" doc:"Template"`
	User        string `json:"user,omitempty" doc:"Template" example:"{{user_context}} 请用一句话回答：{{question}}"`
	Note        string `json:"note,omitempty" doc:"What the version is for"`
}

type promptVersionFields struct {
	System string `json:"system,omitempty" doc:"Template"`
	User   string `json:"user,omitempty" doc:"Template" example:"{{user_context}} 请用一句话回答：{{question}}"`
	Note   string `json:"note,omitempty" doc:"What the version is for"`
}

type evaluatorFields struct {
	Name   string         `json:"name" maxLength:"64" example:"答案一致"`
	Kind   evaluate.Kind  `json:"kind"`
	Config map[string]any `json:"config,omitempty" doc:"Members by kind: exact {ignore_case, ignore_whitespace, ignore_punctuation}; contains {values, mode, ignore_case}; regex {pattern}; number {tolerance, relative}; json_schema {schema}; json_path {path, equals}; similarity {threshold}; expression {expression, threshold}; latency {max_ms}; judge {model_id (of a saved model), prompt (a template with {{answer}}, {{expected}}, {{question}}, {{history}} and the question's columns), dimensions (overall decides), threshold (0–100), votes (odd, 1–9), temperature}. Texts are compared with standard_answer unless expected, a template, is given"`
}

type judgeFields struct {
	Kind           evaluate.Kind  `json:"kind"`
	Config         map[string]any `json:"config,omitempty" doc:"Settings of the evaluator; their members depend on kind"`
	Question       string         `json:"question,omitempty"`
	StandardAnswer string         `json:"standard_answer,omitempty"`
	Answer         string         `json:"answer,omitempty"`
	Variables      map[string]any `json:"variables,omitempty" doc:"Values of the question's other columns, by column name"`
	LatencyMS      int            `json:"latency_ms,omitempty" doc:"Latency of the answer in milliseconds"`
	Tokens         int            `json:"tokens,omitempty" doc:"Total tokens of the answer"`
	History        string         `json:"history,omitempty" doc:"The conversation before the question; used by judges"`
}

type datasetFields struct {
	Name        string `json:"name" maxLength:"64" example:"法律问答"`
	Description string `json:"description,omitempty"`
	File        string `json:"file" doc:"CSV (UTF-8), XLSX or XLS, with the same limits as a task's dataset_file" format:"binary"`
	Encoding    string `json:"dataset_encoding,omitempty" enum:"gb18030" doc:"Encoding of a CSV file; absent means UTF-8"`
	ID          string `json:"column_question_id,omitempty" doc:"Name of the column with the ids; the default is question_id"`
	Question    string `json:"column_question,omitempty" doc:"Name of the column with the questions; the default is question"`
	Answer      string `json:"column_standard_answer,omitempty" doc:"Name of the column with the standard answers; the default is standard_answer"`
	Note        string `json:"note,omitempty" doc:"What the version is for"`
}

type datasetVersionFields struct {
	File     string `json:"file" doc:"CSV (UTF-8), XLSX or XLS, with the same limits as a task's dataset_file" format:"binary"`
	Encoding string `json:"dataset_encoding,omitempty" enum:"gb18030" doc:"Encoding of a CSV file; absent means UTF-8"`
	ID       string `json:"column_question_id,omitempty" doc:"Name of the column with the ids; the default is question_id"`
	Question string `json:"column_question,omitempty" doc:"Name of the column with the questions; the default is question"`
	Answer   string `json:"column_standard_answer,omitempty" doc:"Name of the column with the standard answers; the default is standard_answer"`
	Note     string `json:"note,omitempty" doc:"What the version is for"`
}

type endpoints struct {
	Config
	saver form.Saver
}

// Enums returns the enumerations whose values appear in these endpoints.
func Enums() []rest.Enum {
	return []rest.Enum{
		rest.EnumOf(entries.FiringOutcomes), rest.EnumOf(entries.Follows), rest.EnumOf(notify.Kinds),
		rest.EnumOf(outbox.States), rest.EnumOf(slices.Concat(outbox.Events, []outbox.Event{outbox.Test})),
		rest.EnumNamed("firing reasons", entries.FiringReasons), rest.EnumNamed("subscriptions", outbox.Events),
	}
}

// RegisterAPI registers the endpoints: those that send a file on the API stream, and all others on the API whole.
func RegisterAPI(whole, stream huma.API, config Config) {
	e := &endpoints{config, form.Saver{Library: config.Library, Check: config.Check}}
	e.registerEntries(whole)
	e.registerTrials(whole)
	e.registerVersions(whole)
	e.registerEvaluators(whole)
	e.registerChannels(whole)
	e.registerSchedules(whole)
	e.registerFiles(stream)
}

func (e *endpoints) registerEntries(api huma.API) {
	schemas := api.OpenAPI().Components.Schemas
	saved := e.Library.Entries
	resource[entries.Provider, Provider]{
		name: "providers", singular: "provider", kind: saved.Providers, view: e.viewProvider,
		body: rest.JSONBody[providerFields](schemas),
		save: e.saver.Provider, remove: removing(saved.Providers),
	}.register(api, e.Failed)
	resource[entries.Model, Model]{
		name: "models", singular: "model", kind: saved.Models, view: e.viewModel, body: rest.JSONBody[modelFields](schemas),
		save: e.saver.Model, remove: removing(saved.Models),
	}.register(api, e.Failed)
	resource[entries.Agent, Agent]{
		name: "agents", singular: "agent", kind: saved.Agents, view: e.viewAgent, body: rest.JSONBody[agentFields](schemas),
		save: e.saver.Agent, remove: removing(saved.Agents),
	}.register(api, e.Failed)
	resource[entries.Prompt, Prompt]{
		name: "prompts", singular: "prompt", kind: saved.Prompts, view: e.viewPrompt,
		body: rest.JSONBody[promptFields](schemas),
		save: e.saver.Prompt, remove: removing(saved.Prompts),
	}.register(api, e.Failed)
	resource[entries.Dataset, Dataset]{
		name: "datasets", singular: "dataset", kind: saved.Datasets, view: e.viewDataset,
		body: rest.Multipart[datasetFields](schemas, true),
		save: e.saver.Dataset, remove: e.Library.RemoveDataset,
		faults: append([]string{request.CodeDatasetRequired}, dataset.Codes...),
	}.register(api, e.Failed)
	resource[entries.Evaluator, Evaluator]{
		name: "evaluators", singular: "evaluator", kind: saved.Evaluators, view: e.viewEvaluator,
		body: rest.JSONBody[evaluatorFields](schemas),
		save: e.saver.Evaluator, remove: removing(saved.Evaluators),
	}.register(api, e.Failed)
	resource[entries.Channel, Channel]{
		name: "channels", singular: "channel", kind: saved.Channels, view: e.viewChannel,
		body: rest.JSONBody[channelFields](schemas),
		save: e.saver.Channel, remove: removing(saved.Channels),
	}.register(api, e.Failed)
	resource[entries.Schedule, Schedule]{
		name: "schedules", singular: "schedule", kind: saved.Schedules, view: e.viewSchedule,
		body: rest.JSONBody[scheduleFields](schemas),
		save: e.saver.Schedule, remove: removing(saved.Schedules), faults: []string{request.CodeQuotaExceeded},
	}.register(api, e.Failed)
}

// pageOf returns a page of a list that has total rows, with each row converted by view.
func pageOf[T, B any](page db.Page, rows []T, total int, view func(T) B) *entriesOutput[B] {
	output := &entriesOutput[B]{}
	output.Body.Items, output.Body.Pagination = []B{}, rest.NewPagination(page, total)
	for _, row := range rows {
		output.Body.Items = append(output.Body.Items, view(row))
	}
	return output
}
