package courier

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"

	"wending/db"
	"wending/db/history"
	entries "wending/db/library"
	"wending/db/monitor"
	"wending/db/outbox"
	"wending/db/report"
	"wending/db/schedule"
	"wending/jobs/beijing"
	"wending/jobs/evaluate"
	"wending/jobs/export"
	"wending/jobs/notify"
	"wending/jobs/tasks"
	"wending/jobs/trend"
	"wending/views/paths"
	"wending/views/text"
)

// message writes what a delivery tells, in the channel's language.
func (c *Courier) message(ctx context.Context, d outbox.Delivery, channel entries.Channel) (notify.Message, error) {
	l := c.Texts.Locale(channel.Lang, "")
	m := notify.Message{At: d.CreatedAt, Type: "task." + string(d.Event), Tone: notify.Neutral, Colon: l.Text("notify.colon"), LinkText: l.Text("notify.link")}
	task, err := c.Store.Task(ctx, *d.TaskID)
	if err != nil {
		return m, err
	}
	if c.PublicURL != "" {
		m.Link = c.PublicURL + paths.Task(task.ID)
	}
	data := taskData{TaskID: task.ID, TaskName: task.Name, LaunchID: *d.LaunchID}
	if m.Link != "" {
		data.URL = &m.Link
	}
	switch d.Event {
	case outbox.Result:
		return m, c.results(ctx, d, task, data, &m)
	case outbox.Progress:
		return m, c.progress(ctx, l, d, task, data, &m)
	case outbox.Alert:
		return m, c.alert(l, d, task, data, &m)
	}
	return m, c.ending(ctx, l, d, task, data, &m)
}

// taskData is what every webhook is told.
type taskData struct {
	TaskID   uuid.UUID       `json:"task_id"`
	TaskName string          `json:"task_name"`
	LaunchID uuid.UUID       `json:"launch_id"`
	Kind     db.LaunchKind   `json:"launch_kind,omitempty"`
	Status   db.LaunchStatus `json:"status,omitempty"`
	URL      *string         `json:"url"`
}

// stats are the statistics of a task as a webhook has them.
type stats struct {
	db.TaskStatistics
	// Verdicts are those of a task with one variant and evaluators.
	*evaluate.Statistics
	Variants []variantStats `json:"variants,omitempty"`
}

type variantStats struct {
	Number      int      `json:"number"`
	Name        string   `json:"name"`
	SuccessRate *float64 `json:"success_rate"`
	Agreement   *float64 `json:"agreement"`
	PassRate    *float64 `json:"pass_rate"`
	LatencyP50  *float64 `json:"latency_p50_ms"`
	Cost        *string  `json:"cost"`
	Currency    *string  `json:"currency"`
}

// ending tells how a launch ended: what ran, its headline numbers, what got worse.
func (c *Courier) ending(ctx context.Context, l text.Locale, d outbox.Delivery, task db.Task, data taskData, m *notify.Message) error {
	launch, err := history.New(c.Store).Launch(ctx, task.ID, *d.LaunchID)
	if err != nil {
		return err
	}
	m.Title = l.Text("notify."+string(d.Event), "Name", task.Name)
	m.Tone = map[outbox.Event]notify.Tone{outbox.Finished: notify.Good, outbox.Failed: notify.Bad, outbox.Stopped: notify.Neutral}[d.Event]
	statistics, err := c.Store.TaskStatistics(ctx, task)
	if err != nil {
		return err
	}
	variants, err := c.report().VariantStatistics(ctx, task.ID)
	if err != nil {
		return err
	}
	verdicts := map[int]evaluate.Statistics{}
	if len(task.Evaluators) > 0 {
		if verdicts, err = c.report().PassStatistics(ctx, task, false); err != nil {
			return err
		}
	}
	if statistics.Succeeded == 0 || statistics.Failed+statistics.TimedOut > 0 && m.Tone == notify.Good {
		m.Tone = notify.Neutral
	}
	add := func(key, value string) {
		if value != "–" {
			m.Facts = append(m.Facts, notify.Fact{Name: l.Text(key), Value: value})
		}
	}
	if launch.Kind != db.LaunchSubmit {
		add("notify.launch", l.Text("launch.kind."+string(launch.Kind)))
	}
	if task.FailureCode != nil && d.Event == outbox.Failed {
		add("notify.reason", l.Text("failure."+*task.FailureCode))
	}
	add("notify.runs", l.Text("notify.runs.of", "Succeeded", statistics.Succeeded, "Expected", statistics.RunsExpected))
	for _, one := range variants[:min(len(variants), variantsShown)] {
		verdict := verdicts[one.Number]
		if len(variants) > 1 {
			add("notify.variant", l.Text("notify.variant.line", "Name", one.Name, "Agreement", text.Percent(one.Agreement), "Pass", text.Percent(verdict.PassRate)))
			continue
		}
		add("notify.agreement", text.Percent(one.Agreement))
		add("notify.pass", text.Percent(verdict.PassRate))
		add("notify.latency", text.Millis(one.LatencyP50))
		add("notify.cost", text.Cost(one.Cost, one.Currency))
	}
	if launch.Statistics.Duration != nil {
		add("notify.duration", text.Duration(l, time.Duration(*launch.Statistics.Duration*float64(time.Second))))
	}
	own := stats{TaskStatistics: statistics}
	for _, one := range variants {
		verdict, isJudged := verdicts[one.Number]
		if len(variants) == 1 {
			if isJudged {
				own.Statistics = &verdict
			}
			break
		}
		own.Variants = append(own.Variants, variantStats{
			one.Number, one.Name, one.SuccessRate, one.Agreement, verdict.PassRate, one.LatencyP50, one.Cost, one.Currency,
		})
	}
	data.Kind, data.Status = launch.Kind, launch.Status
	worse, before, err := c.worse(ctx, l, task)
	if err != nil {
		return err
	}
	if m.Worse = worse; len(worse) > 0 {
		m.WorseTitle, m.Tone = l.Text("notify.worse", "Name", before), notify.Bad
	}
	m.Data = struct {
		taskData
		Stats stats    `json:"stats"`
		Worse []string `json:"worse"`
	}{data, own, append([]string{}, worse...)}
	return nil
}

// variantsShown is how many variants a message has.
const variantsShown = 6

// progress tells how far a launch is.
func (c *Courier) progress(ctx context.Context, l text.Locale, d outbox.Delivery, task db.Task, data taskData, m *notify.Message) error {
	now, err := monitor.New(c.Store).TaskProgress(ctx, task.ID)
	if err != nil {
		return err
	}
	m.Title = l.Text("notify.progress", "Name", task.Name, "Percent", strconv.Itoa(d.Sequence))
	m.Facts = []notify.Fact{{Name: l.Text("notify.runs"), Value: l.Text("notify.runs.done", "Completed", now.Completed, "Total", now.Total, "Failed", now.Failed)}}
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

// alert tells which limit was crossed, as it was found.
func (c *Courier) alert(l text.Locale, d outbox.Delivery, task db.Task, data taskData, m *notify.Message) error {
	var found Alert
	if d.Detail != nil {
		if err := json.Unmarshal(*d.Detail, &found); err != nil {
			return err
		}
	}
	m.Tone = notify.Bad
	m.Title = l.Text("notify.alert", "Name", found.ScheduleName)
	m.Facts = []notify.Fact{
		{Name: l.Text("notify.task"), Value: task.Name},
		{Name: l.Text("trend.metric." + string(found.Metric)), Value: found.text(l)},
	}
	if found.Variant != "" {
		m.Facts = append(m.Facts, notify.Fact{Name: l.Text("notify.variant"), Value: found.Variant})
	}
	m.Data = struct {
		taskData
		Alert Alert `json:"alert"`
	}{data, found}
	return nil
}

// Alert is why a schedule's limit is crossed: the detail of a delivery.
type Alert struct {
	ScheduleID   uuid.UUID `json:"schedule_id"`
	ScheduleName string    `json:"schedule_name"`
	// Variant is which of several; empty for a plain task.
	Variant string       `json:"variant,omitempty"`
	Metric  trend.Metric `json:"metric"`
	Value   float64      `json:"value"`
	// Below is the limit that it is below; nil means that it is significantly worse than Baseline, its mean over the Firings
	// before.
	Below    *float64 `json:"below,omitempty"`
	Baseline *float64 `json:"baseline,omitempty"`
	Firings  int      `json:"firings,omitempty"`
}

// text says the alert in words.
func (a Alert) text(l text.Locale) string {
	if a.Below != nil {
		return l.Text("notify.alert.below", "Value", metricText(a.Metric, a.Value), "Limit", metricText(a.Metric, *a.Below))
	}
	return l.Text("notify.alert.worse", "Value", metricText(a.Metric, a.Value), "Baseline", metricText(a.Metric, *a.Baseline), "Count", a.Firings)
}

// metricText writes the value of a metric.
func metricText(metric trend.Metric, value float64) string {
	switch {
	case metric == trend.Latency:
		return text.Millis(&value)
	case !metric.IsShare():
		return strconv.FormatFloat(value, 'g', 6, 64)
	}
	return text.Percent(&value)
}

// pushedRun is a run as a webhook is given it.
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
	CompletedAt  string              `json:"completed_at"`
}

// results carries a batch of runs that have ended.
func (c *Courier) results(ctx context.Context, d outbox.Delivery, task db.Task, data taskData, m *notify.Message) error {
	ids, err := c.outbox().Batch(ctx, *d.LaunchID, d.Sequence)
	if err != nil {
		return err
	}
	runs := []pushedRun{}
	err = c.report().EachWholeRun(ctx, ids, func(run report.WholeRun) error {
		one := pushedRun{
			RunID: run.ID, QuestionID: run.QuestionID, Question: run.Question, Series: run.Series, Turn: run.Turn, Variant: run.Variant, RunIndex: run.RunIndex,
			Status: run.Status, Output: run.Response, ErrorCode: run.ErrorCode, ErrorMessage: run.ErrorMessage,
			FinishReason: run.FinishReason, LatencyMS: run.LatencyMS,
			FirstTokenMS: run.FirstTokenMS, Attempts: run.Attempts, InputTokens: run.InputTokens, OutputTokens: run.OutputTokens, TotalTokens: run.TotalTokens,
			Cost: run.Cost, Passed: run.Passed, Score: run.Score, Evaluations: tasks.Verdicts(run.Evaluations, task.Evaluators), CompletedAt: beijing.RFC3339(run.CreatedAt),
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

// worseShown is how many questions that got worse a message names.
const worseShown = 5

// worse says which questions of a task that a schedule made got worse since the firing before, whose task has the name before.
func (c *Courier) worse(ctx context.Context, l text.Locale, task db.Task) (lines []string, before string, err error) {
	earlier, err := schedule.New(c.Store).Before(ctx, task.ID, 1)
	if err != nil || len(earlier) == 0 {
		return nil, "", err
	}
	previous, err := c.Store.Task(ctx, *earlier[0].TaskID)
	if errors.Is(err, db.ErrNotFound) {
		return nil, "", nil
	}
	if err != nil {
		return nil, "", err
	}
	compared, err := c.report().Compare(ctx, report.Side{TaskID: previous.ID, Variant: 1}, report.Side{TaskID: task.ID, Variant: 1})
	if err != nil {
		return nil, "", err
	}
	type fall struct {
		id       string
		from, to float64
	}
	var falls []fall
	key := "notify.worse.agreement"
	for _, pair := range compared.Pairs {
		from, to := pair.A.Agreement, pair.B.Agreement
		if len(task.Evaluators) > 0 {
			key, from, to = "notify.worse.pass", pair.A.PassShare, pair.B.PassShare
		}
		if from != nil && to != nil && *to < *from {
			falls = append(falls, fall{pair.B.QuestionID, *from, *to})
		}
	}
	slices.SortStableFunc(falls, func(a, b fall) int { return cmp.Compare(b.from-b.to, a.from-a.to) })
	for _, one := range falls[:min(len(falls), worseShown)] {
		lines = append(lines, l.Text(key, "Question", one.id, "From", text.Percent(&one.from), "To", text.Percent(&one.to)))
	}
	if more := len(falls) - worseShown; more > 0 {
		lines = append(lines, l.Text("notify.worse.more", "Count", more))
	}
	return lines, previous.Name, nil
}
