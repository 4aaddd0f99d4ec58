package people_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"wending/db"
	"wending/db/dbtest"
	"wending/db/people"
)

// An action begun by a process that has died gets an entry with an unknown outcome; an action that its process holds,
// completes or drops does not.
func TestWhatWasBegunIsNeverWithoutAnEntry(t *testing.T) {
	t.Parallel()
	store, tables := dbtest.Open(t)
	log := people.NewAuditLog(store, sealer(t, 1))
	entry := people.AuditEntry{Actor: "李雷", Action: "task.delete", ObjectID: "t1", Before: `{"a": 1}`}
	begin := func() uuid.UUID {
		t.Helper()
		id, err := log.Begin(t.Context(), entry)
		require.NoError(t, err)
		return id
	}
	completed, dropped, held, lost := begin(), begin(), begin(), begin()
	entry.Status = 204
	_, err := log.Complete(t.Context(), completed, entry)
	require.NoError(t, err)
	require.NoError(t, log.Drop(t.Context(), dropped))
	added, err := log.CloseLost(t.Context(), time.Minute)
	require.NoError(t, err)
	require.Empty(t, added, "they have not been silent for long")
	tables.MustExec(`UPDATE audit_intents SET alive_at = alive_at - interval '2 minutes'`)
	require.NoError(t, log.Hold(t.Context(), []uuid.UUID{held}))
	added, err = log.CloseLost(t.Context(), time.Minute)
	require.NoError(t, err)
	require.Len(t, added, 1)
	require.Equal(t, people.OutcomeUnknown, added[0].Status)
	require.Equal(t, entry.Before, added[0].Before)

	// If the process was only slow, its outcome is recorded as well.
	_, err = log.Complete(t.Context(), lost, entry)
	require.NoError(t, err)
	listed, total, err := log.List(t.Context(), people.AuditFilter{}, db.Page{Number: 1, Size: 10})
	require.NoError(t, err)
	require.Equal(t, 3, total)
	require.Equal(t, []int{204, people.OutcomeUnknown, 204}, []int{listed[0].Status, listed[1].Status, listed[2].Status})
	_, err = log.Verify(t.Context())
	require.NoError(t, err)
}

// The cost of an entry for a request: added only at the end, or begun first and then completed.
func BenchmarkEntry(b *testing.B) {
	store, _ := dbtest.Open(b)
	log := people.NewAuditLog(store, sealer(b, 1))
	entry := people.AuditEntry{Actor: "李雷", Action: "task.delete", ObjectID: "t1", Status: 204}
	b.Run("added", func(b *testing.B) {
		for b.Loop() {
			_, err := log.Add(b.Context(), entry)
			require.NoError(b, err)
		}
	})
	b.Run("begun and completed", func(b *testing.B) {
		for b.Loop() {
			id, err := log.Begin(b.Context(), entry)
			require.NoError(b, err)
			_, err = log.Complete(b.Context(), id, entry)
			require.NoError(b, err)
		}
	})
}
