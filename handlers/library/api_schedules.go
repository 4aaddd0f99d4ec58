package library

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/uuid"

	"wending/db"
	"wending/db/entries"
	"wending/db/measure"
	"wending/handlers/form"
	"wending/handlers/request"
	"wending/handlers/rest"
	"wending/jobs/library"
	"wending/views/paths"
)

// Schedule says which task is copied and run, and at what times.
type Schedule struct {
	EntryHead
	TaskID    *uuid.UUID `json:"task_id" doc:"Id of the task that is copied; null if it was deleted, in which case nothing is started"`
	Cron      string     `json:"cron" doc:"Cron expression of five fields: minute, hour, day of the month, month, day of the week" example:"0 2 * * *"`
	Timezone  string     `json:"timezone" doc:"IANA time zone of the cron expression" example:"Asia/Shanghai"`
	IsEnabled bool       `json:"is_enabled"`
	// Follow says which parts of a copy come from the library's current state.
	Follow   entries.Follow `json:"follow" doc:"latest: each firing takes credentials and the newest versions of prompts, evaluators and the dataset from the library, except a version that was not the newest when the task was created; frozen: each firing copies the task as it was created"`
	Channels *[]string      `json:"channels" doc:"Ids of the channels for the copies; null means the task's own"`
	Alert    *Alert         `json:"alert,omitempty" doc:"Absent if no metric is watched"`
	NextAt   *rest.Moment   `json:"next_at" doc:"When the schedule fires next; null if it is not enabled"`
}

// Alert says when the metric that a schedule watches raises an alert.
type Alert struct {
	Metric  measure.Metric `json:"metric"`
	Below   *float64       `json:"below,omitempty" doc:"Alert if the metric falls below this limit, 0–1; only for agreement, pass_rate and success_rate" example:"0.8"`
	IfWorse bool           `json:"if_worse,omitempty" doc:"Also alert if the metric is worse than over the last five firings by more than chance explains"`
	Margin  float64        `json:"margin,omitempty" minimum:"0" doc:"For if_worse: how much worse the metric may be, in its own unit" example:"0.05"`
}

func (e *endpoints) viewSchedule(row entries.Schedule) (Schedule, error) {
	s := Schedule{EntryHead: headOf(row.Entry), TaskID: row.TaskID, Cron: row.Cron, Timezone: row.Timezone,
		IsEnabled: row.IsEnabled, Follow: row.Follow}
	if row.Channels != nil {
		channels := append([]string{}, *row.Channels...)
		s.Channels = &channels
	}
	if row.AlertMetric != nil {
		s.Alert = &Alert{measure.Metric(*row.AlertMetric), row.AlertBelow, row.AlertsWorse, row.AlertMargin}
	}
	if row.IsEnabled && row.ArchivedAt == nil {
		s.NextAt = rest.MomentOf(row.NextAt)
	}
	return s, nil
}

type scheduleFields struct {
	Name      string         `json:"name" maxLength:"64" example:"每晚回归"`
	TaskID    string         `json:"task_id" doc:"Id of the task that is copied"`
	Cron      string         `json:"cron" doc:"Cron expression of five fields: minute, hour, day of the month, month, day of the week" example:"0 2 * * *"`
	Timezone  string         `json:"timezone,omitempty" doc:"IANA time zone of the cron expression" default:"Asia/Shanghai"`
	IsEnabled bool           `json:"is_enabled,omitempty" default:"true"`
	Follow    entries.Follow `json:"follow,omitempty" doc:"latest takes credentials and newest versions from the library at each firing; frozen copies the task as it was created" default:"latest"`
	Channels  *[]string      `json:"channels,omitempty" null:"true" doc:"Ids of the channels for the copies; null means the task's own"`
	Alert     *Alert         `json:"alert,omitempty" null:"true" doc:"null if no metric is to be watched"`
}

// ScheduledTask is a copy of the task that a firing of a schedule created.
type ScheduledTask struct {
	TaskID      uuid.UUID               `json:"task_id"`
	TaskName    string                  `json:"task_name" example:"每晚回归 2026-11-22 02:00"`
	Status      db.TaskStatus           `json:"status"`
	PlannedAt   rest.Moment             `json:"planned_at"`
	FiredAt     rest.Moment             `json:"fired_at"`
	Missed      int                     `json:"missed" doc:"Number of later planned times that had also passed when the schedule fired; they are skipped"`
	CompletedAt *rest.Moment            `json:"completed_at"`
	Statistics  *db.TaskStatistics      `json:"statistics,omitempty" doc:"Absent while the copy runs"`
	Variants    []measure.VariantPoints `json:"variants" doc:"The points of the trend, one per variant; empty while the copy runs"`
	// Drifts are the metrics whose moving average left its limits at this firing.
	Drifts []measure.Drift `json:"drifts" nullable:"false" doc:"The metrics whose moving average left its limits at this firing; a change is listed (and announced) once, until the average has been back within its limits"`
	// ConfigurationChanges are the differences between the configurations of this copy and the previous one.
	ConfigurationChanges []measure.ConfigurationChange `json:"configuration_changes" nullable:"false" doc:"What changed since the previous firing in what is asked, which agents are asked, and how answers are judged"`
	// FactsChanged lists the questions whose most common answer contradicts that of the previous firing.
	FactsChanged *measure.FactChanges `json:"facts_changed" doc:"The questions whose most common answer contradicts the previous firing's on a fact; null while the copy runs and for the first firing"`
}

// Firing says what happened at a planned time of a schedule.
type Firing struct {
	PlannedAt rest.Moment           `json:"planned_at"`
	FiredAt   rest.Moment           `json:"fired_at"`
	Outcome   entries.FiringOutcome `json:"outcome"`
	Reason    *string               `json:"reason" values:"firing reasons"`
	Missed    int                   `json:"missed" doc:"Number of later planned times that had also passed when the schedule fired; they are skipped"`
	TaskID    *uuid.UUID            `json:"task_id" doc:"null if nothing was started or the copy was deleted"`
}

type firingsInput struct {
	EntryPath
	rest.PageQuery
}

type changesInput struct {
	EntryPath
	Since string `query:"since" doc:"Task of the firing to compare with; absent means the firing before the other one"`
	At    string `query:"at" doc:"Task of the other firing; absent means the newest one with results"`
}

// ComparedFiring identifies one of two firings that are compared.
type ComparedFiring struct {
	TaskID    uuid.UUID   `json:"task_id" doc:"Id of the task that the firing made"`
	TaskName  string      `json:"task_name" doc:"Name of that task" example:"每晚回归 2026-11-22 02:00"`
	PlannedAt rest.Moment `json:"planned_at" doc:"Planned time of the firing"`
}

// ScheduleChange is a question that changed by more than chance between two firings.
type ScheduleChange struct {
	Number     int      `json:"number" doc:"Number of the question in the later task, from 1" example:"12"`
	QuestionID string   `json:"question_id" doc:"Id of the question" example:"q-12"`
	Variant    int      `json:"variant" doc:"Number of the variant, from 1" example:"1"`
	By         string   `json:"by" enum:"evaluations,answers" doc:"What changed: the evaluations if both firings have some, otherwise the answers themselves"`
	Before     *float64 `json:"before" doc:"At the earlier firing: the share of runs that passed or, if the answers changed, their agreement; null if unknown" example:"1"`
	Now        *float64 `json:"now" doc:"The same at the later firing; null if unknown" example:"0.2"`
	IsWorse    bool     `json:"is_worse" doc:"True if the share or the agreement fell"`
	PAdjusted  float64  `json:"p_adjusted" doc:"p-value, adjusted for all compared questions; at most 0.1" example:"0.03"`
}

type changesOutput struct {
	Body struct {
		Before       *ComparedFiring      `json:"before" doc:"The earlier firing; null if fewer than two firings have results"`
		Now          *ComparedFiring      `json:"now" doc:"The later firing; null if the earlier one is"`
		Items        []ScheduleChange     `json:"items" nullable:"false" doc:"Questions that changed beyond chance, the least likely to be chance first"`
		FactsChanged *measure.FactChanges `json:"facts_changed" doc:"The questions whose most common answers contradict each other on a fact; null if before is"`
	}
}

// changesWithin is the maximum time for comparing the facts of two firings.
const changesWithin = 20 * time.Second

// listChanges returns the questions that changed between two firings.
func (e *endpoints) listChanges(ctx context.Context, input *changesInput) (*changesOutput, error) {
	id, _, err := find(ctx, input.EntryPath, e.Library.Entries.Schedules)
	if err != nil {
		return nil, err
	}
	pair, err := form.ReadPair(input.Since, input.At)
	if err != nil {
		return nil, err
	}
	leave, err := request.From(ctx).Gates.Files.Enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	between, err := library.CompareFirings(ctx, e.Library.Tasks.Store, request.ScopeOf(ctx), id, pair, changesWithin)
	if err != nil {
		return nil, form.PairFault(err)
	}
	output := &changesOutput{}
	output.Body.Items = []ScheduleChange{}
	if between == nil {
		return output, nil
	}
	output.Body.Before = &ComparedFiring{between.BeforeTask.ID, between.BeforeTask.Name,
		rest.Moment(between.Before.PlannedAt)}
	output.Body.Now = &ComparedFiring{between.NowTask.ID, between.NowTask.Name, rest.Moment(between.Now.PlannedAt)}
	output.Body.FactsChanged = &between.Facts
	for _, change := range between.Questions {
		one := ScheduleChange{
			Number: change.Now.Number, QuestionID: change.Now.QuestionID, Variant: change.Variant, By: "answers",
			IsWorse: change.IsWorse(), PAdjusted: change.Adjusted,
		}
		if change.IsVerdict {
			one.By = "evaluations"
		}
		one.Before, one.Now = change.Shares()
		output.Body.Items = append(output.Body.Items, one)
	}
	return output, nil
}

// newScheduledTask returns the task that a firing created, with the summary that was stored for it.
func newScheduledTask(task db.Task, firing entries.Firing) (ScheduledTask, error) {
	one := ScheduledTask{
		TaskID: task.ID, TaskName: task.Name, Status: task.Status, PlannedAt: rest.Moment(firing.PlannedAt),
		FiredAt: rest.Moment(firing.FiredAt), Missed: firing.Missed, CompletedAt: rest.MomentOf(task.CompletedAt),
		Statistics: task.Final, Variants: []measure.VariantPoints{}, Drifts: []measure.Drift{},
		ConfigurationChanges: []measure.ConfigurationChange{},
	}
	if firing.Summary == nil {
		return one, nil
	}
	var summary measure.FiringSummary
	if err := json.Unmarshal(*firing.Summary, &summary); err != nil {
		return one, err
	}
	one.Variants, one.FactsChanged = append(one.Variants, summary.Variants...), summary.FactChanges
	one.Drifts = append(one.Drifts, summary.Drifts...)
	one.ConfigurationChanges = append(one.ConfigurationChanges, summary.ConfigurationChanges...)
	return one, nil
}

// registerSchedules registers the endpoints that only schedules have.
func (e *endpoints) registerSchedules(api huma.API) {
	saved := e.Library.Entries.Schedules
	path := paths.API + "/schedules/{id}"
	rest.Register(api, e.Failed, rest.Endpoint{
		Method: http.MethodGet, Path: path + "/tasks", ID: "list-scheduled-tasks", Tag: "library",
		Summary: "List the tasks that a schedule created, newest first, with the points of the trend",
		Faults:  []string{request.CodeNotFound},
	}, func(ctx context.Context, input *firingsInput) (*entriesOutput[ScheduledTask], error) {
		id, _, err := find(ctx, input.EntryPath, saved)
		if err != nil {
			return nil, err
		}
		store := e.Library.Tasks.Store
		firings, total, err := entries.NewSchedules(store).List(ctx, request.ScopeOf(ctx), id, true, input.Window())
		if err != nil {
			return nil, err
		}
		output := &entriesOutput[ScheduledTask]{}
		output.Body.Items, output.Body.Pagination = []ScheduledTask{}, rest.NewPagination(input.Window(), total)
		for _, firing := range firings {
			task, err := store.Task(ctx, request.ScopeOf(ctx), *firing.TaskID)
			if errors.Is(err, db.ErrNotFound) { // the task was deleted a moment ago
				continue
			}
			if err != nil {
				return nil, err
			}
			one, err := newScheduledTask(task, firing)
			if err != nil {
				return nil, err
			}
			output.Body.Items = append(output.Body.Items, one)
		}
		return output, nil
	})
	rest.Register(api, e.Failed, rest.Endpoint{
		Method: http.MethodGet, Path: path + "/changes", ID: "list-scheduled-changes", Tag: "library",
		Summary:     "List what changed between two firings of a schedule",
		Description: "Any two firings with results can be compared, in either order.",
		Faults:      []string{request.CodeNotFound, request.CodeParameterInvalid, request.CodeServiceUnavailable},
	}, e.listChanges)
	rest.Register(api, e.Failed, rest.Endpoint{
		Method: http.MethodGet, Path: path + "/firings", ID: "list-firings", Tag: "library",
		Summary: "List the outcomes of a schedule's planned times, newest first",
		Faults:  []string{request.CodeNotFound},
	}, func(ctx context.Context, input *firingsInput) (*entriesOutput[Firing], error) {
		id, _, err := find(ctx, input.EntryPath, saved)
		if err != nil {
			return nil, err
		}
		firings, total, err := entries.NewSchedules(e.Library.Tasks.Store).List(ctx, request.ScopeOf(ctx), id, false,
			input.Window())
		return pageOf(input.Window(), firings, total, func(f entries.Firing) Firing {
			return Firing{rest.Moment(f.PlannedAt), rest.Moment(f.FiredAt), f.Outcome, f.Reason, f.Missed, f.TaskID}
		}), err
	})
}
