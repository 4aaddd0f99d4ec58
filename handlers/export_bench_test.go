package handlers_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"wending/db"
	"wending/db/dbtest"
	"wending/jobs/tasks"
)

// BenchmarkExport writes the report of 1,000 questions × 5 runs × 100 KB (0.5 GB) over real HTTP. It prints the time
// to the first byte, the growth of the process's memory, and how long the download took compared with sending the
// same number of bytes through the same HTTP server.
func BenchmarkExport(b *testing.B) {
	const questions, runs, size = 1000, 5, 100_000
	s := newSite(b, false)
	id := s.fill(b, questions, runs, size)
	bare := bareDownload(b, questions*runs*size)
	for _, format := range []string{"csv", "xlsx", "jsonl"} {
		b.Run(format, func(b *testing.B) {
			for range b.N {
				before := resident(b)
				start := time.Now()
				answer, err := s.client.Get(s.URL + api + "/" + id + "/export?format=" + format)
				require.NoError(b, err)
				first := make([]byte, 1)
				_, err = io.ReadFull(answer.Body, first)
				require.NoError(b, err)
				firstByte := time.Since(start)
				most := int64(0)
				buffer := make([]byte, 1<<20)
				read := int64(1)
				for next := read; ; {
					n, err := answer.Body.Read(buffer)
					if read += int64(n); read >= next {
						most = max(most, resident(b)-before)
						next = read + 16<<20
					}
					if err == io.EOF {
						break
					}
					require.NoError(b, err)
				}
				_ = answer.Body.Close()
				whole := time.Since(start)
				b.ReportMetric(float64(firstByte.Milliseconds()), "ms-to-first-byte")
				b.ReportMetric(float64(most)/(1<<20), "MiB-grown")
				b.ReportMetric(float64(read)/(1<<20)/whole.Seconds(), "MiB/s")
				b.ReportMetric(whole.Seconds()/bare.Seconds(), "×-bare-copy")
			}
		})
	}
}

// fill stores a finished task without calling an agent.
func (s *site) fill(b testing.TB, questions, runs, size int) string {
	b.Helper()
	task := db.NewTask{Task: db.Task{ID: uuid.New(), ProjectID: db.DefaultProject, Name: "export",
		Targets: dbtest.Targets("http://127.0.0.1:1/"), Variants: dbtest.Variants(), RunsPerItem: runs, TimeoutSeconds: 30,
		Concurrency: 1,
		DatasetName: "q.csv", DatasetExtension: "csv"}, Launch: &db.NewLaunch{Targets: dbtest.Limits("http://127.0.0.1:1")}}
	for n := range questions {
		task.Items = append(task.Items, db.NewItem{QuestionID: fmt.Sprintf("q%04d", n), Question: "问题", StandardAnswer: "答案"})
	}
	launch, err := s.store.CreateTask(b.Context(), task)
	require.NoError(b, err)
	_, err = s.store.StartLaunch(b.Context(), launch)
	require.NoError(b, err)
	// Text that hardly compresses, so that rows have their full size in the database.
	_, err = s.tables.Exec(
		`INSERT INTO evaluation_runs (unit_id, epoch, task_id, launch_id, item_id, run_index, status, response_body, answer_key, latency_ms, attempts)
		SELECT u.id, 1, $2, u.launch_id, u.item_id, u.run_index, 'SUCCEEDED',
			(SELECT left(string_agg(md5(u.id::text || n), ''), $3) FROM generate_series(1, $3 / 32 + 1) n), '\x00', 1, 1
		FROM units u WHERE u.launch_id = $1`, launch, task.Task.ID, size)
	require.NoError(b, err)
	_, err = s.tables.Exec(`UPDATE units SET state = 'DONE' WHERE launch_id = $1`, launch)
	require.NoError(b, err)
	_, err = s.tables.Exec(`ANALYZE`)
	require.NoError(b, err)
	finished, err := tasks.FinishLaunch(b.Context(), s.store, launch)
	require.NoError(b, err)
	require.True(b, finished)
	return task.Task.ID.String()
}

// bareDownload returns how long it takes merely to send size bytes over HTTP on this machine.
func bareDownload(b *testing.B, size int64) time.Duration {
	b.Helper()
	mux := http.NewServeMux()
	block := []byte(strings.Repeat("x", 32<<10))
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		for sent := int64(0); sent < size; sent += int64(len(block)) {
			_, _ = w.Write(block)
		}
	})
	server := serve(b, mux)
	start := time.Now()
	answer, err := http.Get(server)
	require.NoError(b, err)
	_, err = io.Copy(io.Discard, answer.Body)
	require.NoError(b, err)
	_ = answer.Body.Close()
	return time.Since(start)
}

// resident returns the memory of this process, in bytes (proc(5), VmRSS).
func resident(b *testing.B) int64 {
	b.Helper()
	now, err := residentNow()
	require.NoError(b, err)
	return now
}

func residentNow() (int64, error) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	for line := range strings.SplitSeq(string(status), "\n") {
		if fields := strings.Fields(line); len(fields) >= 2 && fields[0] == "VmRSS:" {
			kib, err := strconv.ParseInt(fields[1], 10, 64)
			return kib << 10, err
		}
	}
	return 0, errors.New("no VmRSS")
}
