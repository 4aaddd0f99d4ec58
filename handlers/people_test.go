package handlers_test

import (
	"encoding/csv"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/PuerkitoBio/goquery"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"wending/db"
	"wending/db/dbtest"
	"wending/db/people"
	"wending/jobs/agent/agenttest"
)

// mustBe parses a response of the API that must have the given status.
func (r response) mustBe(t testing.TB, status int) object {
	t.Helper()
	require.Equal(t, status, r.StatusCode, "%s", r.body)
	found := object{}
	if len(r.body) > 0 {
		require.NoError(t, json.Unmarshal(r.body, &found), "%s", r.body)
	}
	return found
}

// A department is set up through the API: projects, accounts, members, tokens. Rights take effect immediately.
func TestADepartmentByTheAPI(t *testing.T) {
	t.Parallel()
	s := newGuardedSite(t)
	root := s.token(t, people.Admin, db.DefaultProject, nil)
	v1 := "/api/v1/"
	law := s.ask(t, root, "POST", v1+"projects", object{"name": "法务"}).mustBe(t, 201)["id"].(string)
	s.ask(t, root, "POST", v1+"projects", object{"name": "法务"}).mustBe(t, 422)
	for name, wrong := range map[string]object{
		"no name":        {"password": goodPassword},
		"short":          {"name": "x", "password": "short"},
		"common":         {"name": "x", "password": "Password123!"},
		"role":           {"name": "x", "password": goodPassword, "role": "king"},
		"project":        {"name": "x", "password": goodPassword, "project_id": uuid.NewString()},
		"control":        {"name": "a\u0007b", "password": goodPassword},
		"right to left":  {"name": "a\u202eb", "password": goodPassword},
		"long":           {"name": strings.Repeat("长", 65), "password": goodPassword},
		"is its name":    {"name": "correct horse", "password": "correct horse 1"},
		"invisible":      {"name": "root\u3164", "password": goodPassword},
		"blank":          {"name": "\u2800", "password": goodPassword},
		"an address":     {"name": "127.0.0.1", "password": goodPassword},
		"a token's":      {"name": "Token:x", "password": goodPassword},
		"is not a text":  {"name": object{}, "password": goodPassword},
		"nothing at all": {},
	} {
		answer := s.ask(t, root, "POST", v1+"users", wrong)
		require.Equal(t, "PARAMETER_INVALID", answer.mustBe(t, 422)["code"], name)
	}
	lilei := s.ask(t, root, "POST", v1+"users", object{
		"name": "李雷", "password": goodPassword, "role": "editor", "project_id": law,
	}).mustBe(t, 201)
	require.NotContains(t, lilei, "password")
	s.ask(t, root, "POST", v1+"users", object{"name": "李雷", "password": goodPassword}).mustBe(t, 422)
	han := s.ask(t, root, "POST", v1+"users", object{"name": "Han Meimei", "password": goodPassword}).mustBe(t, 201)
	s.ask(t, root, "POST", v1+"projects/"+law+"/members", object{"name": "han meimei", "role": "reviewer"}).mustBe(t, 404)
	boss := s.user(t, "boss", people.Admin, uuid.MustParse(law))
	lead := s.token(t, people.Admin, uuid.MustParse(law), &boss.ID)
	member := s.ask(t, lead, "POST", v1+"projects/"+law+"/members", object{"name": "han meimei", "role": "reviewer"}).
		mustBe(t, 201)
	require.Equal(t, "reviewer", member["role"])
	s.ask(t, lead, "POST", v1+"projects/"+law+"/members", object{"name": "nobody", "role": "reviewer"}).mustBe(t, 422)
	s.ask(t, lead, "PUT", v1+"projects/"+law+"/members/"+han["id"].(string), object{"role": "editor"}).mustBe(t, 200)
	require.Len(t, s.ask(t, lead, "GET", v1+"projects/"+law+"/members", nil).mustBe(t, 200)["items"], 3)
	s.ask(t, lead, "POST", v1+"users", object{"name": "x", "password": goodPassword}).mustBe(t, 403)

	// A token is shown once, has the rights of its role in its project, and loses them when it is revoked.
	b := s.signedIn(t, "李雷")
	request, err := http.NewRequest(http.MethodPost, s.URL+v1+"tokens",
		strings.NewReader(`{"name": "pipeline", "role": "editor", "expires_in_days": 30}`))
	require.NoError(t, err)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Origin", s.URL)
	made := b.do(t, request).mustBe(t, 201)
	token := made["token"].(string)
	require.True(t, strings.HasPrefix(token, "wnd_"))
	require.Equal(t, "法务", made["project_name"])
	listed := s.ask(t, token, "GET", v1+"tokens", nil)
	listed.mustBe(t, 200)
	require.NotContains(t, string(listed.body), token)
	require.Contains(t, string(listed.body), token[len(token)-4:])
	var stored int
	require.NoError(t, s.tables.Get(&stored, `SELECT count(*) FROM tokens t WHERE t::text LIKE '%' || $1 || '%'`, token))
	require.Zero(t, stored, "the token itself is not stored")
	s.ask(t, token, "POST", v1+"tokens", object{"name": "less", "role": "viewer"}).mustBe(t, 403)
	for _, days := range []any{-1, 3651, "soon"} {
		s.ask(t, lead, "POST", v1+"tokens", object{"name": "x", "expires_in_days": days}).mustBe(t, 422)
	}

	// A token that was created with another token ends with it.
	parent := s.ask(t, lead, "POST", v1+"tokens", object{"name": "parent", "role": "admin", "expires_in_days": 1}).
		mustBe(t, 201)
	child := s.ask(t, parent["token"].(string), "POST", v1+"tokens", object{
		"name": "child", "role": "viewer", "expires_in_days": 0,
	}).mustBe(t, 201)
	require.Equal(t, parent["expires_at"], child["expires_at"])
	s.ask(t, lead, "DELETE", v1+"tokens/"+parent["id"].(string), nil).mustBe(t, 204)
	s.ask(t, child["token"].(string), "GET", v1+"prompts", nil).mustBe(t, 401)
	prompt := s.ask(t, token, "POST", v1+"prompts", object{"name": "p", "user": "{{question}}"}).mustBe(t, 201)
	s.ask(t, root, "GET", v1+"prompts/"+prompt["id"].(string), nil).mustBe(t, 404)
	s.ask(t, root, "DELETE", v1+"tokens/"+made["id"].(string), nil).mustBe(t, 404)
	s.ask(t, lead, "DELETE", v1+"tokens/"+made["id"].(string), nil).mustBe(t, 204)
	s.ask(t, token, "GET", v1+"prompts", nil).mustBe(t, 401)

	// Removing a member also removes the rights of the member's tokens.
	own := s.token(t, people.Editor, uuid.MustParse(law), ptr(uuid.MustParse(han["id"].(string))))
	s.ask(t, own, "GET", v1+"prompts", nil).mustBe(t, 200)
	s.ask(t, lead, "PUT", v1+"projects/"+law+"/members/"+han["id"].(string), object{"role": "viewer"}).mustBe(t, 200)
	s.ask(t, own, "POST", v1+"prompts", object{"name": "q", "user": "x"}).mustBe(t, 403)
	s.ask(t, lead, "DELETE", v1+"projects/"+law+"/members/"+han["id"].(string), nil).mustBe(t, 204)
	s.ask(t, own, "GET", v1+"prompts", nil).mustBe(t, 401)
	s.ask(t, lead, "DELETE", v1+"projects/"+law+"/members/"+han["id"].(string), nil).mustBe(t, 404)

	// At least one account that may manage accounts is always left.
	admin := s.ask(t, root, "POST", v1+"users", object{"name": "root", "password": goodPassword, "is_admin": true}).
		mustBe(t, 201)["id"].(string)
	s.ask(t, root, "PATCH", v1+"users/"+admin, object{"is_disabled": true}).mustBe(t, 409)
	s.ask(t, root, "PATCH", v1+"users/"+admin, object{"is_admin": false, "password": "evil horse battery"}).mustBe(t, 409)
	require.Equal(t, http.StatusSeeOther, s.newBrowser(t).send(t, "/login",
		url.Values{"name": {"root"}, "password": {goodPassword}}).StatusCode, "all or nothing")
	s.ask(t, root, "PATCH", v1+"users/"+lilei["id"].(string), object{"is_disabled": true}).mustBe(t, 200)
	require.Equal(t, http.StatusSeeOther, b.get(t, "/tasks").StatusCode, "signed out at once")
	require.Equal(t, http.StatusUnauthorized,
		b.send(t, "/login", url.Values{"name": {"李雷"}, "password": {goodPassword}}).StatusCode)
	s.ask(t, root, "PATCH", v1+"users/"+lilei["id"].(string),
		object{"is_disabled": false, "password": "another good one"}).mustBe(t, 200)
	require.Equal(t, http.StatusSeeOther, b.send(t, "/login",
		url.Values{"name": {"李雷"}, "password": {"another good one"}}).StatusCode)
}

func ptr[T any](value T) *T { return &value }

// A name that looks like another account's is refused wherever accounts are created, and the refusal shows the
// other name.
func TestNamesThatLookLikeAnothersAreRefused(t *testing.T) {
	t.Parallel()
	s := newGuardedSite(t)
	root := s.token(t, people.Admin, db.DefaultProject, nil)
	s.user(t, "admin", people.Admin, db.DefaultProject)
	s.tables.MustExec(`UPDATE users SET is_admin = true`)
	b := s.signedIn(t, "admin")
	for _, name := range []string{"аdmin", "Аdmin", "adrnin", "АDMIN"} {
		refused := s.ask(t, root, "POST", "/api/v1/users", object{"name": name, "password": goodPassword}).mustBe(t, 422)
		require.Contains(t, refused["message"], "admin", name)
		page := b.send(t, "/admin/users", url.Values{"name": {name}, "password": {goodPassword}})
		require.Equal(t, http.StatusUnprocessableEntity, page.StatusCode, name)
		require.Contains(t, page.page(t).Find("#name-error").Text(), "看起来不同", name)
	}
	require.ErrorIs(t, s.people.AddUser(t.Context(), people.User{ID: uuid.New(), Name: "аdmin"}), people.ErrNameTaken,
		"below them, too")
	s.ask(t, root, "POST", "/api/v1/users", object{"name": "admins", "password": goodPassword}).mustBe(t, 201)
}

// Every action is recorded with the person who did it, the address and the changes, but without secrets. Entries
// outlive the objects they describe.
func TestTheAuditTellsWhoDidWhat(t *testing.T) {
	t.Parallel()
	s := newGuardedSite(t)
	fake := agenttest.New(t, func(w http.ResponseWriter, _ agenttest.Call) { agenttest.Stream(w, "x") })
	root := s.token(t, people.Admin, db.DefaultProject, nil)
	s.user(t, "李雷", people.Editor, db.DefaultProject)
	b := s.signedIn(t, "李雷")
	id := s.draft(t, b)
	b.send(t, "/tasks/"+id+"/run", nil)
	s.awaitDone(t, id)
	require.Equal(t, http.StatusOK, b.get(t, api+"/"+id+"/export?format=csv").StatusCode)
	require.Equal(t, http.StatusOK, b.get(t, "/tasks/"+id+"/dataset").StatusCode)
	require.Equal(t, "/tasks?done=deleted", b.send(t, "/tasks/"+id+"/delete", nil).Header.Get("Location"))
	s.newBrowser(t).send(t, "/login", url.Values{"name": {"李雷"}, "password": {"c4naryguess"}})
	agent := s.made(t, root, "/api/v1/agents", object{
		"name": "客服", "protocol": "default", "url": fake.URL, "headers": object{"X-Key": "c4naryheader"},
	})
	s.ask(t, root, "PATCH", "/api/v1/agents/"+agent, object{"name": "客服二", "headers": object{"X-Key": "c4narynext"}}).
		mustBe(t, 200)
	s.ask(t, root, "POST", "/api/v1/agents/"+agent+"/test", object{"question": "hi"}).mustBe(t, 200)
	viewer := s.user(t, "看", people.Viewer, db.DefaultProject)
	s.ask(t, s.token(t, people.Admin, db.DefaultProject, &viewer.ID), "DELETE", "/api/v1/agents/"+agent,
		nil).mustBe(t, 403)

	entries := func(query string) (items []map[string]any) {
		for _, one := range s.ask(t, root, "GET", "/api/v1/audit?page_size=100&"+query, nil).mustBe(t, 200)["items"].([]any) {
			items = append(items, one.(map[string]any))
		}
		return items
	}
	var did []string
	for _, one := range entries("actor=" + url.QueryEscape("李雷")) {
		did = append(did, one["action"].(string))
	}
	require.Equal(t, []string{"sign-in.refused", "task.delete", "dataset.download", "task.export", "task.run",
		"task.create", "sign-in"}, did)
	of := entries("object=" + id)
	require.Len(t, of, 5, "creation, start, export, download, delete")
	for _, one := range of {
		require.Equal(t, "t", one["object_name"], one["action"])
		require.Equal(t, "默认", one["project_name"])
		require.Equal(t, "127.0.0.1", one["address"])
		require.NotEmpty(t, one["actor_id"])
		require.NotEmpty(t, one["request_id"])
	}
	changed := entries("action=agent.change")[0]
	require.Equal(t, "客服", changed["before"].(map[string]any)["name"])
	require.Equal(t, "客服二", changed["after"].(map[string]any)["name"])
	require.Equal(t, []any{"headers"}, changed["after"].(map[string]any)["replaced_secrets"])
	require.EqualValues(t, 403, entries("action=agent.remove")[0]["status"])
	require.Len(t, entries("action=agent"), 4)
	require.Empty(t, entries("from=2020-01-01&to=2020-12-31"))
	require.NotEmpty(t, entries("from="+time.Now().Add(-time.Hour).Format("2006-01-02")))
	s.ask(t, root, "GET", "/api/v1/audit?from=yesterday", nil).mustBe(t, 422)

	var all string
	require.NoError(t, s.tables.Get(&all, `SELECT string_agg(e::text, '') FROM audit_entries e`))
	for _, canary := range []string{"c4nary", root, goodPassword, b.session(t)} {
		require.NotContains(t, all, canary)
		require.NotContains(t, s.told.String(), canary)
	}
	found, err := people.NewAuditLog(s.store, s.worker.Sealer).Verify(t.Context())
	require.NoError(t, err)
	require.Positive(t, found.Entries)

	// The page of the audit has filters, verifies the chain and exports the entries.
	s.tables.MustExec(`UPDATE users SET is_admin = true WHERE name = '李雷'`)
	page := b.get(t, "/admin/audit?check=1&action=task.delete").page(t)
	require.Equal(t, 1, page.Find("table.audit tbody tr").Length())
	require.Contains(t, page.Find("table.audit tbody tr").Text(), "删除任务")
	require.Contains(t, page.Find(".note-line").Text(), "校验通过")
	export := b.get(t, "/admin/audit?format=csv&action=task")
	rows, err := csv.NewReader(strings.NewReader(strings.TrimPrefix(string(export.body), "\uFEFF"))).ReadAll()
	require.NoError(t, err)
	require.Len(t, rows, 5, "%v", rows)
	s.tables.MustExec(`UPDATE audit_chain SET last_hash = last_hash, seal = decode('00', 'hex')`)
	require.Contains(t, b.get(t, "/admin/audit?check=1").page(t).Find(".alert").Text(), "SECRET_KEY")
	s.tables.MustExec(
		`SET session_replication_role = replica; DELETE FROM audit_entries WHERE seq = 3; SET session_replication_role = origin`)
	require.Contains(t, b.get(t, "/admin/audit?check=1").page(t).Find(".alert").Text(), "第 3 条")
}

// A link shows one report, and nothing else, to anyone who has the link, until it expires or is revoked.
func TestAReportIsSharedByALink(t *testing.T) {
	t.Parallel()
	s := newGuardedSite(t)
	s.user(t, "李雷", people.Editor, db.DefaultProject)
	b := s.signedIn(t, "李雷")
	id := s.draft(t, b)
	require.Equal(t, http.StatusOK, b.get(t, "/tasks/"+id+"/shares").StatusCode)
	require.Equal(t, http.StatusConflict, b.send(t, "/tasks/"+id+"/shares", url.Values{"days": {"7"}}).StatusCode,
		"there is no report yet")
	b.send(t, "/tasks/"+id+"/run", nil)
	s.awaitDone(t, id)
	require.Equal(t, http.StatusUnprocessableEntity,
		b.send(t, "/tasks/"+id+"/shares", url.Values{"days": {"0"}}).StatusCode)
	made := b.send(t, "/tasks/"+id+"/shares", url.Values{"days": {"7"}})
	require.Equal(t, http.StatusCreated, made.StatusCode)
	address := made.page(t).Find("#new-share").Text()
	require.True(t, strings.HasPrefix(address, s.URL+"/shared/"), address)
	secret := strings.TrimPrefix(address, s.URL+"/shared/")
	require.NotContains(t, string(b.get(t, "/tasks/"+id+"/shares").body), secret, "shown once")

	manager := s.newBrowser(t)
	report := manager.get(t, "/shared/"+secret)
	require.Equal(t, http.StatusOK, report.StatusCode)
	require.Equal(t, 2, report.page(t).Find("article").Length())
	require.NotContains(t, string(report.body), "127.0.0.1", "where the agent is, is not a stranger's to know")
	require.NotContains(t, string(report.body), id, "nor the address of the task")
	require.Contains(t, string(b.get(t, "/tasks/"+id+"/results/print").body), "127.0.0.1")
	require.Contains(t, report.Header.Get("X-Robots-Tag"), "noindex")
	require.Equal(t, "no-referrer", report.Header.Get("Referrer-Policy"))
	require.Equal(t, "no-store", report.Header.Get("Cache-Control"))
	require.Empty(t, report.Header.Values("Set-Cookie"))
	for _, path := range []string{"/tasks/" + id, "/tasks/" + id + "/results/print", api + "/" + id,
		"/shared/" + secret + "/x", "/tasks"} {
		require.NotEqual(t, http.StatusOK, manager.get(t, path).StatusCode, path)
	}
	require.Equal(t, http.StatusNotFound, manager.get(t, "/shared/"+secret[:20]).StatusCode)
	require.NotContains(t, s.told.String(), secret, "not in the log")
	var stored int
	require.NoError(t, s.tables.Get(&stored, `SELECT count(*) FROM shares s WHERE s::text LIKE '%' || $1 || '%'`, secret))
	require.Zero(t, stored)
	for range 4 {
		require.Equal(t, http.StatusOK, manager.get(t, "/shared/"+secret).StatusCode)
	}
	openings := func() (told []string) {
		require.NoError(t, s.tables.Select(&told,
			`SELECT after FROM audit_entries WHERE action = 'share.open' AND object_name = 't'`))
		return told
	}
	require.Empty(t, openings(), "the hour is not over")
	s.tables.MustExec(`UPDATE audit_counts SET hour = hour - interval '1 hour'`)
	dbtest.Await(t, 20*time.Second, "the entry of the hour", func() bool { return len(openings()) > 0 })
	require.Len(t, openings(), 1, "one entry for a link and an hour")
	require.Contains(t, openings()[0], `"count":5,`)

	var share string
	require.NoError(t, s.tables.Get(&share, `SELECT id FROM shares`))
	require.Equal(t, http.StatusSeeOther, b.send(t, "/tasks/"+id+"/shares/"+share+"/revoke", nil).StatusCode)
	require.Equal(t, http.StatusNotFound, manager.get(t, "/shared/"+secret).StatusCode)
	token := s.token(t, people.Editor, db.DefaultProject, nil)
	again := s.ask(t, token, "POST", "/api/v1/shares", object{"task_id": id, "expires_in_days": 1}).mustBe(t, 201)
	path := strings.TrimPrefix(again["url"].(string), s.URL)
	require.Equal(t, http.StatusOK, manager.get(t, path).StatusCode)
	s.tables.MustExec(`UPDATE shares SET expires_at = now()`)
	require.Equal(t, http.StatusNotFound, manager.get(t, path).StatusCode)
	require.Len(t, s.ask(t, token, "GET", "/api/v1/shares?task_id="+id, nil).mustBe(t, 200)["items"], 2)
}

// A project is warned before its quotas are exhausted; once they are, new work is refused and running work continues.
func TestAProjectKeepsWithinItsQuotas(t *testing.T) {
	t.Parallel()
	s := newGuardedSite(t)
	release := make(chan struct{})
	fake := agenttest.New(t, func(w http.ResponseWriter, _ agenttest.Call) {
		<-release
		agenttest.Stream(w, "x")
	})
	root := s.token(t, people.Admin, db.DefaultProject, nil)
	place := "/api/v1/projects/" + db.DefaultProject.String()
	for field, wrong := range map[string]any{"calls_per_day": 0, "lanes": -1, "disk_bytes": "much", "uploads_per_day": 1.5,
		"cost_per_month": "0"} {
		s.ask(t, root, "PATCH", place, object{field: wrong}).mustBe(t, 422)
	}
	s.ask(t, root, "PATCH", place, object{"calls_per_day": 25, "lanes": 2}).mustBe(t, 200)
	create := func(status int) object {
		request := s.form(t, api, map[string]string{
			"task_name": "t", "agent_api_url": fake.URL, "concurrency": "4", "file@q.csv": questions,
		})
		request.Header.Set("Authorization", "Bearer "+root)
		return s.do(t, request).mustBe(t, status)
	}
	first := create(201)["task_id"].(string)
	dbtest.Await(t, time.Minute, "two calls", func() bool { return len(fake.Calls()) == 2 })
	dbtest.Hold(t, 2*time.Second, "no more lanes than the quota", func() bool { return len(fake.Calls()) == 2 })
	near := func() []any {
		return s.ask(t, root, "GET", place, nil).mustBe(t, 200)["used"].(map[string]any)["nearly_used_up"].([]any)
	}
	require.Empty(t, near(), "10 of 25")
	second := create(201)["task_id"].(string)
	require.Equal(t, []any{"calls"}, near(), "20 of 25")
	refused := create(429)
	require.Equal(t, "QUOTA_EXCEEDED", refused["code"])
	require.Contains(t, refused["message"], "20 + 10")
	used := s.ask(t, root, "GET", place, nil).mustBe(t, 200)["used"].(map[string]any)
	require.EqualValues(t, 20, used["calls_today"])
	require.EqualValues(t, 2, used["lanes"])
	close(release)
	s.awaitDone(t, first)
	s.awaitDone(t, second)
	require.Equal(t, "QUOTA_EXCEEDED", s.ask(t, root, "POST", api+"/"+first+"/extend",
		object{"runs_per_item": 10}).mustBe(t, 429)["code"])
	s.ask(t, root, "PATCH", place, object{"calls_per_day": nil}).mustBe(t, 200)
	s.ask(t, root, "POST", api+"/"+first+"/extend", object{"runs_per_item": 6}).mustBe(t, 202)
	s.awaitDone(t, first)

	taken := int(s.ask(t, root, "GET", place, nil).mustBe(t, 200)["used"].(map[string]any)["uploads_today"].(float64))
	s.ask(t, root, "PATCH", place, object{"uploads_per_day": taken + 1}).mustBe(t, 200)
	create(201)
	require.Contains(t, create(429)["message"], "上传")
	s.ask(t, root, "PATCH", place, object{"uploads_per_day": nil, "disk_bytes": 1000}).mustBe(t, 200)
	_, err := people.NewQuotas(s.store).Measure(t.Context())
	require.NoError(t, err)
	require.Contains(t, create(429)["message"], "存储")

	// Members are warned where they begin new work, before it is refused.
	s.user(t, "韩梅梅", people.Editor, db.DefaultProject)
	member := s.signedIn(t, "韩梅梅")
	warned := func() (said []string) {
		for _, path := range []string{"/", "/compare", "/projects/" + db.DefaultProject.String()} {
			said = append(said, strings.TrimSpace(member.get(t, path).page(t).Find(".near-quota").Text()))
		}
		return said
	}
	var bytes int64
	require.NoError(t, s.tables.Get(&bytes, `SELECT used_bytes FROM projects WHERE id = $1`, db.DefaultProject))
	s.ask(t, root, "PATCH", place, object{"disk_bytes": bytes * 100 / 85, "calls_per_day": nil}).mustBe(t, 200)
	for _, said := range warned() {
		require.Contains(t, said, "存储 8")
		require.NotContains(t, said, "、", "nothing else is near its end")
	}
	s.ask(t, root, "PATCH", place, object{"disk_bytes": bytes * 2}).mustBe(t, 200)
	require.Equal(t, []string{"", "", ""}, warned())
	s.ask(t, root, "PATCH", place, object{"disk_bytes": 1000}).mustBe(t, 200)

	// The page shows the quotas, and keeps invalid input.
	s.user(t, "李雷", people.Admin, db.DefaultProject)
	s.tables.MustExec(`UPDATE users SET is_admin = true`)
	b := s.signedIn(t, "李雷")
	page := b.get(t, "/projects/"+db.DefaultProject.String()).page(t)
	require.Contains(t, page.Find(".meters").Text(), "今日调用")
	require.NotZero(t, page.Find(".meter .is-full").Length(), "what has run out is seen")
	wrong := b.send(t, "/projects/"+db.DefaultProject.String(), url.Values{"name": {"默认"}, "lanes": {"many"}})
	require.Equal(t, http.StatusUnprocessableEntity, wrong.StatusCode)
	require.Equal(t, "many", wrong.page(t).Find("[name=lanes]").AttrOr("value", ""))
}

// Reviews and signatures carry the account's name, even if a request states a different one.
func TestReviewsAreSignedByTheAccount(t *testing.T) {
	t.Parallel()
	s := newGuardedSite(t)
	s.user(t, "李雷", people.Editor, db.DefaultProject)
	han := s.user(t, "韩梅梅", people.Reviewer, db.DefaultProject)
	b := s.signedIn(t, "李雷")
	id := s.draft(t, b)
	b.send(t, "/tasks/"+id+"/run", nil)
	s.awaitDone(t, id)
	token := s.token(t, people.Reviewer, db.DefaultProject, &han.ID)
	review := s.ask(t, token, "PUT", api+"/"+id+"/items/q1/review", object{"reviewer": "李雷", "verdict": "PASS"}).mustBe(t,
		200)
	require.Equal(t, "韩梅梅", review["reviewer"])
	s.ask(t, token, "PUT", api+"/"+id+"/items/q2/review", object{"verdict": "FAIL"}).mustBe(t, 200)
	signed := s.ask(t, token, "POST", api+"/"+id+"/sign-off", object{"reviewer": "李雷"}).mustBe(t, 201)
	require.Equal(t, "韩梅梅", signed["reviewer"])
	task := s.ask(t, token, "GET", api+"/"+id, nil).mustBe(t, 200)
	require.Equal(t, "李雷", task["created_by"])
	launches := s.ask(t, token, "GET", api+"/"+id+"/launches", nil).mustBe(t, 200)["items"].([]any)
	require.Equal(t, "李雷", launches[0].(map[string]any)["requested_by"])
	page := b.get(t, "/tasks/"+id+"/results").page(t)
	require.Equal(t, "李雷", page.Find("body").AttrOr("data-account", ""))
	viewer := s.user(t, "看", people.Viewer, db.DefaultProject)
	require.NotNil(t, viewer)
	reader := s.signedIn(t, "看")
	for _, path := range []string{"/tasks", "/tasks/" + id, "/tasks/" + id + "/results", "/tasks/" + id + "/review",
		"/tasks/" + id + "/settings", "/tasks/" + id + "/gallery", "/library/agents", "/library/channels"} {
		shown := reader.get(t, path)
		require.Equal(t, http.StatusOK, shown.StatusCode, path)
		shown.page(t).Find("main form[method=post]").Each(func(_ int, form *goquery.Selection) {
			if action := form.AttrOr("action", "?"); action != "/tasks/columns" { // changes only what the browser shows
				t.Errorf("%s offers %s to a viewer", path, action)
			}
		})
	}
}

// Only administrators can replace stored secrets, by API and page alike; editors can change all other fields of an
// entry.
func TestStoredSecretsAreReplacedByAdministrators(t *testing.T) {
	t.Parallel()
	s := newGuardedSite(t)
	lilei := s.user(t, "李雷", people.Editor, db.DefaultProject)
	editor, root := s.token(t, people.Admin, db.DefaultProject, &lilei.ID),
		s.token(t, people.Admin, db.DefaultProject, nil)
	b := s.signedIn(t, "李雷")
	v1 := "/api/v1/"
	agent := s.made(t, editor, v1+"agents", object{
		"name": "a", "protocol": "default", "url": s.URL, "headers": object{"X-Key": "one"},
	})
	provider := s.made(t, editor, v1+"providers",
		object{"name": "p", "protocol": "openai", "base_url": s.URL, "api_key": "one"})
	for path, change := range map[string]object{
		"agents/" + agent:       {"headers": object{"X-Key": "two"}},
		"providers/" + provider: {"api_key": "two"},
	} {
		refused := s.ask(t, editor, http.MethodPatch, v1+path, change).mustBe(t, 403)
		require.Contains(t, refused["message"], "管理员")
		s.ask(t, editor, http.MethodPatch, v1+path, object{"name": "renamed"}).mustBe(t, 200)
		s.ask(t, root, http.MethodPatch, v1+path, change).mustBe(t, 200)
	}
	form := url.Values{"name": {"again"}, "protocol": {"default"}, "url": {s.URL}, "headers": {`{"X-Key": "three"}`}}
	refused := b.send(t, "/library/agents/"+agent, form)
	require.Equal(t, http.StatusForbidden, refused.StatusCode)
	require.Contains(t, refused.page(t).Find(".alert").Text(), "管理员")
	require.Equal(t, "again", refused.page(t).Find("[name=name]").AttrOr("value", ""), "nothing typed is lost")
	form.Del("headers")
	require.Equal(t, http.StatusSeeOther, b.send(t, "/library/agents/"+agent, form).StatusCode)
}

// An entry that cannot be recorded immediately is recorded as soon as possible: no action is left out.
func TestEntriesOfTheAuditWait(t *testing.T) {
	t.Parallel()
	s := newGuardedSite(t)
	root := s.token(t, people.Admin, db.DefaultProject, nil)
	tx, err := s.tables.Beginx()
	require.NoError(t, err)
	tx.MustExec(`SELECT FROM audit_chain FOR UPDATE`)
	s.ask(t, root, "POST", "/api/v1/prompts", object{"name": "while it is locked", "user": "x"}).mustBe(t, 201)
	require.Contains(t, s.told.String(), "audit entry not stored, will retry")
	var begun []string
	require.NoError(t, s.tables.Select(&begun, `SELECT entry FROM audit_intents`))
	require.Len(t, begun, 1, "until then the database has what was begun")
	require.Contains(t, begun[0], `"prompt.create"`)
	require.NoError(t, tx.Rollback())
	dbtest.Await(t, 20*time.Second, "the entry", func() bool {
		var count int
		require.NoError(t, s.tables.Get(&count,
			`SELECT count(*) FROM audit_entries WHERE action = 'prompt.create' AND object_name = 'while it is locked'`))
		return count == 1
	})
	require.NoError(t, s.tables.Select(&begun, `SELECT entry FROM audit_intents`))
	require.Empty(t, begun)

	// Requests without effect get no entry and leave nothing behind.
	s.ask(t, root, "POST", "/api/v1/prompts", object{"name": "", "user": "x"}).mustBe(t, 422)
	require.NoError(t, s.tables.Select(&begun,
		`SELECT action FROM audit_entries WHERE status = 422 UNION SELECT entry FROM audit_intents`))
	require.Empty(t, begun)
}

// No action happens without its entry: if the audit cannot store the intent, the action is refused.
func TestNothingIsDoneThatCannotBeRecorded(t *testing.T) {
	t.Parallel()
	s := newGuardedSite(t)
	root := s.token(t, people.Admin, db.DefaultProject, nil)
	s.user(t, "李雷", people.Editor, db.DefaultProject)
	b := s.newBrowser(t)
	s.tables.MustExec(`ALTER TABLE audit_intents RENAME TO away`)
	require.GreaterOrEqual(t, s.ask(t, root, "POST", "/api/v1/prompts",
		object{"name": "unrecorded", "user": "x"}).StatusCode, 500)
	require.GreaterOrEqual(t, b.send(t, "/login", url.Values{"name": {"李雷"}, "password": {goodPassword}}).StatusCode, 500)
	var made int
	require.NoError(t, s.tables.Get(&made, `SELECT (SELECT count(*) FROM prompts) + (SELECT count(*) FROM sessions)`))
	require.Zero(t, made)
	s.tables.MustExec(`ALTER TABLE away RENAME TO audit_intents`)
	s.ask(t, root, "POST", "/api/v1/prompts", object{"name": "recorded", "user": "x"}).mustBe(t, 201)
}
