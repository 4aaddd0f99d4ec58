package handlers_test

import (
	"bufio"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"wending/db/dbtest"
	"wending/jobs/agent/agenttest"
)

// With 200 calls in flight, each of which reports events for a second: how many fewer calls end in the same time if 50
// pages follow some of them.
func BenchmarkCallsThatFiftyPagesFollow(b *testing.B) {
	const lanes, watchers, questions, runs = 200, 50, 40, 5
	s := newSiteWith(b, lanes+4)
	fake := agenttest.New(b, func(w http.ResponseWriter, _ agenttest.Call) {
		w.Header().Set("Content-Type", "text/event-stream")
		for n := range 20 {
			say(w, fmt.Sprintf(`{"event":"task_progress","data":{"percent":%d}}`, 5*n),
				`{"event":"llm_chunk","data":{"text":"一段回答。"}}`)
			time.Sleep(50 * time.Millisecond)
		}
		say(w, `{"event":"node_finished","data":{"output":"完"}}`)
	})
	file := "question,standard_answer\n"
	for n := range questions {
		file += fmt.Sprintf("问题 %d,\n", n)
	}
	measure := func(pages int) (perSecond float64) {
		start := time.Now()
		var tasks []string
		for range 4 {
			tasks = append(tasks, s.create(b, fake.URL, map[string]string{
				"runs_per_item": fmt.Sprint(runs), "concurrency": fmt.Sprint(lanes / 4), "timeout_seconds": "60",
				"file@q.csv": file,
			}))
		}
		done := make(chan struct{})
		var watching sync.WaitGroup
		for n := range pages {
			watching.Go(func() { s.watchCalls(tasks[n%len(tasks)], n, done) })
		}
		for _, id := range tasks {
			dbtest.Await(b, 2*time.Minute, "the task's end", func() bool {
				var active bool
				require.NoError(b, s.tables.Get(&active,
					`SELECT status IN ('PENDING', 'RUNNING') FROM evaluation_tasks WHERE id = $1`, id))
				return !active
			})
		}
		took := time.Since(start)
		close(done)
		watching.Wait()
		return 4 * questions * runs / took.Seconds()
	}
	measure(0)
	for b.Loop() {
		alone, watched := measure(0), measure(watchers)
		b.ReportMetric(alone, "calls/s-alone")
		b.ReportMetric(watched, "calls/s-followed")
		b.ReportMetric(100*(1-watched/alone), "%fewer")
	}
}

// watchCalls follows one call of a task after another until done is closed.
func (s *site) watchCalls(task string, place int, done <-chan struct{}) {
	for {
		select {
		case <-done:
			return
		default:
		}
		var unit int64
		err := s.tables.Get(&unit,
			`SELECT u.id FROM units u JOIN launches l ON l.id = u.launch_id WHERE l.task_id = $1 AND u.state = 'RUNNING' ORDER BY u.id OFFSET $2 LIMIT 1`, task, place/4)
		if err != nil {
			time.Sleep(50 * time.Millisecond)
			continue
		}
		answer, err := http.Get(fmt.Sprintf("%s%s/%s/units/%d/events", s.URL, api, task, unit))
		if err != nil {
			continue
		}
		for lines := bufio.NewScanner(answer.Body); lines.Scan() && !strings.HasPrefix(lines.Text(), "event: end"); {
		}
		_ = answer.Body.Close()
	}
}
