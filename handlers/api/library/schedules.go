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
	TaskID    *uuid.UUID   `json:"task_id" doc:"The task that is copied; null: it was deleted, and nothing is started"`
	Cron      string       `json:"cron" doc:"Minute, hour, day of the month, month, day of the week" example:"0 2 * * *"`
	Timezone  string       `json:"timezone" example:"Asia/Shanghai"`
	IsEnabled bool         `json:"is_enabled"`
	Channels  *[]string    `json:"channels" doc:"Ids of the channels of the copies; null: those of the task"`
	Alert     *Alert       `json:"alert,omitempty" doc:"Absent: nothing is watched"`
	NextAt    *rest.Moment `json:"next_at" doc:"null: not enabled"`
}

// Alert is the metric that a schedule watches.
type Alert struct {
	Metric  measure.Metric `json:"metric"`
	Below   *float64       `json:"below,omitempty" doc:"Limit between 0 and 1, of agreement, pass_rate and success_rate" example:"0.8"`
	IfWorse bool           `json:"if_worse,omitempty" doc:"Also when it is worse than at the last five firings beyond chance"`
	Margin  float64        `json:"margin,omitempty" minimum:"0" doc:"By how much it may be worse than then, in the unit of the metric" example:"0.05"`
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
	TaskID    string    `json:"task_id" doc:"The task that is copied"`
	Cron      string    `json:"cron" doc:"Five fields: minute, hour, day of the month, month, day of the week" example:"0 2 * * *"`
	Timezone  string    `json:"timezone,omitempty" default:"Asia/Shanghai"`
	IsEnabled bool      `json:"is_enabled,omitempty" default:"true"`
	Channels  *[]string `json:"channels,omitempty" null:"true" doc:"Ids of channels; null: those of the task"`
	Alert     *Alert    `json:"alert,omitempty" null:"true" doc:"null: nothing is watched"`
}

// ScheduledTask is a copy that a schedule made.
type ScheduledTask struct {
	TaskID      uuid.UUID               `json:"task_id"`
	TaskName    string                  `json:"task_name" example:"每晚回归 2026-11-22 02:00"`
	Status      db.TaskStatus           `json:"status"`
	PlannedAt   rest.Moment             `json:"planned_at"`
	FiredAt     rest.Moment             `json:"fired_at"`
	Missed      int                     `json:"missed" doc:"Later planned times that had passed when it fired; they are not made up for"`
	CompletedAt *rest.Moment            `json:"completed_at"`
	Statistics  *db.TaskStatistics      `json:"statistics,omitempty" doc:"Absent while it runs"`
	Variants    []measure.VariantPoints `json:"variants" doc:"The points of the trend, a variant each; empty while it runs"`
	// FactsChanged are the questions that answer otherwise than at the firing before.
	FactsChanged *measure.FactChanges `json:"facts_changed" doc:"The questions whose most common answer contradicts the one at the firing before in a fact; null while it runs, and at the first firing"`
}

// Firing is the outcome of a planned time.
type Firing struct {
	PlannedAt rest.Moment           `json:"planned_at"`
	FiredAt   rest.Moment           `json:"fired_at"`
	Outcome   entries.FiringOutcome `json:"outcome"`
	Reason    *string               `json:"reason" values:"firing reasons"`
	Missed    int                   `json:"missed"`
	TaskID    *uuid.UUID            `json:"task_id" doc:"null: nothing was started, or the copy was deleted"`
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
		Method: http.MethodGet, Path: path + "/tasks", ID: "list-scheduled-tasks", Tag: "library", Summary: "List the copies that a schedule made, newest first: the trend",
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
		Method: http.MethodGet, Path: path + "/firings", ID: "list-firings", Tag: "library", Summary: "List what became of a schedule's planned times, newest first",
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
