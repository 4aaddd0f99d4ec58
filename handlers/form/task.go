package form

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"wending/db"
	"wending/db/entries"
	"wending/db/measure"
	"wending/handlers/request"
	"wending/jobs/agent"
	"wending/jobs/dataset"
	"wending/jobs/library"
	"wending/jobs/tasks"
	"wending/views/text"
)

// FieldFault is a fault with the name of its field.
type FieldFault struct {
	Field string
	*request.Fault
}

// Refusal returns err or, if err is nil, all faults of a form as one error; nil if there are none.
func Refusal(faults []FieldFault, err error) error {
	if err != nil || len(faults) == 0 {
		return err
	}
	all := make([]*request.Fault, len(faults))
	for n, one := range faults {
		all[n] = one.Fault
	}
	return request.JoinFaults(all...)
}

// Rules hold the context in which the fields of a task are checked.
type Rules struct {
	// Library resolves the task's references.
	Library *library.Service
	// CheckURL refuses addresses of agents that may not be called. headers are those of the copied task if its agent has
	// the same origin; otherwise nil.
	CheckURL func(u *url.URL, headers map[string]string) error
	// SealedHeaders are the headers that the form carried in sealed form, already opened. They apply if no headers were
	// typed.
	SealedHeaders map[string]string
}

// taskFields are the fields of a task in the form's order, in which faults are listed. The last, empty one stands for
// the task as a whole.
var taskFields = []string{
	"task_name", "models", "agents", "prompts", "evaluators", "meaning_model", "dataset", "agent_api_url",
	"dataset_encoding", "dataset_file",
	"agent_model", "agent_api_headers", "extra_payload", "runs_per_item", "timeout_seconds", "max_retries", "concurrency",
	"use_stream", "rate_limit", "on_turn_failure", "cluster_by", "adaptive", "max_cost", "channels", "start", "",
}

// Task parses a form for a task and returns all its faults, in the form's order. Absent fields keep base's values: the
// defaults, or the settings of the task that the form copies. Those values of base that may be secret (headers,
// payload, the URL's query) are used only for an agent at the same origin.
func Task(ctx context.Context, form *Upload, base tasks.New, rules Rules) (n tasks.New, faults []FieldFault) {
	c := checker{fields{form: form}, base}
	c.name()
	c.references(ctx, rules.Library)
	origin := c.url(base, rules)
	if origin != tasks.OriginOf(base.AgentURL) {
		c.n.Headers, c.n.Payload = nil, nil
	}
	c.file(ctx)
	c.model()
	c.headers(rules.SealedHeaders)
	c.payload()
	for _, setting := range c.n.Numbers() {
		c.number(setting.Name, setting.Min, setting.Max, setting.Value)
	}
	c.boolean("use_stream", func(is bool) { c.n.UseStream = is })
	c.choices()
	if channels := c.channels(ctx, rules.Library.Channel); channels != nil {
		c.n.Channels = channels
	}
	c.boolean("start", func(is bool) { c.n.IsDraft = !is })
	c.validate()
	return c.n, c.faults
}

// validate adds the faults of fields that break the rules of tasks. It skips fields that could not be parsed, which
// already have a fault.
func (c *checker) validate() {
	for _, wrong := range c.n.Validate() {
		// A task with targets that could not be found needs no address.
		isTargeted := wrong.Field == "agent_api_url" && wrong.Problem == tasks.Missing && c.hasFault("models", "agents")
		if !isTargeted && !c.hasFault(wrong.Field) && (wrong.Field != "" || len(c.faults) == 0) {
			c.fail(wrong.Field, request.TaskFault(wrong))
		}
	}
	slices.SortStableFunc(c.faults, func(a, b FieldFault) int {
		return slices.Index(taskFields, a.Field) - slices.Index(taskFields, b.Field)
	})
}

// checker parses the fields of a task and collects their faults.
type checker struct {
	fields
	n tasks.New
}

func (c *checker) name() {
	if typed, isThere := c.form.Values["task_name"]; isThere {
		c.n.Name = visibleName(typed)
	}
}

// visibleName returns a name without control and bidirectional characters, and trims invisible characters, because
// names appear in lists and file names.
func visibleName(typed string) string {
	return strings.TrimFunc(strings.Map(func(r rune) rune {
		switch {
		case unicode.IsControl(r):
			return ' '
		case unicode.Is(unicode.Bidi_Control, r):
			return -1
		}
		return r
	}, strings.ToValidUTF8(typed, "\uFFFD")), func(r rune) bool { return unicode.IsSpace(r) || unicode.Is(unicode.Cf, r) })
}

// url stores the agent's address, or adds a fault, and returns the address's origin. Pages do not show the query of
// base's address; the field keep_query says whether to add it again.
func (c *checker) url(base tasks.New, rules Rules) (origin string) {
	if typed, isThere := c.form.Values["agent_api_url"]; isThere {
		c.n.AgentURL = withQueryOf(strings.TrimSpace(typed), base.AgentURL, c.form.Value("keep_query") == "true")
	}
	u := tasks.ParseAddress(c.n.AgentURL)
	if u == nil {
		return ""
	}
	origin = tasks.Origin(u)
	var headers map[string]string
	if origin == tasks.OriginOf(base.AgentURL) {
		headers = base.Headers
	}
	if err := rules.CheckURL(u, headers); err != nil {
		c.fail("agent_api_url", request.NewFault(request.CodeAgentURLNotAllowed).WithCause(err))
		return ""
	}
	return origin
}

// withQueryOf returns the typed address. It appends the query of other if isWanted is set, typed has no query of its
// own, and both have the same origin.
func withQueryOf(typed, other string, isWanted bool) string {
	_, query, hasQuery := strings.Cut(other, "?")
	if !isWanted || !hasQuery || strings.Contains(typed, "?") || tasks.OriginOf(typed) != tasks.OriginOf(other) {
		return typed
	}
	return typed + "?" + query
}

// Layout returns how to read the columns of a form's file, or the fault of its encoding.
func Layout(f *Upload) (layout dataset.Layout, wrong *request.Fault) {
	layout = dataset.Layout{
		ID: f.Value("column_question_id"), Question: f.Value("column_question"), Answer: f.Value("column_standard_answer"),
		Encoding: f.Value("dataset_encoding"),
	}
	if !slices.Contains(dataset.Encodings, layout.Encoding) {
		layout.Encoding, wrong = "", request.FieldFault("dataset_encoding", request.OneOf(dataset.GB18030))
	}
	return layout, wrong
}

func (c *checker) file(ctx context.Context) {
	if c.form.File != nil {
		c.n.File, c.n.Dataset, c.n.DatasetID, c.n.DatasetVersion = c.form.File.File, nil, nil, nil
		var wrong *request.Fault
		if c.n.Layout, wrong = Layout(c.form); wrong != nil {
			c.fail("dataset_encoding", wrong)
		}
	}
	switch {
	case c.form.Refused != nil:
		return // the file has not been read
	case c.form.File != nil && c.form.File.IsTooLarge:
		c.fail("dataset_file", request.NewFault(request.CodeDatasetTooLarge))
		return
	case c.n.Dataset != nil:
		return // base's file or a saved dataset, which has already been read
	case c.hasFault("dataset"):
		return
	case c.form.File == nil && c.form.Value("dataset_token") != "":
		c.fail("dataset_file", request.NewFault(request.CodeDatasetRequired).WithMessage("error.DATASET_STAGED_GONE"))
		return
	case c.form.File == nil:
		c.fail("dataset_file", request.NewFault(request.CodeDatasetRequired))
		return
	}
	set, err := dataset.Read(ctx, c.n.File.Name, c.n.File.Content, c.n.Layout)
	if err != nil {
		c.fail("dataset_file", request.DatasetFault(err))
		return
	}
	c.n.Dataset = set
}

// AppendedRows returns the questions to add to a task, from a form's file. The error is a fault of the file.
func AppendedRows(ctx context.Context, f *Upload, task db.Task) (set *dataset.Dataset, refused error) {
	switch {
	case f.Refused != nil:
		return nil, f.Refused
	case f.File == nil:
		return nil, request.NewFault(request.CodeDatasetRequired)
	case f.File.IsTooLarge:
		return nil, request.NewFault(request.CodeDatasetTooLarge)
	}
	given, wrong := Layout(f)
	if wrong != nil {
		return nil, wrong
	}
	layout := tasks.LayoutOf(task)
	layout.Encoding = given.Encoding
	set, err := dataset.Read(ctx, f.File.Name, f.File.Content, layout)
	if err != nil {
		return nil, request.DatasetFault(err)
	}
	return set, nil
}

func (c *checker) model() {
	if typed, isThere := c.form.Values["agent_model"]; isThere {
		c.n.AgentModel = strings.TrimSpace(typed)
	}
}

func (c *checker) headers(sealed map[string]string) {
	typed := c.form.Value("agent_api_headers")
	if typed == "" {
		if sealed != nil {
			c.n.Headers = sealed
		}
		return
	}
	headers, err := agent.ParseHeaders(typed)
	if err != nil {
		c.fail("agent_api_headers", request.NewFault(request.CodeAgentHeadersInvalid))
		return
	}
	c.n.Headers = headers
}

func (c *checker) payload() {
	typed := c.form.Value("extra_payload")
	if typed == "" {
		return
	}
	payload := jsonObject(typed)
	if payload == nil {
		c.fail("extra_payload", request.FieldFault("extra_payload", request.JSONObject()))
		return
	}
	c.n.Payload = &payload
}

// jsonObject returns a JSON object in compact form; nil if text is not one, or is too long.
func jsonObject(text string) json.RawMessage {
	var members map[string]json.RawMessage
	var compact bytes.Buffer
	if json.Unmarshal([]byte(text), &members) != nil || members == nil || json.Compact(&compact, []byte(text)) != nil ||
		compact.Len() > tasks.MaxPayload || tasks.HasControl(compact.String()) {
		return nil
	}
	return compact.Bytes()
}

// choices stores the rate limit, what happens after a failed turn, the column that groups questions, the settings of
// adaptive runs, and the maximum cost.
func (c *checker) choices() {
	if typed := c.form.Value("rate_limit"); typed != "" {
		c.n.RateLimit = typed
	}
	if typed := c.form.Value("on_turn_failure"); typed != "" {
		c.n.OnTurnFailure = db.OnTurnFailure(typed)
	}
	if c.form.Has("cluster_by") {
		c.n.ClusterBy = strings.TrimSpace(c.form.Value("cluster_by"))
	}
	if c.form.Has("adaptive") {
		c.adaptive()
	}
	if c.form.Has("max_cost") {
		c.n.MaxCost = c.form.Value("max_cost")
	}
}

// adaptive stores the settings of adaptive runs, a JSON object, or adds a fault. Empty or null means that every
// question gets the same number of runs.
func (c *checker) adaptive() {
	c.n.Adaptive = nil
	typed := strings.TrimSpace(c.form.Value("adaptive"))
	if typed == "" || typed == "null" {
		return
	}
	decoder := json.NewDecoder(strings.NewReader(typed))
	decoder.DisallowUnknownFields()
	given := db.Adaptive{Confidence: measure.DefaultConfidence}
	if err := decoder.Decode(&given); err != nil || decoder.More() {
		fault := request.FieldFault("adaptive", request.ValidAdaptive())
		if name, isUnknown := unknownMember(err); isUnknown {
			fault = request.UnknownFieldFault("adaptive."+name, []string{"adaptive.max_runs", "adaptive.confidence"})
		}
		c.fail("adaptive", fault)
		return
	}
	c.n.Adaptive = &given
}

// unknownMember returns the name of the member to which a decoder objects that disallows unknown members. The error has
// no type, so only its text tells.
func unknownMember(err error) (name string, isUnknown bool) {
	if err == nil {
		return "", false
	}
	quoted, isUnknown := strings.CutPrefix(err.Error(), "json: unknown field ")
	if !isUnknown {
		return "", false
	}
	name, err = strconv.Unquote(quoted)
	return name, err == nil
}

// cost stores a maximum cost in *to, or adds a fault; empty means no limit.
func (c *fields) cost(field string, to *string) {
	if !c.form.Has(field) {
		return
	}
	if *to = c.form.Value(field); *to != "" && !db.IsCost(*to) {
		c.fail(field, request.FieldFault(field, request.ValidCost()))
	}
}

// Ceiling returns the new maximum cost of a task that a form contains; empty means no limit.
func Ceiling(submitted *Upload) (string, []FieldFault) {
	c, ceiling := fields{form: submitted}, ""
	c.cost("max_cost", &ceiling)
	return ceiling, c.faults
}

// references looks up the entries of the library that the form refers to.
func (c *checker) references(ctx context.Context, saved *library.Service) {
	for field, most := range map[string]int{"prompts": tasks.MaxVariants, "models": tasks.MaxVariants,
		"agents": tasks.MaxVariants, "evaluators": tasks.MaxEvaluators} {
		if len(c.form.List(field)) > most { // checked before the database is queried
			c.fail(field, request.NewFault(request.CodeTaskTooLarge))
			return
		}
	}
	c.savedTargets(ctx, saved)
	c.savedPrompts(ctx, saved)
	if c.form.Has("evaluators") {
		c.savedEvaluators(ctx, saved)
	}
	if c.form.Has("meaning_model") {
		before := c.n.Meaning
		if c.n.Meaning = c.meaningModel(ctx, saved, "meaning_model"); c.n.Meaning != nil && before != nil {
			c.n.Meaning.KeepTicket(*before)
		}
	}
	if text := c.form.Value("dataset"); text != "" && c.form.File == nil {
		c.savedDataset(ctx, saved, text)
	}
}

// savedTargets looks up the models and agents that the form lists. If the form has only one of the two fields, base's
// targets of the other kind stay.
func (c *checker) savedTargets(ctx context.Context, saved *library.Service) {
	if !c.form.Has("models") && !c.form.Has("agents") {
		return
	}
	before := c.n.Targets
	c.n.Targets = nil
	for _, kind := range []struct {
		field string
		of    db.TargetKind
		find  func(context.Context, db.Scope, library.Reference) (tasks.NewTarget, bool, error)
	}{{"models", db.TargetModel, saved.ModelTarget}, {"agents", db.TargetAgent, saved.AgentTarget}} {
		if !c.form.Has(kind.field) {
			c.n.Targets = append(c.n.Targets, ofKind(before, kind.of)...)
			continue
		}
		for _, text := range c.form.List(kind.field) {
			reference, err := library.ParseReference(text)
			if err == nil && reference.Version != 0 {
				err = library.ErrUnknownReference // targets have no versions
			}
			var target tasks.NewTarget
			var hasFailed bool
			if err == nil {
				target, hasFailed, err = kind.find(ctx, request.ScopeOf(ctx), reference)
			}
			if err != nil {
				c.failedReference(kind.field, err)
				break
			}
			if hasFailed {
				c.n.Untested = append(c.n.Untested, target.Name)
			}
			target.KeepTicket(before...)
			c.n.Targets = append(c.n.Targets, target)
		}
	}
}

func (c *checker) savedPrompts(ctx context.Context, saved *library.Service) {
	if c.form.Has("prompts") {
		c.n.Prompts = nil
	}
	for _, text := range c.form.List("prompts") {
		reference, err := library.ParseReference(text)
		var prompt tasks.NewPrompt
		if err == nil {
			prompt, err = saved.Prompt(ctx, request.ScopeOf(ctx), reference)
		}
		if err != nil {
			c.failedReference("prompts", err)
			return
		}
		c.n.Prompts = append(c.n.Prompts, prompt)
	}
}

// savedEvaluators looks up the evaluators that the form lists. Judges of the demo keep the header that lets them call
// its models.
func (c *checker) savedEvaluators(ctx context.Context, saved *library.Service) {
	var judges []tasks.NewTarget
	for _, one := range c.n.Evaluators {
		if one.Model != nil {
			judges = append(judges, *one.Model)
		}
	}
	c.n.Evaluators = c.evaluators(ctx, saved)
	for _, one := range c.n.Evaluators {
		if one.Model != nil {
			one.Model.KeepTicket(judges...)
		}
	}
}

func (c *checker) savedDataset(ctx context.Context, saved *library.Service, text string) {
	reference, err := library.ParseReference(text)
	var found entries.Dataset
	if err == nil {
		found, err = saved.Dataset(ctx, request.ScopeOf(ctx), reference)
	}
	if err == nil {
		c.n.File, c.n.Dataset, err = saved.ReadDataset(ctx, found.ID, found.DatasetVersion)
		c.n.Layout = library.LayoutOf(found.DatasetVersion)
		c.n.DatasetID, c.n.DatasetVersion = &found.ID, &found.Version
	}
	if err != nil {
		c.failedReference("dataset", err)
	}
}

// failedReference adds a fault that says why a reference to the library cannot be resolved.
func (c *fields) failedReference(field string, err error) {
	if errors.Is(err, library.ErrUnknownReference) {
		c.fail(field, request.FieldFault(field, request.ValidEntries()).WithCause(err))
		return
	}
	c.fail(field, request.FaultOf(err))
}

// evaluators looks up the evaluators that a form lists; if the look-up adds a fault, it returns nil.
func (c *fields) evaluators(ctx context.Context, saved *library.Service) (found []tasks.NewEvaluator) {
	for _, text := range c.form.List("evaluators") {
		reference, err := library.ParseReference(text)
		var evaluator tasks.NewEvaluator
		if err == nil {
			evaluator, err = saved.Evaluator(ctx, request.ScopeOf(ctx), reference)
		}
		if err != nil {
			c.failedReference("evaluators", err)
			return nil
		}
		found = append(found, evaluator)
	}
	return found
}

// meaningModel looks up the model that is to group answers by meaning; nil if the form names none, or if the look-up
// adds a fault.
func (c *fields) meaningModel(ctx context.Context, saved *library.Service, field string) *tasks.NewTarget {
	text := c.form.Value(field)
	if !c.isText(field) || text == "" {
		return nil
	}
	reference, err := library.ParseReference(text)
	if err == nil && reference.Version != 0 {
		err = library.ErrUnknownReference // models have no versions
	}
	var model tasks.NewTarget
	if err == nil {
		model, _, err = saved.ModelTarget(ctx, request.ScopeOf(ctx), reference)
	}
	if err != nil {
		c.failedReference(field, err)
		return nil
	}
	return &model
}

// Evaluators returns the evaluators that are to judge a task that has ended; none means the task's own.
func Evaluators(ctx context.Context, submitted *Upload, saved *library.Service) ([]tasks.NewEvaluator, []FieldFault) {
	c := fields{form: submitted}
	if len(submitted.List("evaluators")) > tasks.MaxEvaluators {
		c.fail("evaluators", request.NewFault(request.CodeTaskTooLarge))
		return nil, c.faults
	}
	return c.evaluators(ctx, saved), c.faults
}

func ofKind(targets []tasks.NewTarget, kind db.TargetKind) (found []tasks.NewTarget) {
	for _, target := range targets {
		if target.Kind == kind {
			found = append(found, target)
		}
	}
	return found
}

// WarningText returns the text of a warning in the locale's language.
func WarningText(locale text.Locale, w tasks.Warning) string {
	return locale.Text("warning."+w.Code, "Names", strings.Join(w.Names, ", "))
}
