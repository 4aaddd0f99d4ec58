package library

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/google/uuid"

	"wending/db"
	"wending/db/entries"
	"wending/db/measure"
	"wending/db/people"
	"wending/db/report"
	"wending/jobs/cron"
	"wending/jobs/secret"
	"wending/jobs/tasks"
)

// Scheduler fires schedules. Several may work at once.
type Scheduler struct {
	Store *db.Store
	Tasks *tasks.Service
	Log   *slog.Logger
}

// maxMissed is the maximum number of missed times to count.
const maxMissed = 10_000

// maxName is how many characters of a schedule's name are used in the name of a copy.
const maxName = 47

// Fire fires the due schedules, and plans those without a planned time.
func (s *Scheduler) Fire(ctx context.Context) error {
	due, now, err := entries.NewSchedules(s.Store).Due(ctx)
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

// copy makes the task that a firing starts; if that fails, it returns the reason instead of an error.
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
	var channels *[]uuid.UUID
	if due.Channels != nil {
		channels = &[]uuid.UUID{}
		for _, text := range *due.Channels {
			*channels = append(*channels, uuid.MustParse(text)) // for a column of uuids
		}
	}
	task, err := s.Tasks.CopyRows(ctx, db.Actor{Via: db.ViaSchedule}, source, CopyName(due), channels)
	if errors.Is(err, secret.ErrKey) {
		return entries.FiringCopy{Reason: entries.ReasonSecret}, nil
	}
	if err != nil {
		return entries.FiringCopy{}, err
	}
	exceeded := (*people.QuotaExceededError)(nil)
	err = people.NewQuotas(s.Store).Admits(ctx, source.ProjectID, func() (int, error) {
		return source.TotalRuns() - source.ExtraRuns, nil
	})
	if errors.As(err, &exceeded) {
		return entries.FiringCopy{Reason: entries.ReasonQuota}, nil
	}
	return entries.FiringCopy{Task: task}, err
}

// CopyName returns the name of the task that a schedule makes at its next time.
func CopyName(s entries.Schedule) string {
	name := []rune(s.Name)
	if len(name) > maxName {
		name = name[:maxName]
	}
	return string(name) + " " + cron.BeijingMinute(*s.NextAt)
}

// baseline is the number of earlier firings that a firing is compared with.
const baseline = 5

// summedAtOnce is how many firings one round summarises.
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
	if summary.FactChanges, err = s.changedFacts(ctx, task); err != nil {
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

// drifts adds the metrics whose moving averages leave their limits to a firing's summary, and returns those that were
// not announced after an earlier launch of the same firing.
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

// configurationOf identifies the agents, prompts, evaluators and questions of a task, as far as they can be
// identified without its secrets.
func configurationOf(task db.Task) string {
	hash := sha256.New()
	write := func(parts ...any) { _, _ = fmt.Fprintf(hash, "%q\n", fmt.Sprint(parts...)) } // a hash accepts everything
	write(tasks.TextOf(task.ClusterBy), task.RunsPerItem, task.TotalItems, task.DatasetName)
	if task.DatasetID != nil && task.DatasetVersion != nil {
		write(*task.DatasetID, *task.DatasetVersion)
	}
	for _, target := range task.Targets {
		write(target.Kind, target.Protocol, target.URL, tasks.TextOf(target.Model), tasks.TextOf(target.Poll))
	}
	for _, variant := range task.Variants {
		write(variant.Target, tasks.TextOf(variant.SystemTemplate), tasks.TextOf(variant.UserTemplate))
	}
	for _, evaluator := range task.Evaluators {
		write(evaluator.Kind, evaluator.EvaluatorID, evaluator.Version, string(evaluator.Config))
	}
	if grouper := task.Grouper(); grouper != nil {
		write("meaning", grouper.Protocol, grouper.URL, tasks.TextOf(grouper.Model))
	}
	return hex.EncodeToString(hash.Sum(nil)[:8])
}

// changedFacts returns the questions whose facts changed since the previous firing; nil if there is none.
func (s *Scheduler) changedFacts(ctx context.Context, task db.Task) (*measure.FactChanges, error) {
	previous, err := PreviousCopy(ctx, s.Store, task)
	if err != nil || previous == nil {
		return nil, err
	}
	changed, err := ChangedFacts(ctx, s.Store, *previous, task, time.Time{})
	return &changed, err
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

// before returns the results of each question at the last firings before a task.
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
