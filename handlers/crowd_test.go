package handlers_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/cookiejar"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"wending/db"
	"wending/db/dbtest"
	"wending/db/people"
	"wending/handlers/request"
	"wending/jobs/agent/agenttest"
)

// fill takes every slot of a gate, and returns a function that releases them.
func fill(t *testing.T, gate *request.Gate) (empty func()) {
	t.Helper()
	var leaves []func()
	for {
		leave, err := gate.Enter(t.Context())
		if err != nil {
			assert.ErrorIs(t, err, request.ErrBusy)
			return func() {
				for _, leave := range leaves {
					leave()
				}
			}
		}
		leaves = append(leaves, leave)
	}
}

// While the maximum number of requests of a kind is running, clients are asked to retry later, and a form loses
// nothing.
func TestACrowdIsToldToComeAgain(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	fake := agenttest.New(t, func(w http.ResponseWriter, _ agenttest.Call) { agenttest.Stream(w, "x") })
	id := s.create(t, fake.URL, nil)
	s.awaitDone(t, id)
	fields := map[string]string{"task_name": "kept name", "agent_api_url": fake.URL + "/kept", "file@q.csv": questions}
	gates := s.server.Gates()
	var filling sync.WaitGroup
	empties := make([]func(), 4)
	for n, gate := range []*request.Gate{gates.Files, gates.Pages, gates.Exports, gates.Probes} {
		filling.Go(func() { empties[n] = fill(t, gate) })
	}
	filling.Wait()

	run := 0
	require.NoError(t, s.tables.Get(&run, `SELECT min(id) FROM evaluation_runs`))
	answer := "/" + id + "/runs/" + strconv.Itoa(run)
	reading := []string{"/tasks/" + id + "/results", api + "/" + id + "/results", api + "/" + id + "/export?format=csv",
		"/?from=" + id,
		api + "/" + id + "/archive", api + answer, "/tasks" + answer + "/text"}
	requests := []*http.Request{s.form(t, api+"/"+id+"/clone", nil), s.form(t, api, fields), s.form(t, "/tasks", fields)}
	for _, path := range reading {
		request, err := http.NewRequest(http.MethodGet, s.URL+path, nil)
		require.NoError(t, err)
		requests = append(requests, request)
	}
	answers := s.together(t, requests...)
	for n, answer := range answers {
		require.Equal(t, http.StatusServiceUnavailable, answer.StatusCode, requests[n].URL)
		require.Equal(t, "5", answer.Header.Get("Retry-After"), requests[n].URL)
		require.Contains(t, string(answer.body), "同时进行的操作过多", requests[n].URL)
	}
	require.Contains(t, string(answers[1].body), "SERVICE_UNAVAILABLE")
	said := s.assistant(t, nil).calls(t, "read_answers", object{"task_id": id}, true)
	require.Equal(t, "SERVICE_UNAVAILABLE", said["code"])
	page := answers[2].page(t)
	require.Equal(t, "kept name", page.Find("input[name=task_name]").AttrOr("value", ""))
	require.Equal(t, fake.URL+"/kept", page.Find("input[name=agent_api_url]").AttrOr("value", ""))
	require.Contains(t, page.Find("[role=alert]").Text(), "同时进行的操作过多")
	require.NotContains(t, string(s.get(t, "/tasks").body), "kept name")
	require.Zero(t, s.reports.Load(), "load is not an internal error")

	empties[0]()
	probe := s.post(t, "/tasks/probe", map[string]string{"agent_api_url": fake.URL})
	require.Equal(t, http.StatusServiceUnavailable, probe.StatusCode)
	require.Equal(t, "5", probe.Header.Get("Retry-After"))
	require.Contains(t, probe.page(t).Find("#probe .error").Text(), "同时进行的操作过多")
	require.Equal(t, fake.URL, probe.page(t).Find("input[name=agent_api_url]").AttrOr("value", ""), "what was typed stays")
	for _, empty := range empties[1:] {
		empty()
	}
	require.Equal(t, http.StatusCreated, s.post(t, api, fields).StatusCode)
	for _, path := range reading {
		require.Equal(t, http.StatusOK, s.get(t, path).StatusCode, path)
	}
	require.Contains(t, string(s.get(t, "/metrics").body), `wending_refused_total{kind="files"}`)
}

// Reports that wait for their turn occupy nothing that other requests need, in particular no connection to the
// database.
func TestWaitingReportsHoldNoConnection(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	fake := agenttest.New(t, func(w http.ResponseWriter, _ agenttest.Call) { agenttest.Stream(w, "x") })
	id := s.create(t, fake.URL, nil)
	s.awaitDone(t, id)
	defer fill(t, s.server.Gates().Exports)()
	var waiting sync.WaitGroup
	refused := make([]int, 60)
	for n := range refused {
		path := api + "/" + id + []string{"/export?format=html", "/archive"}[n%2]
		waiting.Go(func() {
			answer, err := http.Get(s.URL + path)
			if !assert.NoError(t, err) {
				return
			}
			refused[n] = answer.StatusCode
			assert.NoError(t, answer.Body.Close())
		})
	}
	all := make(chan struct{})
	go func() { waiting.Wait(); close(all) }()
	slowest := time.Duration(0)
	for isDone := false; !isDone; {
		start := time.Now()
		require.Equal(t, http.StatusOK, s.get(t, "/tasks").StatusCode)
		slowest = max(slowest, time.Since(start))
		select {
		case <-all:
			isDone = true
		default:
		}
	}
	require.Less(t, slowest, 5*request.Patience, "not after the 60 reports have waited in turn")
	for _, status := range refused {
		require.Equal(t, http.StatusServiceUnavailable, status)
	}
}

// Tests of an agent use its rate-limit slots: a test that gets a slot soon is run, at the allowed rate, and all others
// are refused.
func TestTestsOfAnAgentKeepItsRateLimit(t *testing.T) {
	t.Parallel()
	s := newSite(t, false)
	var mu sync.Mutex
	var calls []time.Time
	fake := agenttest.New(t, func(w http.ResponseWriter, _ agenttest.Call) {
		mu.Lock()
		calls = append(calls, time.Now())
		mu.Unlock()
		agenttest.Stream(w, "x")
	})
	const crowd = 12
	var requests []*http.Request
	for range crowd {
		requests = append(requests, s.form(t, "/tasks/probe",
			map[string]string{"agent_api_url": fake.URL, "rate_limit": "1/s"}))
	}
	started := time.Now()
	counts := map[int]int{}
	for _, answer := range s.together(t, requests...) {
		counts[answer.StatusCode]++
		if answer.StatusCode != http.StatusOK {
			require.Contains(t, string(answer.body), "请稍后重试")
		}
	}
	require.Equal(t, crowd, counts[http.StatusOK]+counts[http.StatusServiceUnavailable], "%v", counts)
	require.Positive(t, counts[http.StatusServiceUnavailable])
	require.Len(t, calls, counts[http.StatusOK])
	require.GreaterOrEqual(t, len(calls), 2)
	for n, call := range calls {
		// A call may arrive late on a busy machine, so that the next one follows closely; none may arrive early.
		require.Greater(t, call.Sub(started), time.Duration(n)*time.Second-10*time.Millisecond, "one call a second")
	}
	require.Zero(t, s.reports.Load())

	// A test gets only the slots of its agent's rate limit that a running task leaves free.
	s.tables.MustExec(`UPDATE origins SET next_free = now() + interval '1 minute'`)
	answer := s.post(t, "/tasks/probe", map[string]string{"agent_api_url": fake.URL, "rate_limit": "unlimited"})
	require.Equal(t, http.StatusServiceUnavailable, answer.StatusCode)
	require.Contains(t, answer.page(t).Find("#probe .error").Text(), "已达到该智能体的限速")
}

// When many clients upload at once, all of them get a response, and every accepted upload has a task.
func TestManyUploadsAtOnceAllGetAnAnswer(t *testing.T) {
	t.Parallel()
	s := newSite(t, false)
	large := "question,standard_answer\n" + strings.Repeat(strings.Repeat("长", 1500)+",a\n", 900)
	var requests []*http.Request
	for range 40 {
		requests = append(requests, s.form(t, api, map[string]string{
			"task_name": "t", "agent_api_url": "http://127.0.0.1:9/", "file@q.csv": large, "start": "false",
		}))
	}
	var created, refused int
	for _, answer := range s.together(t, requests...) {
		switch answer.StatusCode {
		case http.StatusCreated:
			created++
		case http.StatusServiceUnavailable:
			refused++
		default:
			t.Errorf("status %d: %s", answer.StatusCode, answer.body)
		}
	}
	t.Logf("%d created, %d refused", created, refused)
	require.Positive(t, created)
	var stored int
	require.NoError(t, s.tables.Get(&stored, `SELECT count(*) FROM evaluation_tasks`))
	require.Equal(t, created, stored)
}

// Clients that do not read their report hold no slot, so other clients get theirs. After a while these clients are
// disconnected.
func TestReadersThatTakeNothingHoldNobodyUpAndAreEnded(t *testing.T) {
	t.Parallel()
	s := newSite(t, false)
	id := s.fill(t, 320, 5, 20_000)
	waiting := func() int64 {
		memory, disk := s.server.Gates().Responses.Waiting()
		return memory + disk
	}
	ended, peak := make(chan struct{}), make(chan int64, 1)
	go func() { // on a busy machine, readers may have been ended before the test looks again
		var most int64
		for tick := time.NewTicker(10 * time.Millisecond); ; {
			select {
			case <-tick.C:
				most = max(most, waiting())
			case <-ended:
				tick.Stop()
				peak <- most
				return
			}
		}
	}()
	var stuck []io.ReadCloser
	for range 5 { // as many as there are places
		answer, err := s.client.Get(s.URL + api + "/" + id + "/export?format=jsonl")
		require.NoError(t, err)
		defer answer.Body.Close()
		_, err = io.ReadFull(answer.Body, make([]byte, 1000))
		require.NoError(t, err)
		stuck = append(stuck, answer.Body)
	}
	start := time.Now()
	dbtest.Await(t, time.Minute, "a place, while the readers still read", func() bool {
		return s.get(t, api+"/"+id+"/export?format=csv").StatusCode == http.StatusOK
	})
	require.Equal(t, http.StatusOK, s.get(t, api+"/"+id+"/results").StatusCode)
	dbtest.Await(t, 60*time.Second, "the end of stuck readers", func() bool { return waiting() == 0 })
	close(ended)
	require.Greater(t, <-peak, int64(32<<20), "what the readers did not take was kept")
	require.Greater(t, time.Since(start), 5*time.Second)
	for _, body := range stuck {
		_, err := io.Copy(io.Discard, body)
		require.Error(t, err, "what was not taken is not taken for the end")
	}
}

// A page contains a limited amount of text: the more answers there are, the less it shows of each, with a link to the
// whole text.
func TestAPageHasABudgetOfBytes(t *testing.T) {
	t.Parallel()
	s := newSite(t, false)
	const questions, runs, length = 100, 20, 10_000
	id := s.fill(t, questions, runs, length)
	body := s.get(t, "/tasks/"+id+"/results?view=columns&page_size=100").body
	require.Less(t, len(body), 10<<20, "all answers are 20 MB")
	require.Equal(t, questions*runs, bytes.Count(body, []byte("查看全文（10,000 字符）")))
	body = s.get(t, "/tasks/"+id+"/results?page_size=1").body
	require.Zero(t, bytes.Count(body, []byte("查看全文")), "few are shown whole")
}

// Files that wait for their forms belong to the browser that sent them: other browsers can neither use nor displace
// them.
func TestStagedFilesBelongToTheirBrowser(t *testing.T) {
	t.Parallel()
	s := newSite(t, false)
	preview := func(client *http.Client) string {
		s.client = client
		return s.post(t, "/tasks/preview", map[string]string{"file@q.csv": questions}).page(t).
			Find("input[name=dataset_token]").AttrOr("value", "")
	}
	newBrowser := func() *http.Client {
		jar, err := cookiejar.New(nil)
		require.NoError(t, err)
		return &http.Client{Jar: jar, CheckRedirect: s.client.CheckRedirect}
	}
	one, other := newBrowser(), newBrowser()
	token := preview(one)
	require.NotEmpty(t, token)
	own := preview(other)
	for range 25 {
		require.NotEmpty(t, preview(other))
	}
	create := func(client *http.Client, token string) int {
		s.client = client
		return s.post(t, "/tasks", map[string]string{"task_name": "t", "agent_api_url": "http://127.0.0.1:9/",
			"dataset_token": token, "start": "false"}).StatusCode
	}
	require.Equal(t, http.StatusUnprocessableEntity, create(other, token), "another's file")
	require.Equal(t, http.StatusUnprocessableEntity, create(other, own), "made room for its own later ones")
	require.Equal(t, http.StatusSeeOther, create(one, token))
}

// Forms that clients may send without signing in are small, contain no file, and take no slot. The fields of all other
// forms fit into memory, regardless of how many forms arrive.
func TestFormsHaveBounds(t *testing.T) {
	t.Parallel()
	s := newGuardedSite(t)
	editor := s.token(t, people.Editor, db.DefaultProject, nil)
	defer fill(t, s.server.Gates().Files)()
	field := func(name string, size int) string {
		return "--X\r\nContent-Disposition: form-data; name=\"" + name + "\"\r\n\r\n" + strings.Repeat("a", size) + "\r\n"
	}
	send := func(token, path, fields string) response {
		t.Helper()
		request, err := http.NewRequest(http.MethodPost, s.URL+path, strings.NewReader(fields+"--X--\r\n"))
		require.NoError(t, err)
		request.Header.Set("Content-Type", "multipart/form-data; boundary=X")
		if token != "" {
			request.Header.Set("Authorization", "Bearer "+token)
		}
		answer, err := http.DefaultTransport.RoundTrip(request)
		require.NoError(t, err)
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		require.NoError(t, err)
		return response{answer, body}
	}
	file := strings.Replace(field("dataset_file", 1<<10), "\r\n\r\n", "; filename=\"a.csv\"\r\n\r\n", 1)
	many := ""
	for n := range 40 {
		many += field("f"+strconv.Itoa(n), 200<<10)
	}
	for _, path := range []string{"/login", "/setup", "/settings"} {
		require.Equal(t, http.StatusRequestEntityTooLarge, send("", path, field("name", 100<<10)).StatusCode, path)
		require.Equal(t, http.StatusRequestEntityTooLarge, send("", path, many).StatusCode, path)
	}
	require.Equal(t, http.StatusUnauthorized, send("", "/login", field("name", 5)+field("password", 20)+file).StatusCode,
		"its file waits for no place")
	require.Equal(t, http.StatusRequestEntityTooLarge, send(editor, api, many).StatusCode)
	require.Equal(t, http.StatusRequestEntityTooLarge, send(editor, "/tasks", many).StatusCode)
	require.Equal(t, http.StatusServiceUnavailable, send(editor, api, field("task_name", 5)+file).StatusCode)
}
