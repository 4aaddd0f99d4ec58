package jobs_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"wending/db"
	"wending/db/dbtest"
	"wending/jobs/agent"
)

// quickAgent answers after a while and remembers nothing.
func quickAgent(b *testing.B, latency time.Duration) (url string) {
	b.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		time.Sleep(latency) // the latency that is measured against
		_, _ = io.WriteString(w, `data: {"event":"node_finished","data":{"output":"an answer of the usual kind"}}`+"\n\n")
	}))
	b.Cleanup(server.Close)
	return server.URL
}

// runTask runs a task of so many units and returns the time from its creation to its end.
func runTask(b *testing.B, bench *bench, url string, units, concurrency int) time.Duration {
	b.Helper()
	const runs = 20
	start := time.Now()
	taskID, launchID := bench.task(b, url, units/runs, func(n *db.NewTask) { n.Task.RunsPerItem, n.Task.Concurrency = runs, concurrency })
	require.NoError(b, bench.queue.EnqueueLaunch(b.Context(), launchID))
	task := bench.awaitEnd(b, taskID, 5*time.Minute)
	took := time.Since(start)
	bench.requireComplete(b, task)
	require.Equal(b, units, bench.statistics(b, taskID).Succeeded)
	return took
}

// 5,000 calls of 100 ms at concurrency 64, against the ideal N·latency/concurrency. The time is the whole
// task's: from its creation to SUCCEEDED.
func BenchmarkLaunchSlowAgent(b *testing.B) {
	const calls, concurrency, latency = 5000, 64, 100 * time.Millisecond
	bench := newBench(b)
	url := quickAgent(b, latency)
	bench.startWorker(b, concurrency)
	ideal := calls * latency / concurrency
	for b.Loop() {
		took := runTask(b, bench, url, calls, concurrency)
		b.ReportMetric(100*ideal.Seconds()/took.Seconds(), "%ofideal")
		b.ReportMetric(calls/took.Seconds(), "calls/s")
	}
}

// 20,000 calls of 0 ms at concurrency 64, beside a bare loop that makes the same calls with the same client
// and stores nothing.
func BenchmarkLaunchInstantAgent(b *testing.B) {
	const calls, concurrency = 20_000, 64
	bench := newBench(b)
	url := quickAgent(b, 0)
	guard, err := agent.NewGuard(agent.GuardConfig{AllowLoopback: true})
	require.NoError(b, err)
	client := agent.NewClient(guard, "")
	bench.startWorker(b, concurrency)
	bareLoop := func() time.Duration {
		start := time.Now()
		var next atomic.Int64
		var lanes sync.WaitGroup
		for range concurrency {
			lanes.Go(func() {
				for n := next.Add(1); n <= calls; n = next.Add(1) {
					answer := client.Ask(b.Context(), agent.Request{URL: url, Question: fmt.Sprintf("question %d", n), StandardAnswer: "a", Stream: true,
						IdempotencyKey: fmt.Sprint(n), Timeout: 10 * time.Second})
					if answer.Status != agent.Succeeded {
						b.Error(answer.ErrorMessage)
					}
				}
			})
		}
		lanes.Wait()
		return time.Since(start)
	}
	for b.Loop() {
		before := bareLoop()
		took := runTask(b, bench, url, calls, concurrency)
		bare := (before + bareLoop()) / 2
		b.ReportMetric(100*bare.Seconds()/took.Seconds(), "%ofbare")
		b.ReportMetric(calls/took.Seconds(), "calls/s")
		b.ReportMetric(calls/bare.Seconds(), "bare-calls/s")
	}
}

// What a claim and a record cost beside 1,000 and beside 1,000,000 runs that are stored already.
func BenchmarkClaimAndRecordAsRunsGrow(b *testing.B) {
	bench := newBench(b)
	worker := uuid.New()
	cost := func() time.Duration {
		lease := bench.beat(b, worker)
		const units, batch = 10_000, 32
		taskID, launchID := bench.task(b, "http://127.0.0.1:9", units/20, func(n *db.NewTask) { n.Task.RunsPerItem = 20 })
		_, err := bench.store.StartLaunch(b.Context(), launchID)
		require.NoError(b, err)
		call, err := bench.store.LaunchCall(b.Context(), launchID)
		require.NoError(b, err)
		start := time.Now()
		for done := 0; done < units; {
			claim, err := bench.store.ClaimUnits(b.Context(), call, lease, batch)
			require.NoError(b, err)
			require.NotEmpty(b, claim.Units)
			results := make([]db.Result, len(claim.Units))
			for n, unit := range claim.Units {
				results[n] = db.Result{Unit: unit, Status: db.RunSucceeded, Response: []byte("an answer of the usual kind"), AnswerKey: make([]byte, 32), Attempts: 1}
			}
			refused, err := bench.store.RecordResults(b.Context(), taskID, results)
			require.NoError(b, err)
			require.Empty(b, refused)
			done += len(claim.Units)
		}
		return time.Since(start) / units
	}
	for b.Loop() {
		dbtest.Seed(b, bench.tables, 1, 50, 20)
		cost() // warms up
		few := cost()
		dbtest.Seed(b, bench.tables, 50, 1000, 20)
		cost()
		many := cost()
		b.ReportMetric(float64(few.Microseconds()), "µs/unit-at-1e3")
		b.ReportMetric(float64(many.Microseconds()), "µs/unit-at-1e6")
		b.ReportMetric(100*(many.Seconds()/few.Seconds()-1), "%growth")
	}
}
