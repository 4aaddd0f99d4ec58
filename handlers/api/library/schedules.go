package library

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/uuid"

	"wending/db"
	"wending/db/entries"
	"wending/db/measure"
	"wending/handlers/request"
	"wending/handlers/rest"
	"wending/views/paths"
)

// Schedule is a task that is copied and run at the times of a cron expression.
type Schedule struct {
	EntryHead
	TaskID    *uuid.UUID   `json:"task_id" doc:"Id of the task that is copied; null if it was deleted, in which case nothing is started"`
	Cron      string       `json:"cron" doc:"Cron expression of five fields: minute, hour, day of the month, month, day of the week" example:"0 2 * * *"`
	Timezone  string       `json:"timezone" example:"Asia/Shanghai"`
	IsEnabled bool         `json:"is_enabled"`
	Channels  *[]string    `json:"channels" doc:"Ids of the channels for the copies; null means the task's own"`
	Alert     *Alert       `json:"alert,omitempty" doc:"Absent if no metric is watched"`
	NextAt    *rest.Moment `json:"next_at" doc:"When the schedule fires next; null if it is not enabled"`
}

// Alert is the metric that a schedule watches.
type Alert struct {
	Metric  measure.Metric `json:"metric"`
	Below   *float64       `json:"below,omitempty" doc:"Alert if the metric falls below this limit, 0–1; only for agreement, pass_rate and success_rate" example:"0.8"`
	IfWorse bool           `json:"if_worse,omitempty" doc:"Also alert if the metric is worse than over the last five firings by more than chance explains"`
	Margin  float64        `json:"margin,omitempty" minimum:"0" doc:"For if_worse: how much worse the metric may be, in its own unit" example:"0.05"`
}

func (h *handler) viewSchedule(row entries.Schedule) (Schedule, error) {
	s := Schedule{EntryHead: headOf(row.Entry), TaskID: row.TaskID, Cron: row.Cron, Timezone: row.Timezone, IsEnabled: row.IsEnabled}
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
	Name      string    `json:"name" maxLength:"64" example:"每晚回归"`
	TaskID    string    `json:"task_id" doc:"Id of the task that is copied"`
	Cron      string    `json:"cron" doc:"Cron expression of five fields: minute, hour, day of the month, month, day of the week" example:"0 2 * * *"`
	Timezone  string    `json:"timezone,omitempty" default:"Asia/Shanghai"`
	IsEnabled bool      `json:"is_enabled,omitempty" default:"true"`
	Channels  *[]string `json:"channels,omitempty" null:"true" doc:"Ids of the channels for the copies; null means the task's own"`
	Alert     *Alert    `json:"alert,omitempty" null:"true" doc:"null if no metric is to be watched"`
}

// ScheduledTask is a copy that a schedule made.
type ScheduledTask struct {
	TaskID      uuid.UUID               `json:"task_id"`
	TaskName    string                  `json:"task_name" example:"每晚回归 2026-11-22 02:00"`
	Status      db.TaskStatus           `json:"status"`
	PlannedAt   rest.Moment             `json:"planned_at"`
	FiredAt     rest.Moment             `json:"fired_at"`
	Missed      int                     `json:"missed" doc:"Number of later planned times that had also passed when it fired; they are skipped"`
	CompletedAt *rest.Moment            `json:"completed_at"`
	Statistics  *db.TaskStatistics      `json:"statistics,omitempty" doc:"Absent while the copy runs"`
	Variants    []measure.VariantPoints `json:"variants" doc:"The points of the trend, one per variant; empty while the copy runs"`
	// FactsChanged are the questions that answer otherwise than at the firing before.
	FactsChanged *measure.FactChanges `json:"facts_changed" doc:"The questions whose most common answer contradicts, in a fact, that of the previous firing; null while the copy runs and for the first firing"`
}

// Firing is the outcome of a planned time.
type Firing struct {
	PlannedAt rest.Moment           `json:"planned_at"`
	FiredAt   rest.Moment           `json:"fired_at"`
	Outcome   entries.FiringOutcome `json:"outcome"`
	Reason    *string               `json:"reason" values:"firing reasons"`
	Missed    int                   `json:"missed"`
	TaskID    *uuid.UUID            `json:"task_id" doc:"null if nothing was started or the copy was deleted"`
}

type firingsInput struct {
	EntryPath
	rest.PageQuery
}

// registerSchedules adds the endpoints that only schedules have.
func (h *handler) registerSchedules(api huma.API) {
	saved := h.Library.Entries.Schedules
	path := paths.API + "/schedules/{id}"
	rest.Register(api, h.Failed, rest.Endpoint{
		Method: http.MethodGet, Path: path + "/tasks", ID: "list-scheduled-tasks", Tag: "library", Summary: "List the tasks that a schedule created, newest first, with the points of the trend",
		Faults: []string{request.CodeNotFound},
	}, func(ctx context.Context, input *firingsInput) (*entriesOutput[ScheduledTask], error) {
		id, _, err := find(ctx, input.EntryPath, saved)
		if err != nil {
			return nil, err
		}
		store := h.Library.Tasks.Store
		firings, total, err := entries.NewSchedules(store).List(ctx, request.ScopeOf(ctx), id, true, input.Window())
		if err != nil {
			return nil, err
		}
		output := &entriesOutput[ScheduledTask]{}
		output.Body.Items, output.Body.Pagination = []ScheduledTask{}, rest.NewPagination(input.Window(), total)
		for _, firing := range firings {
			task, err := store.Task(ctx, request.ScopeOf(ctx), *firing.TaskID)
			if errors.Is(err, db.ErrNotFound) { // the schedule was deleted a moment ago
				continue
			}
			if err != nil {
				return nil, err
			}
			one := ScheduledTask{
				TaskID: task.ID, TaskName: task.Name, Status: task.Status, PlannedAt: rest.Moment(firing.PlannedAt), FiredAt: rest.Moment(firing.FiredAt),
				Missed: firing.Missed, CompletedAt: rest.MomentOf(task.CompletedAt), Statistics: task.Final, Variants: []measure.VariantPoints{},
			}
			if firing.Summary != nil {
				var summary measure.FiringSummary
				if err := json.Unmarshal(*firing.Summary, &summary); err != nil {
					return nil, err
				}
				one.Variants = append(one.Variants, summary.Variants...)
				one.FactsChanged = summary.FactChanges
			}
			output.Body.Items = append(output.Body.Items, one)
		}
		return output, nil
	})
	rest.Register(api, h.Failed, rest.Endpoint{
		Method: http.MethodGet, Path: path + "/firings", ID: "list-firings", Tag: "library", Summary: "List the outcomes of a schedule's planned times, newest first",
		Faults: []string{request.CodeNotFound},
	}, func(ctx context.Context, input *firingsInput) (*entriesOutput[Firing], error) {
		id, _, err := find(ctx, input.EntryPath, saved)
		if err != nil {
			return nil, err
		}
		firings, total, err := entries.NewSchedules(h.Library.Tasks.Store).List(ctx, request.ScopeOf(ctx), id, false, input.Window())
		return pageOf(input.Window(), firings, total, func(f entries.Firing) Firing {
			return Firing{rest.Moment(f.PlannedAt), rest.Moment(f.FiredAt), f.Outcome, f.Reason, f.Missed, f.TaskID}
		}), err
	})
}
