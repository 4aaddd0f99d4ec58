package api

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humaecho"

	"wending/db"
	"wending/db/report"
	"wending/handlers/reading"
	"wending/handlers/request"
	"wending/handlers/rest"
)

func (h *handler) registerStreams(api huma.API) {
	schemas := api.OpenAPI().Components.Schemas
	rest.Register(api, h.Failed, rest.Endpoint{
		Method: http.MethodGet, Path: tasksPath + "/{task_id}/results", ID: "get-results", Tag: "tasks",
		Summary: "Get the raw answers, question by question",
		Description: "Available once the first launch has ended, even while a later one is active; with partial=1 also " +
			"before that, for the questions whose runs have all ended.",
		Faults:     []string{request.CodeTaskNotFound, request.CodeTaskNotFinished, request.CodeParameterInvalid},
		HasColumns: true,
		Responses:  map[string]*huma.Response{"200": rest.Content[results](schemas, "A page of answers", "application/json")},
	}, h.getResults)
	rest.Register(api, h.Failed, rest.Endpoint{
		Method: http.MethodGet, Path: tasksPath + "/{task_id}/export", ID: "export-results", Tag: "tasks",
		Summary: "Download the report",
		Description: "In CSV, a cell that a spreadsheet might execute is prefixed with one '. JSONL holds every text " +
			"exactly, with base64 added for text that is not valid UTF-8.",
		Faults:     []string{request.CodeTaskNotFound, request.CodeTaskNotFinished, request.CodeParameterInvalid},
		HasColumns: true,
		Responses: map[string]*huma.Response{"200": rest.Download("The report", map[string]string{
			reading.ReportTypes["csv"]: "question_id,question,standard_answer,_system_prompt,_user_context,run_1_output," +
				"run_1_status,run_1_latency_ms,run_1_error_code,_created_at,_completed_at\n" +
				"q1,中国的首都是哪里？,北京,,,北京,SUCCEEDED,812,,2026-11-21T22:50:00+08:00,2026-11-21T22:55:08+08:00\n",
			reading.ReportTypes["xlsx"]: "",
			reading.ReportTypes["html"]: "<!DOCTYPE html>…",
			reading.ReportTypes["jsonl"]: `{"question_id":"q1","question":"中国的首都是哪里？","standard_answer":"北京","system_prompt":null,"user_context":null,"runs":[` +
				`{"variant":1,"run_index":1,"output":"北京","status":"SUCCEEDED","latency_ms":812,"error_code":null,"error_message":null}],` +
				`"created_at":"2026-11-21T22:50:00+08:00","completed_at":"2026-11-21T22:55:08+08:00"}`,
		})},
	}, h.exportResults)
	rest.Register(api, h.Failed, rest.Endpoint{
		Method: http.MethodGet, Path: tasksPath + "/{task_id}/progress", ID: "follow-progress", Tag: "tasks",
		Summary: "Follow a task's progress as server-sent events",
		Description: "Sends `progress` at every change, then one of `completed`, `stopped` and `failed`, which ends the stream. Every event contains the whole " +
			"state. A client that reconnects after the end gets 204.",
		Faults: []string{request.CodeTaskNotFound},
		Responses: map[string]*huma.Response{
			"200": rest.Events(schemas, "Events", progressEvent{}, endEvent{}),
			"204": {Description: "The client has already received the end (Last-Event-ID)"},
		},
	}, h.followProgress)
	rest.Register(api, h.Failed, rest.Endpoint{
		Method: http.MethodGet, Path: tasksPath + "/{task_id}/runs/{run_id}", ID: "get-run-text", Tag: "tasks",
		Summary:     "Get the exact text of one run's answer",
		Description: "Byte for byte, even for a run that a later launch replaced.",
		Faults:      []string{request.CodeTaskNotFound, request.CodeRunNotFound},
		Responses: map[string]*huma.Response{"200": rest.Download("The answer",
			map[string]string{"text/plain; charset=utf-8": "北京"})},
	}, h.getRunText)
}

// getRunText sends the text of an answer. An answer may be megabytes long, so only a few are in memory at once.
func (h *handler) getRunText(ctx context.Context, input *RunPath) (*huma.StreamResponse, error) {
	task, err := request.Task(ctx, h.Store, input.TaskID)
	if err != nil {
		return nil, err
	}
	id, err := request.RunID(input.RunID)
	if err != nil {
		return nil, err
	}
	return rest.Stream(h.Failed, func(ctx huma.Context) error {
		answer, err := report.New(h.Store).RunResponse(ctx.Context(), task.ID, id)
		if err != nil {
			return err
		}
		response := humaecho.Unwrap(ctx).Response()
		response.Header().Set("Content-Type", "text/plain; charset=utf-8")
		response.Header().Set("Content-Security-Policy", "sandbox; default-src 'none'")
		response.WriteHeader(http.StatusOK)
		_, err = response.Write(answer)
		return err
	}), nil
}

type exportInput struct {
	TaskPath
	FilterQuery
	Format        string `query:"format" enum:"csv,xlsx,jsonl,html" default:"csv" doc:"Format of the report" example:"csv"`
	IncludeErrors bool   `query:"include_errors" default:"true" doc:"false leaves out the error code columns"`
	Review        bool   `query:"review" doc:"With format=xlsx, returns a review workbook, in which verdicts and reasons are chosen from lists and everything else is protected. Import it with POST /{task_id}/reviews/import"`
	Reviewer      string `query:"reviewer" doc:"With review=true, the person whose verdicts are filled in; absent means the newest verdict on each question" example:"李雷"`
}

// exportResults streams a task's report while it is read from the database.
func (h *handler) exportResults(ctx context.Context, input *exportInput) (*huma.StreamResponse, error) {
	task, err := h.resultsTask(ctx, input.TaskID, false)
	if err != nil {
		return nil, err
	}
	var only map[int64]bool
	if input.isSet() {
		filter, err := input.filter(task)
		if err != nil {
			return nil, err
		}
		if only, err = report.New(h.Store).Matching(ctx, task.ID, filter); err != nil {
			return nil, err
		}
	}
	if input.Review && input.Format != "xlsx" {
		return nil, request.ParameterFault("format", request.OneOf("xlsx"))
	}
	order := reading.Order{Format: input.Format, IncludeErrors: input.IncludeErrors, Only: only, IsToJudge: input.Review,
		Reviewer: request.StorableText(input.Reviewer)}
	if info := request.From(ctx); info.HasAccounts {
		order.Reviewer = info.Who.Name
	}
	return rest.Stream(h.Failed, func(ctx huma.Context) error {
		write, err := reading.NewReports(h.Store, h.Tasks.Assets).Prepare(ctx.Context(), task, order)
		if err != nil {
			return err
		}
		c := humaecho.Unwrap(ctx)
		header := c.Response().Header()
		header.Set("Content-Type", reading.ReportTypes[input.Format])
		header.Set("Content-Disposition", request.ReportDisposition(task.Name, input.Format))
		c.Response().WriteHeader(http.StatusOK)
		stream := rest.NewStreamWriter(c.Response())
		if err := write(ctx.Context(), stream); err != nil {
			return err
		}
		return stream.Err()
	}), nil
}

// progressEvent is the data of the event "progress" (spec/000 5.2, with additions).
type progressEvent struct {
	Total     int `json:"total" doc:"Number of runs that the task will have" example:"500"`
	Completed int `json:"completed" doc:"Runs that have ended, including failed ones" example:"120"`
	Failed    int `json:"failed" example:"2"`
	Running   int `json:"running" example:"4"`
	Queued    int `json:"queued" example:"376"`
	// JudgeTotal and the fields that follow are about the newest launch's calls to judges.
	JudgeTotal  int `json:"judge_total,omitempty" doc:"Number of calls to judges" example:"500"`
	Judged      int `json:"judged,omitempty" doc:"How many of judge_total have ended" example:"310"`
	JudgeFailed int `json:"judge_failed,omitempty" doc:"How many of judged ended without a rating" example:"1"`
	// CallsPerSecond is the average over the last ten seconds. SecondsLeft is estimated from it; it is nil if unknown.
	CallsPerSecond float64       `json:"calls_per_second" doc:"Average over the last ten seconds" example:"8.3"`
	SecondsLeft    *float64      `json:"seconds_left" doc:"Estimated seconds to the end at calls_per_second; null if unknown" example:"45.8"`
	Status         db.TaskStatus `json:"status" example:"RUNNING"`
	IsStopping     bool          `json:"is_stopping"`
	Launch         int           `json:"launch" doc:"Number of the newest launch; 0 if the task was never started" example:"1"`
}

func newProgressEvent(p report.Progress) progressEvent {
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
	progressEvent
	Stats   db.TaskStatistics `json:"stats"`
	Error   *string           `json:"error,omitempty"`
	Message string            `json:"message,omitempty"`
}

var endEvents = map[db.TaskStatus]string{db.TaskSucceeded: "completed", db.TaskFailed: "failed",
	db.TaskStopped: "stopped"}

// endID returns the id of the event that ends a stream. A client that reconnects with this id has received everything.
func endID(p report.Progress) string { return fmt.Sprintf("%d-end", p.LaunchNumber) }

type followInput struct {
	TaskPath
	LastEventID string `header:"Last-Event-ID" doc:"Id of the last event that the client received"`
}

// followProgress sends a task's progress as server-sent events: the current state, every change and, finally, the end,
// after which the stream is closed. Every event contains the whole state, so a client that reconnects misses nothing. A
// client that has received the end gets a 204, which tells it not to reconnect.
func (h *handler) followProgress(ctx context.Context, input *followInput) (*huma.StreamResponse, error) {
	task, err := request.Task(ctx, h.Store, input.TaskID)
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
		h.sendProgress(ctx.Context(), rest.NewEventWriter(c.Response()), watcher, progress)
	}}, nil
}

// sendProgress sends events until the task ends, the client disconnects or the server shuts down.
func (h *handler) sendProgress(ctx context.Context, events rest.EventWriter, watcher *progressWatcher,
	progress report.Progress) {
	tick, heartbeat := time.NewTicker(rest.ReadEvery), time.NewTicker(rest.HeartbeatEvery)
	defer tick.Stop()
	defer heartbeat.Stop()
	var sent report.Progress
	for isFirst := true; events.Err() == nil; isFirst = false {
		if isFirst || progress != sent {
			events.Send("progress", fmt.Sprintf("%d-%d", progress.LaunchNumber, time.Now().UnixMilli()),
				newProgressEvent(progress))
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
		} else if request.FaultOf(err).Status() == http.StatusNotFound {
			return // the task was deleted
		} // otherwise the database is temporarily unavailable; heartbeats continue
	}
}

func (h *handler) sendEnd(ctx context.Context, events rest.EventWriter, progress report.Progress) {
	task, err := h.Store.Task(ctx, request.ScopeOf(ctx), progress.TaskID)
	if err != nil {
		return // the browser reconnects
	}
	statistics, err := h.Store.TaskStatistics(ctx, task)
	if err != nil {
		return // the browser reconnects
	}
	end := endEvent{progressEvent: newProgressEvent(progress), Stats: statistics, Error: progress.FailureCode}
	if progress.FailureCode != nil {
		end.Message = request.From(ctx).Locale.Text("failure." + *progress.FailureCode)
	}
	events.Send(endEvents[progress.TaskStatus], endID(progress), end)
}
