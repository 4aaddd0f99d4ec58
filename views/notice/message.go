// Package notice writes the messages that people and programs receive through channels, in the channel's language.
package notice

import (
	"context"
	"encoding/json"
	"strconv"
	"time"

	"github.com/google/uuid"

	"wending/db"
	"wending/db/entries"
	"wending/db/measure"
	"wending/db/outbox"
	"wending/db/report"
	"wending/jobs/courier/notify"
	"wending/jobs/export"
	"wending/jobs/tasks"
	"wending/views/paths"
	"wending/views/results"
	"wending/views/text"
)

// Writer writes messages about the tasks of one store.
type Writer struct {
	Store *db.Store
	Texts *text.Catalogue
	// PublicURL is the address of this site, without a trailing slash; if it is empty, messages have no links.
	PublicURL string
}

// Message returns the message of a delivery, in the channel's language.
func (w Writer) Message(ctx context.Context, d outbox.Delivery, channel entries.Channel) (notify.Message, error) {
	l := w.Texts.Locale(channel.Lang, "")
	m := notify.Message{At: d.CreatedAt, Type: "task." + string(d.Event), Tone: notify.Neutral,
		Colon: l.Text("notify.colon"), LinkText: l.Text("notify.link")}
	task, err := w.Store.Task(ctx, db.AllProjects(), *d.TaskID)
	if err != nil {
		return m, err
	}
	if w.PublicURL != "" {
		m.Link = w.PublicURL + paths.Task(task.ID)
	}
	data := taskData{TaskID: task.ID, TaskName: task.Name, LaunchID: *d.LaunchID}
	if m.Link != "" {
		data.URL = &m.Link
	}
	switch d.Event {
	case outbox.Result:
		return m, w.results(ctx, l, d, task, data, &m)
	case outbox.Progress:
		return m, w.progress(ctx, l, d, task, data, &m)
	case outbox.Alert:
		return m, w.alert(l, d, task, data, &m)
	}
	return m, w.ending(ctx, l, d, task, data, &m)
}

// taskData is the part of the data that every webhook receives.
type taskData struct {
	TaskID   uuid.UUID       `json:"task_id"`
	TaskName string          `json:"task_name"`
	LaunchID uuid.UUID       `json:"launch_id"`
	Kind     db.LaunchKind   `json:"launch_kind,omitempty"`
	Status   db.LaunchStatus `json:"status,omitempty"`
	URL      *string         `json:"url"`
}

// progress returns the message about the progress of a launch.
func (w Writer) progress(ctx context.Context, l text.Locale, d outbox.Delivery, task db.Task, data taskData,
	m *notify.Message) error {
	now, err := report.NewMonitor(w.Store).TaskProgress(ctx, task.ID)
	if err != nil {
		return err
	}
	m.Title = l.Text("notify.progress", "Name", task.Name, "Percent", strconv.Itoa(d.Sequence))
	done := l.Text("notify.runs.done", "Completed", now.Completed, "Total", now.Total, "Failed", now.Failed)
	m.Facts = []notify.Fact{{Name: l.Text("notify.runs"), Value: done, Links: w.link(done, paths.Task(task.ID))}}
	if left, isKnown := now.TimeLeft(); isKnown {
		m.Facts = append(m.Facts, notify.Fact{Name: l.Text("notify.left"), Value: text.Duration(l, left)})
	}
	data.Status = db.LaunchRunning
	m.Data = struct {
		taskData
		Percent  int            `json:"percent"`
		Progress map[string]int `json:"progress"`
	}{data, d.Sequence, map[string]int{"total": now.Total, "completed": now.Completed, "failed": now.Failed}}
	return nil
}

// alert returns the message about the alert of a firing, with the findings.
func (w Writer) alert(l text.Locale, d outbox.Delivery, task db.Task, data taskData, m *notify.Message) error {
	var found measure.Alert
	if d.Detail != nil {
		if err := json.Unmarshal(*d.Detail, &found); err != nil {
			return err
		}
	}
	if len(found.Findings) == 0 && len(found.Drifts) == 0 { // an earlier version announced each finding separately
		found.Findings = []measure.Finding{found.Finding}
	}
	m.Tone = notify.Bad
	m.Title = l.Text("notify.alert", "Name", found.ScheduleName)
	m.Facts = []notify.Fact{{Name: l.Text("notify.task"), Value: task.Name}}
	for _, finding := range found.Findings {
		for _, value := range findingTexts(l, found.Metric, finding) {
			m.Facts = append(m.Facts, notify.Fact{Name: metricName(l, found.Metric, finding.Variant), Value: value,
				Links: w.link(value, metricHref(task, found.Metric, finding.Variant, finding.Value))})
		}
	}
	for _, drift := range found.Drifts {
		said := driftText(l, drift)
		m.Facts = append(m.Facts, notify.Fact{Name: metricName(l, drift.Metric, drift.Variant), Value: said,
			Links: w.link(said, metricHref(task, drift.Metric, drift.Variant, drift.Value))})
	}
	if w.PublicURL != "" {
		trend := l.Text("notify.alert.trend")
		m.Facts = append(m.Facts, notify.Fact{Name: l.Text("notify.alert.schedule"), Value: trend,
			Links: w.link(trend, paths.LibraryEntry("schedules", found.ScheduleID))})
	}
	m.Data = struct {
		taskData
		Alert measure.Alert `json:"alert"`
	}{data, found}
	return nil
}

// link returns a link with the text words to a path on this site; nil if the site's address is unknown.
func (w Writer) link(words, path string) []notify.Link {
	if w.PublicURL == "" {
		return nil
	}
	return []notify.Link{{Text: words, Address: w.PublicURL + path}}
}

// metricHref returns the address of the answers behind a metric's value; variant is empty if there is only one.
func metricHref(task db.Task, metric measure.Metric, variant string, value float64) string {
	number := 0
	for _, one := range task.Variants {
		if variant != "" && one.Name == variant {
			number = one.Number
		}
	}
	return results.MetricHref(task.ID, number, metric, value)
}

// metricName returns the name of a metric, together with the variant if it has a name.
func metricName(l text.Locale, metric measure.Metric, variant string) string {
	name := l.Text("trend.metric." + string(metric))
	if variant == "" {
		return name
	}
	return l.Text("notify.of", "Question", name, "Name", variant)
}

// driftText returns a sentence about a moving average that left its limits.
func driftText(l text.Locale, d measure.Drift) string {
	key := "notify.alert.drift.above"
	if d.Average < d.Low {
		key = "notify.alert.drift.below"
	}
	return l.Text(key, "Value", metricText(d.Metric, d.Value), "Average", metricText(d.Metric, d.Average),
		"Limit", metricText(d.Metric, d.Limit()))
}

// findingTexts returns sentences about a variant's findings.
func findingTexts(l text.Locale, metric measure.Metric, f measure.Finding) (texts []string) {
	value := metricText(metric, f.Value)
	if f.Below != nil {
		texts = append(texts, l.Text("notify.alert.below", "Value", value, "Limit", metricText(metric, *f.Below)))
	}
	if f.Baseline != nil {
		texts = append(texts, l.Text("notify.alert.worse", "Value", value, "Baseline", metricText(metric, *f.Baseline),
			"Count", f.Firings))
	}
	return texts
}

// metricText formats the value of a metric.
func metricText(metric measure.Metric, value float64) string {
	switch {
	case metric == measure.MetricLatency:
		return text.Millis(&value)
	case !metric.IsShare():
		return text.Significant(value, 6)
	}
	return text.Percent(&value)
}

// pushedRun is a run as a webhook receives it.
type pushedRun struct {
	RunID        int64               `json:"run_id"`
	QuestionID   string              `json:"question_id"`
	Question     string              `json:"question"`
	Series       *string             `json:"series,omitempty"`
	Turn         *int                `json:"turn,omitempty"`
	Variant      int                 `json:"variant"`
	RunIndex     int                 `json:"run_index"`
	Status       db.RunStatus        `json:"status"`
	Output       *string             `json:"output"`
	ErrorCode    *string             `json:"error_code"`
	ErrorMessage *string             `json:"error_message"`
	FinishReason *string             `json:"finish_reason"`
	TraceID      *string             `json:"trace_id"`
	AgentTraceID *string             `json:"agent_trace_id"`
	LatencyMS    *int                `json:"latency_ms"`
	FirstTokenMS *int                `json:"first_token_ms"`
	Attempts     int                 `json:"attempts"`
	InputTokens  *int                `json:"input_tokens"`
	OutputTokens *int                `json:"output_tokens"`
	TotalTokens  *int                `json:"total_tokens"`
	Cost         *string             `json:"cost"`
	Currency     *string             `json:"currency"`
	Passed       *bool               `json:"passed"`
	Score        *float64            `json:"score"`
	Evaluations  []export.Evaluation `json:"evaluations"`
	// MeaningGroup is the same letter for all answers to the question that say the same thing; nil if unknown.
	MeaningGroup *string `json:"meaning_group"`
	CompletedAt  string  `json:"completed_at"`
}

// results returns the message with a batch of runs that have ended.
func (w Writer) results(ctx context.Context, l text.Locale, d outbox.Delivery, task db.Task, data taskData,
	m *notify.Message) error {
	ids, err := w.Store.Outbox().Batch(ctx, *d.LaunchID, d.Sequence)
	if err != nil {
		return err
	}
	letters, err := report.New(w.Store).MeaningLetters(ctx, ids)
	if err != nil {
		return err
	}
	runs := []pushedRun{}
	err = report.New(w.Store).EachWholeRun(ctx, ids, func(run db.WholeRun) error {
		one := pushedRun{
			RunID: run.ID, QuestionID: run.QuestionID, Question: run.Question, Series: run.Series, Turn: run.Turn,
			Variant: run.Variant, RunIndex: run.RunIndex,
			Status: run.Status, Output: run.Response, ErrorCode: run.ErrorCode, ErrorMessage: run.ErrorMessage,
			FinishReason: run.FinishReason, TraceID: run.TraceID, AgentTraceID: run.AgentTraceID, LatencyMS: run.LatencyMS,
			FirstTokenMS: run.FirstTokenMS, Attempts: run.Attempts, InputTokens: run.InputTokens, OutputTokens: run.OutputTokens,
			TotalTokens: run.TotalTokens,
			Cost:        run.Cost, Passed: run.Passed, Score: run.Score,
			Evaluations:  tasks.Verdicts(run.Evaluations, task.Evaluators, l.Reason),
			MeaningGroup: letters[run.ID], CompletedAt: export.BeijingTime(run.CreatedAt),
		}
		if run.Cost != nil {
			one.Currency = task.Target(task.Variants[run.Variant-1].Target).Currency
		}
		runs = append(runs, one)
		return nil
	})
	if err != nil {
		return err
	}
	data.Status = db.LaunchRunning
	m.Title = task.Name
	m.Data = struct {
		taskData
		Batch int         `json:"batch"`
		Runs  []pushedRun `json:"runs"`
	}{data, d.Sequence, runs}
	return nil
}

// Test returns the message for testing a channel.
func Test(l text.Locale, channel entries.Channel) notify.Message {
	return notify.Message{
		Type: "channel.test", At: time.Now(), Title: l.Text("notify.test", "Name", channel.Name), Tone: notify.Neutral,
		Colon: l.Text("notify.colon"),
		Facts: []notify.Fact{{Name: l.Text("notify.test.what"), Value: l.Text("notify.test.works")}},
		Data:  map[string]any{"channel_id": channel.ID, "channel_name": channel.Name},
	}
}
