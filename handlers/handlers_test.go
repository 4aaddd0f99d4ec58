package handlers_test

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime/multipart"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/PuerkitoBio/goquery"
	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"github.com/xuri/excelize/v2"

	"wending/db"
	"wending/db/dbtest"
	"wending/db/entries"
	"wending/handlers"
	"wending/jobs"
	"wending/jobs/agent"
	"wending/jobs/agent/agenttest"
	"wending/jobs/agent/guard"
	"wending/jobs/blob"
	"wending/jobs/courier"
	"wending/jobs/courier/notify"
	"wending/jobs/library"
	"wending/jobs/secret"
	"wending/jobs/tasks"
	"wending/views/notice"
	"wending/views/text"
)

func TestMain(m *testing.M) { dbtest.Main(m) }

// site is the product's pages and API over real HTTP, with or without a worker behind them.
type site struct {
	*httptest.Server
	store   *db.Store
	tables  *sqlx.DB
	uploads string
	// database is the address of the site's database.
	database string
	client   *http.Client
	routes   []*echo.Route
	server   *handlers.Server
	assets   blob.Store
	// witness compares the API's responses with the document; nil in benchmarks, because it takes time.
	witness *witness
	// worker is the configuration of every worker of the site.
	worker jobs.WorkerConfig
	// budget is the budget keeper of the site's worker.
	budget *jobs.Budget
	// scheduler fires the site's schedules, in its worker if there is one.
	scheduler *library.Scheduler
	// reports counts the internal errors that were reported.
	reports atomic.Int64
	// told is the text of logs and reports.
	told diary
}

// diary collects text written by several goroutines.
type diary struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (d *diary) Write(text []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.text.Write(text)
}

func (d *diary) String() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.text.String()
}

// maxAsset is the maximum size of the files that tests' sites copy.
const maxAsset = 8 << 20

func newSite(t testing.TB, withWorker bool) *site {
	t.Helper()
	lanes := 0
	if withWorker {
		lanes = 5 // four lanes for one task, because the last is kept for another
	}
	return newSiteWith(t, lanes)
}

// newSiteWith starts a site with a worker that has this many lanes; 0 means no worker.
func newSiteWith(t testing.TB, lanes int) *site {
	t.Helper()
	return newSiteAt(t, dbtest.URL(t), lanes, handlers.Access{})
}

// newSiteAt starts a site on a database, with the given sign-in configuration and further changes of its configuration.
func newSiteAt(t testing.TB, database string, lanes int, access handlers.Access,
	change ...func(*handlers.Config)) *site {
	t.Helper()
	s := &site{uploads: t.TempDir(), database: database}
	s.store, s.tables = dbtest.OpenAt(t, database)
	queue, err := jobs.NewQueue(dbtest.Redis(t))
	require.NoError(t, err)
	t.Cleanup(func() { _ = queue.Close() })
	guard, err := guard.New(guard.Config{AllowLoopback: true})
	require.NoError(t, err)
	sealer, err := secret.NewSealer(secret.Keys{Current: dbtest.SecretKey})
	require.NoError(t, err)
	files, err := blob.NewDisk(s.uploads)
	require.NoError(t, err)
	s.assets, err = blob.Open("file://"+t.TempDir(), blob.Credentials{})
	require.NoError(t, err)
	client := agent.NewClient(guard, "")
	registry := prometheus.NewRegistry()
	log := slog.New(slog.NewTextHandler(&s.told, &slog.HandlerOptions{Level: slog.LevelDebug}))
	report := func(err error, tags map[string]string) {
		s.reports.Add(1)
		fmt.Fprintln(&s.told, err, tags)
	}
	sender, err := notify.NewSender(guard, "", "")
	require.NoError(t, err)
	config := handlers.Config{Store: s.store, Queue: queue, Agents: client, Models: client,
		Guard: guard, ModelGuard: guard,
		Sender: sender, NotifyGuard: guard, Sealer: sealer, Files: files, Assets: s.assets,
		AssetBytes: maxAsset,
		Defaults: tasks.Settings{RunsPerItem: 5, TimeoutSeconds: 10, MaxRetries: 1, Concurrency: 4, UseStream: true,
			RateLimit: "unlimited"},
		Access: access, DatabaseURL: listening(database, access),
		DefaultLang: "zh-CN", RateCeiling: "unlimited", ScheduleMinutes: 5, DemoURL: "http://127.0.0.1:9/agent",
		Registry: registry, Log: log, Report: report, HasTools: true, HasSpans: true}
	for _, one := range change {
		one(&config)
	}
	handler, err := handlers.New(config)
	require.NoError(t, err)
	s.server = handler
	if access.HasAccounts {
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan struct{})
		go func() { defer close(ended); _ = handler.Run(ctx) }()
		t.Cleanup(func() { cancel(); <-ended })
	}
	s.routes = handler.Handler.(*echo.Echo).Routes()
	s.Server = httptest.NewServer(s.witnessed(t, handler))
	t.Cleanup(s.Close)
	jar, err := cookiejar.New(nil)
	require.NoError(t, err)
	s.client = &http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}
	s.worker = jobs.WorkerConfig{Store: s.store, Queue: queue, Agents: client, Models: client, Sealer: sealer,
		Report: report, Log: log}
	service := &tasks.Service{Store: s.store, Queue: queue, Sealer: sealer, RateCeiling: "unlimited",
		DefaultRate: "unlimited", Log: log}
	s.scheduler = &library.Scheduler{Store: s.store, Tasks: service, CheckURL: guard.CheckRequest, Log: log,
		Library: &library.Service{Entries: entries.New(s.store), Files: files, Sealer: sealer, Tasks: service,
			DefaultRate: "unlimited", Log: log}}
	if lanes > 0 {
		texts, err := text.NewCatalogue()
		require.NoError(t, err)
		messenger := &courier.Courier{Store: s.store, Sealer: sealer, Sender: sender,
			Write: notice.Writer{Store: s.store, Texts: texts, PublicURL: "https://wending.example"}.Message, Log: log}
		announcer := &courier.Announcer{Courier: messenger}
		s.budget = &jobs.Budget{Store: s.store, Log: log}
		s.startWorker(t, jobs.WorkerConfig{Admits: s.budget.Admits, Lanes: lanes,
			Chores: []jobs.Chore{{Name: "budgets", Do: s.budget.Watch}, {Name: "fire", Do: s.scheduler.Fire},
				{Name: "summarise", Do: s.scheduler.Summarise}, {Name: "announce", Do: announcer.Round}},
			Metrics: jobs.NewMetrics(registry, queue)})
		ctx, cancel := context.WithCancel(context.Background())
		told, copied := make(chan struct{}), make(chan struct{})
		go func() { defer close(told); messenger.Run(ctx) }()
		fetcher := courier.NewFetcher(guard)
		copying := &courier.Collector{Store: s.store, Files: s.assets, Client: fetcher, Sealer: sealer, MaxBytes: maxAsset,
			IsOwner: true, Log: log}
		go func() { defer close(copied); copying.Run(ctx) }()
		t.Cleanup(func() { cancel(); <-told; <-copied; fetcher.Close() })
	}
	return s
}

// listening returns the address of the database at which a site listens for changes; empty unless people sign in,
// because only then can rights expire.
func listening(database string, access handlers.Access) string {
	if access.HasAccounts {
		return database
	}
	return ""
}

// startWorker starts a worker and returns a function that stops it; it also stops when the test ends.
func (s *site) startWorker(t testing.TB, config jobs.WorkerConfig) (leave func()) {
	t.Helper()
	config.Store, config.Queue, config.Agents, config.Models = s.worker.Store, s.worker.Queue, s.worker.Agents,
		s.worker.Models
	config.Sealer, config.Report, config.Log = s.worker.Sealer, s.worker.Report, s.worker.Log
	if config.Metrics == nil {
		config.Metrics = jobs.NewMetrics(prometheus.NewRegistry(), s.worker.Queue)
	}
	config.DrainTime = 30 * time.Second
	worker := jobs.NewWorker(config)
	ctx, cancel := context.WithCancel(context.Background())
	left := make(chan struct{})
	go func() {
		defer close(left)
		_ = worker.Run(ctx)
	}()
	leave = func() { cancel(); <-left }
	t.Cleanup(leave)
	return leave
}

// serve starts a server that stops when the test ends, and returns its URL.
func serve(t testing.TB, handler http.Handler) string {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server.URL
}

// response is a response that was read to its end.
type response struct {
	*http.Response
	body []byte
}

func (s *site) do(t testing.TB, request *http.Request) response {
	t.Helper()
	answer, err := s.exchange(request)
	require.NoError(t, err)
	return answer
}

// exchange is like do, for goroutines other than the test's own.
func (s *site) exchange(request *http.Request) (response, error) {
	answer, err := s.client.Do(request)
	if err != nil {
		return response{}, err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	return response{answer, body}, err
}

// together sends requests concurrently and returns their responses in the same order.
func (s *site) together(t testing.TB, requests ...*http.Request) []response {
	t.Helper()
	answers, failures := make([]response, len(requests)), make([]error, len(requests))
	var all sync.WaitGroup
	for n, request := range requests {
		all.Go(func() { answers[n], failures[n] = s.exchange(request) })
	}
	all.Wait()
	require.NoError(t, errors.Join(failures...))
	return answers
}

func (s *site) get(t testing.TB, path string) response {
	t.Helper()
	request, err := http.NewRequest(http.MethodGet, s.URL+path, nil)
	require.NoError(t, err)
	return s.do(t, request)
}

// post sends a form; a field named file@NAME is an upload under that name.
func (s *site) post(t testing.TB, path string, fields map[string]string) response {
	t.Helper()
	return s.do(t, s.form(t, path, fields))
}

// form returns a request with a form, as post sends it.
func (s *site) form(t testing.TB, path string, fields map[string]string) *http.Request {
	t.Helper()
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	for name, text := range fields {
		field, fileName, isFile := strings.Cut(name, "@")
		if isFile {
			field = map[string]string{"file": "dataset_file", "answers": "file"}[field]
			part, err := form.CreateFormFile(field, fileName)
			require.NoError(t, err)
			_, _ = part.Write([]byte(text))
			continue
		}
		require.NoError(t, form.WriteField(name, text))
	}
	require.NoError(t, form.Close())
	request, err := http.NewRequest(http.MethodPost, s.URL+path, &body)
	require.NoError(t, err)
	request.Header.Set("Content-Type", form.FormDataContentType())
	return request
}

func (r response) page(t *testing.T) *goquery.Document {
	t.Helper()
	document, err := goquery.NewDocumentFromReader(bytes.NewReader(r.body))
	require.NoError(t, err)
	if document.Find("head link").Length() > 0 && document.Find("[hx-ext=morph]").Length() > 0 {
		require.Equal(t, 1, document.Find("script[src*=idiomorph]").Length(), "what morphs parts of the page")
	}
	return document
}

func (r response) into(t testing.TB, to any) {
	t.Helper()
	require.NoError(t, json.Unmarshal(r.body, to), "%s", r.body)
}

type apiError struct {
	Code    string
	Message string
	Details []struct {
		Row             int
		Column, Message string
	}
}

const api = "/api/v1/evaluation-tasks"

// create creates a task through the API and returns its id.
func (s *site) create(t testing.TB, agentURL string, more map[string]string) string {
	t.Helper()
	fields := map[string]string{"task_name": "稳定性测试", "agent_api_url": agentURL, "file@q.csv": questions}
	for name, text := range more {
		fields[name] = text
	}
	answer := s.post(t, api, fields)
	require.Equal(t, http.StatusCreated, answer.StatusCode, "%s", answer.body)
	var created struct {
		TaskID string `json:"task_id"`
		Status string `json:"status"`
	}
	answer.into(t, &created)
	require.Equal(t, "PENDING", created.Status)
	return created.TaskID
}

func (s *site) awaitDone(t testing.TB, id string) {
	t.Helper()
	dbtest.Await(t, time.Minute, "the task's end", func() bool {
		task, err := s.store.Task(t.Context(), db.AllProjects(), uuid.MustParse(id))
		require.NoError(t, err)
		return !task.Status.IsActive()
	})
}

const questions = "question_id,question,standard_answer,level\nq1,中国的首都是哪里？,北京,easy\nq2,\"<script>alert(1)</script>\",\"a,\"\"b\"\"\",hard\n"

// unsteady returns a handler that gives two different answers to q1, and fails one run of q2.
func unsteady() func(http.ResponseWriter, agenttest.Call) {
	counts := make(chan map[string]int, 1)
	counts <- map[string]int{}
	return func(w http.ResponseWriter, call agenttest.Call) {
		seen := <-counts
		seen[call.Question]++
		n := seen[call.Question]
		counts <- seen
		switch {
		case strings.HasPrefix(call.Question, "中国") && n%2 == 0:
			agenttest.Stream(w, " 北京 ")
		case strings.HasPrefix(call.Question, "中国"):
			agenttest.Stream(w, "首都是北京。")
		case n == 3:
			http.Error(w, `{"code":500,"msg":"busy"}`, http.StatusInternalServerError)
		default:
			agenttest.Stream(w, "=cmd<img src=x onerror=alert(1)>\r\n"+strings.Repeat("长", 300))
		}
	}
}

func TestTheWholeStoryByTheAPI(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	fake := agenttest.New(t, unsteady())
	id := s.create(t, fake.URL, map[string]string{"agent_api_headers": `{"X-Secret":"tops3cret"}`, "agent_model": "m1"})
	s.awaitDone(t, id)

	var detail map[string]any
	s.get(t, api+"/"+id).into(t, &detail)
	require.Equal(t, "SUCCEEDED", detail["status"])
	require.Equal(t, map[string]any{"processed": 2.0, "total": 2.0}, detail["progress"])
	require.True(t, strings.HasSuffix(detail["created_at"].(string), "+08:00"))
	require.Equal(t, 10.0, detail["statistics"].(map[string]any)["runs"])
	require.NotContains(t, string(s.get(t, api+"/"+id).body), "tops3cret", "secrets never leave")

	var results struct {
		Task  map[string]any
		Items []struct {
			QuestionID string `json:"question_id"`
			Runs       []struct {
				RunIndex     int `json:"run_index"`
				Status       string
				ResponseBody *string `json:"response_body"`
				ErrorCode    *string `json:"error_code"`
			}
		}
		Pagination map[string]int
	}
	s.get(t, api+"/"+id+"/results").into(t, &results)
	require.Len(t, results.Items, 2)
	require.Equal(t, "q1", results.Items[0].QuestionID)
	failed := 0
	for _, item := range results.Items {
		require.Len(t, item.Runs, 5)
		for n, run := range item.Runs {
			require.Equal(t, n+1, run.RunIndex)
			if run.Status == "FAILED" {
				failed++
				require.Equal(t, "HTTP_500", *run.ErrorCode)
				require.Nil(t, run.ResponseBody)
			}
		}
	}
	require.Equal(t, 1, failed)
	require.Equal(t, http.StatusOK, s.get(t, api+"/"+id+"/results?question_id=%00%ff").StatusCode)
	require.Equal(t, http.StatusUnprocessableEntity, s.get(t, api+"/"+id+"/results?error_code=%00%ff").StatusCode)
	s.get(t, api+"/"+id+"/results?question_id=q2").into(t, &results)
	require.Equal(t, 1, results.Pagination["total"])

	s.requireExports(t, id)
}

// requireExports opens each report the way its users would.
func (s *site) requireExports(t *testing.T, id string) {
	t.Helper()
	answer := s.get(t, api+"/"+id+"/export")
	require.Equal(t,
		`attachment; filename="task_report.csv"; filename*=UTF-8''%E7%A8%B3%E5%AE%9A%E6%80%A7%E6%B5%8B%E8%AF%95_%E8%AF%84%E6%B5%8B%E6%8A%A5%E5%91%8A.csv`,
		answer.Header.Get("Content-Disposition"))
	require.True(t, bytes.HasPrefix(answer.body,
		[]byte(
			"\uFEFFquestion_id,question,standard_answer,_system_prompt,_user_context,run_1_output,run_1_status,run_1_latency_ms,run_1_error_code,")))
	rows, err := csv.NewReader(bytes.NewReader(answer.body)).ReadAll()
	require.NoError(t, err)
	require.Len(t, rows, 3)
	require.Equal(t, []string{"_created_at", "_completed_at", "var_level"}, rows[0][25:])
	require.Equal(t, "hard", rows[2][27])
	require.Equal(t, `a,"b"`, rows[2][2])
	for n := range 5 {
		output := rows[2][5+4*n]
		require.True(t, output == "" || strings.HasPrefix(output, "'=cmd"), "a formula is neutralised: %q", output)
	}
	require.NotContains(t, string(s.get(t, api+"/"+id+"/export?include_errors=false").body), "error_code")

	book, err := excelize.OpenReader(bytes.NewReader(s.get(t, api+"/"+id+"/export?format=xlsx").body))
	require.NoError(t, err)
	defer book.Close()
	require.Equal(t, []string{"任务信息", "评测结果", "按数据列分组", "稳定性"}, book.GetSheetList())
	cells, err := book.GetRows("评测结果")
	require.NoError(t, err)
	require.Equal(t, "question_id", cells[0][0])
	require.Equal(t, "<script>alert(1)</script>", cells[2][1])

	lines := strings.Split(strings.TrimSpace(string(s.get(t, api+"/"+id+"/export?format=jsonl").body)), "\n")
	require.Len(t, lines, 2)
	var line struct {
		Runs []struct{ Output *string }
	}
	require.NoError(t, json.Unmarshal([]byte(lines[1]), &line))
	exact := 0
	for _, run := range line.Runs {
		if run.Output != nil && *run.Output == "=cmd<img src=x onerror=alert(1)>\r\n"+strings.Repeat("长", 300) {
			exact++
		}
	}
	require.Equal(t, 4, exact)
}

func TestEveryFieldErrorHasItsCode(t *testing.T) {
	t.Parallel()
	s := newSite(t, false)
	good := func(change map[string]string) map[string]string {
		fields := map[string]string{"task_name": "t", "agent_api_url": "http://127.0.0.1:1/a", "file@q.csv": questions}
		for name, text := range change {
			if text == "-" {
				delete(fields, name)
				continue
			}
			fields[name] = text
		}
		return fields
	}
	for name, test := range map[string]struct {
		change  map[string]string
		status  int
		code    string
		message string
	}{
		"invisible name": {map[string]string{"task_name": "\u200b \u202e"}, 422, "TASK_NAME_REQUIRED", ""},
		"no name":        {map[string]string{"task_name": "  "}, 422, "TASK_NAME_REQUIRED", "请输入任务名称"},
		"long name": {map[string]string{"task_name": strings.Repeat("名", 65)}, 422, "TASK_NAME_TOO_LONG",
			"任务名称不能超过64个字符"},
		"no url":  {map[string]string{"agent_api_url": "-"}, 422, "AGENT_URL_REQUIRED", "请输入智能体API URL"},
		"bad url": {map[string]string{"agent_api_url": "ftp://x"}, 422, "AGENT_URL_INVALID", "请输入有效的HTTP或HTTPS地址"},
		"forbidden url": {map[string]string{"agent_api_url": "http://169.254.169.254/latest"}, 422,
			"AGENT_URL_NOT_ALLOWED", ""},
		"private url":      {map[string]string{"agent_api_url": "http://10.0.0.1/"}, 422, "AGENT_URL_NOT_ALLOWED", ""},
		"bad headers":      {map[string]string{"agent_api_headers": `["x"]`}, 422, "AGENT_HEADERS_INVALID", ""},
		"header injection": {map[string]string{"agent_api_headers": `{"X":"a\r\nB: c"}`}, 422, "AGENT_HEADERS_INVALID", ""},
		"no file":          {map[string]string{"file@q.csv": "-"}, 422, "DATASET_REQUIRED", "请上传测试数据集文件"},
		"large file": {map[string]string{"file@q.csv": strings.Repeat("x", 5<<20+1)}, 413, "DATASET_TOO_LARGE",
			"文件大小不能超过5MB，请压缩后重试"},
		"other file": {map[string]string{"file@q.csv": "-", "file@q.txt": "x"}, 422, "DATASET_FORMAT_UNSUPPORTED",
			"仅支持CSV或Excel格式文件"},
		"no column": {map[string]string{"file@q.csv": "question\nx\n"}, 422, "DATASET_SCHEMA_INVALID",
			"文件格式不正确，请确保包含'question'和'standard_answer'列"},
		"empty": {map[string]string{"file@q.csv": "question,standard_answer\n"}, 422, "DATASET_EMPTY", ""},
		"too many rows": {map[string]string{"file@q.csv": "question,standard_answer\n" + strings.Repeat("q,a\n", 1001)},
			422, "DATASET_TOO_MANY_ROWS", ""},
		"encoding": {map[string]string{"file@q.csv": "question,standard_answer\n\xce\xca\xcc\xe2\xa3\xbf,a\n"}, 422,
			"DATASET_ENCODING_INVALID", "GB18030"},
		"twice": {map[string]string{"file@q.csv": "question_id,question,standard_answer\n1,q,a\n1,q,a\n"}, 422,
			"DATASET_DUPLICATE_QUESTION_ID", ""},
		"rows": {map[string]string{"file@q.csv": "question,standard_answer\n ,a\n"}, 422,
			"DATASET_ROW_INVALID", ""},
		"runs":        {map[string]string{"runs_per_item": "21"}, 422, "PARAMETER_INVALID", "1–20"},
		"timeout":     {map[string]string{"timeout_seconds": "0"}, 422, "PARAMETER_INVALID", ""},
		"retries":     {map[string]string{"max_retries": "x"}, 422, "PARAMETER_INVALID", ""},
		"concurrency": {map[string]string{"concurrency": "65"}, 422, "PARAMETER_INVALID", ""},
		"rate":        {map[string]string{"rate_limit": "fast"}, 422, "PARAMETER_INVALID", ""},
		"payload":     {map[string]string{"extra_payload": "[1]"}, 422, "PARAMETER_INVALID", ""},
		"stream":      {map[string]string{"use_stream": "perhaps"}, 422, "PARAMETER_INVALID", ""},
	} {
		t.Run(name, func(t *testing.T) {
			answer := s.post(t, api, good(test.change))
			var told apiError
			answer.into(t, &told)
			require.Equal(t, test.status, answer.StatusCode, "%s", answer.body)
			require.Equal(t, test.code, told.Code)
			require.Contains(t, told.Message, test.message)
			if test.code == "DATASET_ROW_INVALID" {
				require.Equal(t, 2, told.Details[0].Row)
				require.Equal(t, "question", told.Details[0].Column)
				require.Equal(t, "question 为空", told.Details[0].Message)
			}
		})
	}
	var tasks int
	require.NoError(t, s.tables.Get(&tasks, `SELECT count(*) FROM evaluation_tasks`))
	require.Zero(t, tasks, "nothing is left in the database")
	require.Empty(t, dbtest.Files(t, s.uploads), "nothing is left on disk")
}

func TestErrorsOfTheAPI(t *testing.T) {
	t.Parallel()
	s := newSite(t, false)
	id := s.create(t, "http://127.0.0.1:1/", nil)
	for path, want := range map[string]struct {
		status int
		code   string
	}{
		api + "/no-uuid":                         {404, "TASK_NOT_FOUND"},
		api + "/" + uuid.NewString():             {404, "TASK_NOT_FOUND"},
		api + "/" + uuid.NewString() + "/export": {404, "TASK_NOT_FOUND"},
		api + "/" + id + "/results":              {409, "TASK_NOT_FINISHED"},
		api + "/" + id + "/export":               {409, "TASK_NOT_FINISHED"},
		api + "?page=0":                          {422, "PARAMETER_INVALID"},
		api + "?page_size=101":                   {422, "PARAMETER_INVALID"},
		api + "?status=DONE":                     {422, "PARAMETER_INVALID"},
		api + "/" + id + "/runs/1":               {404, "RUN_NOT_FOUND"},
		api + "/" + id + "/runs/x":               {404, "RUN_NOT_FOUND"},
		api + "/" + id + "/launches/x":           {404, "LAUNCH_NOT_FOUND"},
		"/api/v1/nothing":                        {404, "NOT_FOUND"},
		"/api":                                   {404, "NOT_FOUND"},
	} {
		answer := s.get(t, path)
		var told apiError
		answer.into(t, &told)
		require.Equal(t, want.status, answer.StatusCode, path)
		require.Equal(t, want.code, told.Code, path)
		require.NotEmpty(t, told.Message)
	}
}

func TestTheListIsFilteredSearchedAndPaged(t *testing.T) {
	t.Parallel()
	s := newSite(t, false)
	for _, name := range []string{"alpha 100%", "beta", "Gamma"} {
		s.create(t, "http://127.0.0.1:1/", map[string]string{"task_name": name})
	}
	var list struct {
		Items []struct {
			TaskName string `json:"task_name"`
		}
		Pagination map[string]int
	}
	s.get(t, api).into(t, &list)
	require.Equal(t, "Gamma", list.Items[0].TaskName, "newest first")
	s.get(t, api+"?page=2&page_size=2").into(t, &list)
	require.Len(t, list.Items, 1)
	require.Equal(t, map[string]int{"page": 2, "page_size": 2, "total": 3}, list.Pagination)
	s.get(t, api+"?query=gam").into(t, &list)
	require.Len(t, list.Items, 1)
	s.get(t, api+"?query="+url.QueryEscape("0%")).into(t, &list)
	require.Len(t, list.Items, 1, "% is no wildcard")
	s.get(t, api+"?status=SUCCEEDED,FAILED&status=STOPPED").into(t, &list)
	require.Empty(t, list.Items)
	page := s.get(t, "/tasks?query=beta").page(t)
	require.Equal(t, 1, page.Find("tbody tr").Length())
	require.Equal(t, "0/2", strings.TrimSpace(page.Find("tbody .count").Text()))
	require.Equal(t, "等待中", strings.TrimSpace(page.Find("tbody .tag").Text()))
	row := page.Find("tbody tr")
	_, disabled := row.Find("button").Attr("disabled")
	require.True(t, disabled, "a task that is not done cannot be viewed")
}

// Invalid forms are shown again with the typed values and an error next to the field; the file need not be chosen
// again.
func TestNothingTypedIsLostOnAnError(t *testing.T) {
	t.Parallel()
	s := newSite(t, false)
	answer := s.post(t, "/tasks", map[string]string{"task_name": "", "agent_api_url": "http://127.0.0.1:1/x",
		"runs_per_item": "7", "use_stream": "false",
		"agent_api_headers": `{"A":"tops3cret"}`, "file@我的问题.csv": questions})
	require.Equal(t, http.StatusUnprocessableEntity, answer.StatusCode)
	page := answer.page(t)
	value := func(selector string) string { return page.Find(selector).AttrOr("value", "") }
	require.Equal(t, "请输入任务名称", page.Find("#task_name-error").Text())
	require.Empty(t, page.Find("#agent_api_url-error").Text())
	require.Equal(t, "http://127.0.0.1:1/x", value("#agent_api_url"))
	require.Equal(t, "7", value("#runs_per_item"))
	require.NotContains(t, string(answer.body), "tops3cret", "headers come back sealed, never in clear")
	require.Equal(t, 1, page.Find("#headers-kept").Length())
	_, streams := page.Find("input[type=checkbox][name=use_stream]").Attr("checked")
	require.False(t, streams)
	require.Contains(t, page.Find("#preview").Text(), "我的问题.csv")
	require.Contains(t, page.Find("#preview .summary").Text(), "2 题")
	token := value("input[name=dataset_token]")
	require.NotEmpty(t, token)

	answer = s.post(t, "/tasks", map[string]string{"task_name": "第二次", "agent_api_url": "http://127.0.0.1:1/x",
		"dataset_token":     token,
		"agent_api_headers": "", "agent_api_headers_sealed": value("input[name=agent_api_headers_sealed]")})
	require.Equal(t, http.StatusSeeOther, answer.StatusCode)
	require.Contains(t, answer.Header.Get("Location"), "/tasks?done=created")
	var hasHeaders bool
	require.NoError(t, s.tables.Get(&hasHeaders, `SELECT sealed_headers IS NOT NULL FROM task_targets`))
	require.True(t, hasHeaders)
	staged, err := os.ReadDir(filepath.Join(s.uploads, "staged"))
	require.NoError(t, err)
	require.Empty(t, staged)
	require.Contains(t, s.get(t, answer.Header.Get("Location")).page(t).Find("#toasts").Text(), "任务创建成功")

	answer = s.post(t, "/tasks", map[string]string{"task_name": "x", "agent_api_url": "http://127.0.0.1:1/x",
		"dataset_token": "../../etc/passwd"})
	require.Equal(t, http.StatusUnprocessableEntity, answer.StatusCode)
}

// A new file replaces the one staged before, regardless of the token that the form still carries.
func TestANewFileReplacesTheStagedOne(t *testing.T) {
	t.Parallel()
	s := newSite(t, false)
	token := func(r response) string {
		return r.page(t).Find("input[name=dataset_token]").AttrOr("value", "")
	}
	first := token(s.post(t, "/tasks/preview", map[string]string{"file@one.csv": questions}))
	second := token(s.post(t, "/tasks", map[string]string{"agent_api_url": "http://127.0.0.1:1/", "dataset_token": first,
		"file@two.csv": "question,standard_answer\nthe second file,a\n"}))
	require.NotEqual(t, first, second)
	answer := s.post(t, "/tasks", map[string]string{"task_name": "x", "agent_api_url": "http://127.0.0.1:1/",
		"dataset_token": second})
	require.Equal(t, http.StatusSeeOther, answer.StatusCode)
	var question, name string
	require.NoError(t, s.tables.Get(&question, `SELECT question FROM evaluation_items`))
	require.NoError(t, s.tables.Get(&name, `SELECT dataset_name FROM evaluation_tasks`))
	require.Equal(t, "the second file", question)
	require.Equal(t, "two.csv", name)
}

func TestANULInAWorkbookIsARowError(t *testing.T) {
	t.Parallel()
	s := newSite(t, false)
	book := excelize.NewFile()
	require.NoError(t, book.SetSheetRow("Sheet1", "A1", &[]string{"question", "standard_answer"}))
	require.NoError(t, book.SetSheetRow("Sheet1", "A2", &[]string{"a_x0000_b", "x"}))
	content, err := book.WriteToBuffer()
	require.NoError(t, err)
	answer := s.post(t, api, map[string]string{"task_name": "t", "agent_api_url": "http://127.0.0.1:1/",
		"file@q.xlsx": content.String()})
	var told apiError
	answer.into(t, &told)
	require.Equal(t, "DATASET_ROW_INVALID", told.Code, "%s", answer.body)
}

func TestThePreviewListsAllRowErrors(t *testing.T) {
	t.Parallel()
	s := newSite(t, false)
	page := s.post(t, "/tasks/preview", map[string]string{"file@q.csv": "question,standard_answer\n,a\nok,b\n ,c\n"}).
		page(t)
	require.Equal(t, 2, page.Find("#preview tbody tr").Length())
	require.Contains(t, page.Find("#preview .error").Text(), "2 行有错误")
	require.Zero(t, page.Find("input[name=dataset_token]").Length())
}

func TestTheReportShowsAnswersSideBySide(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	fake := agenttest.New(t, unsteady())
	id := s.create(t, fake.URL, nil)
	waiting := s.get(t, "/tasks/"+uuid.NewString()+"/results")
	require.Equal(t, http.StatusNotFound, waiting.StatusCode)
	s.awaitDone(t, id)
	answer := s.get(t, "/tasks/"+id+"/results?view=columns")
	require.Equal(t, http.StatusOK, answer.StatusCode)
	page := answer.page(t)
	require.Equal(t, "评测报告: 稳定性测试", page.Find("h1").Text())
	cards := page.Find(".result")
	require.Equal(t, 2, cards.Length())
	require.Equal(t, 5, cards.First().Find(".run").Length())
	require.Contains(t, cards.First().Find(".verdict").Text(), "2 种回答")
	letters := strings.Join(strings.Fields(cards.First().Find(".strip").Text()), "")
	require.Equal(t, 3, strings.Count(letters, "A"), "A is the most common answer: %s", letters)
	require.Equal(t, 2, strings.Count(letters, "B"), letters)
	require.Contains(t, cards.Last().Find(".verdict").Text(), "1 次失败")
	require.Contains(t, cards.Last().Find(".run.is-failed").Text(), "HTTP_500")
	require.Equal(t, "<script>alert(1)</script>",
		strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(cards.Last().Find("h2").First().Text()), "2.")))
	require.Zero(t, page.Find(".result script, .result img").Length(), "agent output is text")
	require.Equal(t, 4, cards.Last().Find("details.fold").Length(), "long answers are folded")
	require.Equal(t, 2, s.fragment(t, "/tasks/"+id+"/results/map").page(t).Find(".squares a").Length())

	require.Equal(t, 1, s.get(t, "/tasks/"+id+"/results?filter=unstable").page(t).Find(".result").Length())
	require.Equal(t, 1, s.get(t, "/tasks/"+id+"/results?filter=failed").page(t).Find(".result").Length())
	require.Equal(t, 1, s.get(t, "/tasks/"+id+"/results?search=q2").page(t).Find(".result").Length())
	row := s.get(t, "/tasks").page(t).Find("tbody tr")
	_, isActive := row.Attr("data-active")
	require.False(t, isActive, "a row at its end changes no more")
	require.Equal(t, "2/2", strings.TrimSpace(row.Find(".count").Text()))

	file := s.get(t, "/tasks/"+id+"/dataset")
	require.Equal(t, questions, string(file.body))
}

func TestAReportBeforeTheEndIs409WithAWayBack(t *testing.T) {
	t.Parallel()
	s := newSite(t, false)
	id := s.create(t, "http://127.0.0.1:1/", nil)
	answer := s.get(t, "/tasks/"+id+"/results")
	require.Equal(t, http.StatusConflict, answer.StatusCode)
	page := answer.page(t)
	require.Equal(t, "任务尚未完成，请稍后查看", page.Find("h1").Text())
	require.Equal(t, "/tasks", page.Find(".blank a").AttrOr("href", ""))
}

func TestFailedTasksShowWhereTheyStoppedAndWhy(t *testing.T) {
	t.Parallel()
	s := newSite(t, false)
	id := s.create(t, "http://127.0.0.1:1/", nil)
	var launch uuid.UUID
	require.NoError(t, s.tables.Get(&launch, `SELECT id FROM launches WHERE task_id = $1`, id))
	_, err := s.store.FailLaunch(t.Context(), launch, jobs.FailureSecretKey)
	require.NoError(t, err)
	_, err = s.store.FailLaunch(t.Context(), launch, jobs.FailureStart)
	require.ErrorIs(t, err, db.ErrConflict)
	row := s.get(t, "/tasks").page(t).Find("tbody tr")
	require.Equal(t, "0/2 (已停止)", strings.Join(strings.Fields(row.Find(".count.is-failed").Text()), " "))
	require.Contains(t, row.Find(".failure").Text(), "SECRET_KEY")
}

func TestLanguageAndThemeAreKept(t *testing.T) {
	t.Parallel()
	s := newSite(t, false)
	require.Equal(t, "我的评测任务", s.get(t, "/tasks").page(t).Find("title").Text()[:len("我的评测任务")])
	require.Equal(t, "还没有评测任务", s.get(t, "/tasks").page(t).Find(".blank h2").Text())
	for back, to := range map[string]string{
		"/workers": "/workers", "/tasks?page=2": "/tasks?page=2", "//evil.example/": "/tasks",
		"https://evil.example/": "/tasks", "": "/tasks",
		"/\\evil.example": "/tasks", "/\t/evil.example": "/tasks", "/\n/evil.example": "/tasks", "\t//evil.example": "/tasks",
	} {
		require.Equal(t, to, s.post(t, "/settings", map[string]string{"back": back}).Header.Get("Location"), "%q", back)
	}
	answer := s.post(t, "/settings", map[string]string{"lang": "en", "theme": "dark", "back": "//evil.example/"})
	require.Equal(t, http.StatusSeeOther, answer.StatusCode)
	require.Equal(t, "/tasks", answer.Header.Get("Location"), "no open redirect")
	page := s.get(t, "/tasks").page(t)
	require.Equal(t, "No evaluation tasks yet", page.Find(".blank h2").Text())
	require.Equal(t, "en", page.Find("html").AttrOr("lang", ""))
	require.Equal(t, "dark", page.Find("html").AttrOr("class", ""))
}

func TestSecurityHeadersAndForeignRequests(t *testing.T) {
	t.Parallel()
	s := newSite(t, false)
	answer := s.get(t, "/")
	policy := answer.Header.Get("Content-Security-Policy")
	require.Contains(t, policy, "frame-ancestors 'none'")
	require.NotContains(t, policy, "unsafe")
	require.Equal(t, "nosniff", answer.Header.Get("X-Content-Type-Options"))
	page := answer.page(t)
	require.Zero(t, page.Find("style, [style], script:not([src]), [onclick]").Length(), "nothing inline")

	request, err := http.NewRequest(http.MethodPost, s.URL+"/demo", nil)
	require.NoError(t, err)
	request.Header.Set("Sec-Fetch-Site", "cross-site")
	require.Equal(t, http.StatusForbidden, s.do(t, request).StatusCode)
	request, err = http.NewRequest(http.MethodGet, s.URL+"/tasks", nil)
	require.NoError(t, err)
	request.Host = "rebound.example"
	request.Header.Set("X-Forwarded-For", "1.2.3.4")
	require.Equal(t, http.StatusForbidden, s.do(t, request).StatusCode)
}

func TestStaticFilesAreKeptForGoodUnderTheirHash(t *testing.T) {
	t.Parallel()
	s := newSite(t, false)
	link := s.get(t, "/").page(t).Find(`link[rel=stylesheet]`).Last().AttrOr("href", "")
	answer := s.get(t, link)
	require.Equal(t, http.StatusOK, answer.StatusCode)
	require.Contains(t, answer.Header.Get("Cache-Control"), "immutable")
	require.Equal(t, http.StatusNotFound, s.get(t, strings.Replace(link, "/static/", "/static/0", 1)).StatusCode)
}

func TestTheDemoAndHealthAndMetrics(t *testing.T) {
	t.Parallel()
	s := newSite(t, false)
	require.Equal(t, http.StatusOK, s.get(t, "/healthz").StatusCode)
	request, err := http.NewRequest(http.MethodHead, s.URL+"/healthz", nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, s.do(t, request).StatusCode)
	require.Equal(t, http.StatusSeeOther, s.post(t, "/demo", nil).StatusCode)
	require.Equal(t, "0/20", strings.TrimSpace(s.get(t, "/tasks").page(t).Find("tbody .count").Text()))
	require.Contains(t, string(s.get(t, "/metrics").body), "wending_requests_total")
}

// Strings invented by clients are not kept in memory: ten thousand unusual requests hardly change the metrics.
func TestOddRequestsDoNotMakeMetricsGrow(t *testing.T) {
	t.Parallel()
	s := newSite(t, false)
	ask := func(n int) {
		request, err := http.NewRequest([]string{http.MethodGet, fmt.Sprintf("M%d", n)}[n%2],
			fmt.Sprintf("%s/odd-%d/%d", s.URL, n, n), nil)
		require.NoError(t, err)
		request.Host = fmt.Sprintf("h%d.localhost", n)
		request.Header.Set("X-Request-Id", strings.Repeat("i", 60_000*(n%100/99)))
		require.GreaterOrEqual(t, s.do(t, request).StatusCode, 400)
	}
	for n := range 100 {
		ask(n)
	}
	s.get(t, "/metrics") // the request for the metrics is measured too
	before := len(s.get(t, "/metrics").body)
	for n := range 1000 {
		ask(n)
	}
	require.InDelta(t, before, len(s.get(t, "/metrics").body), 2000)
	require.NotContains(t, string(s.get(t, "/metrics").body), "odd-")
}

// A request id sent by a client is kept if it is short and has only plain characters.
func TestOddRequestIDsAreReplaced(t *testing.T) {
	t.Parallel()
	s := newSite(t, false)
	for id, isKept := range map[string]bool{"a-1_2.B": true, strings.Repeat("i", 64): true, strings.Repeat("i", 65): false,
		"a b": false, "<x>": false, "甲": false} {
		request, err := http.NewRequest(http.MethodGet, s.URL+"/healthz", nil)
		require.NoError(t, err)
		request.Header["X-Request-Id"] = []string{id}
		require.Equal(t, isKept, s.do(t, request).Header.Get("X-Request-Id") == id, id)
	}
}

// Responses stay out of caches and other sites' pages, and no other site's script can read from the API or trigger its
// actions.
func TestResponsesAreKeptFromOtherSites(t *testing.T) {
	t.Parallel()
	s := newSite(t, false)
	for _, path := range []string{"/tasks", api, "/healthz"} {
		header := s.get(t, path).Header
		require.Equal(t, "no-store", header.Get("Cache-Control"), path)
		require.Equal(t, "same-origin", header.Get("Cross-Origin-Resource-Policy"), path)
		require.Equal(t, "same-origin", header.Get("Cross-Origin-Opener-Policy"), path)
	}
	for origin, status := range map[string]int{"": http.StatusOK, s.URL: http.StatusOK,
		"https://evil.example": http.StatusForbidden, "null": http.StatusForbidden} {
		request, err := http.NewRequest(http.MethodGet, s.URL+api, nil)
		require.NoError(t, err)
		if origin != "" {
			request.Header.Set("Origin", origin)
		}
		require.Equal(t, status, s.do(t, request).StatusCode, origin)
	}
}

func TestProbeShowsTheRawAnswerOrTheExactError(t *testing.T) {
	t.Parallel()
	s := newSite(t, false)
	fake := agenttest.New(t, func(w http.ResponseWriter, call agenttest.Call) { agenttest.Stream(w, "回声："+call.Question) })
	page := s.post(t, "/tasks/probe", map[string]string{"agent_api_url": fake.URL, "probe_question": "在吗"}).page(t)
	require.Contains(t, page.Find("#probe").Text(), "回声：在吗")
	require.Contains(t, page.Find("#probe pre.mono").Text(), "node_finished")
	page = s.post(t, "/tasks/probe", map[string]string{"agent_api_url": "http://127.0.0.1:1/"}).page(t)
	require.Contains(t, page.Find("#probe").Text(), "NETWORK_ERROR")
	page = s.post(t, "/tasks/probe", map[string]string{"agent_api_url": "http://10.1.2.3/"}).page(t)
	require.Contains(t, page.Find("#probe .error").Text(), "AGENT_API_ALLOWLIST")

	// On the page, an error in the address is shown next to the address until a test succeeds.
	probe := func(url string) string {
		request := s.form(t, "/tasks/probe", map[string]string{"agent_api_url": url})
		request.Header.Set("HX-Request", "true")
		return s.do(t, request).page(t).Find("#agent_api_url-error[hx-swap-oob]").Text()
	}
	require.Contains(t, probe("http://10.1.2.3/"), "AGENT_API_ALLOWLIST")
	require.Empty(t, probe(fake.URL))
}

// The button that saves the form's agent is next to its address, not between the test and its result.
func TestAnAgentIsSavedBesideItsAddress(t *testing.T) {
	t.Parallel()
	button := newSite(t, false).get(t, "/").page(t).Find("#save-agent")
	require.Equal(t, "保存此智能体", button.Text())
	require.Equal(t, 1, button.Parent().Prev().Find("#agent_api_url").Length())
}

// Every route under /api is in the document, and every operation of the document has a route.
func TestRoutesAndOpenAPIDocumentAreTheSame(t *testing.T) {
	t.Parallel()
	s := newSite(t, false)
	var document struct {
		Paths map[string]map[string]json.RawMessage
	}
	s.get(t, "/api/openapi.json").into(t, &document)
	var described, routed []string
	for path, operations := range document.Paths {
		for method := range operations {
			described = append(described, strings.ToUpper(method)+" "+path)
		}
	}
	for _, route := range s.routes {
		path := regexp.MustCompile(`:(\w+)`).ReplaceAllString(route.Path, "{$1}")
		if strings.HasPrefix(path, "/api/") && path != "/api/openapi.json" && route.Method != echo.RouteNotFound {
			routed = append(routed, route.Method+" "+path)
		}
	}
	require.NotEmpty(t, routed)
	require.ElementsMatch(t, described, routed)
}

// If a report cannot be completed, its connection breaks, so that nobody mistakes a part for the whole report.
func TestABrokenExportIsNotTakenForAWholeOne(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	fake := agenttest.New(t, unsteady())
	id := s.create(t, fake.URL, nil)
	s.awaitDone(t, id)
	_, err := s.tables.Exec(
		`UPDATE evaluation_items SET variable_values = ARRAY['a', 'b', 'c', 'd'] WHERE question_id = 'q2'`)
	require.NoError(t, err)
	answer, err := s.client.Get(s.URL + api + "/" + id + "/export?format=jsonl")
	if err == nil {
		_, err = io.ReadAll(answer.Body)
		answer.Body.Close()
	}
	require.Error(t, err)
	require.True(t, errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF), "%v", err)
}
