package api

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humaecho"
	"github.com/google/uuid"

	"wending/db"
	"wending/db/monitor"
	"wending/db/report"
	"wending/db/review"
	"wending/handlers/fault"
	"wending/handlers/live"
	"wending/handlers/reading"
	"wending/handlers/request"
	"wending/handlers/rest"
	"wending/jobs/beijing"
	"wending/jobs/export"
	"wending/jobs/stability"
	"wending/jobs/tasks"
	"wending/views/text"
)

const (
	// heartbeatEvery is the time between two heartbeats of an idle stream.
	heartbeatEvery = 15 * time.Second
	// reconnectAfter is how long a browser waits before it connects again.
	reconnectAfter = 2 * time.Second
)

// Content types of the reports.
var exportTypes = map[string]string{
	"csv":   "text/csv; charset=utf-8",
	"xlsx":  "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
	"jsonl": "application/x-ndjson; charset=utf-8",
	"html":  "text/html; charset=utf-8",
}

func (h *handler) registerStreams(api huma.API) {
	schemas := api.OpenAPI().Components.Schemas
	rest.Register(api, h.Failed, rest.Endpoint{
		Method: http.MethodGet, Path: tasksPath + "/{task_id}/results", ID: "get-results", Tag: "tasks", Summary: "Get the raw answers, question by question",
		Description: "Available once the first launch has ended, also while a later one is active; with partial=1 also before, for the questions whose runs have all ended.",
		Faults:      []string{"TASK_NOT_FOUND", "TASK_NOT_FINISHED", "PARAMETER_INVALID"},
		Responses:   map[string]*huma.Response{"200": rest.Content[results](schemas, "A page of answers", "application/json")},
	}, h.getResults)
	rest.Register(api, h.Failed, rest.Endpoint{
		Method: http.MethodGet, Path: tasksPath + "/{task_id}/export", ID: "export-results", Tag: "tasks", Summary: "Download the report",
		Description: "In CSV, a cell that a spreadsheet might run has one leading '. JSONL has every text exactly, with base64 beside what is not valid UTF-8.",
		Faults:      []string{"TASK_NOT_FOUND", "TASK_NOT_FINISHED", "PARAMETER_INVALID"},
		Responses: map[string]*huma.Response{"200": rest.Download("The report", map[string]string{
			exportTypes["csv"]: "question_id,question,standard_answer,_system_prompt,_user_context,run_1_output,run_1_status,run_1_latency_ms,run_1_error_code,_created_at,_completed_at\n" +
				"q1,中国的首都是哪里？,北京,,,北京,SUCCEEDED,812,,2026-11-21T22:50:00+08:00,2026-11-21T22:55:08+08:00\n",
			exportTypes["xlsx"]: "",
			exportTypes["html"]: "<!DOCTYPE html>…",
			exportTypes["jsonl"]: `{"question_id":"q1","question":"中国的首都是哪里？","standard_answer":"北京","system_prompt":null,"user_context":null,"runs":[` +
				`{"variant":1,"run_index":1,"output":"北京","status":"SUCCEEDED","latency_ms":812,"error_code":null,"error_message":null}],` +
				`"created_at":"2026-11-21T22:50:00+08:00","completed_at":"2026-11-21T22:55:08+08:00"}`,
		})},
	}, h.exportResults)
	rest.Register(api, h.Failed, rest.Endpoint{
		Method: http.MethodGet, Path: tasksPath + "/{task_id}/progress", ID: "follow-progress", Tag: "tasks", Summary: "Follow a task's progress as server-sent events",
		Description: "`progress` at every change, then one of `completed`, `stopped`, `failed`, with which the stream ends. Every event is the whole " +
			"state. A client that reconnects after the end gets 204.",
		Faults: []string{"TASK_NOT_FOUND"},
		Responses: map[string]*huma.Response{
			"200": rest.Content[progressEvent](schemas, "Events", "text/event-stream"),
			"204": {Description: "The client has seen the end (Last-Event-ID)"},
		},
	}, h.followProgress)
	rest.Register(api, h.Failed, rest.Endpoint{
		Method: http.MethodGet, Path: tasksPath + "/{task_id}/runs/{run_id}", ID: "get-run-text", Tag: "tasks", Summary: "Get the exact text of one run's answer",
		Description: "Byte for byte, also of a run that a later launch replaced.",
		Faults:      []string{"TASK_NOT_FOUND", "RUN_NOT_FOUND"},
		Responses:   map[string]*huma.Response{"200": rest.Download("The answer", map[string]string{"text/plain; charset=utf-8": "北京"})},
	}, h.getRunText)
}

func (h *handler) getRunText(ctx context.Context, input *RunPath) (*runTextOutput, error) {
	task, err := h.task(ctx, input.TaskID)
	if err != nil {
		return nil, err
	}
	id, err := request.RunID(input.RunID)
	if err != nil {
		return nil, err
	}
	response, err := report.New(h.Store).RunResponse(ctx, task.ID, id)
	if err != nil {
		return nil, err
	}
	return &runTextOutput{
		ContentType: "text/plain; charset=utf-8", Policy: "sandbox; default-src 'none'", Body: response,
	}, nil
}

type exportInput struct {
	TaskPath
	Format        string `query:"format" enum:"csv,xlsx,jsonl,html" default:"csv" doc:"Format of the report" example:"csv"`
	IncludeErrors bool   `query:"include_errors" default:"true" doc:"false leaves out the columns of error codes"`
}

// reportWriter is a report being written, in any format.
type reportWriter interface {
	Write(export.Item) error
	Close() error
}

// exportResults streams a task's report. It is written while the database is read.
func (h *handler) exportResults(ctx context.Context, input *exportInput) (*huma.StreamResponse, error) {
	task, err := h.resultsTask(ctx, input.TaskID, false)
	if err != nil {
		return nil, err
	}
	if input.Format == "html" {
		return h.exportDocument(ctx, task)
	}
	statistics, err := h.Store.TaskStatistics(ctx, task)
	if err != nil {
		return nil, err
	}
	reviews, err := h.reviewsByQuestion(ctx, task.ID)
	if err != nil {
		return nil, err
	}
	head := newReport(task, statistics, input.IncludeErrors)
	head.HasReviews = len(reviews) > 0
	var lines []string // the report in a few lines, for the first sheet
	if input.Format == "xlsx" {
		numbers, err := reading.New(h.Store).Summary(ctx, task)
		if err != nil {
			return nil, err
		}
		lines = numbers.Lines(request.From(ctx).Locale)
	}
	return rest.Stream(h.Failed, func(ctx huma.Context) error {
		c := humaecho.Unwrap(ctx)
		header := c.Response().Header()
		header.Set("Content-Type", exportTypes[input.Format])
		header.Set("Content-Disposition", export.ContentDisposition(task.Name, input.Format))
		c.Response().WriteHeader(http.StatusOK)
		stream := live.NewStream(c.Response())
		writer, err := newWriter(stream, input.Format, head, func() export.Texts {
			return exportTexts(request.From(ctx.Context()).Locale, task, head, statistics, lines)
		})
		if err != nil {
			return err
		}
		stream.Flush()
		var limit *int
		if input.Format == "xlsx" {
			most := export.MaxCellText
			limit = &most
		}
		number, last := 0, ""
		err = report.New(h.Store).EachRow(ctx.Context(), task.ID, limit, func(row report.Row) error {
			item, err := exportItem(task, row)
			if err != nil {
				return err
			}
			if number == 0 || item.QuestionID != last {
				number, last = number+1, item.QuestionID
			}
			item.Number = number
			for _, one := range reviews[item.QuestionID] {
				if one.Variant == item.Variant {
					item.Reviews = append(item.Reviews, one)
				}
			}
			return writer.Write(item)
		})
		if err != nil {
			return err
		}
		if err := writer.Close(); err != nil {
			return err
		}
		return stream.Err()
	}), nil
}

// exportDocument streams a task's report as one file for a browser.
func (h *handler) exportDocument(ctx context.Context, task db.Task) (*huma.StreamResponse, error) {
	write, err := reading.New(h.Store).Document(ctx, task)
	if err != nil {
		return nil, err
	}
	return rest.Stream(h.Failed, func(ctx huma.Context) error {
		c := humaecho.Unwrap(ctx)
		header := c.Response().Header()
		header.Set("Content-Type", exportTypes["html"])
		header.Set("Content-Disposition", export.ContentDisposition(task.Name, "html"))
		c.Response().WriteHeader(http.StatusOK)
		stream := live.NewStream(c.Response())
		if err := write(ctx.Context(), stream); err != nil {
			return err
		}
		return stream.Err()
	}), nil
}

func newWriter(w io.Writer, format string, report export.Report, texts func() export.Texts) (reportWriter, error) {
	switch format {
	case "xlsx":
		return export.NewXLSX(w, report, texts())
	case "jsonl":
		return export.NewJSONL(w, report), nil
	}
	return export.NewCSV(w, report)
}

func newReport(task db.Task, statistics db.TaskStatistics, includeErrors bool) export.Report {
	report := export.Report{
		TaskName: task.Name, AgentURL: typed(task).URL, RunsPerItem: task.RunsPerItem, CreatedAt: task.CreatedAt, CompletedAt: task.CompletedAt,
		VariableNames: task.VariableNames, IncludeErrors: includeErrors,
		Items: task.TotalItems, Succeeded: statistics.Succeeded, Failed: statistics.Failed + statistics.TimedOut, Stopped: statistics.Stopped,
	}
	if !task.IsPlain() || len(task.Evaluators) > 0 {
		report.Variants, report.Evaluators = exportVariants(task), exportEvaluators(task.Evaluators)
	}
	if model := typed(task).Model; model != nil {
		report.AgentModel = *model
	}
	return report
}

// exportVariants are the variants of a task that compares some.
func exportVariants(task db.Task) []export.Variant {
	list := make([]export.Variant, len(task.Variants))
	for n, variant := range task.Variants {
		target := task.Targets[variant.Target-1]
		list[n] = export.Variant{Number: variant.Number, Name: variant.Name, Target: target.Name}
		if target.Kind == db.TargetURL {
			list[n].Target = target.URL
		}
		if target.Currency != nil {
			list[n].Currency = *target.Currency
		}
		if variant.PromptVersion != nil {
			list[n].Prompt, _, _ = strings.Cut(variant.Name, " × ")
		}
	}
	return list
}

// exportEvaluators lists a task's evaluators. Where two are versions of the same one, their columns name the version.
func exportEvaluators(evaluators []db.Evaluator) []export.Evaluator {
	counts := map[string]int{}
	for _, one := range evaluators {
		counts[one.Name]++
	}
	list := make([]export.Evaluator, len(evaluators))
	for n, one := range evaluators {
		list[n] = export.Evaluator{Number: one.Number, Column: one.Name}
		if counts[one.Name] > 1 {
			list[n].Column += " v" + strconv.Itoa(one.Version)
		}
	}
	return list
}

// exportTexts are the information page of a workbook and the names of its sheets.
func exportTexts(locale text.Locale, task db.Task, report export.Report, statistics db.TaskStatistics, lines []string) export.Texts {
	shown := func(t *time.Time) string {
		if t == nil {
			return ""
		}
		return beijing.RFC3339(*t)
	}
	texts := export.Texts{
		Info: [][2]string{
			{locale.Text("export.info.name"), report.TaskName},
			{locale.Text("export.info.url"), report.AgentURL},
			{locale.Text("export.info.model"), report.AgentModel},
			{locale.Text("export.info.runs"), strconv.Itoa(report.RunsPerItem)},
			{locale.Text("export.info.items"), strconv.Itoa(report.Items)},
			{locale.Text("export.info.succeeded"), strconv.Itoa(report.Succeeded)},
			{locale.Text("export.info.failed"), strconv.Itoa(report.Failed)},
			{locale.Text("export.info.stopped"), strconv.Itoa(report.Stopped)},
			{locale.Text("export.info.agreement"), text.Percent(statistics.Agreement)},
			{locale.Text("export.info.levels"), levelCounts(locale, statistics)},
			{locale.Text("export.info.status"), locale.Text("status." + string(task.Status))},
			{locale.Text("export.info.created"), beijing.RFC3339(task.CreatedAt)},
			{locale.Text("export.info.started"), shown(task.StartedAt)},
			{locale.Text("export.info.completed"), shown(task.CompletedAt)},
			{locale.Text("export.info.duration"), text.Seconds(locale, statistics.Duration)},
		},
		InfoSheet: locale.Text("export.sheet.info"), ResultsSheet: locale.Text("export.sheet.results"),
		StabilitySheet: locale.Text("export.sheet.stability"), ReviewSheet: locale.Text("export.sheet.review"), CutMark: locale.Text("export.cut"),
	}
	for n, line := range lines {
		title := ""
		if n == 0 {
			title = locale.Text("summary.crumb")
		}
		texts.Info = append(texts.Info, [2]string{title, line})
	}
	return texts
}

// reviewsByQuestion are a task's reviews by the id of their question.
func (h *handler) reviewsByQuestion(ctx context.Context, taskID uuid.UUID) (map[string][]export.Review, error) {
	found, err := review.New(h.Store).List(ctx, taskID, "", "")
	if err != nil {
		return nil, err
	}
	reviews := map[string][]export.Review{}
	for _, r := range found {
		reviews[r.QuestionID] = append(reviews[r.QuestionID], export.Review{
			Variant: r.Variant, RunIndex: r.RunIndex, Reviewer: r.Reviewer, Verdict: string(r.Verdict), Note: r.Note, Version: r.Version, IsOutdated: r.IsOutdated, CreatedAt: r.CreatedAt,
		})
	}
	return reviews, nil
}

// levelCounts lists how many questions have each level.
func levelCounts(locale text.Locale, statistics db.TaskStatistics) string {
	var parts []string
	for _, level := range stability.Levels {
		if count := statistics.Levels[string(level)]; count > 0 {
			parts = append(parts, locale.Text("level."+string(level))+" "+strconv.Itoa(count))
		}
	}
	return strings.Join(parts, " · ")
}

func exportItem(task db.Task, row report.Row) (export.Item, error) {
	if len(row.Variables) != len(task.VariableNames) {
		return export.Item{}, fmt.Errorf("question %s has %d values for %d columns", row.QuestionID, len(row.Variables), len(task.VariableNames))
	}
	item := export.Item{
		Variant: row.Variant, QuestionID: row.QuestionID, Question: row.Question, StandardAnswer: row.StandardAnswer, SystemPrompt: row.SystemPrompt, UserContext: row.UserContext,
		Variables: row.Variables, Series: row.Series, Turn: row.Turn,
		Likeness: export.Likeness{Agreement: row.Agreement, Similarity: row.Similarity, Distinct: row.Answers},
	}
	if row.Level != nil {
		item.Level, item.Letters = string(*row.Level), *row.Letters
	}
	for _, run := range row.Runs {
		session := ""
		if row.Turn != nil {
			session = tasks.SessionID(run.LaunchID, run.UnitID)
		}
		item.Runs = append(item.Runs, export.Run{
			Index: run.RunIndex, SessionID: session, Status: string(run.Status), Response: run.Response, Exact: run.Exact,
			LatencyMS: run.LatencyMS, ErrorCode: run.ErrorCode, ErrorMessage: run.ErrorMessage,
			Usage: export.Usage{
				InputTokens: run.InputTokens, OutputTokens: run.OutputTokens, ReasoningTokens: run.ReasoningTokens, TotalTokens: run.TotalTokens,
				Cost: run.Cost, FirstTokenMS: run.FirstTokenMS,
			},
			Evaluations: tasks.Verdicts(run.Evaluations, task.Evaluators),
		})
	}
	return item, nil
}

// progressEvent is the data of the event "progress" (spec/000 5.2, and more).
type progressEvent struct {
	Total     int `json:"total" doc:"Runs that the task is to have" example:"500"`
	Completed int `json:"completed" doc:"Runs that have ended, failed ones included" example:"120"`
	Failed    int `json:"failed" example:"2"`
	Running   int `json:"running" example:"4"`
	Queued    int `json:"queued" example:"376"`
	// JudgeTotal and the others count the calls to judges of the newest launch.
	JudgeTotal  int `json:"judge_total,omitempty" doc:"Calls to judges" example:"500"`
	Judged      int `json:"judged,omitempty" doc:"Of which so many have ended" example:"310"`
	JudgeFailed int `json:"judge_failed,omitempty" doc:"And so many of these without a rating" example:"1"`
	// CallsPerSecond is that of the last ten seconds; SecondsLeft follows from it, null if unknown.
	CallsPerSecond float64       `json:"calls_per_second" doc:"Over the last ten seconds" example:"8.3"`
	SecondsLeft    *float64      `json:"seconds_left" doc:"At that rate; null if unknown" example:"45.8"`
	Status         db.TaskStatus `json:"status" enum:"PENDING,RUNNING,SUCCEEDED,FAILED,STOPPED" example:"RUNNING"`
	IsStopping     bool          `json:"is_stopping"`
	Launch         int           `json:"launch" doc:"Number of the newest launch; 0 if the task was never started" example:"1"`
}

func newProgressEvent(p monitor.Progress) progressEvent {
	event := progressEvent{
		Total: p.Total, Completed: p.Completed, Failed: p.Failed, Running: p.Running, Queued: p.Queued,
		JudgeTotal: p.JudgeTotal, Judged: p.Judged, JudgeFailed: p.JudgeFailed,
		CallsPerSecond: p.CallsPerSecond, Status: p.TaskStatus, IsStopping: p.IsStopping, Launch: p.LaunchNumber,
	}
	if left, isKnown := p.TimeLeft(); isKnown {
		seconds := left.Seconds()
		event.SecondsLeft = &seconds
	}
	return event
}

// endEvent is the data of the events "completed", "failed" and "stopped".
type endEvent struct {
	Status  db.TaskStatus     `json:"status"`
	Stats   db.TaskStatistics `json:"stats"`
	Error   *string           `json:"error,omitempty"`
	Message string            `json:"message,omitempty"`
}

var endEvents = map[db.TaskStatus]string{db.TaskSucceeded: "completed", db.TaskFailed: "failed", db.TaskStopped: "stopped"}

// endID is the id of the event that ends a stream. A client that reconnects with it has seen everything.
func endID(p monitor.Progress) string { return fmt.Sprintf("%d-end", p.LaunchNumber) }

type followInput struct {
	TaskPath
	LastEventID string `header:"Last-Event-ID" doc:"Id of the last event that was received"`
}

// followProgress sends a task's progress as server-sent events: its state now, every change of it, and its end,
// which closes the stream. Every event is the whole state, so a client that reconnects misses nothing; one that
// has seen the end gets 204, so that it does not reconnect.
func (h *handler) followProgress(ctx context.Context, input *followInput) (*huma.StreamResponse, error) {
	task, err := h.task(ctx, input.TaskID)
	if err != nil {
		return nil, err
	}
	return &huma.StreamResponse{Body: func(ctx huma.Context) {
		c := humaecho.Unwrap(ctx)
		leave, err := request.From(ctx.Context()).Gates.Followers.Enter(ctx.Context())
		if err != nil {
			c.Error(err)
			return
		}
		defer leave()
		watcher := h.Progress.Watch(task.ID)
		defer watcher.Close()
		progress, err := watcher.Fresh(ctx.Context())
		if err != nil {
			status, body := rest.Failure(ctx.Context(), err)
			_ = c.JSON(status, body)
			return
		}
		if !progress.TaskStatus.IsActive() && input.LastEventID == endID(progress) {
			_ = c.NoContent(http.StatusNoContent)
			return
		}
		h.sendProgress(ctx.Context(), live.NewEvents(c.Response(), reconnectAfter), watcher, progress)
	}}, nil
}

// sendProgress sends events until the task ends, the client goes or the server closes.
func (h *handler) sendProgress(ctx context.Context, events live.Events, watcher *progressWatcher, progress monitor.Progress) {
	tick, heartbeat := time.NewTicker(live.ReadEvery), time.NewTicker(heartbeatEvery)
	defer tick.Stop()
	defer heartbeat.Stop()
	var sent monitor.Progress
	for isFirst := true; events.Err() == nil; isFirst = false {
		if isFirst || progress != sent {
			events.Send("progress", fmt.Sprintf("%d-%d", progress.LaunchNumber, time.Now().UnixMilli()), newProgressEvent(progress))
			sent = progress
		}
		if !progress.TaskStatus.IsActive() {
			h.sendEnd(ctx, events, progress)
			return
		}
		read := watcher.Latest
		select {
		case <-ctx.Done():
			return
		case <-h.Closing:
			return // the browser reconnects, possibly to another process
		case <-heartbeat.C:
			events.Heartbeat()
		case <-watcher.Changed():
			read = watcher.Fresh
		case <-tick.C:
		}
		latest, err := read(ctx)
		if err == nil {
			progress = latest
		} else if fault.Of(err).Status() == http.StatusNotFound {
			return // the task was deleted
		} // otherwise the database is temporarily unavailable; heartbeats continue
	}
}

func (h *handler) sendEnd(ctx context.Context, events live.Events, progress monitor.Progress) {
	task, err := h.Store.Task(ctx, progress.TaskID)
	if err != nil {
		return // the browser reconnects
	}
	statistics, err := h.Store.TaskStatistics(ctx, task)
	if err != nil {
		return // the browser reconnects
	}
	end := endEvent{Status: progress.TaskStatus, Stats: statistics, Error: progress.FailureCode}
	if progress.FailureCode != nil {
		end.Message = request.From(ctx).Locale.Text("failure." + *progress.FailureCode)
	}
	events.Send(endEvents[progress.TaskStatus], endID(progress), end)
}
