package library

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"time"

	"github.com/google/uuid"

	"wending/db"
	"wending/db/entries"
	"wending/db/measure"
	"wending/db/people"
	"wending/db/report"
	"wending/jobs/agent/guard"
	"wending/jobs/blob"
	"wending/jobs/cron"
	"wending/jobs/dataset"
	"wending/jobs/secret"
	"wending/jobs/tasks"
)

// Scheduler fires schedules. Several may work at once.
type Scheduler struct {
	Store *db.Store
	Tasks *tasks.Service
	// Library is the library that schedules follow. If it has no files, schedules that need a new version of a dataset
	// are left to a process that has them.
	Library *Service
	// CheckURL checks an address that was typed into a task. It returns an error if a task with these headers may not
	// call the address.
	CheckURL func(u *url.URL, headers map[string]string) error
	// Late is how long a schedule must be overdue before this process fires it; until then other processes may.
	Late time.Duration
	Log  *slog.Logger
}

// maxMissed is the maximum number of missed times to count.
const maxMissed = 10_000

// maxName is the maximum number of characters of a schedule's name that are used in the name of a copy.
const maxName = 47

// Fire fires the due schedules, and plans those without a planned time.
func (s *Scheduler) Fire(ctx context.Context) error {
	due, now, err := entries.NewSchedules(s.Store).Due(ctx, s.Late)
	if err != nil {
		return err
	}
	var failures []error
	for _, one := range due {
		plan, err := cron.Parse(one.Cron, one.Timezone)
		if err != nil { // the expression was checked when it was saved
			failures = append(failures, fmt.Errorf("schedule %s: %w", one.ID, err))
			continue
		}
		next := plan.Next(now)
		if one.NextAt == nil {
			failures = append(failures, entries.NewSchedules(s.Store).Plan(ctx, one.ID, next))
			continue
		}
		failures = append(failures, s.fire(ctx, one,
			entries.FiringTiming{Next: next, Missed: plan.Missed(*one.NextAt, now, maxMissed)}))
	}
	return errors.Join(failures...)
}

func (s *Scheduler) fire(ctx context.Context, due entries.Schedule, timing entries.FiringTiming) error {
	copied, err := s.copy(ctx, due)
	if errors.Is(err, errNoFiles) {
		return nil
	}
	if err != nil {
		return err
	}
	firing, launchID, err := entries.NewSchedules(s.Store).Fire(ctx, due, timing, copied)
	if errors.Is(err, db.ErrConflict) {
		return nil
	}
	if err != nil {
		return err
	}
	s.Log.InfoContext(ctx, "schedule fired", "schedule_id", due.ID, "planned_at", firing.PlannedAt,
		"outcome", firing.Outcome, "missed", firing.Missed)
	if firing.TaskID != nil {
		s.Tasks.Wake(ctx, *firing.TaskID, launchID)
	}
	return nil
}

// errNoFiles means that this process does not have the files of datasets.
var errNoFiles = errors.New("this process has no datasets")

// copy returns the task that a firing starts. If the task cannot be copied, the result has the reason instead.
func (s *Scheduler) copy(ctx context.Context, due entries.Schedule) (entries.FiringCopy, error) {
	if due.TaskID == nil {
		return entries.FiringCopy{Reason: entries.ReasonTask}, nil
	}
	source, err := s.Store.Task(ctx, db.AllProjects(), *due.TaskID)
	if errors.Is(err, db.ErrNotFound) {
		return entries.FiringCopy{Reason: entries.ReasonTask}, nil
	}
	if err != nil {
		return entries.FiringCopy{}, err
	}
	task, err := s.prepare(ctx, due, source)
	if err == nil {
		err = s.Tasks.Admits(ctx, &task)
	}
	if reason := reasonOf(err); reason != "" {
		s.Log.InfoContext(ctx, "schedule could not copy its task", "schedule_id", due.ID, "task_id", source.ID,
			"reason", reason, "error", err)
		return entries.FiringCopy{Reason: reason}, nil
	}
	return entries.FiringCopy{Task: task}, err
}

// prepare returns the copy of a task that a schedule starts now. If the schedule follows the library, the copy must
// pass the checks of a new task; otherwise it needs none, because the task was checked when it was created.
func (s *Scheduler) prepare(ctx context.Context, due entries.Schedule, source db.Task) (db.NewTask, error) {
	n, err := s.Tasks.CopyRows(ctx, source)
	if err != nil {
		return db.NewTask{}, err
	}
	if n.Name = CopyName(due); due.Channels != nil {
		channels := []uuid.UUID{}
		for _, text := range *due.Channels {
			channels = append(channels, uuid.MustParse(text)) // cannot fail, because the column's type is uuid[]
		}
		n.Channels = &channels
	}
	if due.Follow == entries.FollowLatest {
		if n, err = s.follow(ctx, source, n); err != nil {
			return db.NewTask{}, err
		}
	}
	return s.Tasks.Prepare(ctx, source.ProjectID, db.Actor{Via: db.ViaSchedule}, n)
}

// follow returns a copy of a task that uses the current state of the library, or the error with which a new task would
// be refused.
func (s *Scheduler) follow(ctx context.Context, source db.Task, n tasks.New) (tasks.New, error) {
	newest, err := s.Library.Newest(ctx, source, n)
	if err != nil {
		return n, err
	}
	if newest.Dataset != nil && s.Library.Files == nil {
		return n, errNoFiles
	}
	if err := s.Library.fill(ctx, &newest); err != nil {
		return n, err
	}
	n = newest.Task
	if n.AgentURL != "" {
		if u := tasks.ParseAddress(n.AgentURL); u != nil {
			if err := s.CheckURL(u, n.Headers); err != nil {
				return n, err
			}
		}
	}
	if all := n.Validate(); len(all) > 0 {
		return n, all[0]
	}
	return n, nil
}

// reasonOf returns why a task cannot be copied; empty if the error is nil or a fault of the system, after which another
// attempt is made.
func reasonOf(err error) string {
	wrong, exceeded := (*tasks.InvalidError)(nil), (*people.QuotaExceededError)(nil)
	leaving, full := (*tasks.SensitiveError)(nil), (*tasks.DiskFullError)(nil)
	refused, unknown, unread := (*guard.NotAllowedError)(nil), (*tasks.UnknownVariableError)(nil), (*dataset.Error)(nil)
	switch {
	case errors.Is(err, secret.ErrKey):
		return entries.ReasonSecret
	case errors.As(err, &exceeded):
		return entries.ReasonQuota
	case errors.As(err, &full):
		return entries.ReasonDisk
	case errors.As(err, &leaving):
		return entries.ReasonSensitive
	case errors.As(err, &refused):
		return entries.ReasonAddress
	case errors.As(err, &unread), errors.Is(err, blob.ErrNotFound):
		return entries.ReasonDataset
	case errors.As(err, &unknown), errors.As(err, &wrong) && wrong.Field == "cluster_by":
		return entries.ReasonColumn
	case errors.As(err, &wrong) && wrong.Problem == tasks.TooLarge:
		return entries.ReasonTooLarge
	case errors.As(err, &wrong):
		return entries.ReasonInvalid
	}
	return ""
}

// CopyName returns the name of the task that a schedule creates when it next fires.
func CopyName(s entries.Schedule) string {
	name := []rune(s.Name)
	if len(name) > maxName {
		name = name[:maxName]
	}
	return string(name) + " " + cron.BeijingMinute(*s.NextAt)
}

// baseline is the number of earlier firings that a firing is compared with.
const baseline = 5

// summedAtOnce is the maximum number of firings that one call of Summarise summarises.
const summedAtOnce = 20

// Summarise stores the summaries of firings whose tasks have ended, and announces alerts.
func (s *Scheduler) Summarise(ctx context.Context) error {
	found, err := entries.NewSchedules(s.Store).Unsummed(ctx, summedAtOnce)
	if err != nil {
		return err
	}
	for _, firing := range found {
		if err := s.summarise(ctx, firing); err != nil && !errors.Is(err, db.ErrConflict) && !errors.Is(err, db.ErrNotFound) {
			return err
		}
	}
	return nil
}

func (s *Scheduler) summarise(ctx context.Context, firing entries.Unsummed) error {
	results := report.New(s.Store)
	task, err := s.Store.Task(ctx, db.AllProjects(), *firing.TaskID)
	if err != nil {
		return err
	}
	matrix, err := results.Matrix(ctx, task)
	if err != nil {
		return err
	}
	numbers, err := results.VariantStatistics(ctx, task.ID)
	if err != nil {
		return err
	}
	entry, err := entries.New(s.Store).Schedules.Get(ctx, db.AllProjects(), firing.ScheduleID)
	if err != nil {
		return err
	}
	summary := measure.FiringSummary{Configuration: configurationOf(task)}
	for n, variant := range numbers {
		summary.Variants = append(summary.Variants, measure.VariantPoints{
			Number: variant.Number, Name: variant.Name, Currency: variant.Currency,
			Points: measure.PointsOf(matrix[n], variant.Cost),
		})
	}
	if err := s.changes(ctx, task, &summary); err != nil {
		return err
	}
	if entry.AlertMetric != nil {
		if summary.Alerts, err = s.findings(ctx, entry, task, summary, matrix); err != nil {
			return err
		}
	}
	told, err := s.drifts(ctx, firing, &summary)
	if err != nil {
		return err
	}
	alert, err := alertOf(entry, summary.Alerts, told)
	if err != nil {
		return err
	}
	text, err := json.Marshal(summary)
	if err != nil {
		return err
	}
	return entries.NewSchedules(s.Store).Summarise(ctx, firing, text, alert)
}

// drifts adds to a firing's summary the metrics whose moving averages are outside their limits, and returns those that
// were not announced after an earlier launch of the same firing.
func (s *Scheduler) drifts(ctx context.Context, firing entries.Unsummed,
	summary *measure.FiringSummary) (news []measure.Drift, err error) {
	earlier, err := entries.NewSchedules(s.Store).Watched(ctx, db.AllProjects(), firing.ScheduleID, &firing.PlannedAt)
	if err != nil {
		return nil, err
	}
	var summaries []measure.FiringSummary
	var known []measure.Drift
	for _, one := range earlier {
		var of measure.FiringSummary
		if err := json.Unmarshal(*one.Summary, &of); err != nil {
			return nil, err
		}
		if one.ID == firing.ID {
			known = of.Drifts
			continue
		}
		summaries = append(summaries, of)
	}
	summary.Drifts = measure.Drifts(append(summaries, *summary))
	for _, drift := range summary.Drifts {
		if !slices.ContainsFunc(known, drift.IsSame) {
			news = append(news, drift)
		}
	}
	return news, nil
}

// alertOf returns the alert about a firing; nil if there is nothing to announce.
func alertOf(entry entries.Schedule, findings []measure.Finding, drifts []measure.Drift) (json.RawMessage, error) {
	alert := measure.Alert{ScheduleID: entry.ID, ScheduleName: entry.Name, Findings: findings, Drifts: drifts}
	switch {
	case len(findings) > 0:
		alert.Metric, alert.Finding = measure.Metric(*entry.AlertMetric), findings[0]
	case len(drifts) > 0:
		alert.Metric, alert.Finding = drifts[0].Metric, measure.Finding{Variant: drifts[0].Variant, Value: drifts[0].Value}
		alert.Findings = []measure.Finding{}
	default:
		return nil, nil
	}
	return json.Marshal(alert)
}

// changes adds to a firing's summary what changed since the previous firing: the questions whose facts changed, and the
// changes to the task's configuration.
func (s *Scheduler) changes(ctx context.Context, task db.Task, summary *measure.FiringSummary) error {
	previous, err := PreviousCopy(ctx, s.Store, task)
	if err != nil || previous == nil {
		return err
	}
	if summary.ConfigurationChanges, err = changedConfiguration(s.Tasks.Sealer, *previous, task); err != nil {
		return err
	}
	changed, err := ChangedFacts(ctx, s.Store, *previous, task, time.Time{})
	summary.FactChanges = &changed
	return err
}

// findings returns the reasons for an alert at a firing.
func (s *Scheduler) findings(
	ctx context.Context, entry entries.Schedule, task db.Task, summary measure.FiringSummary,
	matrix [][]measure.ComparedQuestion,
) ([]measure.Finding, error) {
	watch := measure.Watch{Metric: measure.Metric(*entry.AlertMetric), Below: entry.AlertBelow, IfWorse: entry.AlertsWorse,
		Margin: entry.AlertMargin}
	var before [][][]measure.ComparedQuestion // by firing, then by variant
	if watch.IfWorse {
		var err error
		if before, err = s.before(ctx, task); err != nil {
			return nil, err
		}
	}
	var variants []measure.Watched
	for n, points := range summary.Variants {
		variant := measure.Watched{VariantPoints: points, Now: matrix[n]}
		for _, firing := range before {
			if n < len(firing) {
				variant.Before = append(variant.Before, firing[n])
			}
		}
		variants = append(variants, variant)
	}
	return watch.Look(variants), nil
}

// before returns the results of each question in the last firings before the one that created a task.
func (s *Scheduler) before(ctx context.Context, task db.Task) (firings [][][]measure.ComparedQuestion, err error) {
	earlier, err := entries.NewSchedules(s.Store).Before(ctx, task.ID, baseline)
	if err != nil {
		return nil, err
	}
	for _, firing := range earlier {
		other, err := s.Store.Task(ctx, db.AllProjects(), *firing.TaskID)
		if errors.Is(err, db.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		matrix, err := report.New(s.Store).Matrix(ctx, other)
		if err != nil {
			return nil, err
		}
		firings = append(firings, matrix)
	}
	return firings, nil
}
