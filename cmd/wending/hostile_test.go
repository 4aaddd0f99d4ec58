package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"wending/db/dbtest"
	"wending/jobs/agent/agenttest"
	"wending/jobs/dataset"
	"wending/jobs/dataset/datasettest"
)

// Hostile files, agents, floods and readers against the real program, which may use 4 GB of address space: it answers
// each of them clearly, uses little more memory, and keeps serving other pages. `make hostile` runs all attacks at
// full size and prints the table.
func TestHostile(t *testing.T) {
	s := newSiege(t, os.Getenv("WENDING_HOSTILE") == "full")
	s.files()
	s.archives()
	s.agents()
	s.floods()
	s.readers()
	if !t.Failed() {
		keepResult(t, s.table())
	}
}

const addressSpace = 4 << 30

// siege is the program under attack.
type siege struct {
	*process
	t      *testing.T
	isFull bool
	rows   [][]string
}

func newSiege(t *testing.T, isFull bool) *siege {
	t.Helper()
	// a race-instrumented test binary would need more memory
	binary := filepath.Join(t.TempDir(), "wending")
	output, err := exec.CommandContext(t.Context(), "go", "build", "-o", binary, ".").CombinedOutput()
	require.NoError(t, err, "%s", output)
	limit := fmt.Sprintf(`ulimit -v %d; exec "$0" "$@"`, addressSpace>>10)
	command := exec.Command("sh", "-c", limit, binary, "up", "--data-dir", dbtest.Folder(t), "--listen-addr",
		"127.0.0.1:0",
		"--evaluation-concurrency", "9", "--rate-limit-per-agent", "unlimited", "--agent-max-retries", "0")
	return &siege{process: startCommand(t, command), t: t, isFull: isFull}
}

// of returns how many requests to send: full or, in a short run, short.
func (s *siege) of(full, short int) int {
	if s.isFull {
		return full
	}
	return short
}

// The limits of an attack: how much memory use may grow, in bytes, and how long other pages may take.
type bounds struct {
	growth int
	page   time.Duration
}

var (
	toOneClient = bounds{256 << 20, time.Second}
	toACrowd    = bounds{512 << 20, 5 * time.Second}
)

// attack runs one attack and records its response, its duration, the maximum growth of the program's memory, and
// the longest response time of the list of tasks during the attack.
func (s *siege) attack(name string, most bounds, run func() (answer string)) {
	s.t.Helper()
	before := s.memory("VmRSS")
	require.NoError(s.t, os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", s.Process.Pid), []byte("5"), 0), "reset its peak")
	pause := 20 * time.Millisecond // a person does not click faster than this
	if !s.isFull {
		pause = 200 * time.Millisecond // other tests share the machine, and a short run does not check this time
	}
	watching, stop := context.WithCancel(s.t.Context())
	slowest := make(chan time.Duration)
	go func() {
		var most time.Duration
		for watching.Err() == nil {
			start := time.Now()
			_, _ = s.get("/tasks")
			most = max(most, time.Since(start))
			time.Sleep(pause)
		}
		slowest <- most
	}()
	start := time.Now()
	answer := run()
	took := time.Since(start)
	stop()
	page, growth := <-slowest, max(0, s.memory("VmHWM")-before)
	s.rows = append(s.rows, []string{
		name, answer, fmt.Sprintf("%.1f s", took.Seconds()), fmt.Sprintf("%d MB", growth>>20),
		fmt.Sprintf("%d ms", page.Milliseconds()),
	})
	status, err := s.get("/healthz")
	require.NoError(s.t, err, "%s: the program is gone: %s", name, s.log)
	require.Equal(s.t, http.StatusOK, status, name)
	if s.isFull {
		require.Less(s.t, growth, most.growth, "%s: memory", name)
		require.Less(s.t, page, most.page, "%s: other pages", name)
	} else { // a short run shares the machine with other tests, and memory is released later
		require.Less(s.t, growth, 2*most.growth, "%s: memory", name)
	}
}

// memory returns a memory figure of the program's process, in bytes.
func (s *siege) memory(figure string) int {
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.Process.Pid))
	require.NoError(s.t, err)
	for line := range strings.Lines(string(content)) {
		if text, isIt := strings.CutPrefix(line, figure+":"); isIt {
			kilobytes, err := strconv.Atoi(strings.Fields(text)[0])
			require.NoError(s.t, err)
			return kilobytes << 10
		}
	}
	s.t.Fatal("no figure", figure)
	return 0
}

func (s *siege) get(path string) (status int, err error) {
	answer, err := http.Get(s.url + path)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	_, err = io.Copy(io.Discard, answer.Body)
	return answer.StatusCode, err
}

func (s *siege) table() string {
	head := []string{"case", "answer", "time", "memory", "slowest other page"}
	widths := make([]int, len(head))
	for _, row := range append([][]string{head}, s.rows...) {
		for n, cell := range row {
			widths[n] = max(widths[n], len([]rune(cell)))
		}
	}
	var text strings.Builder
	for _, row := range append([][]string{head}, s.rows...) {
		for n, cell := range row {
			text.WriteString(cell + strings.Repeat(" ", widths[n]-len([]rune(cell))+2))
		}
		text.WriteString("\n")
	}
	return text.String()
}

// together runs work n times concurrently and counts the results.
func together(n int, work func(n int) string) string {
	answers, counts := make(chan string), map[string]int{}
	for i := range n {
		go func() { answers <- work(i) }()
	}
	for range n {
		counts[<-answers]++
	}
	return counted(counts)
}

func counted(counts map[string]int) string {
	var parts []string
	for _, answer := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%d × %s", counts[answer], answer))
	}
	return strings.Join(parts, ", ")
}

// upload sends a file for a task that is not started, and returns the status, with the error code if the file was
// refused.
func (s *siege) upload(name, content string) string {
	status, body, err := sendFile(s.url, map[string]string{"task_name": "t", "agent_api_url": "http://127.0.0.1:9/",
		"start": "false"}, name, content)
	if err != nil {
		return err.Error()
	}
	answer := strconv.Itoa(status)
	if _, code, found := strings.Cut(string(body), `"code":"`); found {
		code, _, _ = strings.Cut(code, `"`)
		answer += " " + code
	}
	return answer
}

func (s *siege) files() {
	files := datasettest.Hostile(s.t)
	if !s.isFull {
		files = slices.DeleteFunc(files, func(file datasettest.File) bool {
			return !slices.Contains([]string{"long_name.csv", "deep_xml_closed.xlsx", "junk_part_in_3000_sheets.xlsx",
				"rows_65536_wide.xls"}, file.Name)
		})
	}
	for _, file := range files {
		s.attack(fmt.Sprintf("%s, %d KB", file.Name, len(file.Content)>>10), toOneClient, func() string {
			answer := s.upload(file.Name, string(file.Content))
			if len(file.Content) > dataset.MaxBytes {
				require.Equal(s.t, "413 DATASET_TOO_LARGE", answer, file.Name)
			} else {
				require.Equal(s.t, "422 "+file.Code, answer, file.Name)
			}
			return answer
		})
	}
	s.attack("a good file: 254 columns of 1,000 dates", toOneClient, func() string {
		answer := s.upload("dates.xlsx", string(datasettest.Dates(s.t, 254)))
		require.Equal(s.t, "201", answer)
		return answer
	})
	n := s.of(60, 8)
	s.attack(fmt.Sprintf("%d of them at once", n), toACrowd, func() string {
		answer := together(n, func(n int) string {
			file := files[n%len(files)]
			return strings.Fields(s.upload(file.Name, string(file.Content)))[0]
		})
		require.NotContains(s.t, answer, "201")
		require.NotContains(s.t, answer, "500")
		return answer
	})
}

// stream returns a hostile agent that repeats piece without end.
func stream(piece string) func(http.ResponseWriter, agenttest.Call) {
	return func(w http.ResponseWriter, _ agenttest.Call) {
		block := []byte(strings.Repeat(piece, 1+(64<<10)/len(piece)))
		for {
			if _, err := w.Write(block); err != nil {
				return
			}
		}
	}
}

// bomb returns at least n zeros, compressed with gzip.
func bomb(n int) []byte {
	var packed bytes.Buffer
	zip := gzip.NewWriter(&packed)
	_, _ = io.CopyN(zip, zeros{}, int64(n))
	_ = zip.Close()
	return packed.Bytes()
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) {
	for n := range b {
		b[n] = '0'
	}
	return len(b), nil
}

// agents makes several calls at once to agents that send too much, send it too slowly, or send nonsense.
func (s *siege) agents() {
	packed := bomb(512 << 20)
	text := func(body string) func(http.ResponseWriter, agenttest.Call) {
		return func(w http.ResponseWriter, _ agenttest.Call) { _, _ = io.WriteString(w, body) }
	}
	calls, seconds := strconv.Itoa(s.of(8, 2)), s.of(5, 2)
	for _, agent := range []struct {
		name   string
		script func(http.ResponseWriter, agenttest.Call)
		// outcomes are the possible results: error codes and answers.
		outcomes string
	}{
		{"pings without end", stream(": ping\n\ndata: {\"event\":\"ping\"}\n\n"), "RESPONSE_TOO_LARGE"},
		{"blanks without end", stream(strings.Repeat(" ", 1000) + "\n"), "RESPONSE_TOO_LARGE"},
		{"unknown events without end", stream("data: {\"event\":\"whatever\",\"data\":{\"a\":[1,2,3]}}\n\n"),
			"RESPONSE_TOO_LARGE"},
		{"chunks without end", stream("data: {\"event\":\"llm_chunk\",\"text\":\"" + strings.Repeat("长", 300) + "\"}\n\n"),
			"RESPONSE_TOO_LARGE"},
		{"one line without end", stream("x"), "PARSE_ERROR,RESPONSE_TOO_LARGE"},
		{"512 MB packed into 0.5 MB", func(w http.ResponseWriter, _ agenttest.Call) {
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write(packed)
		}, "PARSE_ERROR,RESPONSE_TOO_LARGE"},
		{"an object of 101,000 numbers before the answer",
			text(`{"event":"node_finished","embedding":[` + strings.Repeat("0.25,", 101_000) + `1],"output":"THE ANSWER"}`),
			"RESPONSE_TOO_LARGE,THE ANSWER"},
		{"brackets, 4 MB of them", text(strings.Repeat(`[{"a":`, 700_000)),
			"INCOMPLETE_RESPONSE,PARSE_ERROR,RESPONSE_TOO_LARGE"},
		{"a drip", func(w http.ResponseWriter, call agenttest.Call) {
			for {
				if _, err := io.WriteString(w, "data: {\"event\":\"llm_chunk\",\"text\":\".\"}\n\n"); err != nil {
					return
				}
				w.(http.Flusher).Flush()
				time.Sleep(50 * time.Millisecond) // the slow answer that this case tests
			}
		}, "TIMEOUT"},
		{"silence", func(_ http.ResponseWriter, call agenttest.Call) {
			time.Sleep(time.Duration(seconds+2) * time.Second)
		}, "TIMEOUT"},
	} {
		if !s.isFull && agent.outcomes == "TIMEOUT" {
			continue
		}
		fake := agenttest.New(s.t, agent.script)
		s.attack("agent: "+agent.name, toOneClient, func() string {
			fields := map[string]string{
				"task_name": "agent", "agent_api_url": fake.URL, "concurrency": calls,
				"timeout_seconds": strconv.Itoa(seconds), "runs_per_item": calls,
			}
			id := createTask(s.t, s.url, fields, "question,standard_answer\nq,a\n")
			dbtest.Await(s.t, time.Minute, agent.name, func() bool { return task(s.t, s.url, id).Status == "SUCCEEDED" })
			outcomes := map[string]int{}
			for _, outcome := range outcomesOf(s.t, s.url, id) {
				require.Contains(s.t, strings.Split(agent.outcomes+",TIMEOUT", ","), outcome,
					"nothing counts as an answer that is none")
				outcomes[outcome]++
			}
			return counted(outcomes)
		})
	}
}

func (s *siege) floods() {
	n := s.of(200, 20)
	large := "question,standard_answer\n" + strings.Repeat(strings.Repeat("长", 1700)+",a\n", 990)
	s.attack(fmt.Sprintf("%d uploads of %.1f MB at once", n, float64(len(large))/(1<<20)), toACrowd, func() string {
		answer := together(n, func(int) string { return s.upload("q.csv", large) })
		require.NotContains(s.t, answer, "500")
		require.Contains(s.t, answer, "201")
		return answer
	})
	packed := bomb(17 << 20)
	fake := agenttest.New(s.t, func(w http.ResponseWriter, _ agenttest.Call) {
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = w.Write(packed)
	})
	n = s.of(100, 20)
	s.attack(fmt.Sprintf("%d tests of an agent that answers with 17 MB packed into 17 KB", n), toACrowd, func() string {
		return together(n, func(int) string {
			answer, err := http.PostForm(s.url+"/tasks/probe", url.Values{"task_name": {"t"}, "agent_api_url": {fake.URL}})
			if err != nil {
				return err.Error()
			}
			defer answer.Body.Close()
			_, _ = io.Copy(io.Discard, answer.Body)
			return strconv.Itoa(answer.StatusCode)
		})
	})
	n = s.of(10_000, 2_000)
	s.attack(fmt.Sprintf("%d requests with odd paths, methods and hosts", n), toACrowd, func() string {
		before := s.metricsSize()
		var next atomic.Int64
		var workers sync.WaitGroup
		for range 16 {
			workers.Go(func() {
				for i := next.Add(1); i <= int64(n); i = next.Add(1) {
					request, err := http.NewRequest(fmt.Sprintf("METHOD%d", i),
						fmt.Sprintf("%s/%d/%s", s.url, i, strings.Repeat("x", 1000)), nil)
					if err != nil {
						return
					}
					if i%3 == 0 {
						request.Host = fmt.Sprintf("host%d.localhost", i)
					}
					if answer, err := http.DefaultClient.Do(request); err == nil {
						_ = answer.Body.Close()
					}
				}
			})
		}
		workers.Wait()
		grown := s.metricsSize() - before
		require.Less(s.t, grown, 10_000, "bytes of metrics")
		return fmt.Sprintf("metrics grew by %d bytes", max(0, grown))
	})
	n = s.of(1_500, 200)
	s.attack(fmt.Sprintf("%d connections with slow headers or bodies", n), toACrowd, func() string {
		address := strings.TrimPrefix(s.url, "http://")
		var open []net.Conn
		for i := range n {
			connection, err := net.Dial("tcp", address)
			require.NoError(s.t, err)
			open = append(open, connection)
			if i%2 == 0 {
				_, _ = io.WriteString(connection, "GET /tasks HTTP/1.1\r\nHost: 127.0.0.1\r\nX-")
			} else {
				_, _ = io.WriteString(connection,
					"POST /tasks HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: multipart/form-data; boundary=b\r\nContent-Length: "+
						"1000000\r\n\r\n--b\r\n")
			}
		}
		status, err := s.get("/tasks")
		require.NoError(s.t, err)
		for _, connection := range open {
			_ = connection.Close()
		}
		return fmt.Sprintf("the list of tasks: %d", status)
	})
}

func (s *siege) metricsSize() int {
	answer, err := http.Get(s.url + "/metrics")
	require.NoError(s.t, err)
	defer answer.Body.Close()
	size, err := io.Copy(io.Discard, answer.Body)
	require.NoError(s.t, err)
	return int(size)
}

// readers has clients read slowly, or not at all.
func (s *siege) readers() {
	answer := strings.Repeat("长答案", 6000)
	fake := agenttest.New(s.t, func(w http.ResponseWriter, _ agenttest.Call) { agenttest.Stream(w, answer) })
	var questions strings.Builder
	for n := range 100 {
		fmt.Fprintf(&questions, "q%d,a\n", n)
	}
	runs := s.of(20, 5)
	id := createTask(s.t, s.url, map[string]string{"task_name": "long", "agent_api_url": fake.URL, "concurrency": "8",
		"runs_per_item": strconv.Itoa(runs)}, "question,standard_answer\n"+questions.String())
	dbtest.Await(s.t, 2*time.Minute, "long answers", func() bool { return task(s.t, s.url, id).Status == "SUCCEEDED" })
	n := s.of(300, 40)
	s.attack(fmt.Sprintf("%d readers that take nothing of a page of 100 × %d answers", n, runs), toACrowd, func() string {
		stuck := s.stuck(n, "/tasks/"+id+"/results?page_size=100")
		defer stuck()
		status, err := s.get("/tasks/" + id + "/results?page_size=100")
		require.NoError(s.t, err)
		return fmt.Sprintf("the same page for others: %d", status)
	})
	export := "/api/v1/evaluation-tasks/" + id + "/export?format="
	n = s.of(30, 10)
	s.attack(fmt.Sprintf("%d readers that take nothing of a report of %d MB", n, 5*runs), toACrowd, func() string {
		stuck := s.stuck(n, export+"jsonl")
		defer stuck()
		var status int
		dbtest.Await(s.t, time.Minute, "a report for others", func() bool {
			var err error
			status, err = s.get(export + "csv")
			return err == nil && status == http.StatusOK
		})
		return fmt.Sprintf("a report for others: %d", status)
	})
	n = s.of(1_000, 200)
	running := createTask(s.t, s.url, map[string]string{"task_name": "draft", "agent_api_url": fake.URL,
		"rate_limit": "1/m"}, twenty)
	s.attack(fmt.Sprintf("%d progress streams", n), toACrowd, func() string {
		path := "/api/v1/evaluation-tasks/" + running + "/progress"
		var streams []io.Closer
		codes := map[int]int{}
		for range n {
			answer, err := http.Get(s.url + path)
			require.NoError(s.t, err)
			codes[answer.StatusCode]++
			streams = append(streams, answer.Body)
		}
		status := codes[http.StatusOK]
		if s.isFull {
			answer, err := http.Get(s.url + path)
			require.NoError(s.t, err)
			require.NoError(s.t, answer.Body.Close())
			require.Equal(s.t, http.StatusServiceUnavailable, answer.StatusCode, "one more than there are places")
		}
		for _, stream := range streams {
			_ = stream.Close()
		}
		return fmt.Sprintf("%d × 200", status)
	})
}

// stuck sends n requests whose responses are never read; end closes their connections.
func (s *siege) stuck(n int, path string) (end func()) {
	var open []net.Conn
	for range n {
		connection, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
		require.NoError(s.t, err)
		_ = connection.(*net.TCPConn).SetReadBuffer(4 << 10)
		_, err = fmt.Fprintf(connection, "GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", path)
		require.NoError(s.t, err)
		open = append(open, connection)
	}
	time.Sleep(5 * time.Second) // how long the requests hold their resources
	return func() {
		for _, connection := range open {
			_ = connection.Close()
		}
	}
}
