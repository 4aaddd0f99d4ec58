package handlers

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"wending/db"
	"wending/jobs/agent"
	"wending/jobs/dataset"
	"wending/views"
)

// newTask is a validated form for a task, of the page or the API.
type newTask struct {
	name, url, model string
	headers          map[string]string
	payload          *json.RawMessage
	settings         Defaults
	interval         time.Duration
	origin           string
	// hasSourceHeaders says that the headers are those of the task that the form was copied from.
	hasSourceHeaders bool
	// isDraft says that the task shall wait to be started.
	isDraft bool
	file    *uploadedFile
	set     *dataset.Dataset
}

// fieldFault is what is wrong with one field.
type fieldFault struct {
	field string
	fault *Fault
}

func unprocessable(code string) *Fault { return fault(http.StatusUnprocessableEntity, code) }

func parameterInvalid(name, rangeKey string, args ...any) *Fault {
	f := unprocessable("PARAMETER_INVALID")
	f.Args = map[string]any{"Name": name, "RangeKey": rangeKey}
	for n := 0; n+1 < len(args); n += 2 {
		f.Args[args[n].(string)] = args[n+1]
	}
	return f
}

// validate checks a form field by field and returns all faults, in the form's order.
func (s *Server) validate(form *upload) (n newTask, faults []fieldFault) {
	note := func(field string, f *Fault) {
		if f != nil {
			faults = append(faults, fieldFault{field, f})
		}
	}
	n.settings = s.Defaults
	var f *Fault
	n.name, f = validName(form.values["task_name"])
	note("task_name", f)
	n.url, n.origin, f = s.validURL(form.agentURL())
	note("agent_api_url", f)
	source := form.sourceFor(n.origin)
	n.file, n.set, f = s.validDataset(form)
	note("dataset_file", f)
	n.model = strings.TrimSpace(form.values["agent_model"])
	if utf8.RuneCountInString(n.model) > 200 || hasControl(n.model) {
		note("agent_model", parameterInvalid("agent_model", "error.range.text", "Max", 200))
	}
	if source != nil && source.SealedHeaders != nil && form.isBlank("agent_api_headers") && form.isBlank("agent_api_headers_sealed") {
		headers, err := s.Sealer.Open(source.SealedHeaders, source.ID.String())
		if err != nil {
			note("agent_api_headers", unprocessable("AGENT_HEADERS_INVALID"))
		}
		n.headers, n.hasSourceHeaders = headers, true
	} else {
		n.headers, f = s.validHeaders(form.values)
		note("agent_api_headers", f)
	}
	n.payload, f = validPayload(form.values["extra_payload"])
	note("extra_payload", f)
	if source != nil && form.isBlank("extra_payload") {
		n.payload = source.ExtraPayload
	}
	for _, number := range []struct {
		field    string
		min, max int
		to       *int
	}{
		{"runs_per_item", 1, 20, &n.settings.RunsPerItem},
		{"timeout_seconds", 1, 600, &n.settings.TimeoutSeconds},
		{"max_retries", 0, 5, &n.settings.MaxRetries},
		{"concurrency", 1, 64, &n.settings.Concurrency},
	} {
		note(number.field, validNumber(form.values[number.field], number.field, number.min, number.max, number.to))
	}
	if text := strings.TrimSpace(form.values["use_stream"]); text != "" {
		stream, err := strconv.ParseBool(text)
		if err != nil {
			note("use_stream", parameterInvalid("use_stream", "error.range.boolean"))
		}
		n.settings.UseStream = stream
	}
	if text := strings.TrimSpace(form.values["rate_limit"]); text != "" {
		n.settings.RateLimit = text
	}
	interval, err := ParseRate(n.settings.RateLimit)
	if err != nil {
		note("rate_limit", parameterInvalid("rate_limit", "error.range.rate"))
	}
	n.interval = interval
	if text := strings.TrimSpace(form.values["start"]); text != "" {
		starts, err := strconv.ParseBool(text)
		if err != nil {
			note("start", parameterInvalid("start", "error.range.boolean"))
		}
		n.isDraft = !starts
	}
	return n, faults
}

func (u *upload) isBlank(field string) bool { return strings.TrimSpace(u.values[field]) == "" }

// agentURL is the address as it was typed; the shown address of the task that the form was copied from stands
// for its whole one.
func (u *upload) agentURL() string {
	typed := strings.TrimSpace(u.values["agent_api_url"])
	if u.source != nil && typed == shownURL(u.source.AgentURL) {
		return u.source.AgentURL
	}
	return typed
}

// sourceFor is the task that the form was copied from, if its agent is at this origin: what may be secret in
// it – headers, payload – goes to no other.
func (u *upload) sourceFor(origin string) *db.Task {
	if u.source == nil {
		return nil
	}
	if address, err := url.Parse(u.source.AgentURL); err != nil || originOf(address) != origin {
		return nil
	}
	return u.source
}

// readForm reads a form for a new task, and the task that it was copied from.
func (s *Server) readForm(c echo.Context) (*upload, error) {
	form, err := readUpload(c)
	if err != nil || form.isBlank("from") {
		return form, err
	}
	source, err := s.taskByID(c, form.values["from"])
	if errors.Is(err, db.ErrNotFound) { // deleted meanwhile: what was copied openly is in the form
		return form, nil
	}
	form.source = &source
	return form, err
}

func hasControl(text string) bool {
	return !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl)
}

// maxNameLength is how many characters a task's name may have.
const maxNameLength = 64

// validName trims what cannot be seen and takes out what would turn the text around it: a name stands in
// lists and file names.
func validName(text string) (string, *Fault) {
	name := strings.TrimFunc(strings.Map(func(r rune) rune {
		switch {
		case unicode.IsControl(r):
			return ' '
		case unicode.Is(unicode.Bidi_Control, r):
			return -1
		}
		return r
	}, strings.ToValidUTF8(text, "\uFFFD")), func(r rune) bool { return unicode.IsSpace(r) || unicode.Is(unicode.Cf, r) })
	switch {
	case name == "":
		return "", unprocessable("TASK_NAME_REQUIRED")
	case utf8.RuneCountInString(name) > maxNameLength:
		return "", unprocessable("TASK_NAME_TOO_LONG")
	}
	return name, nil
}

// validURL returns the agent's URL and its origin, scheme://host:port.
func (s *Server) validURL(text string) (address, origin string, f *Fault) {
	text = strings.TrimSpace(text)
	if text == "" {
		return "", "", unprocessable("AGENT_URL_REQUIRED")
	}
	u, err := url.Parse(text)
	if err != nil || len(text) > 2048 || (u.Scheme != "http" && u.Scheme != "https") || u.Hostname() == "" || u.User != nil || hasControl(text) {
		return "", "", unprocessable("AGENT_URL_INVALID")
	}
	port := u.Port()
	if number, err := strconv.Atoi(port); port != "" && (err != nil || number < 1 || number > 65535) {
		return "", "", unprocessable("AGENT_URL_INVALID")
	}
	if err := s.Guard.CheckURL(u); err != nil {
		refused := unprocessable("AGENT_URL_NOT_ALLOWED")
		refused.Cause = err
		return "", "", refused
	}
	return text, originOf(u), nil
}

// originOf is scheme://host:port of an agent's URL.
func originOf(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return u.Scheme + "://" + strings.ToLower(u.Hostname()) + ":" + port
}

// formOwner is whom headers are sealed for while their form is still being filled in.
const formOwner = "form"

// validHeaders reads the headers that were typed or, where none were, those that came back sealed.
func (s *Server) validHeaders(values map[string]string) (map[string]string, *Fault) {
	text, sealed := values["agent_api_headers"], values["agent_api_headers_sealed"]
	if strings.TrimSpace(text) == "" {
		if sealed == "" {
			return nil, nil
		}
		bytes, err := base64.StdEncoding.DecodeString(sealed)
		if err != nil {
			return nil, unprocessable("AGENT_HEADERS_INVALID")
		}
		headers, err := s.Sealer.Open(bytes, formOwner)
		if err != nil {
			return nil, unprocessable("AGENT_HEADERS_INVALID")
		}
		return headers, nil
	}
	headers, err := agent.ParseHeaders(text)
	if err != nil {
		return nil, unprocessable("AGENT_HEADERS_INVALID")
	}
	return headers, nil
}

func validPayload(text string) (*json.RawMessage, *Fault) {
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	var members map[string]json.RawMessage
	var compact bytes.Buffer
	if json.Unmarshal([]byte(text), &members) != nil || members == nil || json.Compact(&compact, []byte(text)) != nil ||
		compact.Len() > 64<<10 || hasControl(compact.String()) {
		return nil, parameterInvalid("extra_payload", "error.range.json")
	}
	payload := json.RawMessage(compact.Bytes())
	return &payload, nil
}

func validNumber(text, field string, least, most int, to *int) *Fault {
	text = strings.TrimSpace(text)
	if text == "" {
		return nil
	}
	number, err := strconv.Atoi(text)
	if err != nil || number < least || number > most {
		return parameterInvalid(field, "error.range.number", "Min", least, "Max", most)
	}
	*to = number
	return nil
}

// ParseRate reads a rate: N/s, N/m or unlimited. It returns the least time between two calls; zero:
// unlimited.
func ParseRate(text string) (time.Duration, error) {
	if text == "unlimited" {
		return 0, nil
	}
	count, unit, _ := strings.Cut(text, "/")
	number, err := strconv.ParseFloat(count, 64)
	span := map[string]time.Duration{"s": time.Second, "m": time.Minute}[unit]
	if err != nil || span == 0 || !(number > 0 && number <= 100_000) {
		return 0, errors.New("a rate is N/s, N/m or unlimited")
	}
	interval := time.Duration(float64(span) / number)
	if interval < time.Microsecond || interval > time.Hour {
		return 0, errors.New("a rate lies between one call an hour and a million a second")
	}
	return interval, nil
}

// validDataset reads the file that came with the form, or the one staged for it before.
func (s *Server) validDataset(form *upload) (*uploadedFile, *dataset.Dataset, *Fault) {
	file := form.file
	if token := form.values["dataset_token"]; file == nil && token != "" {
		if file = s.stagedFile(token); file == nil {
			gone := unprocessable("DATASET_REQUIRED")
			gone.Key = "error.DATASET_STAGED_GONE"
			return nil, nil, gone
		}
	}
	if file == nil {
		return nil, nil, unprocessable("DATASET_REQUIRED")
	}
	if file.isTooLarge {
		return file, nil, fault(http.StatusRequestEntityTooLarge, "DATASET_TOO_LARGE")
	}
	set, err := dataset.Read(file.name, file.content)
	if err != nil {
		return file, nil, datasetFault(err)
	}
	return file, set, nil
}

// datasetFault turns an error of the reader into its code and message. Details are put into words later,
// when the locale is known.
func datasetFault(err error) *Fault {
	var refused *dataset.Error
	if !errors.As(err, &refused) {
		return &Fault{Status: http.StatusInternalServerError, Code: "INTERNAL_ERROR", Cause: err}
	}
	return &Fault{Status: http.StatusUnprocessableEntity, Code: refused.Code, Key: "dataset." + refused.Problem, Args: refused.Args, Cause: refused}
}

// rowProblems puts what is wrong with rows into words.
func rowProblems(f *Fault, locale views.Locale) (rows []views.RowProblem, total int) {
	var refused *dataset.Error
	if !errors.As(f.Cause, &refused) {
		return nil, 0
	}
	for _, detail := range refused.Details {
		rows = append(rows, views.RowProblem{Row: detail.Row, Column: detail.Column, Message: locale.TextWith("dataset.row."+detail.Problem, detail.Args)})
	}
	total, _ = refused.Args["Count"].(int)
	return rows, max(total, len(rows))
}

// record is the task as the store takes it.
func (s *Server) record(n newTask, by db.Requester) (db.NewTask, error) {
	id := uuid.New()
	sealed, err := s.Sealer.Seal(n.headers, id.String())
	if err != nil {
		return db.NewTask{}, err
	}
	stored := db.NewTask{Task: db.Task{
		ID: id, Name: n.name, AgentURL: n.url, SealedHeaders: sealed, ExtraPayload: n.payload,
		RunsPerItem: n.settings.RunsPerItem, TimeoutSeconds: n.settings.TimeoutSeconds, MaxRetries: n.settings.MaxRetries,
		UseStream: n.settings.UseStream, Concurrency: n.settings.Concurrency, RateLimit: n.settings.RateLimit,
		DatasetName: shownName(n.file.name), DatasetExtension: n.set.Extension, VariableNames: n.set.VariableNames,
	}}
	if !n.isDraft {
		stored.Launch = &db.NewLaunch{AgentOrigin: n.origin, CallInterval: n.interval, By: by}
	}
	if n.model != "" {
		stored.Task.AgentModel = &n.model
	}
	for _, row := range n.set.Rows {
		stored.Items = append(stored.Items, db.NewItem{QuestionID: row.QuestionID, Question: row.Question, StandardAnswer: row.StandardAnswer,
			SystemPrompt: row.SystemPrompt, UserContext: row.UserContext, Variables: row.Variables})
	}
	return stored, nil
}

// shownName makes a file's name fit for storage and pages.
func shownName(name string) string {
	name = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return -1
		}
		return r
	}, strings.ToValidUTF8(name, "\uFFFD"))
	if runes := []rune(name); len(runes) > 200 {
		return string(runes[len(runes)-200:])
	}
	return name
}
