package handlers_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"wending/db"
	"wending/jobs/agent"
	"wending/jobs/agent/guard"
	"wending/jobs/agent/protocol"
)

// The time of a task over HTTP, from the upload of its file to SUCCEEDED, compared with a bare client that makes the
// same calls at the same concurrency and stores nothing; also the time from the response to the upload until the task's
// first call. The results are medians of eleven rounds, between which the worker is idle.
func BenchmarkTaskFromUploadToItsEnd(b *testing.B) {
	const items, runs, concurrency, rounds = 50, 5, 16, 11
	for _, latency := range []time.Duration{20, 100} {
		b.Run(fmt.Sprintf("%dms", latency), func(b *testing.B) {
			latency := latency * time.Millisecond
			var began atomic.Int64 // the time of the first call since the last reset, in Unix nanoseconds
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				began.CompareAndSwap(0, time.Now().UnixNano())
				_, _ = io.Copy(io.Discard, r.Body)
				time.Sleep(latency) // the latency against which the time is measured
				_, _ = io.WriteString(w, `data: {"event":"node_finished","data":{"output":"an answer of the usual kind"}}`+"\n\n")
			}))
			b.Cleanup(server.Close)
			s := newSiteWith(b, 64)
			guard, err := guard.New(guard.Config{AllowLoopback: true})
			require.NoError(b, err)
			client := agent.NewClient(guard, "")
			file := strings.Builder{}
			file.WriteString("question,standard_answer\n")
			for n := range items {
				fmt.Fprintf(&file, "question %d,a\n", n)
			}
			fields := map[string]string{"concurrency": fmt.Sprint(concurrency), "file@q.csv": file.String()}
			bare := func() time.Duration {
				start := time.Now()
				var next atomic.Int64
				var lanes sync.WaitGroup
				for range concurrency {
					lanes.Go(func() {
						for n := next.Add(1); n <= items*runs; n = next.Add(1) {
							answer := client.Ask(b.Context(),
								protocol.Request{Protocol: protocol.Default, URL: server.URL, Question: "q", Stream: true,
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
				var ratios, firsts []float64
				for range rounds {
					ideal := bare()
					began.Store(0)
					start := time.Now()
					id := uuid.MustParse(s.create(b, server.URL, fields))
					created := time.Now()
					for {
						task, err := s.store.Task(b.Context(), db.AllProjects(), id)
						require.NoError(b, err)
						if !task.Status.IsActive() {
							break
						}
						time.Sleep(5 * time.Millisecond) // the resolution of the measurement
					}
					ratios = append(ratios, time.Since(start).Seconds()/ideal.Seconds())
					firsts = append(firsts, float64(time.Unix(0, began.Load()).Sub(created).Microseconds())/1000)
					time.Sleep(300 * time.Millisecond) // the worker is idle again
				}
				slices.Sort(ratios)
				slices.Sort(firsts)
				b.ReportMetric(ratios[rounds/2], "×bare")
				b.ReportMetric(firsts[rounds/2], "ms-to-first-call")
			}
		})
	}
}
