package form

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"wending/db"
	"wending/db/entries"
	"wending/db/measure"
	"wending/handlers/request"
	"wending/jobs/cron"
	"wending/jobs/library"
	"wending/jobs/tasks"
)

// DefaultTimezone is the time zone of schedules whose form does not contain one.
const DefaultTimezone = "Asia/Shanghai"

// maxChannels is the maximum number of channels of a task.
const maxChannels = 20

// channels returns the ids of the channels that a form lists, without duplicates; nil means that the form does not have
// the field, or that the field has a fault.
func (c *fields) channels(ctx context.Context,
	find func(context.Context, db.Scope, uuid.UUID) (entries.Channel, error)) *[]uuid.UUID {
	if !c.form.Has("channels") {
		return nil
	}
	found := []uuid.UUID{}
	for _, text := range c.form.List("channels") {
		if text == "none" { // sent by a form in which no channel is chosen
			continue
		}
		id, err := uuid.Parse(text)
		var row entries.Channel
		if err == nil {
			row, err = find(ctx, request.ScopeOf(ctx), id)
		} else {
			err = library.ErrUnknownReference
		}
		switch {
		case errors.Is(err, db.ErrNotFound), err == nil && row.ArchivedAt != nil:
			err = library.ErrUnknownReference
		case err == nil && len(found) == maxChannels:
			c.fail("channels", request.NewFault(request.CodeTaskTooLarge))
			return nil
		}
		if err != nil {
			c.failedReference("channels", err)
			return nil
		}
		if !slices.Contains(found, id) {
			found = append(found, id)
		}
	}
	return &found
}

func (s Saver) saveSchedule(ctx context.Context, row *entries.Schedule, f *Upload) (uuid.UUID, []FieldFault, error) {
	entry := entries.Schedule{Entry: entries.Entry{ID: uuid.New()}, Timezone: DefaultTimezone, IsEnabled: true,
		Follow: entries.FollowLatest}
	if row != nil {
		entry = *row
	}
	c := fields{form: f}
	c.entryName(&entry.Name)
	if err := c.copiedTask(ctx, s.Library.Tasks, &entry); err != nil {
		return uuid.Nil, nil, err
	}
	plan, isPlanned := c.plan(&entry)
	c.boolean("is_enabled", func(is bool) { entry.IsEnabled = is })
	// A schedule can be disabled even if the minimum interval has been raised.
	if least := s.Library.ScheduleMinutes; isPlanned && entry.IsEnabled && plan.Shortest() < least {
		c.fail("cron", request.FieldFault("cron", request.CronOften(least)))
	}
	switch channels := c.channels(ctx, s.Library.Channel); {
	case f.Value("own_channels") == "false" || f.isNull("channels"):
		entry.Channels = nil
	case channels != nil:
		entry.Channels = entries.IDs(*channels)
	}
	if c.form.Has("follow") && c.isText("follow") {
		if entry.Follow = entries.Follow(c.form.Value("follow")); !slices.Contains(entries.Follows, entry.Follow) {
			c.fail("follow", request.FieldFault("follow", request.OneOf(texts(entries.Follows)...)))
		}
	}
	c.alert(&entry)
	if len(c.faults) > 0 {
		return uuid.Nil, c.faults, nil
	}
	if isPlanned {
		next, err := s.Library.NextTime(ctx, plan)
		if err != nil {
			return uuid.Nil, nil, err
		}
		entry.NextAt = &next
	}
	if row == nil {
		return saved(entry.ID, s.Library.Entries.Schedules.Insert(ctx, request.ScopeOf(ctx), entry))
	}
	return saved(entry.ID, s.Library.Entries.Schedules.Update(ctx, request.ScopeOf(ctx), entry))
}

// copiedTask stores in entry which task the schedule copies, or adds a fault. Its error is an internal one.
func (c *fields) copiedTask(ctx context.Context, service *tasks.Service, entry *entries.Schedule) error {
	if c.form.Has("task_id") {
		entry.TaskID = nil
		if id, err := uuid.Parse(c.form.Value("task_id")); err == nil {
			entry.TaskID = &id
		}
	}
	if entry.TaskID == nil {
		c.fail("task_id", request.FieldFault("task_id", request.ValidTask()))
		return nil
	}
	task, err := service.Store.Task(ctx, request.ScopeOf(ctx), *entry.TaskID)
	if err == nil && !task.AsksAgents() {
		c.fail("task_id", request.FieldFault("task_id", request.AskingTask()))
		return nil
	}
	if errors.Is(err, db.ErrNotFound) {
		c.fail("task_id", request.FieldFault("task_id", request.ValidTask()).WithCause(err))
		return nil
	}
	return err
}

// plan stores the cron expression and its time zone in entry, and parses them. isPlanned is false if that added a
// fault.
func (c *fields) plan(entry *entries.Schedule) (plan cron.Plan, isPlanned bool) {
	if c.form.Has("cron") {
		entry.Cron = strings.Join(strings.Fields(c.form.Value("cron")), " ")
	}
	if c.form.Has("timezone") && c.form.Value("timezone") != "" {
		entry.Timezone = c.form.Value("timezone")
	}
	plan, err := cron.Parse(entry.Cron, entry.Timezone)
	var wrong *cron.FieldError
	switch {
	case errors.Is(err, cron.ErrTimezone):
		c.fail("timezone", request.FieldFault("timezone", request.ValidTimezone()).WithCause(err))
	case errors.Is(err, cron.ErrNever):
		c.fail("cron", request.FieldFault("cron", request.CronNever()).WithCause(err))
	case errors.As(err, &wrong):
		c.fail("cron", request.FieldFault("cron", request.ValidCronField(wrong.Field, wrong.Value)).WithCause(err))
	case err != nil:
		c.fail("cron", request.FieldFault("cron", request.ValidCron()).WithCause(err))
	}
	return plan, err == nil
}

// alertFields are the members of an alert as they were typed. prefix begins the names of its fields in faults.
type alertFields struct {
	metric, below, ifWorse, margin, prefix string
}

// alertFields returns the settings of an alert: in JSON, the members of the object alert; in a form, one field each.
func (c *fields) alertFields() (given alertFields, isValid bool) {
	if !c.form.IsJSON {
		return alertFields{
			c.form.Value("alert_metric"), c.form.Value("alert_below"), c.form.Value("alert_worse"),
			c.form.Value("alert_margin"), "alert_",
		}, true
	}
	var object struct {
		Metric  string      `json:"metric"`
		Below   json.Number `json:"below"`
		IfWorse bool        `json:"if_worse"`
		Margin  json.Number `json:"margin"`
	}
	if json.Unmarshal([]byte(c.form.Value("alert")), &object) != nil {
		c.fail("alert", request.FieldFault("alert", request.JSONObject()))
		return given, false
	}
	return alertFields{object.Metric, object.Below.String(), strconv.FormatBool(object.IfWorse), object.Margin.String(),
		"alert."}, true
}

// alert stores the settings of the alert in entry, or adds a fault; null in JSON, or no metric on a page, removes the
// alert.
func (c *fields) alert(entry *entries.Schedule) {
	name := "alert_metric"
	if c.form.IsJSON {
		name = "alert"
	}
	if !c.form.Has(name) {
		return
	}
	entry.AlertMetric, entry.AlertBelow, entry.AlertsWorse, entry.AlertMargin = nil, nil, false, 0
	if c.form.Value(name) == "" {
		return
	}
	given, isValid := c.alertFields()
	if !isValid {
		return
	}
	metric, wrong := measure.Metric(given.metric), func(member string, limit request.Limit) {
		c.fail(given.prefix+member, request.FieldFault(given.prefix+member, limit))
	}
	if !slices.Contains(measure.Metrics, metric) {
		wrong("metric", request.OneOf(texts(measure.Metrics)...))
		return
	}
	entry.AlertMetric, entry.AlertsWorse = &given.metric, given.ifWorse == "true"
	if given.below != "" {
		limit, isNumber := request.Amount(given.below)
		if !isNumber || limit > 1 || !metric.IsShare() {
			wrong("below", request.ValidAlertLimit())
			return
		}
		entry.AlertBelow = &limit
	}
	if given.margin != "" {
		margin, isNumber := request.Amount(given.margin)
		if !isNumber || metric.IsShare() && margin > 1 {
			wrong("margin", request.ValidMargin())
			return
		}
		entry.AlertMargin = margin
	}
	if entry.AlertBelow == nil && !entry.AlertsWorse {
		wrong("below", request.ValidAlertLimit())
	}
}
