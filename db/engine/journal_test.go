package engine_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/stretchr/testify/require"

	"wending/db"
	"wending/db/dbtest"
	"wending/db/engine"
	"wending/db/event"
)

func TestMain(m *testing.M) { dbtest.Main(m) }

// seeded stores a task with one question and one run, and returns the run's unit.
func seeded(t *testing.T) (store *db.Store, tables *sqlx.DB, task uuid.UUID, unit, item int64) {
	t.Helper()
	store, tables = dbtest.Open(t)
	task = dbtest.Seed(t, tables, 1, 1, 1)
	row := struct{ ID, Item int64 }{}
	require.NoError(t, tables.Get(&row, `SELECT id, item_id AS item FROM units LIMIT 1`))
	return store, tables, task, row.ID, row.Item
}

func entry(task uuid.UUID, unit, item int64, epoch, first int, texts ...string) engine.JournalEntry {
	made := engine.JournalEntry{UnitID: unit, Epoch: epoch, ItemID: item, TaskID: task}
	for n, text := range texts {
		made.Events = append(made.Events, event.Event{Seq: first + n, AtMS: 10 * (first + n), Type: event.Text,
			Data: event.Data{Text: text}})
	}
	return made
}

func said(parts []engine.EventPart) (text string) {
	for _, part := range parts {
		for _, one := range part.Events {
			text += one.Data.Text
		}
	}
	return text
}

// Only the worker that holds a unit adds events to it; an entry that is sent twice is stored once; a reader
// continues where it stopped.
func TestEventsAreFencedAndReadOn(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	store, tables, task, unit, item := seeded(t)
	j := engine.NewJournal(store)
	require.NoError(t, j.Append(ctx, []engine.JournalEntry{entry(task, unit, item, 1, 1, "a", "b")}))
	require.NoError(t, j.Append(ctx, []engine.JournalEntry{entry(task, unit, item, 1, 1, "a", "b")}), "the reply was lost")
	require.NoError(t, j.Append(ctx, []engine.JournalEntry{entry(task, unit, item, 7, 1, "late")}))
	_, err := tables.Exec(`UPDATE units SET epoch = 2`)
	require.NoError(t, err)
	require.NoError(t,
		j.Append(ctx, []engine.JournalEntry{entry(task, unit, item, 1, 3, "x"), entry(task, unit, item, 2, 1, "c"),
			entry(task, unit, item, 2, 2, "d", "e")}))

	parts, err := j.OfUnit(ctx, task, unit, engine.EventPosition{})
	require.NoError(t, err)
	require.Equal(t, "abcde", said(parts))
	parts, err = j.OfUnit(ctx, task, unit, engine.EventPosition{Epoch: 1, Seq: 1})
	require.NoError(t, err)
	require.Equal(t, "abcde", said(parts), "the part that is continued comes whole")
	parts, err = j.OfUnit(ctx, task, unit, engine.EventPosition{Epoch: 2, Seq: 1})
	require.NoError(t, err)
	require.Equal(t, "de", said(parts))
	parts, err = j.OfUnit(ctx, task, unit, engine.EventPosition{Epoch: 2, Seq: 3})
	require.NoError(t, err)
	require.Empty(t, parts)
	parts, err = j.OfUnit(ctx, uuid.New(), unit, engine.EventPosition{})
	require.NoError(t, err)
	require.Empty(t, parts, "of another task")

	events, err := j.OfRun(ctx, task, unit, item, 5) // given up under a later epoch, so the last known events count
	require.NoError(t, err)
	require.Len(t, events, 3)
	events, err = j.OfRun(ctx, task, unit, item, 1)
	require.NoError(t, err)
	require.Len(t, events, 2)

	require.ErrorIs(t, j.Append(ctx, []engine.JournalEntry{entry(uuid.New(), unit, item, 2, 9, "x")}), db.ErrGone)
}

// Tool calls that a lost worker left open are ended; events are removed with their task, or when their retention
// ends.
func TestLeftoversAreClosedAndOldEventsRemoved(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	store, tables, task, unit, item := seeded(t)
	j := engine.NewJournal(store)
	one := entry(task, unit, item, 1, 1, "a")
	one.Tools = []engine.Tool{{Number: 1, Tool: "draw", Status: event.Generating}}
	require.NoError(t, j.Append(ctx, []engine.JournalEntry{one}))
	require.NoError(t, j.CloseLost(ctx))
	tools, err := j.Tools(ctx, task, unit)
	require.NoError(t, err)
	require.Equal(t, event.Generating, tools[0].Status, "it may still be told of")
	_, err = tables.Exec(`UPDATE tool_executions SET started_at = now() - interval '2 minutes'`)
	require.NoError(t, err)
	require.NoError(t, j.CloseLost(ctx))
	tools, err = j.Tools(ctx, task, unit)
	require.NoError(t, err)
	require.Equal(t, event.Failed, tools[0].Status)
	require.Equal(t, "The worker was lost", *tools[0].Error)

	found, err := j.Prune(ctx, 0)
	require.NoError(t, err)
	require.False(t, found, "0 keeps everything")
	found, err = j.Prune(ctx, 24*time.Hour)
	require.NoError(t, err)
	require.False(t, found)
	_, err = tables.Exec(`UPDATE evaluation_tasks SET completed_at = now() - interval '2 days'`)
	require.NoError(t, err)
	found, err = j.Prune(ctx, 24*time.Hour)
	require.NoError(t, err)
	require.True(t, found)
	found, err = j.Prune(ctx, 24*time.Hour)
	require.NoError(t, err)
	require.False(t, found)
	events, err := j.OfRun(ctx, task, unit, item, 1)
	require.NoError(t, err)
	require.Empty(t, events)
}
