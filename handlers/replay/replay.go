// Package replay shows what agents reported during calls, live and afterwards, and the files that they produced.
package replay

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humaecho"
	"github.com/google/uuid"

	"wending/db"
	"wending/db/engine"
	"wending/db/event"
	"wending/handlers/request"
	"wending/handlers/rest"
	"wending/views/paths"
)

// Config holds the dependencies of the pages and endpoints.
type Config struct {
	Store   *db.Store
	Units   *rest.Hub[UnitKey, engine.Unit]
	Tools   *engine.ToolReports
	Version string
	// Closing is closed when the server shuts down and streams must end; nil means never.
	Closing <-chan struct{}
	Failed  rest.Failed
	// HasSpans reports that agents can report the steps of their work as spans. Mask returns a function that redacts a
	// variant's secrets in what its agent reports.
	HasSpans bool
	Mask     func(task db.Task, variant int) (func(string) string, error)
}

// UnitKey identifies a unit whose events are followed.
type UnitKey struct {
	TaskID uuid.UUID
	UnitID int64
}

// NewHub returns a hub that reads the state of units.
func NewHub(store *db.Store) *rest.Hub[UnitKey, engine.Unit] {
	return rest.NewHub(func(ctx context.Context, key UnitKey) (engine.Unit, error) {
		return engine.NewJournal(store).Unit(ctx, key.TaskID, key.UnitID)
	})
}

type handler struct{ Config }

func (h *handler) journal() engine.Journal { return engine.NewJournal(h.Store) }

type runPath struct {
	TaskID string `path:"task_id" doc:"Id of the task" example:"6f0d3c1e-2b7a-4c55-9a60-0f4b8f6a1d21"`
	RunID  string `path:"run_id" doc:"Id of the run" example:"4711"`
}

// runEvent is an event as the API returns it.
type runEvent struct {
	Seq  int        `json:"seq" doc:"Number of the event within its unit" example:"7"`
	AtMS int        `json:"at_ms" doc:"Milliseconds since the call's start" example:"1250"`
	Type event.Type `json:"type" example:"text"`
	// Data is the event's data, as package event defines them.
	Data json.RawMessage `json:"data" doc:"Data of the event; its members depend on the type" example:"{\"text\":\"巴黎\"}"`
}

func newItem(e event.Event) (runEvent, error) {
	data, err := json.Marshal(e.Data)
	return runEvent{e.Seq, e.AtMS, e.Type, data}, err
}

// toolExecution is a call of a tool as the API returns it.
type toolExecution struct {
	ToolID    string           `json:"tool_id" doc:"The agent's own id for the call; may be empty"`
	Tool      string           `json:"tool" example:"image_generation"`
	Provider  string           `json:"provider"`
	AssetType string           `json:"asset_type" example:"image"`
	Status    string           `json:"status" values:"tool states"`
	Progress  *float64         `json:"progress" doc:"Progress in percent; null if none was reported"`
	Input     *json.RawMessage `json:"input"`
	Output    *json.RawMessage `json:"output"`
	Error     *string          `json:"error"`
	StartedMS int              `json:"started_ms" doc:"Milliseconds since the call's start"`
	EndedMS   *int             `json:"ended_ms" doc:"null if it has not ended"`
}

func newTool(t engine.Tool) toolExecution {
	return toolExecution{
		ToolID: t.ToolID, Tool: t.Tool, Provider: t.Provider, AssetType: t.AssetType, Status: t.Status,
		Progress: t.Progress, Input: t.Input, Output: t.Output, Error: t.Error, StartedMS: t.StartedMS,
		EndedMS: t.EndedMS,
	}
}

type eventsBody struct {
	Items          []runEvent      `json:"items"`
	ToolExecutions []toolExecution `json:"tool_executions" doc:"Tool calls, in the order in which they began"`
	Spans          []runSpan       `json:"spans" doc:"Steps of the agent's work, as its OpenTelemetry spans describe them: each span before its children, in the order in which they began"`
}

type eventsOutput struct{ Body eventsBody }

// RegisterAPI registers the endpoints: those that stream events on the API stream, and all others on the API whole.
func RegisterAPI(whole, stream huma.API, config Config) {
	h := &handler{config}
	h.registerTools(whole)
	schemas := stream.OpenAPI().Components.Schemas
	rest.Register(whole, h.Failed, rest.Endpoint{
		Method: http.MethodGet, Path: paths.APITasks + "/{task_id}/runs/{run_id}/events", ID: "list-run-events", Tag: "tasks",
		Summary: "List the events and spans of a run",
		Description: "The first event is task_started; the last event of a successful run is task_completed. The list is " +
			"empty for runs without events and for runs whose events are no longer kept. Agents' spans may arrive later.",
		Faults: []string{request.CodeTaskNotFound, request.CodeRunNotFound},
	}, h.ofRun)
	rest.Register(stream, h.Failed, rest.Endpoint{
		Method: http.MethodGet, Path: paths.APITasks + "/{task_id}/units/{unit_id}/events", ID: "follow-unit", Tag: "tasks",
		Summary: "Follow the events of a call as server-sent events",
		Description: "Sends all events of a unit so far, then each new one as it is stored, about once a second, named after its type; `end` is the last event and ends the stream. " +
			"Last-Event-ID resumes after an event. If a unit is repeated, its events start again with task_started.",
		Faults: []string{request.CodeTaskNotFound, request.CodeRunNotFound},
		Responses: map[string]*huma.Response{
			"200": rest.Events(schemas, "Events", unitEvent{}, unitEnd{}),
			"204": {Description: "The client has already received the end (Last-Event-ID)"},
		},
	}, h.follow)
}

func (h *handler) ofRun(ctx context.Context, input *runPath) (*eventsOutput, error) {
	task, err := request.Task(ctx, h.Store, input.TaskID)
	if err != nil {
		return nil, err
	}
	id, err := request.RunID(input.RunID)
	if err != nil {
		return nil, err
	}
	run, err := h.journal().Outcome(ctx, task.ID, id)
	if err != nil {
		return nil, err
	}
	events, err := h.journal().OfRun(ctx, task.ID, run.UnitID, run.ItemID, run.Epoch)
	if err != nil {
		return nil, err
	}
	tools, err := h.journal().Tools(ctx, task.ID, run.UnitID)
	if err != nil {
		return nil, err
	}
	spans, err := h.spansOf(ctx, task.ID, run)
	if err != nil {
		return nil, err
	}
	output := &eventsOutput{eventsBody{make([]runEvent, len(events)), []toolExecution{}, spans}}
	for n, one := range events {
		if output.Body.Items[n], err = newItem(one); err != nil {
			return nil, err
		}
	}
	for _, one := range tools {
		if one.ItemID == run.ItemID {
			output.Body.ToolExecutions = append(output.Body.ToolExecutions, newTool(one))
		}
	}
	return output, nil
}

// unitEvent is the data of an event in the stream of a unit's events.
type unitEvent struct {
	runEvent
	ItemID int64 `json:"item_id" doc:"Id of the question; in a conversation, of the turn to which the event belongs" example:"12"`
}

// unitEnd is the data of the event that ends the stream.
type unitEnd struct {
	RunIDs []int64 `json:"run_ids" doc:"Ids of the runs recorded for the unit, turn by turn; empty if it was stopped"`
}

type followInput struct {
	TaskID      string `path:"task_id" doc:"Id of the task" example:"6f0d3c1e-2b7a-4c55-9a60-0f4b8f6a1d21"`
	UnitID      string `path:"unit_id" doc:"Id of the unit" example:"4711"`
	LastEventID string `header:"Last-Event-ID" doc:"Id of the last event that the client received"`
}

// endID is the id of the event that ends a stream. A client that reconnects with this id has received everything.
const endID = "end"

// positionOf parses the id of an event: the number of its claim, a dot, and its own number. Without a dot, it belongs
// to the first claim. For an invalid id it returns the position before all events.
func positionOf(id string) (at engine.EventPosition) {
	epoch, seq, hasEpoch := strings.Cut(id, ".")
	if !hasEpoch {
		epoch, seq = "1", id
	}
	var err error
	if at.Seq, err = strconv.Atoi(seq); err != nil {
		return engine.EventPosition{}
	}
	if at.Epoch, err = strconv.Atoi(epoch); err != nil {
		return engine.EventPosition{}
	}
	return at
}

// follow sends a unit's events as server-sent events, first the stored ones and then each new one, until the unit is
// over.
func (h *handler) follow(ctx context.Context, input *followInput) (*huma.StreamResponse, error) {
	task, err := request.Task(ctx, h.Store, input.TaskID)
	if err != nil {
		return nil, err
	}
	id, err := request.RunID(input.UnitID)
	if err != nil {
		return nil, err
	}
	if _, err := h.journal().Unit(ctx, task.ID, id); err != nil {
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
		if input.LastEventID == endID {
			_ = c.NoContent(http.StatusNoContent)
			return
		}
		watcher := h.Units.Watch(UnitKey{task.ID, id})
		defer watcher.Close()
		h.send(ctx.Context(), rest.NewEventWriter(c.Response()), watcher, positionOf(input.LastEventID))
	}}, nil
}

// send sends events until the unit is over, the client disconnects or the server shuts down.
func (h *handler) send(ctx context.Context, events rest.EventWriter, watcher *rest.Watcher[UnitKey, engine.Unit],
	at engine.EventPosition) {
	tick, heartbeat := time.NewTicker(rest.ReadEvery), time.NewTicker(rest.HeartbeatEvery)
	defer tick.Stop()
	defer heartbeat.Stop()
	var seen engine.EventPosition // the position of the unit's last event when it was last read
	for events.Err() == nil {
		unit, err := watcher.Latest(ctx)
		switch {
		case err != nil && request.FaultOf(err).Status() == http.StatusNotFound:
			return // the task was deleted
		case err != nil: // the database is temporarily unavailable; heartbeats continue
		case unit.Last != seen:
			if at, err = h.sendNew(ctx, events, unit, at); err == nil {
				seen = unit.Last
			}
		case unit.IsSettled:
			h.sendEnd(ctx, events, unit)
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-h.Closing:
			return // the browser reconnects, possibly to another process
		case <-heartbeat.C:
			events.Heartbeat()
		case <-tick.C:
		}
	}
}

// sendNew sends the events after a position, and returns the position of the last event that it sent.
func (h *handler) sendNew(ctx context.Context, events rest.EventWriter, unit engine.Unit,
	at engine.EventPosition) (engine.EventPosition, error) {
	for {
		parts, err := h.journal().OfUnit(ctx, unit.TaskID, unit.ID, at)
		if err != nil || len(parts) == 0 {
			return at, err
		}
		for _, part := range parts {
			for _, one := range part.Events {
				if part.Epoch == at.Epoch && one.Seq <= at.Seq {
					continue
				}
				told, err := newItem(one)
				if err != nil {
					return at, err
				}
				events.Send(string(one.Type), fmt.Sprintf("%d.%d", part.Epoch, one.Seq), unitEvent{told, part.ItemID})
				at = engine.EventPosition{Epoch: part.Epoch, Seq: one.Seq}
			}
		}
		if events.Err() != nil {
			return at, events.Err()
		}
	}
}

func (h *handler) sendEnd(ctx context.Context, events rest.EventWriter, unit engine.Unit) {
	runs, err := h.journal().OutcomesOf(ctx, unit.TaskID, unit.ID)
	if err != nil {
		return // the browser reconnects
	}
	end := unitEnd{RunIDs: make([]int64, len(runs))}
	for n, run := range runs {
		end.RunIDs[n] = run.RunID
	}
	events.Send("end", endID, end)
}
