package handlers_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/alexedwards/argon2id"
	"github.com/google/uuid"
	"github.com/labstack/echo/v4"
	"github.com/stretchr/testify/require"

	"wending/db"
	"wending/db/dbtest"
	"wending/db/people"
	"wending/handlers"
	"wending/jobs/agent/agenttest"
)

// guarded is a site on which people sign in with passwords.
type guarded struct {
	*site
	people people.People
}

func newGuardedSite(t testing.TB) *guarded {
	t.Helper()
	s := newSiteAt(t, dbtest.URL(t), 5, handlers.Access{HasAccounts: true})
	return &guarded{s, people.New(s.store)}
}

// goodPassword is the password of the accounts in tests.
const goodPassword = "correct horse battery"

// goodHash is the hash of goodPassword with the lowest cost. A hash contains its own cost, which makes signing in fast
// in tests.
var goodHash = sync.OnceValues(func() (string, error) {
	return argon2id.CreateHash(goodPassword,
		&argon2id.Params{Memory: 64, Iterations: 1, Parallelism: 1, SaltLength: 16, KeyLength: 32})
})

// user creates an account with a role in a project; an empty role means no membership.
func (s *guarded) user(t testing.TB, name string, role people.Role, in uuid.UUID) people.User {
	t.Helper()
	hash, err := goodHash()
	require.NoError(t, err)
	user := people.User{ID: uuid.New(), Name: name, PasswordHash: &hash}
	var memberships []people.Membership
	if role != "" {
		memberships = append(memberships, people.Membership{ProjectID: in, Role: role})
	}
	require.NoError(t, s.people.AddUser(t.Context(), user, memberships...))
	return user
}

// token creates a token with a role in a project, owned by an account unless that is nil. An administrator's token
// without an owner also manages accounts and projects.
func (s *guarded) token(t testing.TB, role people.Role, in uuid.UUID, of *uuid.UUID) string {
	t.Helper()
	token := people.Token{ID: uuid.New(), Name: "test " + string(role), ProjectID: in, Role: role, UserID: of}
	if of == nil && role == people.Admin {
		token.Reach = people.ReachAccounts
	}
	value, err := s.people.AddToken(t.Context(), token, 0)
	require.NoError(t, err)
	return value
}

func (s *guarded) project(t testing.TB, name string) uuid.UUID {
	t.Helper()
	id := uuid.New()
	require.NoError(t, s.people.AddProject(t.Context(), people.Project{ID: id, Name: name}))
	return id
}

// ask makes a request with a token; a body is sent as JSON.
func (s *guarded) ask(t testing.TB, token, method, path string, body any) response {
	t.Helper()
	content := ""
	if body != nil {
		text, err := json.Marshal(body)
		require.NoError(t, err)
		content = string(text)
	}
	request, err := http.NewRequest(method, s.URL+path, strings.NewReader(content))
	require.NoError(t, err)
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	return s.do(t, request)
}

// made creates an object with the API and returns its id.
func (s *guarded) made(t testing.TB, token, path string, body any) string {
	t.Helper()
	answer := s.ask(t, token, http.MethodPost, path, body)
	require.Less(t, answer.StatusCode, 300, "%s %s", path, answer.body)
	var found map[string]any
	answer.into(t, &found)
	for _, name := range []string{"id", "task_id"} {
		if id, has := found[name].(string); has {
			return id
		}
	}
	t.Fatal(path, string(answer.body))
	return ""
}

// everything creates one object of each kind in a project, keyed by the collection in its path.
func (s *guarded) everything(t testing.TB, admin, agentURL string) map[string]string {
	t.Helper()
	v1 := "/api/v1/"
	ids := map[string]string{}
	ids["providers"] = s.made(t, admin, v1+"providers", object{"name": "p", "protocol": "openai", "base_url": agentURL})
	ids["models"] = s.made(t, admin, v1+"models", object{"name": "m", "provider_id": ids["providers"], "model_id": "m1"})
	ids["agents"] = s.made(t, admin, v1+"agents", object{"name": "a", "protocol": "default", "url": agentURL})
	ids["prompts"] = s.made(t, admin, v1+"prompts", object{"name": "w", "user": "{{question}}"})
	ids["evaluators"] = s.made(t, admin, v1+"evaluators", object{"name": "e", "kind": "exact", "config": object{}})
	ids["channels"] = s.made(t, admin, v1+"channels", object{
		"name": "c", "kind": "webhook", "url": agentURL, "events": []string{"finished"},
	})
	file := func(path string, fields map[string]string) response {
		request := s.form(t, path, fields)
		request.Header.Set("Authorization", "Bearer "+admin)
		return s.do(t, request)
	}
	var found struct {
		ID     string
		TaskID string `json:"task_id"`
	}
	answer := file(v1+"datasets", map[string]string{"name": "d", "file@q.csv": questions})
	require.Equal(t, http.StatusCreated, answer.StatusCode, "%s", answer.body)
	answer.into(t, &found)
	ids["datasets"] = found.ID
	answer = file(api, map[string]string{
		"task_name": "秘密任务", "agent_api_url": agentURL, "start": "false", "file@q.csv": questions,
	})
	require.Equal(t, http.StatusCreated, answer.StatusCode, "%s", answer.body)
	answer.into(t, &found)
	ids["evaluation-tasks"] = found.TaskID
	ids["schedules"] = s.made(t, admin, v1+"schedules", object{
		"name": "s", "task_id": found.TaskID, "cron": "0 2 * * *", "is_enabled": false,
	})
	ids["tokens"] = s.made(t, admin, v1+"tokens", object{"name": "t", "role": "viewer"})
	share := uuid.New()
	_, err := s.people.AddShare(t.Context(), people.Share{ID: share, TaskID: uuid.MustParse(found.TaskID),
		Kind: people.ShareReport, Comments: people.CommentsOff}, 1e12)
	require.NoError(t, err)
	ids["shares"] = share.String()
	ids["views"] = s.made(t, admin, v1+"views", object{"name": "v", "kind": "questions", "query": "filter=failed"})
	return ids
}

// need returns which roles may use a route, independently of the rules: for most routes that follows from the method.
func need(method, path string) string {
	isRead := method == http.MethodGet || method == http.MethodHead
	switch {
	case path == "/healthz", path == "/livez", path == "/readyz", path == "/settings", path == "/setup",
		strings.HasPrefix(path, "/help"),
		strings.HasPrefix(path, "/static/"), strings.HasPrefix(path, "/login"), path == "/logout" && isRead,
		strings.HasPrefix(path, "/shared/"), strings.HasPrefix(path, "/files/"):
		return "everybody"
	case path == "/logout", strings.HasPrefix(path, "/account"):
		return "in a browser"
	case path == "/projects" && isRead, path == "/api/v1/projects" && isRead, path == "/api/openapi.json",
		path == "/metrics":
		return "signed in"
	case strings.HasPrefix(path, "/admin/"), strings.HasPrefix(path, "/api/v1/users"), path == "/api/v1/audit",
		path == "/storage",
		!isRead && (path == "/projects" || path == "/api/v1/projects" || path == "/projects/:id" ||
			path == "/api/v1/projects/:id"):
		return "installation"
	case strings.Contains(path, "/members"), strings.HasSuffix(path, "/:id/settings"),
		strings.Contains(path, "/channels") && (!isRead || strings.HasSuffix(path, "/new")):
		if isRead && !strings.HasSuffix(path, "/new") {
			return "viewer"
		}
		return "admin"
	case strings.Contains(path, "/tokens"), path == "/api/v1/facts", path == "/tasks/columns",
		path == "/mcp":
		return "viewer"
	case path == "/", path == "/compare", path == "/answers", strings.HasSuffix(path, "/new"):
		return "editor"
	case isRead:
		return "viewer"
	case strings.HasPrefix(path, "/views"), strings.HasPrefix(path, "/api/v1/views"), strings.HasSuffix(path, "/review"),
		strings.Contains(path, "/carried-reviews"), strings.HasSuffix(path, "/reviews/import"),
		strings.HasSuffix(path, "/meanings"), strings.Contains(path, "/pairs"), strings.HasSuffix(path, "/pair"),
		strings.HasSuffix(path, "/meaning"), strings.HasSuffix(path, "/samples"), strings.HasSuffix(path, "/review-settings"),
		strings.Contains(path, "/review/"), strings.Contains(path, "/sign-off"), strings.Contains(path, "assignments"),
		strings.HasSuffix(path, "/done") && strings.Contains(path, "/comments/"),
		method == http.MethodPut && strings.Contains(path, "/comments/"):
		return "reviewer"
	}
	return "editor"
}

// isProgram reports whether a path is for programs rather than for people.
func isProgram(path string) bool {
	return strings.HasPrefix(path, "/api/") || path == "/mcp" || path == "/v1/traces"
}

var parameter = regexp.MustCompile(`:[A-Za-z_]+`)

// pathOf replaces a path's parameters with ids, if possible those of existing objects.
func pathOf(path string, ids map[string]string) (of string, hasObject bool) {
	collection := strings.Split(strings.TrimPrefix(strings.TrimPrefix(path, "/api/v1/"), "/"), "/")
	name := collection[0]
	if name == "library" && len(collection) > 1 {
		name = collection[1]
	}
	if name == "tasks" {
		name = "evaluation-tasks"
	}
	id := ids[name]
	if name == "projects" {
		id = db.DefaultProject.String()
	}
	of = parameter.ReplaceAllStringFunc(path, func(parameter string) string {
		switch {
		case slices.Contains([]string{":taskId", ":task_id", ":id"}, parameter) && id != "":
			hasObject = true
			return id
		case strings.Contains(parameter, "umber"), strings.Contains(parameter, "delivery"), strings.Contains(parameter, "un"):
			return "1"
		}
		return uuid.NewString()
	})
	return strings.TrimSuffix(of, "*"), hasObject
}

// Every route is requested without credentials, with each role, and by the administrators of another project: clients
// without the right learn nothing and change nothing. The router provides the list of routes.
func TestEveryRouteIsForThoseWhoMay(t *testing.T) {
	t.Parallel()
	// without a worker nothing changes in the background
	s := &guarded{site: newSiteAt(t, dbtest.URL(t), 0, handlers.Access{HasAccounts: true})}
	s.people = people.New(s.store)
	fake := agenttest.New(t, func(w http.ResponseWriter, _ agenttest.Call) { agenttest.Stream(w, "x") })
	other := s.project(t, "别处")
	root := s.token(t, people.Admin, db.DefaultProject, nil)
	ids := s.everything(t, root, fake.URL)
	roles := []string{"viewer", "reviewer", "editor", "admin"}
	tokens := map[string]string{}
	for _, role := range roles {
		owner := s.user(t, "member "+role, people.Role(role), db.DefaultProject)
		tokens[role] = s.token(t, people.Admin, db.DefaultProject, &owner.ID) // its owner's rights limit the token
	}
	stranger := s.user(t, "stranger", people.Admin, other)
	foreign := s.token(t, people.Admin, other, &stranger.ID)
	homeless := s.user(t, "homeless", "", other)
	nowhere := s.token(t, people.Admin, other, &homeless.ID)

	before := s.tablesNow(t)
	routes := slices.Clone(s.routes)
	slices.SortFunc(routes, func(a, b *echo.Route) int { return strings.Compare(a.Path+a.Method, b.Path+b.Method) })
	count := 0
	for _, route := range routes {
		if route.Method == echo.RouteNotFound {
			continue
		}
		count++
		needs := need(route.Method, route.Path)
		path, hasObject := pathOf(route.Path, ids)
		what := route.Method + " " + route.Path
		isPage := !isProgram(route.Path)
		body := any(nil)
		if !isPage && route.Method != http.MethodGet && route.Method != http.MethodHead {
			body = object{}
		}
		if needs == "everybody" {
			continue
		}
		answer := s.ask(t, "", route.Method, path, body)
		if isPage {
			require.Equal(t, http.StatusSeeOther, answer.StatusCode, what)
			require.True(t, strings.HasPrefix(answer.Header.Get("Location"), "/login?next="), what)
		} else {
			require.Equal(t, http.StatusUnauthorized, answer.StatusCode, what)
			require.Contains(t, string(answer.body), `"UNAUTHENTICATED"`, what)
		}
		answer = s.ask(t, "wnd_NOBODYSTOKENATALL", route.Method, path, body)
		require.Contains(t, []int{http.StatusUnauthorized, http.StatusSeeOther}, answer.StatusCode, what)
		answer = s.ask(t, nowhere, route.Method, path, body)
		require.Contains(t, []int{http.StatusUnauthorized, http.StatusSeeOther}, answer.StatusCode,
			"a token whose owner is in no project: %s", what)
		if needs == "signed in" {
			continue
		}
		if needs == "in a browser" {
			require.Equal(t, http.StatusForbidden, s.ask(t, tokens["admin"], route.Method, path, body).StatusCode, what)
			continue
		}
		if hasObject {
			answer = s.ask(t, foreign, route.Method, path, body)
			require.Equal(t, http.StatusNotFound, answer.StatusCode, "%s: %s", what, answer.body)
			require.NotContains(t, string(answer.body), "秘密")
			missing := strings.NewReplacer(ids["evaluation-tasks"], uuid.NewString()).Replace(path)
			if missing != path && !isPage {
				require.Equal(t, string(s.ask(t, foreign, route.Method, missing, body).body), string(answer.body),
					"%s: what is another's looks as what is not there", what)
			}
			chosen := path + "?project=" + url.QueryEscape("默认")
			require.Equal(t, http.StatusNotFound, s.ask(t, foreign, route.Method, chosen, body).StatusCode, what)
		}
		for n, role := range roles {
			if needs != "installation" && n >= slices.Index(roles, needs) {
				continue
			}
			answer := s.ask(t, tokens[role], route.Method, path, body)
			require.Equal(t, http.StatusForbidden, answer.StatusCode, "%s by %s: %s", what, role, answer.body)
		}
	}
	require.Greater(t, count, 200)
	require.Equal(t, before, s.tablesNow(t), "nothing was changed by those who may not")

	// Clients that have the required role are not refused.
	for _, isLast := range []bool{false, true} {
		for _, route := range routes {
			removes := route.Method == http.MethodDelete || strings.HasSuffix(route.Path, "/delete") ||
				strings.HasSuffix(route.Path, "/remove")
			needs := need(route.Method, route.Path)
			if route.Method == echo.RouteNotFound || removes != isLast || needs == "everybody" || needs == "in a browser" ||
				route.Method == http.MethodPost && strings.HasSuffix(route.Path, "/tokens") { // only managers' tokens create tokens

				continue
			}
			token := tokens[needs]
			switch needs {
			case "installation":
				token = root
			case "signed in":
				token = foreign
			}
			path, _ := pathOf(route.Path, ids)
			if strings.HasSuffix(path, "/progress") || strings.HasSuffix(path, "/events") { // streams, which do not end
				continue
			}
			answer := s.ask(t, token, route.Method, path, nil)
			require.NotContains(t, []int{http.StatusUnauthorized, http.StatusForbidden, http.StatusInternalServerError},
				answer.StatusCode, "%s %s by %s: %s", route.Method, path, needs, answer.body)
		}
	}
	require.Zero(t, s.reports.Load(), s.told.String())
}

// tablesNow returns the contents of the tables that people change.
func (s *guarded) tablesNow(t testing.TB) map[string]string {
	t.Helper()
	now := map[string]string{}
	for _, table := range []string{
		"evaluation_tasks", "providers", "models", "agents", "prompts", "datasets", "evaluators", "channels", "schedules",
		"projects", "memberships", "users", "shares", "saved_views",
		"launches", "reviews", "evaluation_items",
	} {
		var sum string
		require.NoError(t,
			s.tables.Get(&sum, `SELECT coalesce(md5(string_agg(md5(r::text), '' ORDER BY md5(r::text))), '') FROM `+table+` r`))
		now[table] = sum
	}
	return now
}

// Lists, counts, choices and names are limited to one project. Objects of another project appear not to exist.
func TestProjectsDoNotSeeEachOther(t *testing.T) {
	t.Parallel()
	s := newGuardedSite(t)
	fake := agenttest.New(t, answering(nil))
	other := s.project(t, "别处")
	here, there := s.token(t, people.Admin, db.DefaultProject, nil), s.token(t, people.Admin, other, nil)
	ids := s.everything(t, here, fake.URL)
	twins := s.everything(t, there, fake.URL) // the same names, in the other project
	for collection := range ids {
		if collection == "shares" || collection == "tokens" {
			continue
		}
		for token, own := range map[string]map[string]string{here: ids, there: twins} {
			answer := s.ask(t, token, http.MethodGet, "/api/v1/"+collection, nil)
			var list struct {
				Items      []map[string]any
				Pagination struct{ Total int }
			}
			answer.into(t, &list)
			require.Equal(t, 1, list.Pagination.Total, collection)
			require.Contains(t, string(answer.body), own[collection])
		}
		page := "/library/" + collection
		if collection == "evaluation-tasks" {
			page = "/tasks"
		}
		require.NotContains(t, string(s.ask(t, there, http.MethodGet, page, nil).body), ids[collection])
	}
	// Nothing in another project can be used.
	for name, fields := range map[string]object{
		"dataset": {"dataset": ids["datasets"], "agents": []string{twins["agents"]}},
		"agents":  {"dataset": twins["datasets"], "agents": []string{ids["agents"]}},
		"models":  {"dataset": twins["datasets"], "models": []string{ids["models"]}},
		"prompts": {"dataset": twins["datasets"], "agents": []string{twins["agents"]},
			"prompts": []string{ids["prompts"]}},
		"evaluators": {"dataset": twins["datasets"], "agents": []string{twins["agents"]},
			"evaluators": []string{ids["evaluators"]}},
		"channels": {"dataset": twins["datasets"], "agents": []string{twins["agents"]},
			"channels": []string{ids["channels"]}},
	} {
		fields["task_name"], fields["start"] = name, false
		answer := s.ask(t, there, http.MethodPost, api, fields)
		require.Equal(t, http.StatusUnprocessableEntity, answer.StatusCode, "%s: %s", name, answer.body)
	}
	require.Equal(t, http.StatusUnprocessableEntity,
		s.ask(t, there, http.MethodPost, "/api/v1/models",
			object{"name": "x", "provider_id": ids["providers"], "model_id": "m"}).StatusCode)
	require.Equal(t, http.StatusUnprocessableEntity,
		s.ask(t, there, http.MethodPost, "/api/v1/schedules",
			object{"name": "x", "task_id": ids["evaluation-tasks"], "cron": "0 2 * * *"}).StatusCode)
	for _, path := range []string{
		"/?from=" + ids["evaluation-tasks"], "/?draft=" + ids["evaluation-tasks"],
		"/comparison?a=" + ids["evaluation-tasks"] + "&b=" + twins["evaluation-tasks"],
		"/api/v1/comparison?a=" + ids["evaluation-tasks"] + "&b=" + twins["evaluation-tasks"],
		"/api/v1/shares?task_id=" + ids["evaluation-tasks"],
		"/comparison/print?a=" + ids["evaluation-tasks"] + "&b=" + twins["evaluation-tasks"],
		"/api/v1/comparison/export?a=" + ids["evaluation-tasks"] + "&b=" + twins["evaluation-tasks"],
		"/tasks/" + twins["evaluation-tasks"] + "/review/carry?from=" + ids["evaluation-tasks"],
	} {
		answer := s.ask(t, there, http.MethodGet, path, nil)
		require.Equal(t, http.StatusNotFound, answer.StatusCode, path)
	}
	require.Equal(t, http.StatusNotFound, s.ask(t, there, http.MethodPost, "/api/v1/shares",
		object{"task_id": ids["evaluation-tasks"]}).StatusCode)

	// A member of both projects can name one in a request, and opening an object switches to its project.
	both := s.user(t, "两边", people.Editor, db.DefaultProject)
	require.NoError(t, s.people.SetMember(t.Context(), other, both.ID, people.Viewer))
	browser := s.signedIn(t, "两边")
	require.Contains(t, string(browser.get(t, "/tasks").body), ids["evaluation-tasks"], "the first project")
	require.Equal(t, http.StatusOK, browser.get(t, "/tasks/"+twins["evaluation-tasks"]).StatusCode)
	list := string(browser.get(t, "/tasks").body)
	require.Contains(t, list, twins["evaluation-tasks"], "the browser stays where it was led")
	require.NotContains(t, list, ids["evaluation-tasks"])
	require.Contains(t, string(browser.get(t, "/tasks?project="+db.DefaultProject.String()).body), ids["evaluation-tasks"])
	for _, name := range []string{db.DefaultProject.String(), url.PathEscape("默认")} {
		request, err := http.NewRequest(http.MethodGet, s.URL+api, nil)
		require.NoError(t, err)
		request.Header.Set("X-Wending-Project", name)
		require.Contains(t, string(browser.do(t, request).body), ids["evaluation-tasks"], name)
	}
	require.Equal(t, http.StatusForbidden, browser.send(t, "/tasks/"+twins["evaluation-tasks"]+"/delete", nil).StatusCode,
		"a viewer there")
	require.Equal(t, http.StatusNotFound, browser.get(t,
		"/tasks/"+twins["evaluation-tasks"]+"?project="+db.DefaultProject.String()).StatusCode)
}

// Without accounts every client sees everything; a program may still limit itself to one project.
func TestProjectsWithoutAccounts(t *testing.T) {
	t.Parallel()
	s := newSite(t, false)
	place := s.entry(t, "POST", "projects", object{"name": "别处"}, 201)["id"].(string)
	ask := func(method, path, project string, body string) response {
		request, err := http.NewRequest(method, s.URL+"/api/v1/"+path, strings.NewReader(body))
		require.NoError(t, err)
		request.Header.Set("Content-Type", "application/json")
		request.Header.Set("X-Wending-Project", project)
		return s.do(t, request)
	}
	require.Equal(t, http.StatusCreated, ask("POST", "prompts", place, `{"name": "p", "user": "x"}`).StatusCode)
	require.Equal(t, http.StatusCreated, ask("POST", "prompts", "", `{"name": "p", "user": "x"}`).StatusCode,
		"names are a project's own")
	require.Len(t, s.entry(t, "GET", "prompts", nil, 200)["items"], 2)
	require.Len(t, s.entry(t, "GET", "prompts?project="+url.QueryEscape("别处"), nil, 200)["items"], 1)
	require.Equal(t, http.StatusNotFound, ask("GET", "prompts", "nowhere", "").StatusCode)
	for path, status := range map[string]int{"/login": http.StatusSeeOther, "/account": http.StatusNotFound,
		"/admin/users": http.StatusOK, "/admin/audit": http.StatusOK, "/projects": http.StatusOK} {
		require.Equal(t, status, s.get(t, path).StatusCode, path)
	}
	require.Zero(t, s.get(t, "/tasks").page(t).Find(".who").Length())
}

// Anonymous requests leave the audit unchanged, regardless of the path; actions and refusals of signed-in users are
// recorded.
func TestNobodyWritesIntoTheAudit(t *testing.T) {
	t.Parallel()
	s := newGuardedSite(t)
	editor, viewer := s.token(t, people.Editor, db.DefaultProject, nil), s.token(t, people.Viewer, db.DefaultProject, nil)
	s.user(t, "李雷", people.Editor, db.DefaultProject)
	task := s.draft(t, s.signedIn(t, "李雷"))
	recorded := func() (did []string) {
		require.NoError(t, s.tables.Select(&did, `SELECT action || ' ' || status FROM audit_entries ORDER BY seq`))
		return did
	}
	before := recorded()
	paths := []string{"/tasks/" + task + "/delete", "/tasks/" + task + "/stop", "/tasks/" + task + "/sign-off",
		"/tasks/" + task + "/shares", "/tasks", "/admin/users",
		"/projects", "/account/password", api, api + "/" + task + "/stop", "/api/v1/users", "/api/v1/shares"}
	var all sync.WaitGroup
	for worker := range 8 {
		all.Go(func() {
			for n := range 150 {
				request, err := http.NewRequest(http.MethodPost, s.URL+paths[(worker+n)%len(paths)], nil)
				if err != nil {
					t.Error(err)
					return
				}
				switch n % 3 {
				case 1:
					request.Header.Set("Authorization", "Bearer wnd_wrong")
				case 2:
					request.AddCookie(&http.Cookie{Name: "wending", Value: "wrong"})
					request.Header.Set("Sec-Fetch-Site", "same-origin")
				}
				answer, err := http.DefaultTransport.RoundTrip(request)
				if err != nil {
					t.Error(err)
					return
				}
				_ = answer.Body.Close()
				if answer.StatusCode != http.StatusSeeOther && answer.StatusCode != http.StatusUnauthorized {
					t.Errorf("%s: %d", request.URL.Path, answer.StatusCode)
				}
			}
		})
	}
	all.Wait()
	require.Equal(t, before, recorded(), "1,200 requests of nobody")

	s.ask(t, viewer, http.MethodDelete, api+"/"+task, nil).mustBe(t, http.StatusForbidden)
	s.ask(t, editor, http.MethodDelete, api+"/"+task, nil).mustBe(t, http.StatusNoContent)
	require.Equal(t, []string{"task.delete 403", "task.delete 204"}, recorded()[len(before):])
}
