package gate

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime/multipart"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Client talks to the API of a server.
type Client struct {
	// Server is the server's address, without a trailing slash.
	Server string
	HTTP   *http.Client
	// Token is an API token of the server; empty if the server has no accounts.
	Token string
}

// RefusalError is an error reported by the server.
type RefusalError struct {
	Status  int      `json:"-"`
	Code    string   `json:"code"`
	Message string   `json:"message"`
	Details []Detail `json:"details"`
	// Confirmation allows the same request to be sent again although it sends content that the project calls sensitive;
	// empty for other refusals.
	Confirmation string `json:"confirmation"`
}

// Detail is an error in one field, or in one row of the questions.
type Detail struct {
	Row     int    `json:"row"`
	Column  string `json:"column"`
	Message string `json:"message"`
}

func (e *RefusalError) Error() string {
	text := e.Code + ": " + e.Message
	for _, detail := range e.Details {
		if detail.Row > 0 {
			text += fmt.Sprintf("\n  row %d, %s: %s", detail.Row, detail.Column, detail.Message)
		}
	}
	if e.Confirmation != "" {
		text += "\n  to send exactly this content, add --confirm-sensitive " + e.Confirmation
	}
	return text
}

const api = "/api/v1/"

// send sends a request, with the token if there is one.
func (c Client) send(request *http.Request) (*http.Response, error) {
	if c.Token != "" {
		request.Header.Set("Authorization", "Bearer "+c.Token)
	}
	return c.HTTP.Do(request)
}

// call makes a request and decodes its JSON response into to, unless to is nil.
func (c Client) call(ctx context.Context, method, path, contentType string, body io.Reader, to any) error {
	request, err := http.NewRequestWithContext(ctx, method, c.Server+api+path, body)
	if err != nil {
		return err
	}
	request.Header.Set("Accept", "application/json")
	request.Header.Set("Cookie", "lang=en")
	if contentType != "" {
		request.Header.Set("Content-Type", contentType)
	}
	answer, err := c.send(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close() //nolint:errcheck // only read
	if answer.StatusCode >= 300 {
		refusal := &RefusalError{Status: answer.StatusCode}
		if json.NewDecoder(io.LimitReader(answer.Body, 1<<20)).Decode(refusal) != nil || refusal.Code == "" {
			return fmt.Errorf("%s answered HTTP %d: is it a Wending server?", c.Server, answer.StatusCode)
		}
		return refusal
	}
	if to == nil {
		return nil
	}
	return json.NewDecoder(answer.Body).Decode(to)
}

func (c Client) sendJSON(ctx context.Context, method, path string, body, to any) error {
	text, err := jsonOf(body)
	if err != nil {
		return err
	}
	return c.call(ctx, method, path, "application/json", bytes.NewReader(text), to)
}

// Create saves the library entries that spec defines, then creates and starts its task, and returns the task's id.
// confirmation is the Confirmation of an earlier RefusalError, or empty.
func (c Client) Create(ctx context.Context, spec Spec, confirmation string) (string, error) {
	path := "evaluation-tasks"
	if confirmation != "" {
		path += "?" + url.Values{"confirm_sensitive": {confirmation}}.Encode()
	}
	task := maps.Clone(spec.Task)
	for kind, entries := range spec.Inline {
		ids, _ := task[kind].([]string)
		for _, entry := range entries {
			id, err := c.save(ctx, spec, kind, entry)
			if err != nil {
				return "", err
			}
			ids = append(ids, id)
		}
		task[kind] = ids
	}
	var created struct {
		TaskID string `json:"task_id"`
	}
	var err error
	if spec.Dataset == "" {
		err = c.sendJSON(ctx, http.MethodPost, path, task, &created)
	} else {
		err = c.upload(ctx, path, "dataset_file", spec.Dataset, task, &created)
	}
	var refusal *RefusalError
	if errors.As(err, &refusal) {
		return "", spec.located(refusal)
	}
	return created.TaskID, err
}

// ImportAnswers creates a finished task from a file of answers, and returns the task's id. fields are the API's form
// fields other than the file.
func (c Client) ImportAnswers(ctx context.Context, file string, fields map[string]any) (string, error) {
	var created struct {
		TaskID string `json:"task_id"`
	}
	err := c.upload(ctx, "evaluation-tasks/answers", "file", file, fields, &created)
	return created.TaskID, err
}

// upload posts a form with a file.
func (c Client) upload(ctx context.Context, path, field, file string, task map[string]any, to any) error {
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	for name, value := range task {
		values := []string{}
		switch value := value.(type) {
		case []string:
			values = value
		case string:
			values = append(values, value)
		default:
			text, err := jsonOf(value)
			if err != nil {
				return err
			}
			values = append(values, string(text))
		}
		for _, one := range values {
			if err := form.WriteField(name, one); err != nil {
				return err
			}
		}
	}
	content, err := readFile(file, maxDataset)
	if err != nil {
		return err
	}
	part, err := form.CreateFormFile(field, filepath.Base(file))
	if err != nil {
		return err
	}
	if _, err := part.Write(content); err != nil {
		return err
	}
	if err := form.Close(); err != nil {
		return err
	}
	return c.call(ctx, http.MethodPost, path, form.FormDataContentType(), &body, to)
}

// The maximum sizes of files, in bytes; the server's limit for a dataset is lower.
const (
	maxSpec    = 1 << 20
	maxDataset = 64 << 20
)

// readFile reads a file or a pipe; it fails if the content exceeds the limit.
func readFile(path string, most int64) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close() //nolint:errcheck // only read
	content, err := io.ReadAll(io.LimitReader(file, most+1))
	if err == nil && int64(len(content)) > most {
		err = fmt.Errorf("%s is larger than %d MB", path, most>>20)
	}
	return content, err
}

// save stores an entry of the library under its name, or changes the entry with that name, and returns its id. A
// model's entry may define its provider, which is then saved first.
func (c Client) save(ctx context.Context, spec Spec, kind string, entry map[string]any) (string, error) {
	entry = maps.Clone(entry)
	line, _ := entry[lineOf].(int)
	delete(entry, lineOf)
	if provider, isDefined := entry["provider"].(map[string]any); isDefined {
		id, err := c.save(ctx, spec, "providers", provider)
		if err != nil {
			return "", err
		}
		delete(entry, "provider")
		entry["provider_id"] = id
	}
	name, _ := entry["name"].(string)
	known, err := c.named(ctx, kind, name)
	if err != nil {
		return "", err
	}
	var saved struct {
		ID string `json:"id"`
	}
	if known == "" {
		err = c.sendJSON(ctx, http.MethodPost, kind, entry, &saved)
	} else {
		err = c.sendJSON(ctx, http.MethodPatch, kind+"/"+known, entry, &saved)
	}
	var refusal *RefusalError
	if errors.As(err, &refusal) {
		return "", &SpecError{spec.File, max(line, spec.Lines[kind]), refusal.Error()}
	}
	return saved.ID, err
}

// named returns the id of the entry with the given name; empty if there is none.
func (c Client) named(ctx context.Context, kind, name string) (string, error) {
	for page := 1; ; page++ {
		var list struct {
			Items []struct {
				ID   string `json:"id"`
				Name string `json:"name"`
			} `json:"items"`
			Pagination pagination `json:"pagination"`
		}
		query := url.Values{"query": {name}, "page": {fmt.Sprint(page)}, "page_size": {"100"}}
		if err := c.call(ctx, http.MethodGet, kind+"?"+query.Encode(), "", nil, &list); err != nil {
			return "", err
		}
		for _, one := range list.Items {
			if one.Name == name {
				return one.ID, nil
			}
		}
		if list.Pagination.isLast() {
			return "", nil
		}
	}
}

// pagination describes the page of a list that a response contains.
type pagination struct {
	Page     int `json:"page"`
	PageSize int `json:"page_size"`
	Total    int `json:"total"`
}

func (p pagination) isLast() bool { return p.Page*p.PageSize >= p.Total }

// Progress holds the status of a task, and how many of its runs have ended.
type Progress struct {
	Status      string `json:"status"`
	TotalRuns   int    `json:"total_runs"`
	RunsPerItem int    `json:"runs_per_item"`
	Statistics  struct {
		Runs         int            `json:"runs"`
		Succeeded    int            `json:"succeeded"`
		Failed       int            `json:"failed"`
		TimedOut     int            `json:"timed_out"`
		JudgeMissing int            `json:"judge_missing"`
		ErrorCodes   map[string]int `json:"error_codes"`
	} `json:"statistics"`
	Failure    *string `json:"failure_code"`
	StopReason *string `json:"stop_reason"`
}

// IsActive reports whether the task is waiting or running.
func (p Progress) IsActive() bool { return p.Status == "PENDING" || p.Status == "RUNNING" }

// outage is how long the server may be unavailable while a task runs.
const outage = 2 * time.Minute

// Await polls a task once a second until it has ended, and calls told with each progress that it receives.
func (c Client) Await(ctx context.Context, task string, told func(Progress)) (p Progress, err error) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	heard := time.Now()
	for {
		p = Progress{}
		err := c.call(ctx, http.MethodGet, "evaluation-tasks/"+task, "", nil, &p)
		var refusal *RefusalError
		switch {
		case err == nil:
			heard = time.Now()
			told(p)
			if !p.IsActive() {
				return p, nil
			}
		case ctx.Err() != nil:
			return p, ctx.Err()
		case errors.As(err, &refusal) && refusal.Status < 500, time.Since(heard) > outage:
			return p, err
		}
		select {
		case <-ctx.Done():
			return p, ctx.Err()
		case <-tick.C:
		}
	}
}

// Download writes a task's report to a file, in the format of the file's extension; a failed download leaves no
// partial file.
func (c Client) Download(ctx context.Context, task, path string) (err error) {
	format := strings.TrimPrefix(strings.ToLower(filepath.Ext(path)), ".")
	request, err := http.NewRequestWithContext(ctx, http.MethodGet,
		c.Server+api+"evaluation-tasks/"+task+"/export?format="+url.QueryEscape(format), nil)
	if err != nil {
		return err
	}
	answer, err := c.send(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close() //nolint:errcheck // only read
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("the report cannot be downloaded as %s: HTTP %d", format, answer.StatusCode)
	}
	return writeFile(path, func(w io.Writer) error {
		_, err := io.Copy(w, answer.Body)
		return err
	})
}

// writeFile writes a file under a temporary name, and renames it once it is complete.
func writeFile(path string, write func(io.Writer) error) (err error) {
	file, err := os.CreateTemp(filepath.Dir(path), ".wending-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(file.Name())
		}
	}()
	if err := errors.Join(write(file), file.Chmod(0o644), file.Close()); err != nil {
		return err
	}
	return os.Rename(file.Name(), path)
}
