package crew

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"wending/db"
	"wending/db/engine"
	"wending/db/event"
)

// slow is a store whose first write lasts until its context ends.
type slow struct {
	memory
	begun chan struct{}
	once  sync.Once
}

func (m *slow) Append(ctx context.Context, entries []engine.JournalEntry) error {
	isFirst := false
	m.once.Do(func() { isFirst = true })
	if isFirst {
		close(m.begun)
		<-ctx.Done()
		return fmt.Errorf("store events: %w", ctx.Err())
	}
	return m.memory.Append(ctx, entries)
}

// memory is a store in memory whose failures are set by the test.
type memory struct {
	mu      sync.Mutex
	fail    func(entries []engine.JournalEntry) error
	entries []engine.JournalEntry
}

func (m *memory) Append(_ context.Context, entries []engine.JournalEntry) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fail != nil {
		if err := m.fail(entries); err != nil {
			return err
		}
	}
	m.entries = append(m.entries, entries...)
	return nil
}

func (m *memory) of(unit int64) (seqs []int) {
	for _, entry := range m.entries {
		for _, one := range entry.Events {
			if entry.UnitID == unit {
				seqs = append(seqs, one.Seq)
			}
		}
	}
	return seqs
}

func newScribe(store EventStore) *Scribe { return NewScribe(store, slog.New(slog.DiscardHandler)) }

func unitOf(id int64) db.Unit {
	return db.Unit{ID: id, Epoch: 1, Target: 1, Item: db.Item{ID: 10 * id}}
}

// Nothing is lost while the database is unavailable, and everything is stored in order afterwards.
func TestEventsWaitForTheDatabase(t *testing.T) {
	t.Parallel()
	store := &memory{fail: func([]engine.JournalEntry) error { return fmt.Errorf("away: %w", db.ErrUnavailable) }}
	s := newScribe(store)
	call := s.Open(uuid.New(), unitOf(1), nil)
	call.Emit(event.Text, event.Data{Text: "a"})
	s.flush(t.Context())
	call.Emit(event.Tool, event.Data{Name: "draw", Status: event.Started})
	call.Emit(event.TaskCompleted, event.Data{})
	call.Close()
	s.flush(t.Context())
	require.Empty(t, store.entries)
	store.fail = nil
	s.flush(t.Context())
	require.Equal(t, []int{1, 2}, store.of(1), "as it was before: it may be stored, and only the reply lost")
	s.flush(t.Context())
	require.Equal(t, []int{1, 2, 3, 4}, store.of(1))
	require.Equal(t, event.Completed, store.entries[1].Tools[0].Status)
	s.flush(t.Context())
	require.Len(t, store.entries, 2, "what is stored is not stored again")
	require.Empty(t, s.open)
	require.Empty(t, s.ended)
}

// A write that is cut off by the shutdown is not a fault: the last flush stores its entries.
func TestAStopThatCutsAWriteIsNoWarning(t *testing.T) {
	t.Parallel()
	store := &slow{begun: make(chan struct{})}
	var log bytes.Buffer
	s := NewScribe(store, slog.New(slog.NewTextHandler(&log, nil)))
	call := s.Open(uuid.New(), unitOf(1), nil)
	call.Emit(event.Text, event.Data{Text: "an answer"})
	call.Close()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); s.Run(ctx) }()
	<-store.begun
	stop()
	<-ended
	require.NotEmpty(t, store.of(1))
	require.Empty(t, log.String())
}

// A task that was deleted does not affect the events of others, and events that the database rejects are dropped.
func TestADeletedTaskHoldsUpNobody(t *testing.T) {
	t.Parallel()
	store := &memory{fail: func(entries []engine.JournalEntry) error {
		for _, entry := range entries {
			switch entry.UnitID {
			case 1:
				return fmt.Errorf("deleted: %w", db.ErrGone)
			case 3:
				return errors.New("refused")
			}
		}
		return nil
	}}
	s := newScribe(store)
	for id := int64(1); id <= 2; id++ {
		s.Open(uuid.New(), unitOf(id), nil).Close()
	}
	s.flush(t.Context())
	require.Equal(t, []int{1}, store.of(2))
	refused, other := s.Open(uuid.New(), unitOf(3), nil), s.Open(uuid.New(), unitOf(4), nil)
	refused.Emit(event.Asset, event.Data{Kind: event.Image, Path: "x.png", Content: []byte("x")})
	s.flush(t.Context())
	require.Equal(t, []int{1}, store.of(4), "what one call tells does not cost the others theirs")
	require.Len(t, refused.Assets(), 1, "its files belong to its result")
	refused.Close()
	other.Close()
	s.flush(t.Context())
	require.Empty(t, s.ended)
	require.Zero(t, s.inline.Load())
}

// An inline file stays in memory until it is stored, and no call may report more than its share.
func TestFilesThatCameInlineAreBounded(t *testing.T) {
	t.Parallel()
	store := &memory{}
	s := newScribe(store)
	call := s.Open(uuid.New(), unitOf(1), nil)
	content := make([]byte, 16<<20)
	for range 6 {
		call.Emit(event.Asset, event.Data{Kind: event.Image, Path: "x.png", Content: content})
	}
	require.Len(t, call.Assets(), 4, "64 MB")
	require.EqualValues(t, 64<<20, s.inline.Load())
	require.Equal(t, []string{"x.png", "x-2.png", "x-3.png", "x-4.png"}, []string{
		call.assets[0].Path, call.assets[1].Path, call.assets[2].Path, call.assets[3].Path,
	})
	s.flush(t.Context())
	require.Zero(t, s.inline.Load())
	require.Empty(t, call.Assets())
	call.Emit(event.Asset, event.Data{Kind: event.Image, Path: "y.png", Content: content})
	require.Empty(t, call.Assets(), "what is stored counts, too")
	require.Len(t, store.entries[0].Assets, 4)
	require.NotEqual(t, store.entries[0].Assets[0].ID, store.entries[0].Assets[1].ID)
}

// Tools that agents leave open are ended with the call: one below 100% has failed.
func TestToolsEndWithTheirCall(t *testing.T) {
	t.Parallel()
	percent := func(value float64) *float64 { return &value }
	for name, test := range map[string]struct {
		tell   func(*Call)
		status string
		reason string
	}{
		"completed": {func(c *Call) {
			c.Emit(event.Tool, event.Data{Name: "t", Status: event.Completed})
		}, event.Completed, ""},
		"left open": {func(*Call) {}, event.Completed, ""},
		"below 100": {func(c *Call) {
			c.Emit(event.ProgressUpdate, event.Data{Progress: percent(60)})
		}, event.Failed, unfinished},
		"completed below": {func(c *Call) {
			c.Emit(event.Tool, event.Data{Name: "t", Status: event.Completed, Progress: percent(80)})
		}, event.Failed, unfinished},
		"reached 100": {func(c *Call) {
			c.Emit(event.ProgressUpdate, event.Data{Progress: percent(100)})
		}, event.Completed, ""},
		"its own failure": {func(c *Call) {
			c.Emit(event.Tool, event.Data{Name: "t", Status: event.Failed, Message: "no"})
		}, event.Failed, "no"},
		"the call's failure": {func(c *Call) {
			c.Emit(event.ErrorOccurred, event.Data{Message: "cut"})
		}, event.Failed, "cut"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := &memory{}
			s := newScribe(store)
			call := s.Open(uuid.New(), unitOf(1), nil)
			call.Emit(event.Tool, event.Data{Name: "t", Status: event.Started})
			test.tell(call)
			call.Emit(event.TaskCompleted, event.Data{})
			call.Close()
			s.flush(t.Context())
			tool := store.entries[0].Tools[0]
			require.Equal(t, test.status, tool.Status)
			require.NotNil(t, tool.EndedMS)
			if test.reason == "" {
				require.Nil(t, tool.Error)
			} else {
				require.Equal(t, test.reason, *tool.Error)
			}
		})
	}
}

// A turn's events and tools are numbered after those of the turn before.
func TestTurnsAreNumberedOnwards(t *testing.T) {
	t.Parallel()
	store := &memory{}
	s := newScribe(store)
	first := s.Open(uuid.New(), unitOf(1), nil)
	first.Emit(event.Tool, event.Data{Name: "t", ID: "1", Status: event.Completed})
	first.Emit(event.Asset, event.Data{Kind: event.Image, Path: "x.png", URL: "http://x"})
	first.Close()
	second := s.Open(uuid.New(), unitOf(1), first)
	second.Emit(event.Tool, event.Data{Name: "t", ID: "1", Status: event.Completed})
	second.Emit(event.Asset, event.Data{Kind: event.Image, Path: "x.png", URL: "http://x"})
	second.Close()
	s.flush(t.Context())
	require.Equal(t, []int{1, 2, 3, 4, 5, 6}, store.of(1))
	require.Equal(t, []int{1, 2}, []int{store.entries[0].Tools[0].Number, store.entries[1].Tools[0].Number})
	require.Equal(t, "x-2.png", store.entries[1].Assets[0].Path)
}

// Only calls that take longer than a second are listed as in flight.
func TestProgressIsOfLongCalls(t *testing.T) {
	t.Parallel()
	store := &memory{}
	s := newScribe(store)
	call := s.Open(uuid.New(), unitOf(1), nil)
	s.flush(t.Context())
	require.Nil(t, store.entries[0].Progress)
	require.Eventually(t, func() bool {
		s.flush(t.Context())
		return store.entries[len(store.entries)-1].Progress != nil
	}, time.Minute, 50*time.Millisecond)
	require.Equal(t, engine.NotReported, *store.entries[len(store.entries)-1].Progress)
	percent := 12.7
	call.Emit(event.ProgressUpdate, event.Data{Progress: &percent})
	s.flush(t.Context())
	require.Equal(t, 12, *store.entries[len(store.entries)-1].Progress)
}

// Files of a failed attempt do not belong to the run; no file's folder has the same path as another file.
func TestFilesBelongToTheirAttempt(t *testing.T) {
	t.Parallel()
	store := &memory{}
	s := newScribe(store)
	call := s.Open(uuid.New(), unitOf(1), nil)
	picture := event.Data{Kind: event.Image, Path: "logo.png", URL: "http://x"}
	call.Emit(event.Asset, picture)
	call.Again()
	call.Emit(event.Asset, picture)
	call.Emit(event.Asset, event.Data{Kind: event.File, Path: "out", URL: "http://x"})
	call.Emit(event.Asset, event.Data{Kind: event.File, Path: "out/a.txt", URL: "http://x"})
	call.Emit(event.Asset, event.Data{Kind: event.File, Path: "b/c.txt", URL: "http://x"})
	call.Emit(event.Asset, event.Data{Kind: event.File, Path: "b", URL: "http://x"})
	var paths []string
	for _, one := range call.Assets() {
		require.Equal(t, 2, one.Attempt)
		paths = append(paths, one.Path)
	}
	require.Equal(t, []string{"logo.png", "out", "out-a.txt", "b/c.txt", "b-2"}, paths)
	require.NotEqual(t, call.assets[0].ID, call.assets[1].ID)
}
