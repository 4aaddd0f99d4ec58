package form

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"slices"
	"strings"

	"github.com/google/uuid"

	"wending/db"
	"wending/db/entries"
	"wending/handlers/request"
	"wending/jobs/agent"
	"wending/jobs/agent/guard"
	"wending/jobs/agent/protocol"
	"wending/jobs/dataset"
	"wending/jobs/library"
	"wending/jobs/tasks"
	"wending/views/text"
)

// MaxDescription is the maximum length, in characters, of a description or note in the library.
const MaxDescription = 1000

// entryName stores the form's field "name" in *to, or adds a fault if it is not a valid name of an entry.
func (c *fields) entryName(to *string) {
	if c.form.Has("name") {
		*to = visibleName(c.form.Values["name"])
	}
	if c.isText("name") {
		c.line("name", tasks.MaxEntryName, true, *to)
	}
}

// texts converts values of a string type to strings.
func texts[T ~string](choices []T) []string {
	list := make([]string, len(choices))
	for n, one := range choices {
		list[n] = string(one)
	}
	return list
}

// choice stores a field in *to; it adds a fault if the result is not one of the choices.
func (c *fields) choice(field string, choices []string, to *string) {
	if c.form.Has(field) {
		*to = c.form.Value(field)
	}
	if !slices.Contains(choices, *to) {
		c.fail(field, request.FieldFault(field, request.OneOf(choices...)))
	}
}

// headers stores a JSON object of headers in *to, or adds a fault. An empty object removes the stored headers; in a
// JSON form, an empty text does, too.
func (c *fields) headers(to *map[string]string) {
	typed := c.form.Value("headers")
	switch {
	case !c.form.Has("headers"):
	case typed == "" && !c.form.IsJSON: // pages do not show saved headers
	case typed == "" || typed == "{}":
		*to = nil
	default:
		headers, err := agent.ParseHeaders(typed)
		if err != nil {
			c.fail("headers", request.FieldFault("headers", request.ValidHeaders()))
			return
		}
		*to = headers
	}
}

// object stores a JSON object in *to, or adds a fault; an empty text removes the stored object.
func (c *fields) object(field string, to *json.RawMessage) {
	if !c.form.Has(field) {
		return
	}
	typed := c.form.Value(field)
	if typed == "" {
		*to = nil
		return
	}
	if *to = jsonObject(typed); *to == nil {
		c.fail(field, request.FieldFault(field, request.JSONObject()))
	}
}

// rate stores the rate limit in *to, or adds a fault; empty means the default.
func (c *fields) rate(to *string) {
	if c.form.Has("rate_limit") {
		*to = c.form.Value("rate_limit")
	}
	if *to == "" {
		return
	}
	if _, err := tasks.ParseRate(*to); err != nil {
		c.fail("rate_limit", request.FieldFault("rate_limit", request.ValidRate()))
	}
}

// retryOn stores in *to the kinds of failures after which a call is retried, or adds a fault.
func (c *fields) retryOn(to *[]string) {
	if !c.form.Has("retry_on") {
		return
	}
	*to = []string{}
	for _, kind := range c.form.List("retry_on") {
		if kind == "none" { // sent by a form in which no kind is chosen
			continue
		}
		if !slices.Contains(agent.RetryKinds, kind) {
			c.fail("retry_on", request.FieldFault("retry_on", request.OneOf(agent.RetryKinds...)))
			return
		}
		*to = append(*to, kind)
	}
}

// address adds a fault to the field if *to is not an address, or is one that check refuses because it may not be
// called.
func (c *fields) address(field string, check func(*url.URL) error, to *string) {
	u := tasks.ParseAddress(*to)
	if u == nil {
		c.fail(field, request.FieldFault(field, request.ValidAddress()))
		return
	}
	if err := check(u); err != nil {
		refused := &guard.NotAllowedError{}
		errors.As(err, &refused)
		c.fail(field, request.FieldFault(field, request.Reachable(refused.Variable)).WithCause(err))
	}
}

// protocolNames returns the names of all protocols or, if onlyModels is true, of those in which providers offer models.
func protocolNames(onlyModels bool) (names []string) {
	for _, one := range protocol.All {
		if !onlyModels || one.IsOfModels() {
			names = append(names, one.Name)
		}
	}
	return names
}

// Provider parses a form for a provider; absent fields keep base's values. If the base URL has a different origin,
// base's secrets are dropped.
func Provider(form *Upload, base library.Provider,
	check func(*url.URL) error) (p library.Provider, faults []FieldFault) {
	c, p := fields{form: form}, base
	if p.RetryOn == nil {
		p.RetryOn = agent.RetryKinds
	}
	c.entryName(&p.Name)
	c.choice("protocol", protocolNames(true), &p.Protocol)
	if form.Has("base_url") {
		p.BaseURL = strings.TrimRight(form.Value("base_url"), "/")
	}
	if tasks.OriginOf(p.BaseURL) != tasks.OriginOf(base.BaseURL) {
		p.APIKey, p.Headers = "", nil
	}
	c.address("base_url", check, &p.BaseURL)
	if strings.ContainsAny(p.BaseURL, "?#") && !c.hasFault("base_url") { // the protocol's path is appended to it
		c.fail("base_url", request.FieldFault("base_url", request.ValidAddress()))
	}
	if key := form.Value("api_key"); form.Has("api_key") && (key != "" || form.IsJSON) { // pages do not show the saved key
		p.APIKey = key
		c.text("api_key", 4096, false, &p.APIKey)
	}
	c.headers(&p.Headers)
	c.rate(&p.RateLimit)
	c.retryOn(&p.RetryOn)
	return p, c.faults
}

// Model parses a form for a model. find looks up its provider.
func Model(form *Upload, base library.Model,
	find func(uuid.UUID) (entries.Provider, error)) (m library.Model, faults []FieldFault, err error) {
	c, m := fields{form: form}, base
	if form.Has("provider_id") {
		if m.ProviderID, err = uuid.Parse(form.Value("provider_id")); err != nil {
			m.ProviderID = uuid.Nil
		}
	}
	provider, err := find(m.ProviderID)
	if err != nil && !errors.Is(err, db.ErrNotFound) {
		return m, nil, err
	}
	if err != nil || provider.ArchivedAt != nil && m.ProviderID != base.ProviderID {
		c.fail("provider_id", request.FieldFault("provider_id", request.ValidEntries()))
	}
	c.text("model_id", tasks.MaxModelLength, true, &m.ModelID)
	if m.Name == "" && !form.Has("name") {
		m.Name = m.ModelID
	}
	c.entryName(&m.Name)
	c.object("parameters", &m.Parameters)
	c.prices(&m.Prices)
	return m, c.faults, nil
}

// prices stores in p the prices of a target's tokens and their currency, or adds faults.
func (c *fields) prices(p *library.Prices) {
	for field, to := range map[string]*string{"input_price": &p.InputPrice, "output_price": &p.OutputPrice} {
		if c.form.Has(field) {
			*to = c.form.Value(field)
		}
		if *to != "" && !db.IsPrice(*to) {
			c.fail(field, request.FieldFault(field, request.ValidPrice()))
		}
	}
	if c.form.Has("currency") {
		p.Currency = strings.ToUpper(c.form.Value("currency"))
	}
	if p.Currency != "" && !tasks.IsCurrency(p.Currency) || p.Currency == "" &&
		(p.InputPrice != "" || p.OutputPrice != "") && c.form.Has("currency") {
		c.fail("currency", request.FieldFault("currency", request.OneOf("CNY", "USD", "EUR", "…")))
	}
}

// Agent parses a form for an agent. If the address has a different origin, base's secrets are dropped.
func Agent(form *Upload, base library.Agent, check func(*url.URL) error) (a library.Agent, faults []FieldFault) {
	c, a := fields{form: form}, base
	if a.RetryOn == nil {
		a.RetryOn = agent.RetryKinds
	}
	c.entryName(&a.Name)
	c.choice("protocol", protocolNames(false), &a.Protocol)
	c.agentAddress(base, check, &a)
	c.object("extra_payload", &a.ExtraPayload)
	c.object("body_template", &a.Template)
	c.poll(&a.Poll)
	c.rate(&a.RateLimit)
	c.retryOn(&a.RetryOn)
	c.prices(&a.Prices)
	return a, c.faults
}

// poll stores an agent's polling settings, a JSON object, in *to, or adds a fault.
func (c *fields) poll(to **protocol.Poll) {
	var given json.RawMessage
	if !c.form.Has("poll") {
		return
	}
	if c.object("poll", &given); given == nil {
		*to = nil
		return
	}
	poll := &protocol.Poll{IntervalSeconds: 5}
	decoder := json.NewDecoder(bytes.NewReader(given))
	decoder.DisallowUnknownFields()
	switch err := decoder.Decode(poll); {
	case err != nil, !tasks.IsPoll(*poll):
		c.fail("poll", request.FieldFault("poll", request.ValidPoll()))
	case poll.IntervalSeconds < 1 || poll.IntervalSeconds > tasks.MaxPollInterval:
		c.fail("poll", request.FieldFault("poll.interval_seconds", request.Between(1, tasks.MaxPollInterval)))
	}
	*to = poll
}

// agentAddress stores an agent's address and headers in a. If the address has a different origin, the parts that may be
// secret are dropped first.
func (c *fields) agentAddress(base library.Agent, check func(*url.URL) error, a *library.Agent) {
	if c.form.Has("url") {
		typed := c.form.Value("url")
		a.URL = withQueryOf(typed, base.URL, c.form.Value("keep_query") == "true")
	}
	if tasks.OriginOf(a.URL) != tasks.OriginOf(base.URL) {
		a.Headers, a.ExtraPayload, a.Template = nil, nil, nil // Poll is kept, because it is not secret
	}
	c.address("url", check, &a.URL)
	c.headers(&a.Headers)
}

// Address parses the fields from which an agent's protocol is detected: its address, headers and payload.
func Address(form *Upload, base library.Agent, check func(*url.URL) error) (a library.Agent, faults []FieldFault) {
	c, a := fields{form: form}, base
	c.agentAddress(base, check, &a)
	c.object("extra_payload", &a.ExtraPayload)
	return a, c.faults
}

// TestQuestion returns the question for a test call: the one in the form, or a default in the locale's language.
func TestQuestion(form *Upload, locale text.Locale) string {
	if question := form.Value("question"); question != "" {
		return question
	}
	return locale.Text("create.probe.default")
}

// Prompt parses a form for a prompt.
func Prompt(form *Upload, base entries.Prompt) (p entries.Prompt, faults []FieldFault) {
	c, p := fields{form: form}, base
	c.entryName(&p.Name)
	c.long("description", MaxDescription, &p.Description)
	c.templates(&p)
	return p, c.faults
}

// PromptVersion parses a form for the next version of a prompt.
func PromptVersion(form *Upload, base entries.Prompt) (p entries.Prompt, faults []FieldFault) {
	c, p := fields{form: form}, base
	p.Note = ""
	c.templates(&p)
	return p, c.faults
}

func (c *fields) templates(p *entries.Prompt) {
	c.long("system", tasks.MaxTemplate, &p.System)
	c.long("user", tasks.MaxTemplate, &p.User)
	c.long("note", MaxDescription, &p.Note)
	if strings.TrimSpace(p.System) == "" && strings.TrimSpace(p.User) == "" && !c.hasFault("system", "user") {
		c.fail("user", request.FieldFault("user", request.NonEmpty()))
	}
}

// Dataset parses a form for a dataset with its file. For a new version, base contains the dataset's name and
// description.
func Dataset(ctx context.Context, form *Upload, base library.NewDataset) (n library.NewDataset, faults []FieldFault) {
	c, n := fields{form: form}, base
	c.entryName(&n.Name)
	c.long("description", MaxDescription, &n.Description)
	c.long("note", MaxDescription, &n.Note)
	var wrong *request.Fault
	if n.Layout, wrong = Layout(form); wrong != nil {
		c.fail("dataset_encoding", wrong)
	}
	switch {
	case form.File == nil:
		c.fail("file", request.NewFault(request.CodeDatasetRequired))
		return n, c.faults
	case form.File.IsTooLarge:
		c.fail("file", request.NewFault(request.CodeDatasetTooLarge))
		return n, c.faults
	}
	n.File = form.File.File
	set, err := dataset.Read(ctx, n.File.Name, n.File.Content, n.Layout)
	if err != nil {
		c.fail("file", request.DatasetFault(err))
	}
	n.Set = set
	return n, c.faults
}

// DatasetFields parses a form for the name and description of a dataset.
func DatasetFields(form *Upload, base entries.Dataset) (d entries.Dataset, faults []FieldFault) {
	c, d := fields{form: form}, base
	c.entryName(&d.Name)
	c.long("description", MaxDescription, &d.Description)
	return d, c.faults
}
