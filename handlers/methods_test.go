package handlers_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/stretchr/testify/require"

	"wending/db"
	"wending/db/dbtest"
	"wending/db/people"
	"wending/handlers"
	"wending/handlers/request"
	"wending/jobs/agent/agenttest"
)

// heading sends a request and returns the head of the response; it does not read the body, which may never end.
func (s *site) heading(t testing.TB, token, method, path string) *http.Response {
	t.Helper()
	request, err := http.NewRequest(method, s.URL+path, nil)
	require.NoError(t, err)
	request.Header.Set("Accept-Encoding", "gzip")
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	client := &http.Client{Timeout: 20 * time.Second, CheckRedirect: s.client.CheckRedirect}
	answer, err := client.Do(request)
	require.NoError(t, err, "%s %s", method, path)
	if method == http.MethodHead {
		body, err := io.ReadAll(answer.Body)
		require.NoError(t, err)
		require.Empty(t, body, path)
	}
	require.NoError(t, answer.Body.Close())
	return answer
}

// requireHeadIsGet checks that HEAD is answered like GET, and returns the status.
func (s *site) requireHeadIsGet(t testing.TB, token, path string) int {
	t.Helper()
	get, head := s.heading(t, token, http.MethodGet, path), s.heading(t, token, http.MethodHead, path)
	require.Equal(t, get.StatusCode, head.StatusCode, path)
	for _, answer := range []*http.Response{get, head} {
		answer.Header.Del("Date")
		answer.Header.Del("X-Request-Id")
		for n, cookie := range answer.Header["Set-Cookie"] { // its value is random
			name, _, _ := strings.Cut(cookie, "=")
			answer.Header["Set-Cookie"][n] = name
		}
		if answer.Header.Get("Content-Length") == "0" { // net/http omits it for HEAD
			answer.Header.Del("Content-Length")
		}
	}
	require.Equal(t, get.Header, head.Header, path)
	if get.StatusCode != http.StatusPermanentRedirect { // to the same path without its trailing slash
		requireSecured(t, get)
	}
	return get.StatusCode
}

// requireSecured checks the headers that every response has.
func requireSecured(t testing.TB, answer *http.Response) {
	t.Helper()
	what := answer.Request.Method + " " + answer.Request.URL.Path
	// downloads of files and reports have their own policy
	require.NotEmpty(t, answer.Header.Get("Content-Security-Policy"), what)
	if answer.StatusCode >= 400 {
		require.Contains(t, answer.Header.Get("Content-Security-Policy"), "default-src 'self'", what)
	}
	require.Equal(t, "nosniff", answer.Header.Get("X-Content-Type-Options"), what)
	require.Equal(t, "DENY", answer.Header.Get("X-Frame-Options"), what)
	require.Contains(t, []string{"same-origin", "no-referrer"}, answer.Header.Get("Referrer-Policy"), what)
	require.Equal(t, "same-origin", answer.Header.Get("Cross-Origin-Opener-Policy"), what)
	require.Equal(t, "same-origin", answer.Header.Get("Cross-Origin-Resource-Policy"), what)
	if answer.StatusCode >= 400 { // others may be cached, as static files are
		require.Contains(t, answer.Header.Get("Cache-Control"), "no-store", what)
	}
}

// HEAD is answered like GET on every route that has GET, for every user; OPTIONS and other methods are answered
// with the permitted methods.
func TestEveryPathAnswersHeadAndNamesItsMethods(t *testing.T) {
	t.Parallel()
	s := &guarded{site: newSiteAt(t, dbtest.URL(t), 0, handlers.Access{HasAccounts: true})}
	s.people = people.New(s.store)
	fake := agenttest.New(t, func(w http.ResponseWriter, _ agenttest.Call) { agenttest.Stream(w, "x") })
	root := s.token(t, people.Admin, db.DefaultProject, nil)
	ids := s.everything(t, root, fake.URL)
	methods := map[string][]string{}
	for _, route := range s.routes {
		if route.Method != echo.RouteNotFound {
			methods[route.Path] = append(methods[route.Path], route.Method)
		}
	}
	count := map[int]int{}
	for route, has := range methods {
		path, _ := pathOf(route, ids)
		if route == "/static/*" {
			path += "0/none.css"
		}
		expected := []string{http.MethodOptions}
		for _, method := range has {
			expected = append(expected, method)
			if method == http.MethodGet {
				expected = append(expected, http.MethodHead)
				s.requireHeadIsGet(t, "", path)
				count[s.requireHeadIsGet(t, root, path)]++
			}
		}
		options := s.heading(t, root, http.MethodOptions, path)
		require.Equal(t, http.StatusNoContent, options.StatusCode, path)
		require.Subset(t, strings.Split(options.Header.Get("Allow"), ", "), expected, path)
		requireSecured(t, options)

		wrong := s.ask(t, root, "TRACE", path, nil)
		require.Equal(t, http.StatusMethodNotAllowed, wrong.StatusCode, path)
		require.Equal(t, options.Header.Get("Allow"), wrong.Header.Get("Allow"), path)
		requireSecured(t, wrong.Response)
		if isProgram(path) {
			require.Equal(t, "METHOD_NOT_ALLOWED", wrong.mustBe(t, http.StatusMethodNotAllowed)["code"], path)
		} else {
			require.Contains(t, wrong.page(t).Find("main").Text(), "此地址不支持这种请求方法", path)
		}
	}
	require.Greater(t, count[http.StatusOK], 70, "%v", count)
	require.Positive(t, count[http.StatusNotFound])

	login := s.heading(t, "", http.MethodOptions, "/login")
	require.Equal(t, http.StatusNoContent, login.StatusCode, "what is public names its methods to everybody")
	require.Equal(t, "OPTIONS, GET, HEAD, POST", login.Header.Get("Allow"))
	require.Equal(t, "OPTIONS, GET, HEAD, PATCH, DELETE",
		s.heading(t, root, http.MethodOptions, "/api/v1/evaluation-tasks/"+ids["evaluation-tasks"]).Header.Get("Allow"))
	require.Empty(t, s.heading(t, root, http.MethodOptions, "/nothing").Header.Get("Allow"))
	require.Equal(t, http.StatusMethodNotAllowed, s.heading(t, "", http.MethodDelete, "/healthz").StatusCode)
	require.Equal(t, http.StatusUnauthorized, s.heading(t, "", http.MethodOptions, "/api/v1/evaluation-tasks").StatusCode)
}

// In response to HEAD, endless streams and long reports end after their headers, without an error.
func TestHeadEndsWhatItBegins(t *testing.T) {
	t.Parallel()
	s := newSite(t, false)
	draft := s.create(t, "http://127.0.0.1:9", map[string]string{"start": "false"})
	progress := s.heading(t, "", http.MethodHead, "/api/v1/evaluation-tasks/"+draft+"/progress")
	require.Equal(t, http.StatusOK, progress.StatusCode)
	require.Contains(t, progress.Header.Get("Content-Type"), "text/event-stream")
	id := "/" + s.fill(t, 40, 5, 5_000)
	for _, path := range []string{
		"/api/v1/evaluation-tasks" + id + "/export?format=csv", "/api/v1/evaluation-tasks" + id + "/export?format=jsonl",
		"/api/v1/evaluation-tasks" + id + "/export?format=xlsx",
		"/api/v1/evaluation-tasks" + id + "/export?format=html", "/api/v1/evaluation-tasks" + id + "/archive",
		"/api/v1/evaluation-tasks" + id + "/results",
		"/tasks" + id + "/results", "/tasks" + id + "/results/print", "/tasks" + id + "/report", "/tasks" + id, "/metrics",
	} {
		require.Equal(t, http.StatusOK, s.requireHeadIsGet(t, "", path), path)
	}
	link := s.get(t, "/").page(t).Find(`link[rel=stylesheet]`).Last().AttrOr("href", "")
	require.Equal(t, http.StatusOK, s.requireHeadIsGet(t, "", link))
	require.Equal(t, http.StatusPermanentRedirect, s.heading(t, "", http.MethodHead, "/tasks/").StatusCode)
}

// Headers that are too large are refused in our own format, and so are all other requests that cannot be answered.
func TestRefusalsAreSecuredAndInOurWords(t *testing.T) {
	t.Parallel()
	s := newSite(t, false)
	large := strings.Repeat("h", 70<<10)
	for _, c := range []struct {
		method, path, header, body string
		status                     int
		code                       string
	}{
		{"GET", "/api/v1/evaluation-tasks", large, "", http.StatusRequestHeaderFieldsTooLarge, "HEADERS_TOO_LARGE"},
		{"GET", "/tasks", large, "", http.StatusRequestHeaderFieldsTooLarge, "HEADERS_TOO_LARGE"},
		{"GET", "/api/v1/evaluation-tasks?query=" + url.QueryEscape(large), "", "", http.StatusRequestHeaderFieldsTooLarge,
			"HEADERS_TOO_LARGE"},
		{"GET", "/tasks", large[:60<<10], "", http.StatusOK, ""},
		{"PUT", "/api/v1/evaluation-tasks", "", "", http.StatusMethodNotAllowed, "METHOD_NOT_ALLOWED"},
		{"PUT", "/tasks", "", "", http.StatusMethodNotAllowed, "METHOD_NOT_ALLOWED"},
		{"GET", "/api/v1/nothing", "", "", http.StatusNotFound, "NOT_FOUND"},
		{"GET", "/nothing", "", "", http.StatusNotFound, "NOT_FOUND"},
		{"POST", "/api/v1/models", "", `{"name":"` + strings.Repeat("n", 9<<20) + `"}`, http.StatusRequestEntityTooLarge,
			"REQUEST_TOO_LARGE"},
		{"POST", "/api/v1/models", "", `{`, http.StatusUnprocessableEntity, "REQUEST_INVALID"},
	} {
		asked, err := http.NewRequest(c.method, s.URL+c.path, strings.NewReader(c.body))
		require.NoError(t, err)
		asked.Header.Set("Content-Type", "application/json")
		asked.Header.Set("X-Large", c.header)
		answer := s.do(t, asked)
		require.Equal(t, c.status, answer.StatusCode, "%s %.40s", c.method, c.path)
		requireSecured(t, answer.Response)
		switch {
		case c.code == "":
		case request.IsAPI(asked):
			require.Equal(t, c.code, answer.mustBe(t, c.status)["code"], "%.40s", c.path)
		default:
			require.NotEmpty(t, answer.page(t).Find("main").Text(), "%.40s", c.path)
			require.Contains(t, answer.Header.Get("Content-Type"), "text/html")
		}
	}

	connection, err := net.Dial("tcp", strings.TrimPrefix(s.URL, "http://"))
	require.NoError(t, err)
	defer connection.Close()
	_, err = io.WriteString(connection,
		"HEAD /tasks HTTP/1.1\r\nHost: localhost\r\n\r\nGET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
	require.NoError(t, err)
	reader := bufio.NewReader(connection)
	first, err := http.ReadResponse(reader, &http.Request{Method: http.MethodHead})
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, first.StatusCode)
	second, err := http.ReadResponse(reader, nil)
	require.NoError(t, err, "nothing of a body follows the headers")
	body, err := io.ReadAll(second.Body)
	require.NoError(t, err)
	require.Contains(t, string(body), `"ok"`)
}
