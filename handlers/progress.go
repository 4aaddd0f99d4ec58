package handlers

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"wending/db"
	"wending/views"
)

const (
	// progressEvery is the time between two looks at a task that somebody watches. All who watch it share one.
	progressEvery = 500 * time.Millisecond
	// heartbeatEvery is the time between two signs of life of a stream on which nothing happens.
	heartbeatEvery = 15 * time.Second
	// reconnectAfter is how long a browser waits before it connects again.
	reconnectAfter = 2 * time.Second
)

// progressBoard has the progress of the tasks that are watched, read once for all who watch.
type progressBoard struct {
	store *db.Store
	mu    sync.Mutex
	tasks map[uuid.UUID]*watchedTask
}

type watchedTask struct {
	viewers int
	reading sync.Mutex // one reads, for all
	latest  atomic.Pointer[snapshot]
	// changed is closed when the task's state changed.
	changed chan struct{}
}

// snapshot is a task's progress with the moment at which its reading began.
type snapshot struct {
	db.Progress
	at time.Time
}

func newProgressBoard(store *db.Store) *progressBoard {
	return &progressBoard{store: store, tasks: map[uuid.UUID]*watchedTask{}}
}

// follow passes on what changes tells, until closing.
func (b *progressBoard) follow(changes <-chan uuid.UUID, closing <-chan struct{}) {
	for {
		select {
		case <-closing:
			return
		case id := <-changes:
			b.mu.Lock()
			for taskID, task := range b.tasks {
				if id == taskID || id == uuid.Nil {
					close(task.changed)
					task.changed = make(chan struct{})
				}
			}
			b.mu.Unlock()
		}
	}
}

// watch adds a viewer to a task; leave takes it away again.
func (b *progressBoard) watch(id uuid.UUID) (leave func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	task := b.tasks[id]
	if task == nil {
		task = &watchedTask{changed: make(chan struct{})}
		b.tasks[id] = task
	}
	task.viewers++
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if task.viewers--; task.viewers == 0 {
			delete(b.tasks, id)
		}
	}
}

// changes returns a channel that is closed when the watched task's state changes.
func (b *progressBoard) changes(id uuid.UUID) <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.tasks[id].changed
}

// read returns the progress of a watched task: fresh when isChanged, else as it was at most half of
// progressEvery ago, or as it was last where somebody is reading it just now.
func (b *progressBoard) read(ctx context.Context, id uuid.UUID, isChanged bool) (db.Progress, error) {
	b.mu.Lock()
	task := b.tasks[id]
	b.mu.Unlock()
	if latest := task.latest.Load(); !isChanged && latest != nil {
		if time.Since(latest.at) < progressEvery/2 || !task.reading.TryLock() {
			return latest.Progress, nil
		}
	} else {
		task.reading.Lock()
	}
	defer task.reading.Unlock()
	at := time.Now()
	progress, err := b.store.TaskProgress(ctx, id)
	if err == nil {
		task.latest.Store(&snapshot{progress, at})
	}
	return progress, err
}

// progressEvent is the data of the event "progress" (spec/000 5.2, and more).
type progressEvent struct {
	Total     int `json:"total"`
	Completed int `json:"completed"`
	Failed    int `json:"failed"`
	Running   int `json:"running"`
	Queued    int `json:"queued"`
	// CallsPerSecond is that of the last ten seconds; SecondsLeft follows from it, null: not known.
	CallsPerSecond float64       `json:"calls_per_second"`
	SecondsLeft    *float64      `json:"seconds_left"`
	Status         db.TaskStatus `json:"status"`
	IsStopping     bool          `json:"is_stopping"`
	Launch         int           `json:"launch"`
}

// endEvent is the data of the events "completed", "failed" and "stopped".
type endEvent struct {
	Status  db.TaskStatus `json:"status"`
	Stats   db.Statistics `json:"stats"`
	Error   *string       `json:"error,omitempty"`
	Message string        `json:"message,omitempty"`
}

var endEvents = map[db.TaskStatus]string{db.TaskSucceeded: "completed", db.TaskFailed: "failed", db.TaskStopped: "stopped"}

// endID is the id of the event that ends a stream. A client that comes back with it has seen everything.
func endID(p db.Progress) string { return fmt.Sprintf("%d-end", p.LaunchNumber) }

// streamProgress sends a task's progress as server-sent events: its state now, every change of it, and its
// end, with which the stream closes. Every event is the whole state, so that a client that comes back with
// Last-Event-ID misses nothing; one that has seen the end is told not to come again (204).
func (s *Server) streamProgress(c echo.Context) error {
	ctx := c.Request().Context()
	task, err := s.task(c)
	if err != nil {
		return err
	}
	leave := s.progress.watch(task.ID)
	defer leave()
	changed := s.progress.changes(task.ID)
	progress, err := s.progress.read(ctx, task.ID, true)
	if err != nil {
		return err
	}
	if !progress.TaskStatus.IsActive() && c.Request().Header.Get("Last-Event-ID") == endID(progress) {
		return c.NoContent(http.StatusNoContent)
	}
	stream := newEventStream(c)
	stream.text(fmt.Sprintf("retry: %d\n\n", reconnectAfter.Milliseconds()))
	tick, heartbeat := time.NewTicker(progressEvery), time.NewTicker(heartbeatEvery)
	defer tick.Stop()
	defer heartbeat.Stop()
	var sent db.Progress
	for isFirst := true; ; isFirst = false {
		if isFirst || progress != sent {
			id := fmt.Sprintf("%d-%d", progress.LaunchNumber, time.Now().UnixMilli())
			stream.event("progress", id, newProgressEvent(progress))
			sent = progress
		}
		if !progress.TaskStatus.IsActive() {
			return s.streamEnd(c, stream, progress)
		}
		var isChanged bool
		select {
		case <-ctx.Done():
			return nil
		case <-s.Closing:
			return nil // the browser comes again, to whoever serves then
		case <-heartbeat.C:
			stream.text(": heartbeat\n\n")
		case <-changed:
			isChanged = true
			changed = s.progress.changes(task.ID)
		case <-tick.C:
		}
		if stream.err != nil {
			return nil //nolint:nilerr // the client has gone
		}
		latest, err := s.progress.read(ctx, task.ID, isChanged)
		switch {
		case err == nil:
			progress = latest
		case faultOf(err).Status == http.StatusNotFound:
			return nil // the task was deleted
		} // else the database is away for a while, and the heartbeat goes on
	}
}

func (s *Server) streamEnd(c echo.Context, stream *eventStream, progress db.Progress) error {
	statistics, err := s.Store.TaskStatistics(c.Request().Context(), progress.TaskID)
	if err != nil {
		return err
	}
	end := endEvent{Status: progress.TaskStatus, Stats: statistics, Error: progress.FailureCode}
	if progress.FailureCode != nil {
		end.Message = s.locale(c).Text("failure." + *progress.FailureCode)
	}
	stream.event(endEvents[progress.TaskStatus], endID(progress), end)
	return nil
}

func newProgressEvent(p db.Progress) progressEvent {
	event := progressEvent{Total: p.Total, Completed: p.Completed, Failed: p.Failed, Running: p.Running, Queued: p.Queued,
		CallsPerSecond: p.CallsPerSecond, Status: p.TaskStatus, IsStopping: p.IsStopping, Launch: p.LaunchNumber}
	if left, isKnown := views.TimeLeft(p); isKnown {
		seconds := left.Seconds()
		event.SecondsLeft = &seconds
	}
	return event
}

// eventStream writes server-sent events, each at once.
type eventStream struct{ responseStream }

func newEventStream(c echo.Context) *eventStream {
	header := c.Response().Header()
	header.Set(echo.HeaderContentType, "text/event-stream; charset=utf-8")
	header.Set("Cache-Control", "no-cache, no-transform")
	header.Set("X-Accel-Buffering", "no") // a proxy before us must not hold events back
	c.Response().WriteHeader(http.StatusOK)
	return &eventStream{responseStream{to: c.Response(), connection: http.NewResponseController(c.Response().Writer)}}
}

func (w *eventStream) text(text string) {
	if w.responseStream.text(text); w.err == nil {
		w.err = w.connection.Flush()
	}
}

func (w *eventStream) event(name, id string, data any) {
	text, err := json.Marshal(data) // has no line ends
	if err != nil {
		w.err = err
		return
	}
	w.text(fmt.Sprintf("event: %s\nid: %s\ndata: %s\n\n", name, id, text))
}
