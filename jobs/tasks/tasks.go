// Package tasks implements the operations on a task: creating, starting, stopping, resuming, retrying, copying and
// deleting. Pages, API, schedules and the command line call the same functions, none of which depends on HTTP.
package tasks

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/google/uuid"

	"wending/db"
	"wending/db/engine"
	"wending/db/people"
	"wending/db/upkeep"
	"wending/jobs/agent/guard"
	"wending/jobs/blob"
	"wending/jobs/dataset"
	"wending/jobs/secret"
)

// Waker wakes a worker for a launch. If a wake-up is lost, a worker finds the launch a moment later.
type Waker interface {
	EnqueueLaunch(ctx context.Context, launchID uuid.UUID) error
}

// Service performs the operations on tasks.
type Service struct {
	Store *db.Store
	Queue Waker
	Files *blob.Disk
	// Assets stores the files that agents produced; a task's files are stored under its id.
	Assets blob.Store
	Sealer *secret.Sealer
	// RateCeiling is the rate limit that no task may exceed: N/s, N/m or unlimited.
	RateCeiling string
	// MaxActiveTasks is the maximum number of tasks that run at once; zero means no limit.
	MaxActiveTasks int
	// DefaultRate is the rate limit of addresses that do not set one.
	DefaultRate string
	// MonthCost is the maximum cost per month in each currency, a decimal number; empty means no limit.
	MonthCost string
	// SensitivePatterns match what no launch may send. They apply to projects without patterns of their own
	// (people.ParsePattern).
	SensitivePatterns []string
	// Confirmed is called when a launch matches these patterns. It reports whether a person has confirmed that what was
	// found may be sent; nil means that nobody can, as in a schedule.
	Confirmed func(context.Context, *SensitiveError) bool
	// Space measures the disk on which the installation stores data; nil means that this process stores none.
	Space func() (blob.Space, error)
	Log   *slog.Logger
}

// DiskFullError means that the disk has too little room to begin anything.
type DiskFullError struct{ blob.Space }

func (e *DiskFullError) Error() string {
	return fmt.Sprintf("the disk is %d%% full: %d MiB are free", e.Percent(), e.Free>>20)
}

// HasRoom returns a *DiskFullError if the disk is full. A disk that cannot be measured counts as one with room.
func (s *Service) HasRoom() error {
	if s.Space == nil {
		return nil
	}
	space, err := s.Space()
	if err != nil {
		s.Log.Warn("disk not measured, work continues as if it had room", "error", err)
		return nil
	}
	if space.IsFull() {
		return &DiskFullError{space}
	}
	return nil
}

// BudgetError means that a ceiling leaves no room for another launch.
type BudgetError struct{ engine.Standing }

func (e *BudgetError) Error() string {
	return fmt.Sprintf("%s: %s %s are left of %s", e.Reason, e.Left, e.Currency, e.Ceiling)
}

// CallInterval returns the minimum time between two calls of a task with a rate limit, and whether the ceiling
// applies because it is stricter than the task's own limit.
func (s *Service) CallInterval(rate string) (interval time.Duration, isCeiling bool, err error) {
	if interval, err = ParseRate(rate); err != nil {
		return 0, false, err
	}
	ceiling, err := ParseRate(s.RateCeiling)
	if err != nil || ceiling <= interval {
		return interval, false, err
	}
	return ceiling, true, nil
}

// ErrNoSlot means that an agent's rate limit has no slot for a call soon.
var ErrNoSlot = errors.New("the agent's rate limit currently allows no call")

// AwaitSlot waits until an agent's rate limit has a slot for a call that belongs to no task; rate is the rate limit of
// that call. It returns ErrNoSlot if no slot becomes free within patience.
func (s *Service) AwaitSlot(ctx context.Context, agentURL, rate string, patience time.Duration) error {
	address, err := url.Parse(agentURL)
	if err != nil {
		return err
	}
	interval, _, err := s.CallInterval(rate)
	if err != nil {
		return err
	}
	wait, hasSlot, err := s.Store.TakeSlot(ctx, Origin(address), interval, patience)
	if err != nil {
		return err
	}
	if !hasSlot {
		return ErrNoSlot
	}
	select {
	case <-time.After(wait):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Settings determine how a task runs.
type Settings struct {
	RunsPerItem, TimeoutSeconds, MaxRetries, Concurrency int
	UseStream                                            bool
	// RateLimit is N/s, N/m or unlimited (ParseRate).
	RateLimit string
	// MaxCost is the maximum cost of the task in each currency, a decimal number; empty means no limit.
	MaxCost string
	// OnTurnFailure says what happens after a turn of a conversation fails; empty means that the conversation stops.
	OnTurnFailure db.OnTurnFailure
	// ClusterBy is the column of the dataset whose values group questions that are not independent; empty means that
	// only the turns of a conversation are grouped.
	ClusterBy string
	// Adaptive repeats questions until they are settled; nil means that all questions get the same number of runs.
	Adaptive *db.Adaptive
	db.ReviewSettings
}

// File is a dataset file of at most dataset.MaxBytes.
type File struct {
	Name    string
	Content []byte
}

// New describes a task to create, with its dataset already read.
type New struct {
	Name, AgentURL, AgentModel string
	Headers                    map[string]string
	// Payload is a JSON object merged into every request body; nil means none.
	Payload *json.RawMessage
	Settings
	// IsDraft keeps the task from starting.
	IsDraft bool
	File    File
	// Layout describes how to read the file.
	Layout  dataset.Layout
	Dataset *dataset.Dataset
	// DatasetID and DatasetVersion identify the saved dataset that the file came from; nil means that it was
	// uploaded.
	DatasetID      *uuid.UUID
	DatasetVersion *int
	// Targets are saved agents and models that are called in addition to AgentURL, which may then be empty. Prompts
	// are the templates for questions; without prompts, questions are sent unchanged.
	Targets []NewTarget
	Prompts []NewPrompt
	// Channels receive messages about the task; nil means the default channels.
	Channels *[]uuid.UUID
	// Evaluators judge the answers; their order determines their numbers.
	Evaluators []NewEvaluator
	// Meaning is the model that groups answers by meaning; nil means that they are not grouped.
	Meaning *NewTarget
	// Untested are the names of the targets whose last test failed.
	Untested []string
}

// Origin returns scheme://host:port of an agent's URL: the key of its rate limit. All spellings of an address have
// the same origin: with or without the default port or a trailing dot, in any case, or with IPv4 written as IPv6.
func Origin(u *url.URL) string {
	port := strings.TrimLeft(u.Port(), "0")
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	host := guard.Host(u.Hostname())
	if ip, err := netip.ParseAddr(host); err == nil {
		host = ip.Unmap().String()
	}
	return u.Scheme + "://" + net.JoinHostPort(host, port)
}

// OriginOf returns the origin of an address; empty if the address is invalid.
func OriginOf(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return ""
	}
	return Origin(u)
}

// IsAgentURL reports whether an address may be an agent's: requests are sent only to such addresses, and pages link
// only to them.
func IsAgentURL(u *url.URL) bool {
	if (u.Scheme != "http" && u.Scheme != "https") || u.Hostname() == "" || u.User != nil {
		return false
	}
	port, err := strconv.Atoi(u.Port())
	return u.Port() == "" || (err == nil && port >= 1 && port <= 65535)
}

// Host returns the host of an address, with its port; an address that cannot be parsed is returned unchanged.
func Host(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return address
	}
	return u.Host
}

var currency = regexp.MustCompile(`^[A-Z]{3}$`)

// IsCurrency reports whether a text has the form of a currency code: three capital letters.
func IsCurrency(text string) bool { return currency.MatchString(text) }

// ParseRate parses a rate: N/s, N/m or unlimited. It returns the minimum time between two calls; zero means
// unlimited.
func ParseRate(text string) (time.Duration, error) {
	if text == "unlimited" {
		return 0, nil
	}
	count, unit, _ := strings.Cut(text, "/")
	number, err := strconv.ParseFloat(count, 64)
	span := map[string]time.Duration{"s": time.Second, "m": time.Minute}[unit]
	if err != nil || span == 0 || !(number > 0 && number <= 100_000) {
		return 0, errors.New("a rate must be N/s, N/m or unlimited")
	}
	interval := time.Duration(float64(span) / number)
	if interval < time.Microsecond || interval > time.Hour {
		return 0, errors.New("a rate must be between one call an hour and a million a second")
	}
	return interval, nil
}

// Create stores a task with its file in the scope's own project and, unless it is a draft, starts the task, completely
// or not at all. It returns an *InvalidError if the task is not valid, and the errors of Admits.
func (s *Service) Create(ctx context.Context, scope db.Scope, by db.Actor, n New) (uuid.UUID, error) {
	if err := invalid(n.Validate()); err != nil {
		return uuid.Nil, err
	}
	record, err := s.record(ctx, uuid.New(), scope.Home(), by, n)
	if err != nil {
		return uuid.Nil, err
	}
	if err := s.Admits(ctx, &record); err != nil {
		return uuid.Nil, err
	}
	id := record.Task.ID
	if err := s.Files.Put(ctx, pending(datasetKey(id, n.Dataset.Extension)), bytes.NewReader(n.File.Content),
		int64(len(n.File.Content))); err != nil {
		return uuid.Nil, err
	}
	launchID, err := s.Store.CreateTask(ctx, record)
	if err != nil {
		// If the reply to the commit was lost, the task exists, and a worker will find its launch. The file is
		// removed only if the task certainly does not exist.
		_, lookup := s.Store.Task(context.WithoutCancel(ctx), scope, id)
		if errors.Is(lookup, db.ErrNotFound) {
			s.deleteFiles(ctx, pending(id.String()))
		}
		if lookup != nil {
			return uuid.Nil, err
		}
	}
	s.moveFiles(ctx, pending(id.String()), id.String())
	s.Log.InfoContext(ctx, "task created", "task_id", id, "items", len(record.Items), "is_draft", n.IsDraft)
	s.Wake(ctx, id, launchID)
	return id, nil
}

// ReplaceDraft replaces a draft's settings, questions and file and, unless it stays a draft, starts it. It returns
// db.ErrConflict if the task is no longer a draft, an *InvalidError if it is not valid, and the errors of Admits.
func (s *Service) ReplaceDraft(ctx context.Context, by db.Actor, draft db.Task, n New) error {
	id := draft.ID
	if err := invalid(n.Validate()); err != nil {
		return err
	}
	record, err := s.record(ctx, id, draft.ProjectID, by, n)
	if err != nil {
		return err
	}
	if err := s.Admits(ctx, &record); err != nil {
		return err
	}
	if err := people.New(s.Store).ConfirmPatterns(ctx, draft.ProjectID, id, record.Confirmed); err != nil {
		return err
	}
	// The file is stored just before the commit, while nobody can start the draft. If the commit fails, the draft's
	// file is newer than its questions, and the draft can be edited again; in the opposite order, the file would be
	// lost.
	launchID, err := s.Store.ReplaceDraft(ctx, record, func() error {
		return s.Files.Put(ctx, datasetKey(id, n.Dataset.Extension), bytes.NewReader(n.File.Content),
			int64(len(n.File.Content)))
	})
	if err != nil {
		return err
	}
	s.Log.InfoContext(ctx, "draft replaced", "task_id", id, "items", len(record.Items), "is_draft", n.IsDraft)
	s.Wake(ctx, id, launchID)
	return nil
}

// Admits returns a *people.QuotaExceededError unless the project's quotas allow the task and its start, a
// *SensitiveError if its launch would send what the project does not allow, and a *DiskFullError if the disk is full.
// The task gets the patterns that a person has confirmed.
func (s *Service) Admits(ctx context.Context, n *db.NewTask) (err error) {
	if err := s.HasRoom(); err != nil {
		return err
	}
	if n.Confirmed, err = s.checkNew(ctx, *n); err != nil {
		return err
	}
	return people.NewQuotas(s.Store).Admits(ctx, n.Task.ProjectID, func() (int, error) {
		if n.Launch == nil {
			return 0, nil
		}
		return len(n.Items) * n.Task.RunsPerItem * len(n.Task.Variants), nil
	})
}

// record returns the task in the form that the store expects. home is the id of the task's project.
func (s *Service) record(ctx context.Context, id, home uuid.UUID, by db.Actor, n New) (db.NewTask, error) {
	record := db.NewTask{By: by, Channels: n.Channels, Task: db.Task{
		ID: id, ProjectID: home, Name: n.Name,
		RunsPerItem: n.RunsPerItem, TimeoutSeconds: n.TimeoutSeconds, MaxRetries: n.MaxRetries,
		UseStream: n.UseStream, Concurrency: n.Concurrency, OnTurnFailure: n.OnTurnFailure, ClusterBy: Given(n.ClusterBy),
		Adaptive: n.Adaptive, ReviewSettings: n.ReviewSettings, MaxCost: Given(n.MaxCost),
		DatasetName: StorableName(n.File.Name), DatasetExtension: n.Dataset.Extension, VariableNames: n.Dataset.VariableNames,
		IDColumn: n.Layout.ID, QuestionColumn: n.Layout.Question, AnswerColumn: n.Layout.Answer,
		DatasetEncoding: n.Layout.Encoding,
		Variants:        n.AllVariants(), DatasetID: n.DatasetID, DatasetVersion: n.DatasetVersion,
	}}
	for _, target := range n.AllTargets() {
		target.TaskID = id
		if err := Seal(s.Sealer, target.Secrets, &target.Target); err != nil {
			return db.NewTask{}, err
		}
		record.Task.Targets = append(record.Task.Targets, target.Target)
	}
	var err error
	evaluators := slices.Clone(n.Evaluators)
	for place := range evaluators {
		evaluators[place].Number = place + 1
	}
	if record.Task.Evaluators, record.Task.Judges, err = s.targeted(id, evaluators, len(record.Task.Targets)); err != nil {
		return db.NewTask{}, err
	}
	if err := s.addGrouper(&record.Task, n.Meaning); err != nil {
		return db.NewTask{}, err
	}
	if err := checkVariables(ctx, record.Task.Evaluators, n.Dataset.VariableNames); err != nil {
		return db.NewTask{}, err
	}
	if !n.IsDraft {
		launch, err := s.newLaunch(by, record.Task)
		if err != nil {
			return db.NewTask{}, err
		}
		record.Launch = &launch
	}
	record.Items = itemsOf(n.Dataset)
	return record, nil
}

// itemsOf returns the rows of a dataset in the form that the store expects.
func itemsOf(set *dataset.Dataset) (items []db.NewItem) {
	for _, row := range set.Rows {
		items = append(items, db.NewItem{
			QuestionID: row.QuestionID, Question: row.Question, StandardAnswer: row.StandardAnswer,
			SystemPrompt: row.SystemPrompt, UserContext: row.UserContext, Series: row.Series, Turn: row.Turn,
			Variables: row.Variables,
		})
	}
	return items
}

// targeted assigns targets to the judges among the evaluators of a task. targets is the number of existing targets,
// after which the new ones are numbered.
func (s *Service) targeted(taskID uuid.UUID, evaluators []NewEvaluator,
	targets int) (all []db.Evaluator, judges []db.Target, err error) {
	for _, evaluator := range evaluators {
		one := evaluator.Evaluator
		if one.Target = nil; evaluator.Model != nil {
			targets++
			judge := *evaluator.Model
			judge.TaskID, judge.Number, one.Target = taskID, targets, &judge.Number
			if err := Seal(s.Sealer, judge.Secrets, &judge.Target); err != nil {
				return nil, nil, err
			}
			judges = append(judges, judge.Target)
		}
		all = append(all, one)
	}
	return all, judges, nil
}

// newLaunch returns a launch of a task under the current rate limits.
func (s *Service) newLaunch(by db.Actor, task db.Task) (db.NewLaunch, error) {
	launch, called := db.NewLaunch{By: by}, slices.Concat(task.Targets, task.Judges)
	if !task.AsksAgents() {
		called = task.Judges
	}
	for _, target := range called {
		address, err := url.Parse(target.URL)
		if err != nil {
			return launch, err
		}
		interval, _, err := s.CallInterval(target.RateLimit)
		if err != nil {
			return launch, err
		}
		launch.Targets = append(launch.Targets,
			db.LaunchTarget{Number: target.Number, Origin: Origin(address), CallInterval: interval})
	}
	return launch, nil
}

// StorableName makes a file's name suitable for storage and pages: it removes control characters and keeps the last
// 200 characters.
func StorableName(name string) string {
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

// Start starts a draft. Like Stop, Resume and Retry, it returns the task in its new state; Start, Resume and Retry
// return the errors of db.Store.RequestLaunch.
func (s *Service) Start(ctx context.Context, by db.Actor, task db.Task) (db.Task, error) {
	return s.launch(ctx, by, task, db.LaunchSubmit, db.Selection{})
}

// Resume runs everything that has no run yet.
func (s *Service) Resume(ctx context.Context, by db.Actor, task db.Task) (db.Task, error) {
	return s.launch(ctx, by, task, db.LaunchResume, db.Selection{})
}

// Retry repeats everything within scope that did not succeed.
func (s *Service) Retry(ctx context.Context, by db.Actor, task db.Task, scope db.Selection) (db.Task, error) {
	return s.launch(ctx, by, task, db.LaunchRetry, scope)
}

// Extend raises the number of runs of each question of a task that has ended, or only of the named questions, and
// starts the missing runs.
func (s *Service) Extend(ctx context.Context, by db.Actor, task db.Task, questionIDs []string,
	runs int) (db.Task, error) {
	if err := task.CheckAsking(); err != nil {
		return task, err
	}
	if wrong := CheckRuns(task, runs); wrong != nil {
		return task, wrong
	}
	items := task.TotalItems
	if len(questionIDs) > 0 {
		items = min(items, len(questionIDs))
	}
	return s.begin(ctx, by, task, func(launch db.NewLaunch) (uuid.UUID, error) {
		err := people.NewQuotas(s.Store).Admits(ctx, task.ProjectID, func() (int, error) {
			return items * task.TotalVariants * max(0, runs-task.RunsPerItem), nil
		})
		if err != nil {
			return uuid.Nil, err
		}
		return s.Store.ExtendTask(ctx, task.Scope(), task.ID, questionIDs, runs, launch)
	}, "extension requested", "runs_per_item", runs, "questions", items)
}

func (s *Service) launch(ctx context.Context, by db.Actor, task db.Task, kind db.LaunchKind,
	scope db.Selection) (db.Task, error) {
	if err := task.CheckAsking(); err != nil {
		return task, err
	}
	return s.begin(ctx, by, task, func(launch db.NewLaunch) (uuid.UUID, error) {
		err := people.NewQuotas(s.Store).Admits(ctx, task.ProjectID, func() (int, error) {
			statistics, err := s.Store.TaskStatistics(ctx, task)
			calls := task.RunsLeft(kind, statistics)
			if scope.QuestionID != "" {
				calls = min(calls, task.RunsOfItem())
			}
			return calls, err
		})
		if err != nil {
			return uuid.Nil, err
		}
		return s.Store.RequestLaunch(ctx, task.Scope(), task.ID, kind, scope, launch)
	}, "launch requested", "kind", kind)
}

// begin stores a launch if mayLaunch allows it, logs the message done with values, and wakes a worker. It returns the
// task in its new state.
func (s *Service) begin(
	ctx context.Context, by db.Actor, task db.Task, store func(db.NewLaunch) (uuid.UUID, error), done string,
	values ...any,
) (db.Task, error) {
	launch, err := s.mayLaunch(ctx, by, task)
	if err != nil {
		return task, err
	}
	launchID, err := store(launch)
	if err != nil {
		return task, err
	}
	s.Log.InfoContext(ctx, done, append([]any{"task_id", task.ID, "launch_id", launchID}, values...)...)
	s.Wake(ctx, task.ID, launchID)
	return s.Store.Task(ctx, task.Scope(), task.ID)
}

// mayLaunch returns a launch of a task under the current rate limits, unless a budget is exhausted (*BudgetError), the
// launch would send what the project does not allow (*SensitiveError), or the disk is full (*DiskFullError).
func (s *Service) mayLaunch(ctx context.Context, by db.Actor, task db.Task) (db.NewLaunch, error) {
	if err := s.HasRoom(); err != nil {
		return db.NewLaunch{}, err
	}
	if err := s.checkStored(ctx, task); err != nil {
		return db.NewLaunch{}, err
	}
	launch, err := s.newLaunch(by, task)
	if err != nil || task.Status.IsActive() {
		return launch, err
	}
	spent, err := engine.NewSpending(s.Store).SpentBy(ctx, task.ID, s.MonthCost)
	if err == nil && spent != nil {
		err = &BudgetError{*spent}
	}
	return launch, err
}

// Evaluate has evaluators judge the answers of a task that has ended, without calling its agents. An evaluator that
// the task already has replaces its earlier version; an empty list means all evaluators of the task.
func (s *Service) Evaluate(ctx context.Context, by db.Actor, task db.Task, evaluators []NewEvaluator) (db.Task, error) {
	if len(evaluators) == 0 {
		return s.evaluateAgain(ctx, by, task)
	}
	after, targets := 0, len(task.Targets)
	for _, evaluator := range task.Evaluators {
		after = max(after, evaluator.Number)
	}
	for _, judge := range task.Judges {
		targets = max(targets, judge.Number)
	}
	fresh := 0
	for n := range evaluators {
		evaluators[n].Number = 0
		for _, known := range task.Evaluators {
			if known.EvaluatorID == evaluators[n].EvaluatorID {
				evaluators[n].Number = known.Number
			}
		}
		if evaluators[n].Number == 0 {
			fresh++
			evaluators[n].Number = after + fresh
		}
	}
	if len(task.Evaluators)+fresh > MaxEvaluators {
		return task, ErrTooManyEvaluators
	}
	all, judges, err := s.targeted(task.ID, evaluators, targets)
	if err != nil {
		return task, err
	}
	if err := checkVariables(ctx, all, task.VariableNames); err != nil {
		return task, err
	}
	task.Judges = slices.Concat(task.Judges, judges)
	return s.evaluate(ctx, by, task, all, judges)
}

// ErrTooManyEvaluators means that a task would have more than MaxEvaluators.
var ErrTooManyEvaluators = errors.New("too many evaluators")

// evaluateAgain has a task's own evaluators judge its answers again.
func (s *Service) evaluateAgain(ctx context.Context, by db.Actor, task db.Task) (db.Task, error) {
	if len(task.Evaluators) == 0 {
		return task, db.ErrNothingToRun
	}
	return s.evaluate(ctx, by, task, task.Evaluators, nil)
}

func (s *Service) evaluate(ctx context.Context, by db.Actor, task db.Task, evaluators []db.Evaluator,
	judges []db.Target) (db.Task, error) {
	task.Evaluators = slices.DeleteFunc(slices.Clone(task.Evaluators), func(own db.Evaluator) bool {
		return slices.ContainsFunc(evaluators, func(one db.Evaluator) bool { return one.Number == own.Number })
	})
	task.Evaluators = append(task.Evaluators, evaluators...) // so that what they send is checked
	if slices.ContainsFunc(evaluators, db.Evaluator.IsJudge) {
		if err := s.checkAnswers(ctx, task); err != nil {
			return task, err
		}
	}
	return s.begin(ctx, by, task, func(launch db.NewLaunch) (uuid.UUID, error) {
		return s.Store.EvaluateTask(ctx, task.Scope(), task.ID, evaluators, judges, launch)
	}, "evaluation requested", "evaluators", len(evaluators))
}

// Stop stops a task. If no worker has started it, it is STOPPED immediately.
func (s *Service) Stop(ctx context.Context, by db.Actor, task db.Task) (db.Task, error) {
	launchID, err := s.Store.StopTask(ctx, task.Scope(), task.ID, by)
	if err != nil {
		return task, err
	}
	s.Log.InfoContext(ctx, "launch stop requested", "task_id", task.ID, "launch_id", launchID)
	if _, err := FinishLaunch(ctx, s.Store, launchID); err != nil {
		s.Log.WarnContext(ctx, "stopped launch not finished, a worker will finish it", "task_id", task.ID,
			"launch_id", launchID, "error", err)
	}
	return s.Store.Task(ctx, task.Scope(), task.ID)
}

// Delete removes a task and all its data. It returns db.ErrConflict if the task is active and must be stopped first.
func (s *Service) Delete(ctx context.Context, task db.Task) error {
	id := task.ID
	s.moveFiles(ctx, id.String(), pending(id.String()))
	if err := upkeep.New(s.Store).DeleteTask(ctx, task.Scope(), id); err != nil {
		s.moveFiles(ctx, pending(id.String()), id.String())
		return err
	}
	s.deleteFiles(ctx, pending(id.String()))
	if err := s.Assets.Delete(context.WithoutCancel(ctx), id.String()); err != nil {
		s.Log.WarnContext(ctx, "agents' files not deleted with the task, the sweep will delete them", "task_id", id,
			"error", err)
	}
	s.Log.InfoContext(ctx, "task deleted", "task_id", id)
	return nil
}

// copyAssessing copies a task's evaluators and the model that groups its answers by meaning.
func (s *Service) copyAssessing(source db.Task, n *New) error {
	for _, evaluator := range source.Evaluators {
		copied := NewEvaluator{Evaluator: evaluator}
		if evaluator.IsJudge() {
			target := source.Target(*evaluator.Target)
			secrets, err := Open(s.Sealer, target)
			if err != nil {
				return err
			}
			copied.Model = &NewTarget{target, secrets}
		}
		n.Evaluators = append(n.Evaluators, copied)
	}
	if grouper := source.Grouper(); grouper != nil {
		secrets, err := Open(s.Sealer, *grouper)
		if err != nil {
			return err
		}
		n.Meaning = &NewTarget{*grouper, secrets}
	}
	return nil
}

// CopySettings returns a new task with the settings, targets, prompts and secrets of another, without its questions.
func (s *Service) CopySettings(ctx context.Context, source db.Task) (n New, err error) {
	n = New{
		Name: source.Name,
		Settings: Settings{
			RunsPerItem: source.RunsPerItem, TimeoutSeconds: source.TimeoutSeconds, MaxRetries: source.MaxRetries,
			Concurrency: source.Concurrency, UseStream: source.UseStream, RateLimit: s.DefaultRate,
			OnTurnFailure: source.OnTurnFailure, ClusterBy: TextOf(source.ClusterBy), Adaptive: source.Adaptive,
			ReviewSettings: source.ReviewSettings, MaxCost: TextOf(source.MaxCost),
		},
		DatasetID: source.DatasetID, DatasetVersion: source.DatasetVersion,
	}
	channels, err := s.Channels(ctx, source.ID)
	if err != nil {
		return n, err
	}
	n.Channels = &channels
	if err := s.copyAssessing(source, &n); err != nil {
		return n, err
	}
	for _, target := range source.Targets {
		secrets, err := Open(s.Sealer, target)
		if target.Kind != db.TargetURL {
			n.Targets = append(n.Targets, NewTarget{target, secrets})
		} else {
			n.AgentURL, n.Headers, n.RateLimit = secrets.URL, secrets.Headers, target.RateLimit
			if target.Model != nil {
				n.AgentModel = *target.Model
			}
			if secrets.Payload != nil {
				n.Payload = &secrets.Payload
			}
		}
		if err != nil {
			return n, err
		}
	}
	for _, variant := range source.Variants {
		if variant.Target == 1 && variant.PromptID != nil {
			name, _, _ := strings.Cut(variant.Name, " v"+strconv.Itoa(*variant.PromptVersion))
			n.Prompts = append(n.Prompts, NewPrompt{
				ID: *variant.PromptID, Version: *variant.PromptVersion, Name: name, System: TextOf(variant.SystemTemplate),
				User: TextOf(variant.UserTemplate),
			})
		}
	}
	return n, nil
}

// Copy returns a new task with the settings, secrets and questions of another. Its file is missing, and its dataset
// nil, if an earlier version accepted the file but this one refuses it.
func (s *Service) Copy(ctx context.Context, source db.Task) (New, error) {
	n, err := s.CopySettings(ctx, source)
	if err != nil {
		return n, err
	}
	file, questions, err := s.DatasetFile(ctx, source)
	if err != nil {
		return n, err
	}
	defer file.Close() //nolint:errcheck // only read
	if n.File.Content, err = io.ReadAll(file); err != nil {
		return n, fmt.Errorf("read the dataset: %w", err)
	}
	n.File.Name, n.Layout = questions.Name, questions.Layout
	if source.AppendedItems > 0 { // the questions no longer match the saved dataset
		n.DatasetID, n.DatasetVersion = nil, nil
	}
	n.Dataset, err = dataset.Read(ctx, n.File.Name, n.File.Content, n.Layout)
	if refused := (*dataset.Error)(nil); errors.As(err, &refused) { // an earlier version accepted the file
		n.File, n.Dataset, err = File{}, nil, nil
	}
	return n, err
}

// CopyRows returns a new task with the settings and secrets of another, and with its questions from the database: the
// task's file is missing.
func (s *Service) CopyRows(ctx context.Context, source db.Task) (New, error) {
	n, err := s.CopySettings(ctx, source)
	if err != nil {
		return n, err
	}
	items, err := engine.NewAdditions(s.Store).Items(ctx, source.ID)
	if err != nil {
		return n, err
	}
	n.File.Name = source.DatasetName
	n.Layout = LayoutOf(source)
	n.Dataset = &dataset.Dataset{Extension: source.DatasetExtension, VariableNames: source.VariableNames}
	for _, item := range items {
		row := dataset.Row{
			QuestionID: item.QuestionID, Question: item.Question, StandardAnswer: item.StandardAnswer,
			SystemPrompt: item.SystemPrompt,
			UserContext:  item.UserContext, Series: TextOf(item.Series), Variables: item.Variables,
		}
		if item.Turn != nil {
			row.Turn = *item.Turn
		}
		n.Dataset.Rows = append(n.Dataset.Rows, row)
	}
	return n, nil
}

// Prepare returns a new task in a project in the form that the store expects. It stores neither the task nor its file.
func (s *Service) Prepare(ctx context.Context, projectID uuid.UUID, by db.Actor, n New) (db.NewTask, error) {
	return s.record(ctx, uuid.New(), projectID, by, n)
}

// Channels returns the channels that receive messages about a task.
func (s *Service) Channels(ctx context.Context, taskID uuid.UUID) ([]uuid.UUID, error) {
	return s.Store.Outbox().ChannelsOf(ctx, taskID)
}

// Demo describes the task that demonstrates the product.
type Demo struct {
	Name, AgentURL string
	// Headers give the task access to the demo agent.
	Headers map[string]string
	// Questions is the file of questions.
	Questions File
}

// CreateDemo creates a task for the demo agent, whose answers vary.
func (s *Service) CreateDemo(ctx context.Context, scope db.Scope, by db.Actor, demo Demo) (uuid.UUID, error) {
	set, err := dataset.Read(ctx, demo.Questions.Name, demo.Questions.Content, dataset.Layout{})
	if err != nil {
		return uuid.Nil, err
	}
	return s.Create(ctx, scope, by, New{
		Name: demo.Name, AgentURL: demo.AgentURL, Headers: demo.Headers, AgentModel: "demo-agent", File: demo.Questions,
		Dataset:  set,
		Settings: Settings{RunsPerItem: 5, TimeoutSeconds: 20, Concurrency: 5, UseStream: true, RateLimit: "unlimited"},
	})
}

// Wake wakes a worker for a launch. A draft has no launch, so its launchID is uuid.Nil.
func (s *Service) Wake(ctx context.Context, id, launchID uuid.UUID) {
	if launchID == uuid.Nil {
		return
	}
	if err := s.Queue.EnqueueLaunch(context.WithoutCancel(ctx), launchID); err != nil {
		s.Log.WarnContext(ctx, "wake-up not sent, a worker will find the launch", "task_id", id, "launch_id", launchID,
			"error", err)
	}
}
