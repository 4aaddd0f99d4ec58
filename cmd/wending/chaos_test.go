package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/PuerkitoBio/goquery"
	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/stretchr/testify/require"

	"wending/db"
	"wending/db/dbtest"
	"wending/db/engine"
	"wending/jobs"
	"wending/jobs/agent/agenttest"
	"wending/jobs/evaluate"
	"wending/views/text"
)

// The chaos suite runs the real program – web and workers as separate processes – on a real PostgreSQL and
// redis-server, and breaks all of them while an agent counts the calls it receives. `make chaos` runs the full suite
// (WENDING_CHAOS=full); `make test` runs a short version.

// goingOnWithin is the time within which work must resume, regardless of which process died.
const goingOnWithin = 25 * time.Second

// arena holds all processes and servers that take part.
type arena struct {
	t        *testing.T
	postgres *postgresServer
	redis    *redisServer
	tables   *sqlx.DB
	queue    *jobs.Queue
	store    *db.Store
	web      *member
	workers  []*member
	lanes    int
	log      *lockedLog
	agent    *countingAgent

	mu     sync.Mutex
	faults map[string]int
	// losses counts the workers that were killed or frozen. Each loss may cause at most one repeated call per lane of the
	// worker.
	losses int
	// redisIsBusy means that a long fault of Redis is in progress.
	redisIsBusy atomic.Bool

	longestGap, longestSilence time.Duration
}

// countingAgent answers with the call's idempotency key, so that every stored answer shows which unit it belongs to. It
// also checks the history it receives, and acts as a judge.
type countingAgent struct {
	*httptest.Server
	mu            sync.Mutex
	calls         map[string]int
	conversations agenttest.Conversations
	isWell        atomic.Bool
	latency       time.Duration
}

func newCountingAgent(t *testing.T, latency time.Duration) *countingAgent {
	a := &countingAgent{calls: map[string]int{}, latency: latency}
	a.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key := r.Header.Get("Idempotency-Key")
		call := agenttest.Call{}
		_ = json.NewDecoder(r.Body).Decode(&call.Body)
		call.Question, _ = call.Body["question"].(string)
		a.mu.Lock()
		a.calls[key]++
		a.mu.Unlock()
		time.Sleep(a.latency*3/4 + rand.N(a.latency/2)) // the agent's latency
		// In the key, the unit's number follows the launch's id, and the number of the turn or vote follows the unit's.
		if unit := strings.Split(key, "-")[6]; !a.isWell.Load() && strings.HasSuffix(unit, "7") {
			http.Error(w, "down", http.StatusInternalServerError)
			return
		}
		if call.Body["messages"] != nil { // calls to the judge
			said, _ := json.Marshal(map[string]any{"overall": 70, "reason": key})
			_ = json.NewEncoder(w).
				Encode(
					map[string]any{"choices": []any{map[string]any{"index": 0,
						"message": map[string]any{"role": "assistant", "content": string(said)}}}})
			return
		}
		if call.Body["history"] != nil {
			a.conversations.Give(call, "answer to "+key)
		}
		agenttest.Stream(w, "answer to "+key)
	}))
	t.Cleanup(a.Close)
	return a
}

// counts returns the number of calls, and of distinct ones.
func (a *countingAgent) counts() (calls, different int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, n := range a.calls {
		calls += n
	}
	return calls, len(a.calls)
}

func newArena(t *testing.T, workers, lanes int, latency time.Duration) *arena {
	t.Helper()
	a := &arena{t: t, lanes: lanes, faults: map[string]int{}, log: &lockedLog{}, agent: newCountingAgent(t, latency)}
	a.postgres, a.redis = startPostgres(t), startRedis(t)
	var err error
	a.tables, err = sqlx.Connect("postgres", a.postgres.URL())
	require.NoError(t, err)
	a.tables.SetMaxOpenConns(4)
	t.Cleanup(func() { _ = a.tables.Close() })
	require.NoError(t, db.Migrate(t.Context(), a.postgres.URL()))
	a.store, err = db.Open(t.Context(), a.postgres.URL(), 4)
	require.NoError(t, err)
	t.Cleanup(func() { _ = a.store.Close() })
	a.queue, err = jobs.NewQueue(a.redis.url())
	require.NoError(t, err)
	t.Cleanup(func() { _ = a.queue.Close() })
	// Each time a launch ends, a row is added to the table named ended.
	_, err = a.tables.Exec(`CREATE TABLE ended (launch_id uuid);
		CREATE FUNCTION note_end() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO ended
		VALUES (NEW.id); RETURN NEW; END $$;
		CREATE TRIGGER note_end AFTER UPDATE OF status ON launches FOR EACH ROW
			WHEN (NEW.status IN ('SUCCEEDED', 'STOPPED', 'FAILED')) EXECUTE FUNCTION note_end()`)
	require.NoError(t, err)
	a.web = a.start("web", os.Args[0], "serve", "--data-dir", dbtest.Folder(t), "--listen-addr", "127.0.0.1:0")
	for n := range workers {
		a.workers = append(a.workers, a.start(fmt.Sprintf("worker %d", n+1), os.Args[0], "worker", "--data-dir", t.TempDir(),
			"--evaluation-concurrency", fmt.Sprint(lanes)))
	}
	t.Cleanup(func() { // all at once, not one after another
		var leaving sync.WaitGroup
		for _, m := range append(slices.Clone(a.workers), a.web) {
			leaving.Go(m.retire)
		}
		leaving.Wait()
	})
	dbtest.Await(t, time.Minute, "the web process", func() bool { return a.isUp() })
	return a
}

func (a *arena) start(name, binary string, args ...string) *member {
	proxy := dbtest.NewProxy(a.t, a.postgres.URL())
	shared := []string{"--database-url", proxy.URL(), "--redis-url", a.redis.url(), "--secret-key", dbtest.SecretKey,
		"--rate-limit-per-agent", "unlimited",
		"--agent-api-allowlist", "127.0.0.1", "--model-api-allowlist", "127.0.0.1"}
	return startMember(a.t, &member{name: name, binary: binary, args: append(args, shared...), proxy: proxy, log: a.log})
}

func (a *arena) isUp() bool {
	if a.web.url() == "" {
		return false
	}
	answer, err := http.Get(a.web.url() + "/healthz")
	if err != nil {
		return false
	}
	_ = answer.Body.Close()
	return answer.StatusCode == http.StatusOK
}

// note counts a fault.
func (a *arena) note(kind string, losses int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.faults[kind]++
	a.losses += losses
}

func (a *arena) faultCount() (count int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, n := range a.faults {
		count += n
	}
	return count
}

// anyWorker returns a worker that is not frozen now.
func (a *arena) anyWorker() *member {
	for {
		if m := a.workers[rand.IntN(len(a.workers))]; !m.isFrozen.Load() {
			return m
		}
	}
}

const recordWords, claimWords = "INSERT INTO evaluation_runs", "FOR UPDATE SKIP LOCKED"

const roundWords = "INSERT INTO planned_runs"

// trapped is how long a fault waits for its statement before another fault has its turn.
const trapped = 5 * time.Second

// quickFaults returns the quick faults by name; each function returns once its fault has happened. Slow faults run
// separately.
func (a *arena) quickFaults() map[string]func() {
	return map[string]func(){
		"kill -9 of a worker mid-call": func() {
			a.note("kill -9 of a worker mid-call", 1)
			a.anyWorker().signal(syscall.SIGKILL)
		},
		"kill -9 between answer and commit": func() {
			m := a.anyWorker()
			if m.proxy.Spring(dbtest.Trap{Words: recordWords, Act: func() { m.signal(syscall.SIGKILL) }}, trapped) {
				a.note("kill -9 between answer and commit", 1)
			}
		},
		"kill -9 while a round is added": func() {
			m := a.anyWorker()
			kill := dbtest.Trap{Words: "COMMIT", Act: func() { m.signal(syscall.SIGKILL) }}
			if m.proxy.Spring(dbtest.Trap{Words: roundWords, Next: &kill}, trapped) {
				a.note("kill -9 while a round is added", 1)
			}
		},
		"connection cut during the commit of results": func() {
			if a.anyWorker().proxy.Spring(dbtest.Trap{Words: recordWords, Pass: true}, trapped) { // the reply never arrives
				a.note("connection cut during the commit of results", 0)
			}
		},
		"connection cut during COMMIT of a claim": func() {
			commit := dbtest.Trap{Words: "COMMIT", Pass: true}
			if a.anyWorker().proxy.Spring(dbtest.Trap{Words: claimWords, Next: &commit}, trapped) {
				a.note("connection cut during COMMIT of a claim", 0)
			}
		},
		"all connections of a worker cut": func() {
			a.note("all connections of a worker cut", 0)
			a.anyWorker().proxy.CutAll()
		},
		"half-open database sockets": func() {
			a.note("half-open database sockets", 0)
			a.anyWorker().proxy.DeadenAll()
		},
		"SIGTERM of a worker": func() {
			a.note("SIGTERM of a worker", 0)
			a.anyWorker().signal(syscall.SIGTERM)
		},
		"kill -9 of the web process": func() {
			a.note("kill -9 of the web process", 0)
			a.web.signal(syscall.SIGKILL)
		},
		"Redis FLUSHALL": func() {
			if a.redisIsBusy.CompareAndSwap(false, true) {
				defer a.redisIsBusy.Store(false)
				a.note("Redis FLUSHALL", 0)
				a.redis.client.FlushAll(context.Background())
			}
		},
		"Redis restart": func() {
			if a.redisIsBusy.CompareAndSwap(false, true) {
				defer a.redisIsBusy.Store(false)
				a.note("Redis restart", 0)
				a.redis.kill()
				a.check(a.redis.start())
			}
		},
		"PostgreSQL immediate restart": func() {
			a.note("PostgreSQL immediate restart", 0)
			a.check(a.postgres.restart())
		},
		"connection limit reached": func() {
			a.note("connection limit reached", 0)
			a.exhaustConnections(2 * time.Second)
		},
		"a job delivered twice": func() {
			a.note("a job delivered twice", 0)
			a.deliverTwice()
		},
		"two reconcilers": func() {
			a.note("two reconcilers", 0)
			a.reconcileTwice()
		},
	}
}

// weights are the relative frequencies of the faults.
var weights = map[string]int{
	"kill -9 of a worker mid-call": 8, "kill -9 between answer and commit": 5,
	"kill -9 while a round is added":              5,
	"connection cut during the commit of results": 14,
	"connection cut during COMMIT of a claim":     14, "all connections of a worker cut": 8,
	"half-open database sockets": 3,
	"SIGTERM of a worker":        8,
	"kill -9 of the web process": 4, "Redis FLUSHALL": 7, "Redis restart": 4, "PostgreSQL immediate restart": 2,
	"connection limit reached": 3,
	"a job delivered twice":    8, "two reconcilers": 8,
}

func (a *arena) check(err error) {
	if err != nil {
		a.t.Errorf("a fault could not be made: %v", err)
	}
}

// exhaustConnections occupies every connection that PostgreSQL has, including those of the processes.
func (a *arena) exhaustConnections(hold time.Duration) {
	var taken []*sqlx.DB
	defer func() {
		for _, connection := range taken {
			_ = connection.Close()
		}
	}()
	for _, m := range append(slices.Clone(a.workers), a.web) {
		m.proxy.CutAll()
	}
	for end := time.Now().Add(hold); time.Now().Before(end); {
		connection, err := sqlx.Connect("postgres", a.postgres.URL())
		if err != nil {
			time.Sleep(20 * time.Millisecond) // wait until a connection is free
			continue
		}
		taken = append(taken, connection)
	}
}

// deliverTwice sends additional wake-ups for every running launch.
func (a *arena) deliverTwice() {
	var launches []uuid.UUID
	if a.tables.Select(&launches, `SELECT id FROM launches WHERE status IN ('PENDING', 'RUNNING')`) != nil {
		return // the database is unavailable
	}
	for _, id := range launches {
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		_ = a.queue.EnqueueLaunch(ctx, id)
		_ = a.queue.EnqueueLanes(ctx, id, 3)
		cancel()
	}
}

// reconcileTwice reconciles in two goroutines at once, alongside the workers, without the lock that elects a single
// leader.
func (a *arena) reconcileTwice() {
	var both sync.WaitGroup
	for range 2 {
		both.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			defer cancel()
			_, _ = a.store.RequeueLostUnits(ctx, evaluate.JudgeUnrated)
			_ = a.store.CutStopped(ctx)
			launches, _ := engine.NewLanes(a.store).ActiveLaunches(ctx)
			for _, launch := range launches {
				_, _ = a.store.FinishLaunch(ctx, launch.ID)
			}
		})
	}
	both.Wait()
}

// freeze stops a worker until its lease has expired and then lets it continue.
func (a *arena) freeze(m *member) {
	a.note("SIGSTOP of a worker past the lease, then CONT", 1)
	m.isFrozen.Store(true)
	defer m.isFrozen.Store(false)
	m.signal(syscall.SIGSTOP)
	time.Sleep(db.WorkerDeadAfter + 4*time.Second) // the sleep is the length of the fault
	m.signal(syscall.SIGCONT)
}

func (a *arena) longRedisFault(kind string, begin, end func()) {
	dbtest.Await(a.t, time.Minute, "Redis to be left alone", func() bool {
		return a.redisIsBusy.CompareAndSwap(false, true)
	})
	defer a.redisIsBusy.Store(false)
	a.note(kind, 0)
	begin()
	time.Sleep(time.Minute) // the sleep is the length of the fault
	end()
}

// watch records the longest time without results while there was work to do, and the longest silence of a worker
// that still held units.
func (a *arena) watch(ctx context.Context) {
	var newest int64
	since := time.Now()
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		var now struct {
			Newest  int64
			Open    bool
			Silence float64
		}
		if a.tables.Get(&now,
			`SELECT coalesce(max(id), 0) AS newest, EXISTS (SELECT 1 FROM launches WHERE status = 'RUNNING') AS open,
			coalesce((SELECT max(extract(epoch FROM now() - w.beat_at)) FROM units u JOIN workers w ON w.id = u.worker_id
			WHERE u.state = 'RUNNING'), 0) AS silence
			FROM evaluation_runs`) != nil {
			continue
		}
		if now.Newest != newest || !now.Open {
			newest, since = now.Newest, time.Now()
		}
		a.mu.Lock()
		a.longestGap = max(a.longestGap, time.Since(since))
		a.longestSilence = max(a.longestSilence, time.Duration(now.Silence*float64(time.Second)))
		a.mu.Unlock()
	}
}

// create creates a task with the given number of questions through the API, which may be unavailable for a moment.
func (a *arena) create(questions int, fields map[string]string) string {
	a.t.Helper()
	var dataset strings.Builder
	dataset.WriteString("question,standard_answer\n")
	for n := range questions {
		fmt.Fprintf(&dataset, "question %d,answer %d\n", n, n)
	}
	dbtest.Await(a.t, 30*time.Second, "the web process", a.isUp)
	all := map[string]string{
		"task_name": "chaos", "agent_api_url": a.agent.URL, "max_retries": "0", "concurrency": "16",
		"runs_per_item": "20",
	}
	maps.Copy(all, fields)
	return createTask(a.t, a.web.url(), all, dataset.String())
}

// adaptiveFields are the fields of an adaptive task, which repeats its questions until they are settled. The agent
// never gives the same answer twice, so each question gets the maximum number of runs.
var adaptiveFields = map[string]string{"runs_per_item": "2", "adaptive": `{"max_runs": 6, "confidence": 0.95}`}

// mostRuns is an SQL expression for the number of runs that each question of a task t ends up with.
const mostRuns = `coalesce(CAST(t.adaptive ->> 'max_runs' AS int), t.runs_per_item)`

// createConversations creates a task with count conversations of four turns and a judge. The task makes as many calls
// to the agent as one with count plain questions, and as many again to the judge.
func (a *arena) createConversations(count int) string {
	a.t.Helper()
	dbtest.Await(a.t, 30*time.Second, "the web process", a.isUp)
	name := uuid.NewString()[:8]
	provider := save(a.t, a.web.url(), "providers", map[string]any{
		"name": name, "protocol": "openai", "base_url": a.agent.URL, "rate_limit": "unlimited", "retry_on": []string{}})
	model := save(a.t, a.web.url(), "models", map[string]any{"name": name, "provider_id": provider, "model_id": "judge"})
	judge := save(a.t, a.web.url(), "evaluators", map[string]any{
		"name": name, "kind": "judge", "config": map[string]any{"model_id": model},
	})
	var dataset strings.Builder
	dataset.WriteString("question,standard_answer,series,turn\n")
	for n := range count {
		for turn := range conversationTurns {
			fmt.Fprintf(&dataset, "s%d turn %d,answer,s%d,%d\n", n, turn+1, n, turn+1)
		}
	}
	return createTask(a.t, a.web.url(), map[string]string{
		"task_name": "chaos", "agent_api_url": a.agent.URL, "max_retries": "0", "concurrency": "16", "runs_per_item": "5",
		"evaluators": judge,
	}, dataset.String())
}

const conversationTurns = 4

// fourVariants returns the fields of a task that sends two prompts to two saved agents, each combination five times: as
// many runs per question as in a plain task of this suite.
func (a *arena) fourVariants() map[string]string {
	a.t.Helper()
	var prompts, agents []string
	for n := range 2 {
		name := fmt.Sprintf("%d %s", n, uuid.NewString()[:8])
		prompts = append(prompts, save(a.t, a.web.url(), "prompts", map[string]any{"name": name, "user": "{{question}}"}))
		agents = append(agents, save(a.t, a.web.url(), "agents", map[string]any{
			"name": name, "protocol": "default", "url": a.agent.URL, "rate_limit": "unlimited", "retry_on": []string{}}))
	}
	return map[string]string{
		"agent_api_url": "", "prompts": strings.Join(prompts, ","), "agents": strings.Join(agents, ","),
		"runs_per_item": "5",
	}
}

// act posts an action on a task to the API, once the web process responds.
func (a *arena) act(id, action string) (status int) {
	a.t.Helper()
	dbtest.Await(a.t, 60*time.Second, "the web process to take "+action, func() bool {
		answer, err := http.Post(a.web.url()+"/api/v1/evaluation-tasks/"+id+"/"+action, "", nil)
		if err != nil {
			return false
		}
		_ = answer.Body.Close()
		status = answer.StatusCode
		return status < 500
	})
	return status
}

func (a *arena) status(id string) (status db.TaskStatus) {
	_ = a.tables.Get(&status, `SELECT status FROM evaluation_tasks WHERE id = $1`, id)
	return status
}

func (a *arena) awaitEnds(within time.Duration, ids ...string) {
	a.t.Helper()
	dbtest.Await(a.t, within, "the tasks' ends", func() bool {
		for _, id := range ids {
			if status := a.status(id); status == "" || status.IsActive() {
				return false
			}
		}
		return true
	})
}

// verdict holds what judge counts in the tables at the end of a suite.
type verdict struct {
	Units, Lost, Doubled, Stale, Foreign, Ends, ExtraEnds int
}

func (a *arena) judge() (v verdict) {
	a.t.Helper()
	err := a.tables.Get(&v, `SELECT
		(SELECT count(*) FROM units) AS units,
		(SELECT coalesce(sum(u.turns - (SELECT count(*) FROM evaluation_runs r WHERE r.unit_id = u.id)), 0) FROM units u
		WHERE u.state = 'DONE' AND u.evaluator = 0) +
			(SELECT count(*) FROM units u WHERE u.state = 'DONE' AND u.evaluator > 0
				AND NOT EXISTS (SELECT 1 FROM evaluations e WHERE e.run_id = u.subject_run_id AND e.evaluator = u.evaluator)) +
			(SELECT count(*) FROM evaluation_tasks t JOIN task_evaluators j ON j.task_id = t.id AND j.target IS NOT NULL
				JOIN evaluation_runs r ON r.task_id = t.id AND r.is_current AND r.status = 'SUCCEEDED'
				WHERE t.status = 'SUCCEEDED' AND NOT EXISTS (SELECT 1 FROM evaluations e WHERE e.run_id = r.id
				AND e.evaluator = j.number)) +
			(SELECT count(*) FROM evaluation_tasks t JOIN evaluation_items i ON i.task_id = t.id, generate_series(1, t.total_variants) v, generate_series(1, `+mostRuns+`) n
				WHERE t.status = 'SUCCEEDED'
				  AND NOT EXISTS (SELECT 1 FROM evaluation_runs r WHERE r.item_id = i.id AND r.variant = v AND r.run_index = n
				  AND r.is_current)) AS lost,
		(SELECT coalesce(sum(n - 1), 0) FROM (SELECT count(*) AS n FROM evaluation_runs WHERE is_current GROUP BY item_id,
		variant, run_index HAVING count(*) > 1) d) +
			(SELECT coalesce(sum(n - 1), 0) FROM (SELECT count(*) AS n FROM evaluation_runs GROUP BY unit_id, item_id
			HAVING count(*) > 1) d) AS doubled,
		(SELECT count(*) FROM evaluation_runs r JOIN units u ON u.id = r.unit_id WHERE r.epoch > u.epoch OR r.epoch <> u.epoch
		AND u.turns = 1) AS stale,
		(SELECT count(*) FROM evaluation_runs r JOIN evaluation_items i ON i.id = r.item_id
			WHERE r.status = 'SUCCEEDED' AND r.response_body <> 'answer to wending-' || r.launch_id || '-' || r.unit_id ||
			coalesce('-' || i.turn, '')) +
			(SELECT count(*) FROM evaluations e WHERE NOT e.is_default AND NOT EXISTS (SELECT 1 FROM units u
				WHERE u.subject_run_id = e.run_id AND e.reason = 'wending-' || u.launch_id || '-' || u.id || '-1')) AS foreign,
		(SELECT count(DISTINCT launch_id) FROM ended) AS ends,
		(SELECT count(*) FROM ended) - (SELECT count(DISTINCT launch_id) FROM ended) AS extraends`)
	require.NoError(a.t, err)
	return v
}

// requireExact compares the tables, the agent's calls and the pages with each other.
func (a *arena) requireExact(ids []string) verdict {
	a.t.Helper()
	v := a.judge()
	require.Zero(a.t, v.Lost, "lost")
	require.Zero(a.t, v.Doubled, "doubled")
	require.Zero(a.t, v.Stale, "stale")
	require.Zero(a.t, v.Foreign, "answers that belong to another unit")
	require.Zero(a.t, v.ExtraEnds, "launches that ended twice")
	require.Empty(a.t, a.agent.conversations.Wrong(), "turns that were asked under a wrong history")
	var launches int
	require.NoError(a.t, a.tables.Get(&launches, `SELECT count(*) FROM launches`))
	require.Equal(a.t, launches, v.Ends, "every launch ended")
	calls, different := a.agent.counts()
	require.LessOrEqual(a.t, calls-different, a.losses*a.lanes,
		"calls made again: at most those in flight when a worker was lost")
	dbtest.Await(a.t, 30*time.Second, "the web process", a.isUp)
	for _, id := range ids {
		a.requirePagesTell(id)
	}
	return v
}

// requirePagesTell requires that the API and the task's page show the same totals as the table.
func (a *arena) requirePagesTell(id string) {
	a.t.Helper()
	var table struct{ Runs, Succeeded, Processed int }
	require.NoError(a.t, a.tables.Get(&table,
		`SELECT count(*) AS runs, count(*) FILTER (WHERE status = 'SUCCEEDED') AS succeeded,
		(SELECT count(*) FROM (SELECT FROM evaluation_runs WHERE task_id = $1 AND is_current GROUP BY item_id
			HAVING count(*) = (SELECT `+mostRuns+` * t.total_variants FROM evaluation_tasks t WHERE t.id = $1)) whole) AS processed
		FROM evaluation_runs WHERE task_id = $1 AND is_current`, id))
	state := task(a.t, a.web.url(), id)
	require.Equal(a.t, table.Runs, state.Statistics.Runs)
	require.Equal(a.t, table.Succeeded, state.Statistics.Succeeded)
	require.Equal(a.t, table.Processed, state.Progress.Processed)
	answer, err := http.Get(a.web.url() + "/tasks/" + id)
	require.NoError(a.t, err)
	defer answer.Body.Close()
	page, err := goquery.NewDocumentFromReader(answer.Body)
	require.NoError(a.t, err)
	require.Contains(a.t, page.Find(".gauge .count").Text(), text.Number(table.Runs)+" / ")
	require.Equal(a.t, text.Number(table.Succeeded), page.Find(".tiles dd").First().Text())
}

// pick chooses a fault at random, by weight.
func pick() string {
	names := slices.Sorted(maps.Keys(weights))
	total := 0
	for _, name := range names {
		total += weights[name]
	}
	at := rand.IntN(total)
	for _, name := range names {
		if at -= weights[name]; at < 0 {
			return name
		}
	}
	return names[0]
}

// A short version that runs with every change: each quick fault once, on some 1,500 units.
func TestChaosShort(t *testing.T) {
	t.Parallel()
	if testing.Short() || os.Getenv("WENDING_CHAOS") == "full" {
		t.Skip("the whole suite runs instead")
	}
	// With 80 ms, calls take at least 60 ms. If they were shorter, lanes would run ahead of recording, and after the
	// loss of a worker more calls might be repeated than it had lanes.
	a := newArena(t, 3, 4, 80*time.Millisecond)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var watching sync.WaitGroup
	watching.Go(func() { a.watch(ctx) })
	ids := []string{a.create(40, nil), a.create(20, a.fourVariants()), a.createConversations(10),
		a.create(20, adaptiveFields)}
	dbtest.Await(t, time.Minute, "the first calls", func() bool { calls, _ := a.agent.counts(); return calls > 20 })
	faults := a.quickFaults()
	for _, name := range slices.Sorted(maps.Keys(faults)) {
		faults[name]()
		before, _ := a.agent.counts()
		dbtest.Await(t, goingOnWithin, "going on after: "+name, func() bool {
			calls, _ := a.agent.counts()
			return calls > before+5 || !slices.ContainsFunc(ids, func(id string) bool { return a.status(id).IsActive() })
		})
	}
	a.awaitEnds(2*time.Minute, ids...)
	a.requireExact(ids)
	a.agent.isWell.Store(true)
	for _, id := range ids {
		require.Equal(t, http.StatusAccepted, a.act(id, "retry"))
	}
	a.anyWorker().signal(syscall.SIGTERM)
	a.awaitEnds(time.Minute, ids...)
	a.requireExact(ids)
	for n, id := range ids {
		require.Equal(t, []int{800, 400, 200, 20 * 6}[n], task(t, a.web.url(), id).Statistics.Succeeded)
	}
	cancel()
	watching.Wait()
	require.Less(t, a.longestGap, goingOnWithin)
	t.Logf("%d faults, longest gap %v: %v", a.faultCount(), a.longestGap.Round(time.Millisecond), a.faults)
}

// keepResult prints the results of a suite, and writes them to the file that the Makefile names.
func keepResult(t *testing.T, result string) {
	t.Helper()
	_, _ = fmt.Fprintln(os.Stdout, "\n"+result)
	if path := os.Getenv("WENDING_RESULT"); path != "" {
		require.NoError(t, os.WriteFile(path, []byte(result), 0o600))
	}
}

// summary returns the text that `make chaos` writes to jobs/RESULTS.md.
func (a *arena) summary(v verdict, took time.Duration) string {
	var text strings.Builder
	calls, different := a.agent.counts()
	fmt.Fprintf(&text, "CHAOS: %d units, %d faults in %v\n", v.Units, a.faultCount(), took.Round(time.Second))
	for _, name := range slices.Sorted(maps.Keys(a.faults)) {
		fmt.Fprintf(&text, "  %4d × %s\n", a.faults[name], name)
	}
	fmt.Fprintf(&text, "lost %d, doubled %d, stale %d, answers of another unit %d\n", v.Lost, v.Doubled,
		v.Stale, v.Foreign)
	fmt.Fprintf(&text, "launches %d, each ended once\n", v.Ends)
	fmt.Fprintf(&text, "calls %d, made again %d (%.1f %%), at most %d allowed\n", calls, calls-different,
		100*float64(calls-different)/float64(different), a.losses*a.lanes)
	fmt.Fprintf(&text, "slowest recovery: %.1f s without any result; a silent worker kept units for at most %.1f s\n",
		a.longestGap.Seconds(), a.longestSilence.Seconds())
	return text.String()
}

// The full suite: more than 40,000 calls of plain and adaptive tasks, of tasks with four variants, and of conversations
// with their judges, under at least 300 faults; then every failure is retried under more faults.
func TestChaosFull(t *testing.T) {
	if os.Getenv("WENDING_CHAOS") != "full" {
		t.Skip("make chaos runs it")
	}
	const tasks, questions, faultsWanted = 20, 100, 300
	const units = tasks * questions * 20
	a := newArena(t, 4, 8, 160*time.Millisecond)
	a.workers = append(a.workers, a.start("worker an hour ahead", skewedProgram(t), "worker", "--data-dir", t.TempDir(),
		"--evaluation-concurrency", fmt.Sprint(a.lanes)))
	a.note("a worker whose clock is an hour ahead", 0)
	start := time.Now()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var watching, long sync.WaitGroup
	watching.Go(func() { a.watch(ctx) })
	var ids []string
	for n := range tasks {
		switch n % 4 {
		case 0, 2:
			ids = append(ids, a.create(questions, nil), a.create(questions/2, adaptiveFields))
		case 1:
			ids = append(ids, a.create(questions, a.fourVariants()))
		default: // the same number of calls, half of them to the judge
			ids = append(ids, a.createConversations(questions/2))
		}
	}
	done := func() (count int) {
		_ = a.tables.Get(&count, `SELECT (SELECT count(*) FROM evaluation_runs) + (SELECT count(*) FROM evaluations)`)
		return count
	}
	// Long faults run in parallel with the others.
	long.Go(func() {
		for n := range 6 {
			a.freeze(a.workers[n%len(a.workers)])
		}
	})
	long.Go(func() {
		a.longRedisFault("Redis absent for 60 s", a.redis.kill, func() { a.check(a.redis.start()) })
		a.longRedisFault("Redis SIGSTOP for 60 s", func() {
			_ = a.redis.command.Process.Signal(syscall.SIGSTOP)
		}, func() { _ = a.redis.command.Process.Signal(syscall.SIGCONT) })
	})
	faults := a.quickFaults()
	stopped := map[string]bool{}
	for a.faultCount() < faultsWanted {
		dbtest.Await(t, 3*time.Minute, "enough units between two faults", func() bool {
			return done() >= a.faultCount()*(units*9/10)/faultsWanted
		})
		faults[pick()]()
		// Now and then a task is stopped, and resumed once it has ended.
		if id := ids[rand.IntN(len(ids))]; a.faultCount()%25 == 0 && a.status(id) == db.TaskRunning && !stopped[id] {
			stopped[id] = true
			a.act(id, "stop")
			a.awaitEnds(time.Minute, id)
			a.act(id, "resume")
		}
	}
	long.Wait()
	a.awaitEnds(10*time.Minute, ids...)
	a.requireExact(ids)
	for id := range stopped { // each was stopped once, and then resumed
		require.Equal(t, db.TaskSucceeded, a.status(id))
	}
	a.agent.isWell.Store(true)
	for _, id := range ids {
		require.Equal(t, http.StatusAccepted, a.act(id, "retry"))
		faults[pick()]()
	}
	a.awaitEnds(5*time.Minute, ids...)
	v := a.requireExact(ids)
	for _, id := range ids {
		statistics := task(t, a.web.url(), id).Statistics
		require.Equal(t, statistics.Expected, statistics.Succeeded, "after the retry every run succeeded")
		require.Zero(t, statistics.JudgeErrors, "and every answer is rated")
	}
	cancel()
	watching.Wait()
	took := time.Since(start)
	a.askHostileAgents()
	a.fillTheDisk()
	require.GreaterOrEqual(t, v.Units, units/2)
	require.Less(t, a.longestGap, goingOnWithin)
	require.Less(t, a.longestSilence, goingOnWithin)
	keepResult(t, a.summary(v, took))
}

// askHostileAgents calls hostile agents through the whole program. Memory use hardly grows, and every call ends with
// the right code.
func (a *arena) askHostileAgents() {
	t := a.t
	endless := strings.Repeat("data: {\"event\":\"llm_chunk\",\"data\":{\"content\":\""+strings.Repeat("x", 64<<10)+
		"\"}}\n\n", 4)
	behaviours := map[string]func(http.ResponseWriter, *http.Request){
		"hang": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"drip": func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				_, _ = io.WriteString(w, ": drip\n")
				_ = http.NewResponseController(w).Flush()
				time.Sleep(50 * time.Millisecond)
			}
		},
		"reset": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"500":   func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "down", http.StatusInternalServerError) },
		"429": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "1")
			http.Error(w, "busy", http.StatusTooManyRequests)
		},
		"redirect": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://169.254.169.254/latest/meta-data/", http.StatusFound)
		},
		"10 GB": func(w http.ResponseWriter, _ *http.Request) {
			for range 10 << 30 / len(endless) {
				if _, err := io.WriteString(w, endless); err != nil {
					return
				}
			}
		},
		"gzip bomb":     func(w http.ResponseWriter, _ *http.Request) { writeBomb(w) },
		"invalid UTF-8": func(w http.ResponseWriter, _ *http.Request) { agenttest.Stream(w, "a\xff\xfeb") },
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var asked struct{ Question string }
		_ = json.NewDecoder(r.Body).Decode(&asked)
		behaviours[asked.Question](w, r)
	}))
	defer server.Close()
	before := map[string]int{}
	for _, m := range a.workers {
		before[m.name] = m.residentMemory()
	}
	dataset := "question,standard_answer\n" + strings.Join(slices.Sorted(maps.Keys(behaviours)), ",a\n") + ",a\n"
	fields := map[string]string{
		"task_name": "hostile", "agent_api_url": server.URL, "timeout_seconds": "20", "max_retries": "0",
		"concurrency": "8", "runs_per_item": "3",
	}
	id := createTask(t, a.web.url(), fields, dataset)
	fields["agent_api_url"], fields["runs_per_item"] = "http://no-such-name.invalid/", "1"
	unknown := createTask(t, a.web.url(), fields, "question,standard_answer\nq,a\n")
	a.awaitEnds(3*time.Minute, id, unknown)
	var rows []struct {
		Question string
		Code     *string
		N        int
	}
	require.NoError(t, a.tables.Select(&rows,
		`SELECT i.question, r.error_code AS code, count(*) AS n FROM evaluation_runs r JOIN evaluation_items i ON i.id = r.item_id
		WHERE r.task_id = ANY (ARRAY[$1::uuid, $2::uuid]) AND r.is_current GROUP BY 1, 2`, id, unknown))
	got := map[string]string{}
	for _, row := range rows {
		code := "SUCCEEDED"
		if row.Code != nil {
			code = *row.Code
		}
		got[row.Question] = fmt.Sprintf("%d × %s", row.N, code)
		a.note("agent: "+strings.Replace(row.Question, "q", "DNS failure", 1), 0)
	}
	require.Equal(t, map[string]string{"hang": "3 × TIMEOUT", "drip": "3 × TIMEOUT", "reset": "3 × NETWORK_ERROR",
		"500": "3 × HTTP_500", "429": "3 × HTTP_429",
		"redirect": "3 × HTTP_302", "10 GB": "3 × RESPONSE_TOO_LARGE", "gzip bomb": "3 × RESPONSE_TOO_LARGE",
		"invalid UTF-8": "3 × SUCCEEDED", "q": "1 × NETWORK_ERROR"}, got)
	for _, m := range a.workers {
		if grown := m.residentMemory() - before[m.name]; before[m.name] > 0 {
			require.Less(t, grown, 400<<20, "%s grew by %d MiB", m.name, grown>>20)
		}
	}
}

// fillTheDisk lets uploads run out of space: no partial dataset is left behind, and smaller uploads still succeed.
func (a *arena) fillTheDisk() {
	t := a.t
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"); err != nil {
		t.Logf("no small disk can be mounted here: %v", err)
		return
	}
	defer func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) }()
	web := a.start("web on a small disk", os.Args[0], "serve", "--data-dir", dir, "--listen-addr", "127.0.0.1:0")
	defer web.retire()
	dbtest.Await(t, time.Minute, "the second web process", func() bool { return web.url() != "" })
	var before, after int
	require.NoError(t, a.tables.Get(&before, `SELECT count(*) FROM evaluation_tasks`))
	fields := map[string]string{"task_name": "disk", "agent_api_url": a.agent.URL}
	status, body := postTask(t, web.url(), fields,
		"question,standard_answer\n"+strings.Repeat("q"+strings.Repeat("x", 4000)+",a\n", 500))
	require.Equal(t, http.StatusInternalServerError, status, "%s", body)
	require.NoError(t, a.tables.Get(&after, `SELECT count(*) FROM evaluation_tasks`))
	require.Equal(t, before, after, "no task without its file")
	for _, file := range dbtest.Files(t, filepath.Join(dir, "uploads")) {
		require.Equal(t, "staged", filepath.Dir(file), "no partial dataset")
	}
	status, body = postTask(t, web.url(), fields, "question,standard_answer\nq,a\n")
	require.Equal(t, http.StatusCreated, status, "%s", body)
	a.note("disk full in uploads", 0)
}
