package jobs_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"wending/db"
	"wending/db/dbtest"
	"wending/db/engine"
	"wending/db/measure/facts"
	"wending/jobs/agent"
	"wending/jobs/agent/guard"
	"wending/jobs/agent/protocol"
)

// quickAgent starts an agent that answers after latency and does nothing else, and returns its address.
func quickAgent(b *testing.B, latency time.Duration) (url string) {
	b.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		time.Sleep(latency) // the latency against which the time is measured
		_, _ = io.WriteString(w, `data: {"event":"node_finished","data":{"output":"an answer of the usual kind"}}`+"\n\n")
	}))
	b.Cleanup(server.Close)
	return server.URL
}

// runTask runs a task with the given number of questions, after change has modified it, and returns the time from its
// creation to its end. The task must have the given number of units.
func runTask(b *testing.B, bench *bench, questions, units int, change func(*db.NewTask)) time.Duration {
	b.Helper()
	start := time.Now()
	taskID, launchID := bench.task(b, "", questions, change)
	require.NoError(b, bench.queue.EnqueueLaunch(b.Context(), launchID))
	task := bench.awaitEnd(b, taskID, 5*time.Minute)
	took := time.Since(start)
	bench.requireComplete(b, task)
	require.Equal(b, units, bench.statistics(b, taskID).Succeeded)
	return took
}

// concurrency is the concurrency of the timed tasks.
const concurrency = 64

// plain turns a task into one that calls a single URL, with 20 runs per question.
func plain(url string) func(*db.NewTask) {
	return func(n *db.NewTask) {
		variants(n, url)
		n.Task.RunsPerItem, n.Task.Concurrency = 20, concurrency
	}
}

// 5,000 calls of 100 ms at concurrency 64, compared with the ideal N·latency/concurrency. The time covers the whole
// task, from its creation to SUCCEEDED.
func BenchmarkLaunchSlowAgent(b *testing.B) {
	const calls, latency = 5000, 100 * time.Millisecond
	bench := newBench(b)
	url := quickAgent(b, latency)
	bench.startWorker(b, concurrency)
	ideal := calls * latency / concurrency
	for b.Loop() {
		took := runTask(b, bench, calls/20, calls, plain(url))
		b.ReportMetric(100*ideal.Seconds()/took.Seconds(), "%ofideal")
		b.ReportMetric(calls/took.Seconds(), "calls/s")
	}
}

// 20,000 calls of 0 ms at concurrency 64, compared with a bare loop that makes the same calls with the same client
// and stores nothing.
func BenchmarkLaunchInstantAgent(b *testing.B) {
	const calls = 20_000
	bench := newBench(b)
	url := quickAgent(b, 0)
	guard, err := guard.New(guard.Config{AllowLoopback: true})
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
					answer := client.Ask(b.Context(), protocol.Request{Protocol: protocol.Default, URL: url,
						Question: fmt.Sprintf("question %d", n), StandardAnswer: "a", Stream: true,
						IdempotencyKey: fmt.Sprint(n), Timeout: 10 * time.Second})
					if answer.Status != protocol.Succeeded {
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
		took := runTask(b, bench, calls/20, calls, plain(url))
		bare := (before + bareLoop()) / 2
		b.ReportMetric(100*bare.Seconds()/took.Seconds(), "%ofbare")
		b.ReportMetric(calls/took.Seconds(), "calls/s")
		b.ReportMetric(calls/bare.Seconds(), "bare-calls/s")
	}
}

// longAnswers returns five answers of about 1,000 characters to each of ten questions. They differ only in one number
// or, if areInOtherWords, also in their wording.
func longAnswers(b *testing.B, areInOtherWords bool) [][]string {
	b.Helper()
	content, err := os.ReadFile("../db/measure/facts/testdata/bases.jsonl")
	require.NoError(b, err)
	var bases [][3]string
	for line := range strings.Lines(string(content)) {
		var base struct{ Text, Paraphrase1, Paraphrase2 string }
		require.NoError(b, json.Unmarshal([]byte(line), &base))
		bases = append(bases, [3]string{base.Text, base.Paraphrase1, base.Paraphrase2})
	}
	questions := make([][]string, len(bases))
	for n := range questions {
		for run := range 5 {
			var text strings.Builder
			for k := 0; utf8.RuneCountInString(text.String()) < 900; k++ {
				form := 0
				if areInOtherWords {
					form = (run + k*(run/3)) % 3
				}
				text.WriteString(bases[(n+k)%len(bases)][form] + "\n")
			}
			// answers that differ in wording, even where the facts are equal
			fmt.Fprintf(&text, "答复期限为 %d 日。%s", 30+5*(run/4), strings.Repeat("。", run))
			questions[n] = append(questions[n], text.String())
		}
	}
	return questions
}

// answering is an agent that answers each question after a while, with one prepared answer after another.
func answering(b *testing.B, latency time.Duration, questions [][]string) (url string) {
	b.Helper()
	number := regexp.MustCompile(`question (\d+)`)
	var asked sync.Map // question → number of calls
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		question := string(number.FindSubmatch(body)[1])
		n, _ := strconv.Atoi(question)
		count, _ := asked.LoadOrStore(question, &atomic.Int64{})
		answers := questions[n%len(questions)]
		output, _ := json.Marshal(answers[int(count.(*atomic.Int64).Add(1))%len(answers)])
		time.Sleep(latency) // the agent's latency
		_, _ = fmt.Fprintf(w, "data: {\"event\":\"node_finished\",\"data\":{\"output\":%s}}\n\n", output)
	}))
	b.Cleanup(server.Close)
	return server.URL
}

// The cost of reading facts for a launch with five runs per question: calls per second with five different answers of
// about 1,000 characters, and with five equal ones, which need no comparison. The difference also includes reading
// the answers and computing their other similarities.
func BenchmarkLaunchWithFacts(b *testing.B) {
	const questions, calls = 400, 5 * 400
	for _, agent := range []struct {
		name    string
		latency time.Duration
	}{{"agent=100ms", 100 * time.Millisecond}, {"agent=instant", 0}} {
		for _, areInOtherWords := range []bool{false, true} {
			b.Run(fmt.Sprintf("%s/other-words=%v", agent.name, areInOtherWords), func(b *testing.B) {
				bench := newBench(b)
				different := longAnswers(b, areInOtherWords)
				equal := make([][]string, len(different))
				for n, answers := range different {
					equal[n] = answers[:1]
				}
				urls := [2]string{answering(b, agent.latency, equal), answering(b, agent.latency, different)}
				bench.startWorker(b, concurrency)
				launch := func(url string) (took, processor time.Duration) {
					before := processorTime(b)
					took = runTask(b, bench, questions, calls, func(n *db.NewTask) {
						plain(url)(n)
						n.Task.RunsPerItem = 5
					})
					return took, processorTime(b) - before
				}
				launch(urls[0]) // warms up
				for b.Loop() {
					var took, processor [2]time.Duration
					for _, with := range []int{0, 1, 1, 0} {
						time, cpu := launch(urls[with])
						took[with], processor[with] = took[with]+time/2, processor[with]+cpu/2
					}
					before := processorTime(b)
					for n := range questions {
						_, err := facts.Question(b.Context(), different[n%len(different)])
						require.NoError(b, err)
					}
					reading := processorTime(b) - before
					b.ReportMetric(calls/took[0].Seconds(), "calls/s-without")
					b.ReportMetric(calls/took[1].Seconds(), "calls/s")
					b.ReportMetric(100*(1-took[0].Seconds()/took[1].Seconds()), "%fewer")
					b.ReportMetric(float64(reading.Microseconds())/1000/questions, "ms-facts/question")
					b.ReportMetric(float64(processor[0].Microseconds())/1000/questions, "ms-cpu/question-without")
					b.ReportMetric(float64(processor[1].Microseconds())/1000/questions, "ms-cpu/question")
				}
			})
		}
	}
}

// processorTime returns the CPU time that the process has used.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var usage syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// The cost of a claim and a record with 1,000 and with 1,000,000 stored runs.
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
			claim, err := bench.store.ClaimUnits(b.Context(), call, lease, wants(batch))
			require.NoError(b, err)
			require.NotEmpty(b, claim.Units)
			results := make([]engine.Result, len(claim.Units))
			for n, unit := range claim.Units {
				results[n] = engine.Result{Unit: unit, Status: db.RunSucceeded, Response: []byte("an answer of the usual kind"),
					AnswerKey: make([]byte, 32), Attempts: 1}
			}
			refused, err := engine.NewRecorder(bench.store).Record(b.Context(), taskID, results)
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

// 4 variants × 1,250 calls of 100 ms at concurrency 64, compared with the ideal.
func BenchmarkLaunchFourVariants(b *testing.B) {
	const calls, latency = 5000, 100 * time.Millisecond
	bench := newBench(b)
	var urls []string
	for range 4 {
		urls = append(urls, quickAgent(b, latency))
	}
	bench.startWorker(b, concurrency+1) // a worker keeps its last lane for other tasks
	ideal := calls * latency / concurrency
	for b.Loop() {
		took := runTask(b, bench, calls/4/5, calls, func(n *db.NewTask) {
			variants(n, urls...)
			n.Task.Concurrency = concurrency
		})
		b.ReportMetric(100*ideal.Seconds()/took.Seconds(), "%ofideal")
	}
}

// The time of 5,000 calls of 100 ms at concurrency 64 with ten rules that judge the answers, as a multiple of the
// time without rules.
func BenchmarkLaunchWithTenRules(b *testing.B) {
	const calls, latency = 5000, 100 * time.Millisecond
	bench := newBench(b)
	url := quickAgent(b, latency)
	bench.startWorker(b, concurrency)
	judged := func(n *db.NewTask) {
		plain(url)(n)
		for place, rule := range [][2]string{
			{"exact", `{"ignore_case":true}`}, {"contains", `{}`}, {"regex", `{"pattern":"^an? [a-z ]+kind$"}`},
			{"number", `{"expected":"42"}`}, {"similarity", `{}`},
			{"latency", `{"max_ms":500}`}, {"json_schema", `{"schema":{"type":"object"}}`},
			{"json_path", `{"path":"$.a","equals":1}`},
			{"expression", `{"expression":"len(answer) > 10"}`}, {"regex", `{"pattern":"(x+x+)+y"}`},
		} {
			n.Task.Evaluators = append(n.Task.Evaluators, db.Evaluator{
				Number: place + 1, EvaluatorID: uuid.New(), Version: 1, Name: rule[0], Kind: rule[0],
				Config: json.RawMessage(rule[1]),
			})
		}
	}
	for b.Loop() {
		without := runTask(b, bench, calls/20, calls, plain(url))
		with := runTask(b, bench, calls/20, calls, judged)
		b.ReportMetric(with.Seconds()/without.Seconds(), "×-without")
	}
}

// The time that a variant with calls of 50 ms takes while another one runs, as a multiple of the time it takes alone.
func BenchmarkVariantBesideASlowOne(b *testing.B) {
	const latency, calls = 50 * time.Millisecond, 500
	hang := make(chan struct{})
	hanging := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-hang }))
	b.Cleanup(func() { close(hang); hanging.CloseClientConnections(); hanging.Close() })
	for _, test := range []struct {
		name        string
		concurrency int
		change      func(*db.NewTask)
	}{
		{"one call a second", 4, func(n *db.NewTask) { n.Launch.Targets[1].CallInterval = time.Second }},
		{"hangs", 16, func(n *db.NewTask) { n.Task.Targets[1].URL = hanging.URL; n.Launch.Targets[1].Origin = hanging.URL }},
		{"refuses", 4, func(n *db.NewTask) {
			n.Task.Targets[1].URL = "http://127.0.0.1:9"
			n.Launch.Targets[1].Origin = "http://127.0.0.1:9"
		}},
	} {
		b.Run(test.name, func(b *testing.B) {
			bench := newBench(b)
			fast, other := quickAgent(b, latency), quickAgent(b, latency)
			bench.startWorker(b, test.concurrency)
			for b.Loop() {
				alone := bench.run(b, calls/5, func(n *db.NewTask) {
					variants(n, fast)
					n.Task.Concurrency = test.concurrency
				})
				taskID, launchID := bench.task(b, "", calls/5, func(n *db.NewTask) {
					variants(n, fast, other)
					n.Task.Concurrency = test.concurrency
					test.change(n)
				})
				require.NoError(b, bench.queue.EnqueueLaunch(b.Context(), launchID))
				dbtest.Await(b, time.Minute, "the end of the fast variant", func() bool {
					var runs int
					require.NoError(b, bench.tables.Get(&runs,
						`SELECT count(*) FROM evaluation_runs WHERE task_id = $1 AND variant = 1`, taskID))
					return runs == calls
				})
				b.ReportMetric(bench.variantEnd(b, taskID, 1).Seconds()/bench.variantEnd(b, alone.ID, 1).Seconds(), "×-alone")
				if _, err := bench.store.StopTask(b.Context(), db.AllProjects(), taskID, db.Actor{}); err != nil {
					require.ErrorIs(b, err, db.ErrConflict, "the other has ended too")
				}
			}
		})
	}
}

// variantEnd returns when a variant's last run was stored, measured from the start of the launch.
func (b *bench) variantEnd(t testing.TB, taskID uuid.UUID, variant int) time.Duration {
	t.Helper()
	var seconds float64
	require.NoError(t, b.tables.Get(&seconds, `
		SELECT extract(epoch FROM max(r.created_at) - min(l.started_at))
		FROM evaluation_runs r
		JOIN launches l ON l.id = r.launch_id
		WHERE r.task_id = $1 AND r.variant = $2`, taskID, variant))
	return time.Duration(seconds * float64(time.Second))
}

// The time until a launch of 200,000 units, the maximum, has begun.
func BenchmarkStartOf200000Units(b *testing.B) {
	bench := newBench(b)
	var urls []string
	for n := range 20 {
		urls = append(urls, fmt.Sprint("http://127.0.0.1:", n+1))
	}
	for b.Loop() {
		_, launchID := bench.task(b, "", 500, func(n *db.NewTask) {
			variants(n, urls...)
			n.Task.RunsPerItem = 20
		})
		start := time.Now()
		units, err := bench.store.StartLaunch(b.Context(), launchID)
		require.NoError(b, err)
		require.Equal(b, 200_000, units)
		b.ReportMetric(time.Since(start).Seconds(), "s")
	}
}
