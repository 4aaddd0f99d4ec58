package jobs_test

import (
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"wending/db/dbtest"
	"wending/db/engine"
	"wending/jobs/agent/agenttest"
)

// Of five tasks, two run at once, regardless of how they were started, and the others follow in order.
func TestNoMoreTasksRunThanMay(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.maxActive = 2
	const running = `SELECT count(*) FROM launches WHERE status IN ('RUNNING', 'STOPPING')`
	goOn := make(chan struct{})
	var most atomic.Int64
	fake := agenttest.New(t, func(w http.ResponseWriter, _ agenttest.Call) {
		var now int64
		if err := b.tables.Get(&now, running); err == nil && now > most.Load() {
			most.Store(now)
		}
		<-goOn
		agenttest.Stream(w, "answer")
	})
	var ids, launches []uuid.UUID
	for range 5 {
		id, launch := b.task(t, fake.URL, 2, nil)
		ids, launches = append(ids, id), append(launches, launch)
	}
	b.startWorker(t, 8)
	b.startWorker(t, 8)
	dbtest.Await(t, 20*time.Second, "two tasks that run", func() bool {
		var now int
		require.NoError(t, b.tables.Get(&now, running))
		return now == 2
	})
	for n, launch := range launches {
		before, err := engine.NewLanes(b.store).Before(t.Context(), launch)
		require.NoError(t, err)
		inTask, err := engine.NewLanes(b.store).BeforeTask(t.Context(), ids[n])
		require.NoError(t, err)
		require.Equal(t, []int{0, 0, 2, 3, 4}[n], before, "those that run wait for none")
		require.Equal(t, before, inTask)
	}
	close(goOn)
	for _, id := range ids {
		b.awaitEnd(t, id, 30*time.Second)
	}
	require.EqualValues(t, 2, most.Load())
	var order []uuid.UUID
	require.NoError(t, b.tables.Select(&order, `SELECT id FROM launches ORDER BY started_at`))
	slices.SortFunc(order[:2], func(a, b uuid.UUID) int { return slices.Index(launches, a) - slices.Index(launches, b) })
	require.Equal(t, launches[:2], order[:2], "the first two begin together")
	require.ElementsMatch(t, launches, order)
}
