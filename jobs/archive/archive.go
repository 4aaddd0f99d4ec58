// Package archive writes a task with its dataset, its settings without secrets, and its results to a ZIP file, and reads one of
// another installation.
package archive

import (
	"archive/zip"
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"time"

	"github.com/google/uuid"

	"wending/db"
	"wending/db/addition"
	"wending/db/archive"
	"wending/db/asset"
	"wending/jobs/blob"
	"wending/jobs/dataset"
	"wending/jobs/protocol"
	"wending/jobs/tasks"
)

// Archiver writes and reads archives of tasks.
type Archiver struct {
	Store *db.Store
	Tasks *tasks.Service
	// Files are those that agents produced.
	Files blob.Store
	// Version is the program's.
	Version string
}

// The files of an archive.
const (
	manifestName = "manifest.json"
	taskName     = "task.json"
	itemsName    = "items.jsonl"
	runsName     = "runs.jsonl"
	assetsName   = "assets.jsonl"
)

const (
	kind   = "wending-task"
	format = 1
)

// manifest says what an archive is.
type manifest struct {
	Kind       string    `json:"kind"`
	Format     int       `json:"format"`
	Version    string    `json:"version"`
	ExportedAt time.Time `json:"exported_at"`
}

// header is a task without its questions and results.
type header struct {
	Name           string           `json:"name"`
	Status         db.TaskStatus    `json:"status"`
	RunsPerItem    int              `json:"runs_per_item"`
	TimeoutSeconds int              `json:"timeout_seconds"`
	MaxRetries     int              `json:"max_retries"`
	UseStream      bool             `json:"use_stream"`
	Concurrency    int              `json:"concurrency"`
	OnTurnFailure  db.OnTurnFailure `json:"on_turn_failure"`
	MaxCost        *string          `json:"max_cost"`
	DatasetName    string           `json:"dataset_name"`
	Extension      string           `json:"dataset_extension"`
	QuestionColumn string           `json:"question_column"`
	AnswerColumn   string           `json:"answer_column"`
	VariableNames  []string         `json:"variable_names"`
	CreatedAt      *time.Time       `json:"created_at"`
	StartedAt      *time.Time       `json:"started_at"`
	CompletedAt    *time.Time       `json:"completed_at"`
	Targets        []target         `json:"targets"`
	Variants       []variant        `json:"variants"`
	Evaluators     []evaluator      `json:"evaluators"`
}

type target struct {
	Number      int           `json:"number"`
	Kind        db.TargetKind `json:"kind"`
	Name        string        `json:"name"`
	Protocol    string        `json:"protocol"`
	URL         string        `json:"url"`
	Model       *string       `json:"model"`
	RateLimit   string        `json:"rate_limit"`
	RetryOn     []string      `json:"retry_on"`
	InputPrice  *string       `json:"input_price"`
	OutputPrice *string       `json:"output_price"`
	Currency    *string       `json:"currency"`
	// Poll is how it is polled if it accepts jobs.
	Poll json.RawMessage `json:"poll,omitempty"`
}

type variant struct {
	Number int     `json:"number"`
	Target int     `json:"target"`
	Name   string  `json:"name"`
	System *string `json:"system"`
	User   *string `json:"user"`
}

type evaluator struct {
	Number  int             `json:"number"`
	ID      uuid.UUID       `json:"id"`
	Version int             `json:"version"`
	Name    string          `json:"name"`
	Kind    string          `json:"kind"`
	Config  json.RawMessage `json:"config"`
	Target  *int            `json:"target"`
}

type item struct {
	QuestionID     string   `json:"question_id"`
	Question       string   `json:"question"`
	StandardAnswer string   `json:"standard_answer"`
	SystemPrompt   *string  `json:"system_prompt"`
	UserContext    *string  `json:"user_context"`
	Series         *string  `json:"series"`
	Turn           *int     `json:"turn"`
	Variables      []string `json:"variables"`
}

// Part is a further file of an archive.
type Part struct {
	Name  string
	Write func(ctx context.Context, w io.Writer) error
}

// Write writes a task that has ended, with further parts, and the files that its agents produced. They come one after another: memory holds
// one line.
func (a *Archiver) Write(ctx context.Context, task db.Task, w io.Writer, parts []Part) error {
	files := zip.NewWriter(w)
	now := time.Now().UTC()
	create := func(name string) (io.Writer, error) {
		return files.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Deflate, Modified: now})
	}
	writeJSON := func(name string, value any) error {
		file, err := create(name)
		if err != nil {
			return err
		}
		encoder := json.NewEncoder(file)
		encoder.SetIndent("", "  ")
		return encoder.Encode(value)
	}
	if err := writeJSON(manifestName, manifest{kind, format, a.Version, now}); err != nil {
		return err
	}
	if err := writeJSON(taskName, headerOf(task)); err != nil {
		return err
	}
	dataset, questions, err := a.Tasks.DatasetFile(ctx, task)
	if err != nil {
		return err
	}
	defer dataset.Close() //nolint:errcheck // only read
	file, err := create("dataset." + questions.Extension)
	if err == nil {
		_, err = io.Copy(file, dataset)
	}
	if err != nil {
		return err
	}
	items, err := addition.New(a.Store).Items(ctx, task.ID)
	if err != nil {
		return err
	}
	if file, err = create(itemsName); err != nil {
		return err
	}
	encoder := json.NewEncoder(file)
	for _, one := range items {
		line := item{one.QuestionID, one.Question, one.StandardAnswer, one.SystemPrompt, one.UserContext, one.Series, one.Turn, one.Variables}
		if err := encoder.Encode(line); err != nil {
			return err
		}
	}
	if file, err = create(runsName); err != nil {
		return err
	}
	err = archive.EachRun(ctx, a.Store, task.ID, func(line json.RawMessage) error {
		_, err := file.Write(append(slices.Clip(line), '\n'))
		return err
	})
	if err != nil {
		return err
	}
	for _, part := range parts {
		if file, err = create(part.Name); err == nil {
			err = part.Write(ctx, file)
		}
		if err != nil {
			return err
		}
	}
	return errors.Join(a.writeAssets(ctx, task, files, now), files.Close())
}

// produced is a line of assetsName.
type produced struct {
	QuestionID string      `json:"question_id"`
	Variant    int         `json:"variant"`
	RunIndex   int         `json:"run_index"`
	Path       string      `json:"path"`
	Type       string      `json:"type"`
	State      asset.State `json:"state"`
	MediaType  *string     `json:"media_type"`
	Size       *int64      `json:"size"`
	SHA256     string      `json:"sha256,omitempty"`
	// File is its name in the archive; empty if there is no copy.
	File  string  `json:"file,omitempty"`
	Error *string `json:"error,omitempty"`
}

// writeAssets writes the files that agents produced in the current runs, each content once, and a list of them. A copy that has vanished is
// listed without its file.
func (a *Archiver) writeAssets(ctx context.Context, task db.Task, files *zip.Writer, now time.Time) error {
	const atOnce = 200
	var list []produced
	names := map[string]string{} // of the copies that are written, by their keys
	for page := 1; ; page++ {
		found, total, err := asset.OfStore(a.Store).List(ctx, task.ID, asset.Filter{}, db.Page{Number: page, Size: atOnce})
		if err != nil {
			return err
		}
		for _, one := range found {
			line := produced{one.QuestionID, one.Variant, one.RunIndex, one.Path, one.Kind, one.State, one.MediaType, one.Size, one.HashOf(), "", one.Error}
			if one.StorageKey != nil {
				name := names[*one.StorageKey]
				if name == "" {
					name = fmt.Sprintf("files/%d/variant_%d_run_%d/%s", one.QuestionNumber, one.Variant, one.RunIndex, one.Path)
					isThere, err := a.writeAsset(ctx, *one.StorageKey, name, files, now)
					if err != nil {
						return err
					}
					if !isThere {
						name = ""
					}
					names[*one.StorageKey] = name
				}
				line.File = name
			}
			list = append(list, line)
		}
		if page*atOnce >= total {
			break
		}
	}
	if len(list) == 0 {
		return nil
	}
	file, err := files.CreateHeader(&zip.FileHeader{Name: assetsName, Method: zip.Deflate, Modified: now})
	if err != nil {
		return err
	}
	encoder := json.NewEncoder(file)
	for _, line := range list {
		if err := encoder.Encode(line); err != nil {
			return err
		}
	}
	return nil
}

// writeAsset writes one copy; isThere is false if it has vanished. Pictures, sound and film are compressed already.
func (a *Archiver) writeAsset(ctx context.Context, key, name string, files *zip.Writer, now time.Time) (isThere bool, err error) {
	stored, err := a.Files.Open(ctx, key)
	if errors.Is(err, blob.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer stored.Close() //nolint:errcheck // only read
	file, err := files.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Store, Modified: now})
	if err == nil {
		_, err = io.Copy(file, stored)
	}
	return err == nil, err
}

func headerOf(task db.Task) header {
	h := header{
		Name: task.Name, Status: task.Status, RunsPerItem: task.RunsPerItem, TimeoutSeconds: task.TimeoutSeconds, MaxRetries: task.MaxRetries,
		UseStream: task.UseStream, Concurrency: task.Concurrency, OnTurnFailure: task.OnTurnFailure, MaxCost: task.MaxCost, DatasetName: task.DatasetName,
		Extension: task.DatasetExtension, QuestionColumn: task.QuestionColumn, AnswerColumn: task.AnswerColumn, VariableNames: task.VariableNames,
		CreatedAt: &task.CreatedAt, StartedAt: task.StartedAt, CompletedAt: task.CompletedAt,
	}
	for _, one := range slices.Concat(task.Targets, task.Judges) {
		h.Targets = append(h.Targets, target{
			one.Number, one.Kind, one.Name, one.Protocol, one.URL, one.Model, one.RateLimit, one.RetryOn, one.InputPrice, one.OutputPrice, one.Currency,
			json.RawMessage(tasks.TextOf(one.Poll)),
		})
	}
	for _, one := range task.Variants {
		h.Variants = append(h.Variants, variant{one.Number, one.Target, one.Name, one.SystemTemplate, one.UserTemplate})
	}
	for _, one := range task.Evaluators {
		h.Evaluators = append(h.Evaluators, evaluator{one.Number, one.EvaluatorID, one.Version, one.Name, one.Kind, one.Config, one.Target})
	}
	return h
}

// ErrInvalid means that a file is no archive that can be read.
var ErrInvalid = errors.New("no archive of a task")

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrInvalid}, args...)...)
}

// What an archive may have: so many bytes unpacked, so many in a line.
const (
	maxUnpacked = 4 << 30
	maxLine     = 64 << 20
)

// Read stores the task of an archive under a new id, which it returns: with its results, without secrets, told to nobody.
func (a *Archiver) Read(ctx context.Context, by db.Actor, file io.ReaderAt, size int64) (uuid.UUID, error) {
	files, err := zip.NewReader(file, size)
	if err != nil {
		return uuid.Nil, invalid("%w", err)
	}
	var total uint64
	for _, one := range files.File {
		if one.Name != manifestName && one.Name != taskName && one.Name != itemsName && one.Name != runsName {
			continue // it is not read: reports, and files that agents produced
		}
		if total += one.UncompressedSize64; total > maxUnpacked {
			return uuid.Nil, invalid("it is larger than %d GB", maxUnpacked>>30)
		}
	}
	var about manifest
	if err := readJSON(files, manifestName, &about); err != nil {
		return uuid.Nil, err
	}
	if about.Kind != kind || about.Format != format {
		return uuid.Nil, invalid("it has the format %q %d", about.Kind, about.Format)
	}
	var h header
	if err := readJSON(files, taskName, &h); err != nil {
		return uuid.Nil, err
	}
	n, err := h.task(by)
	if err != nil {
		return uuid.Nil, err
	}
	err = eachLine(files, itemsName, func(line []byte) error {
		var one item
		if err := json.Unmarshal(line, &one); err != nil {
			return invalid("%s: %w", itemsName, err)
		}
		if len(n.Items) == dataset.MaxRows || one.QuestionID == "" || len(one.Variables) > len(h.VariableNames) || (one.Series == nil) != (one.Turn == nil) {
			return invalid("%s: a question that no task can have", itemsName)
		}
		stored := db.NewItem{
			QuestionID: one.QuestionID, Question: one.Question, StandardAnswer: one.StandardAnswer, SystemPrompt: one.SystemPrompt, UserContext: one.UserContext,
			Series: tasks.TextOf(one.Series), Variables: one.Variables,
		}
		if one.Turn != nil {
			stored.Turn = *one.Turn
		}
		n.Items = append(n.Items, stored)
		return nil
	})
	if err == nil && len(n.Items) == 0 {
		err = invalid("it has no questions")
	}
	if err != nil {
		return uuid.Nil, err
	}
	runs, err := lines(files, runsName)
	if err != nil {
		return uuid.Nil, err
	}
	defer runs.close()
	ended := archive.Ended{Status: h.Status, CreatedAt: h.CreatedAt, StartedAt: h.StartedAt, CompletedAt: h.CompletedAt}
	err = archive.Import(ctx, a.Store, n, ended, runs.next)
	if errors.Is(err, archive.ErrInvalid) || errors.Is(err, db.ErrConflict) || errors.Is(err, db.ErrGone) {
		err = invalid("%w", err)
	}
	return n.Task.ID, err
}

// task checks a header and returns the task that it describes.
func (h header) task(by db.Actor) (db.NewTask, error) {
	isEnded := h.Status == db.TaskSucceeded || h.Status == db.TaskStopped || h.Status == db.TaskFailed
	switch {
	case h.Name == "" || len([]rune(h.Name)) > tasks.MaxNameLength || !isEnded:
		return db.NewTask{}, invalid("a name or a state that no task can have")
	case h.RunsPerItem < 1 || h.RunsPerItem > tasks.MaxRuns || h.Concurrency < 1 || h.Concurrency > tasks.MaxConcurrency || h.TimeoutSeconds < 1 || h.TimeoutSeconds > tasks.MaxTimeout || h.MaxRetries < 0 || h.MaxRetries > tasks.MaxRetries:
		return db.NewTask{}, invalid("settings that no task can have")
	case len(h.Variants) < 1 || len(h.Variants) > tasks.MaxVariants || len(h.Evaluators) > tasks.MaxEvaluators || len(h.Targets) > tasks.MaxVariants+tasks.MaxEvaluators:
		return db.NewTask{}, invalid("variants that no task can have")
	case h.Extension != "csv" && h.Extension != "xlsx" && h.Extension != "xls" || h.OnTurnFailure != db.TurnFailureStops && h.OnTurnFailure != db.TurnFailureContinues:
		return db.NewTask{}, invalid("settings that no task can have")
	}
	none := []uuid.UUID{}
	n := db.NewTask{By: by, Channels: &none, Task: db.Task{
		ID: uuid.New(), Name: h.Name, RunsPerItem: h.RunsPerItem, TimeoutSeconds: h.TimeoutSeconds, MaxRetries: h.MaxRetries, UseStream: h.UseStream,
		Concurrency: h.Concurrency, OnTurnFailure: h.OnTurnFailure, MaxCost: h.MaxCost, DatasetName: tasks.StorableName(h.DatasetName),
		DatasetExtension: h.Extension, QuestionColumn: h.QuestionColumn, AnswerColumn: h.AnswerColumn, VariableNames: h.VariableNames,
	}}
	numbers := map[int]bool{}
	for place, one := range h.Targets {
		address, noURL := url.Parse(one.URL)
		_, isKnown := protocol.Of(one.Protocol)
		_, err := tasks.ParseRate(one.RateLimit)
		if one.Number != place+1 || noURL != nil || !tasks.IsAgentURL(address) || !isKnown || err != nil {
			return db.NewTask{}, invalid("a target that no task can have")
		}
		stored := db.Target{
			TaskID: n.Task.ID, Number: one.Number, Kind: one.Kind, Name: one.Name, Protocol: one.Protocol, URL: one.URL, Model: one.Model, RateLimit: one.RateLimit,
			RetryOn: one.RetryOn, InputPrice: one.InputPrice, OutputPrice: one.OutputPrice, Currency: one.Currency, Poll: tasks.Given(string(one.Poll)),
		}
		if _, err := tasks.ReadPoll(stored.Poll); err != nil {
			return db.NewTask{}, invalid("a target that no task can have")
		}
		if numbers[one.Number] = one.Kind != db.TargetJudge; numbers[one.Number] {
			n.Task.Targets = append(n.Task.Targets, stored)
		} else {
			n.Task.Judges = append(n.Task.Judges, stored)
		}
	}
	for place, one := range h.Variants {
		if one.Number != place+1 || !numbers[one.Target] {
			return db.NewTask{}, invalid("a variant that no task can have")
		}
		n.Task.Variants = append(n.Task.Variants, db.Variant{
			TaskID: n.Task.ID, Number: one.Number, Target: one.Target, Name: one.Name, SystemTemplate: one.System, UserTemplate: one.User,
		})
	}
	for place, one := range h.Evaluators {
		isOfTarget := one.Target == nil || slices.ContainsFunc(n.Task.Judges, func(judge db.Target) bool { return judge.Number == *one.Target })
		if one.Number != place+1 || !isOfTarget || !json.Valid(one.Config) {
			return db.NewTask{}, invalid("an evaluator that no task can have")
		}
		n.Task.Evaluators = append(n.Task.Evaluators, db.Evaluator{
			TaskID: n.Task.ID, Number: one.Number, EvaluatorID: one.ID, Version: one.Version, Name: one.Name, Kind: one.Kind, Config: one.Config, Target: one.Target,
		})
	}
	return n, nil
}

func readJSON(files *zip.Reader, name string, into any) error {
	file, err := files.Open(name)
	if err != nil {
		return invalid("%s is missing", name)
	}
	defer file.Close() //nolint:errcheck // only read
	if err := json.NewDecoder(io.LimitReader(file, maxLine)).Decode(into); err != nil {
		return invalid("%s: %w", name, err)
	}
	return nil
}

// reader reads a file line by line.
type reader struct {
	name    string
	file    io.ReadCloser
	scanner *bufio.Scanner
}

func lines(files *zip.Reader, name string) (*reader, error) {
	file, err := files.Open(name)
	if err != nil {
		return nil, invalid("%s is missing", name)
	}
	r := &reader{name, file, bufio.NewScanner(file)}
	r.scanner.Buffer(make([]byte, 64<<10), maxLine)
	return r, nil
}

func (r *reader) close() { _ = r.file.Close() }

// next returns the next line, a JSON object, and false after the last.
func (r *reader) next() (json.RawMessage, bool, error) {
	if !r.scanner.Scan() {
		if err := r.scanner.Err(); err != nil {
			return nil, false, invalid("%s: %w", r.name, err)
		}
		return nil, false, nil
	}
	line := slices.Clone(r.scanner.Bytes())
	if !json.Valid(line) {
		return nil, false, invalid("%s: a line that is no JSON", r.name)
	}
	return line, true, nil
}

func eachLine(files *zip.Reader, name string, yield func([]byte) error) error {
	r, err := lines(files, name)
	if err != nil {
		return err
	}
	defer r.close()
	for {
		line, isThere, err := r.next()
		if err != nil || !isThere {
			return err
		}
		if err := yield(line); err != nil {
			return err
		}
	}
}
