package library_test

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"wending/db"
	"wending/db/dbtest"
	"wending/db/entries"
	"wending/jobs/library"
	"wending/jobs/secret"
	"wending/jobs/tasks"
)

func TestMain(m *testing.M) { dbtest.Main(m) }

// nobody is a Waker that wakes no worker.
type nobody struct{}

func (nobody) EnqueueLaunch(context.Context, uuid.UUID) error { return nil }

func newScheduler(t *testing.T, url string) *library.Scheduler {
	t.Helper()
	store, err := db.Open(context.Background(), url, 4)
	require.NoError(t, err)
	t.Cleanup(func() { _ = store.Close() })
	sealer, err := secret.NewSealer(secret.Keys{Current: dbtest.SecretKey})
	require.NoError(t, err)
	log := slog.New(slog.DiscardHandler)
	service := &tasks.Service{Store: store, Queue: nobody{}, Sealer: sealer, RateCeiling: "unlimited",
		DefaultRate: "unlimited", Log: log}
	return &library.Scheduler{Store: store, Tasks: service, Log: log, Library: &library.Service{
		Entries: entries.New(store), Sealer: sealer, Tasks: service, DefaultRate: "unlimited", Log: log}}
}

// dueSchedule stores a due schedule of a task.
func dueSchedule(t *testing.T, store *db.Store, tables *sqlx.DB) uuid.UUID {
	t.Helper()
	task := dbtest.Seed(t, tables, 1, 3, 2)
	id := uuid.New()
	at := time.Now().Truncate(time.Minute)
	require.NoError(t, entries.New(store).Schedules.Insert(context.Background(), db.AllProjects(), entries.Schedule{
		Entry: entries.Entry{ID: id, Name: "nightly"}, TaskID: &task, Cron: "0 2 * * *", Timezone: "Asia/Shanghai",
		IsEnabled: true, Follow: entries.FollowFrozen, NextAt: &at,
	}))
	return id
}

func count(t *testing.T, tables *sqlx.DB, statement string, arguments ...any) (n int) {
	t.Helper()
	require.NoError(t, tables.Get(&n, statement, arguments...))
	return n
}

func TestManyWorkersFireOnce(t *testing.T) {
	t.Parallel()
	url := dbtest.URL(t)
	store, tables := dbtest.OpenAt(t, url)
	id := dueSchedule(t, store, tables)
	var workers sync.WaitGroup
	for range 4 {
		scheduler := newScheduler(t, url)
		for range 5 {
			workers.Go(func() { assert.NoError(t, scheduler.Fire(context.Background())) })
		}
	}
	workers.Wait()
	require.Equal(t, 1, count(t, tables, `SELECT count(*) FROM firings WHERE schedule_id = $1`, id))
	require.Equal(t, 1, count(t, tables, `SELECT count(*) FROM evaluation_tasks WHERE schedule_id = $1`, id))
	require.Equal(t, 1,
		count(t, tables,
			`SELECT count(*) FROM launches l JOIN evaluation_tasks t ON t.id = l.task_id WHERE t.schedule_id = $1 AND l.requested_via = 'schedule'`, id))
	require.Equal(t, 3,
		count(t, tables,
			`SELECT count(*) FROM evaluation_items i JOIN evaluation_tasks t ON t.id = i.task_id WHERE t.schedule_id = $1`, id))
}

// A leader that dies in the middle of a firing leaves nothing behind; the next leader fires the schedule once.
func TestALeaderDiesWhileItFires(t *testing.T) {
	t.Parallel()
	url := dbtest.URL(t)
	store, tables := dbtest.OpenAt(t, url)
	id := dueSchedule(t, store, tables)
	dying := newScheduler(t, url+" application_name=dying")
	next := newScheduler(t, url)

	// The first leader has claimed the schedule and made the copy, and waits to store the firing.
	holder, err := tables.Beginx()
	require.NoError(t, err)
	_, err = holder.Exec(`LOCK TABLE firings IN EXCLUSIVE MODE`)
	require.NoError(t, err)
	died := make(chan error, 1)
	go func() { died <- dying.Fire(context.Background()) }()
	const waiting = `SELECT count(*) FROM pg_stat_activity WHERE application_name = 'dying' AND wait_event_type = 'Lock'`
	dbtest.Await(t, 20*time.Second, "it waits in the middle", func() bool { return count(t, tables, waiting) == 1 })
	_, err = tables.Exec(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'dying'`)
	require.NoError(t, err)
	require.Error(t, <-died)
	require.NoError(t, holder.Rollback())
	require.Zero(t, count(t, tables, `SELECT count(*) FROM evaluation_tasks WHERE schedule_id = $1`, id))

	require.NoError(t, next.Fire(context.Background()))
	require.NoError(t, dying.Fire(context.Background()))
	require.Equal(t, 1, count(t, tables, `SELECT count(*) FROM firings WHERE schedule_id = $1`, id))
	require.Equal(t, 1, count(t, tables, `SELECT count(*) FROM evaluation_tasks WHERE schedule_id = $1`, id))
}
