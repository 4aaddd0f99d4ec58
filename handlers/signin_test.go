package handlers_test

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"wending/db"
	"wending/db/dbtest"
	"wending/db/people"
	"wending/handlers"
	"wending/handlers/access"
	"wending/jobs/agent/agenttest"
)

// browser shows the pages of a site: it keeps cookies, and names the page from which a request comes.
type browser struct {
	*guarded
	client *http.Client
}

func (s *guarded) newBrowser(t testing.TB) *browser {
	t.Helper()
	jar, err := cookiejar.New(nil)
	require.NoError(t, err)
	return &browser{s, &http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}}
}

// signedIn returns a browser in which a test's account has signed in.
func (s *guarded) signedIn(t testing.TB, name string) *browser {
	t.Helper()
	b := s.newBrowser(t)
	answer := b.send(t, "/login", url.Values{"name": {name}, "password": {goodPassword}})
	require.Equal(t, http.StatusSeeOther, answer.StatusCode, "%s", answer.body)
	return b
}

func (b *browser) do(t testing.TB, request *http.Request) response {
	t.Helper()
	answer, err := b.client.Do(request)
	require.NoError(t, err)
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	require.NoError(t, err)
	return response{answer, body}
}

func (b *browser) get(t testing.TB, path string) response {
	t.Helper()
	request, err := http.NewRequest(http.MethodGet, b.URL+path, nil)
	require.NoError(t, err)
	return b.do(t, request)
}

// send sends a form from a page of the site.
func (b *browser) send(t testing.TB, path string, form url.Values) response {
	t.Helper()
	request, err := http.NewRequest(http.MethodPost, b.URL+path, strings.NewReader(form.Encode()))
	require.NoError(t, err)
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	request.Header.Set("Origin", b.URL)
	return b.do(t, request)
}

// session returns the secret of the browser's session; empty if it has none.
func (b *browser) session(t testing.TB) string {
	t.Helper()
	site, err := url.Parse(b.URL)
	require.NoError(t, err)
	for _, cookie := range b.client.Jar.Cookies(site) {
		if cookie.Name == "wending" {
			return cookie.Value
		}
	}
	return ""
}

func (b *browser) setCookie(t testing.TB, name, value string) {
	t.Helper()
	site, err := url.Parse(b.URL)
	require.NoError(t, err)
	b.client.Jar.SetCookies(site, []*http.Cookie{{Name: name, Value: value, Path: "/"}})
}

// The first administrator is created with a link that works once. After that, people sign in, return to the page that
// they requested, and sign out.
func TestSigningInAndOut(t *testing.T) {
	t.Parallel()
	s := newGuardedSite(t)
	link, err := access.SetupLink(t.Context(), s.people, s.URL)
	require.NoError(t, err)
	setup := strings.TrimPrefix(link, s.URL)
	b := s.newBrowser(t)
	require.Equal(t, http.StatusNotFound, b.get(t, "/setup?key=wrong").StatusCode)
	page := b.get(t, setup)
	require.Equal(t, http.StatusOK, page.StatusCode)
	require.Equal(t, "no-referrer", page.Header.Get("Referrer-Policy"))
	key := page.page(t).Find("[name=key]").AttrOr("value", "")
	typed := url.Values{"key": {key}, "name": {"管理员"}, "password": {"password123"}, "again": {"password12"}}
	refused := b.send(t, "/setup", typed)
	require.Equal(t, http.StatusUnprocessableEntity, refused.StatusCode)
	require.Equal(t, "管理员", refused.page(t).Find("[name=name]").AttrOr("value", ""))
	require.Contains(t, refused.page(t).Find("#password-error").Text(), "不易猜到")
	require.Contains(t, refused.page(t).Find("#again-error").Text(), "相同")
	typed.Set("password", goodPassword)
	typed.Set("again", goodPassword)
	require.Equal(t, "/tasks", b.send(t, "/setup", typed).Header.Get("Location"))
	require.Contains(t, b.get(t, "/tasks").page(t).Find(".who summary").Text(), "管理员")
	require.Equal(t, http.StatusNotFound, s.newBrowser(t).send(t, "/setup", typed).StatusCode, "once")
	link, err = access.SetupLink(t.Context(), s.people, s.URL)
	require.NoError(t, err)
	require.Empty(t, link)

	stranger := s.newBrowser(t)
	away := stranger.get(t, "/tasks?status=FAILED&page=1")
	require.Equal(t, "/login?next=%2Ftasks%3Fstatus%3DFAILED%26page%3D1", away.Header.Get("Location"))
	form := stranger.get(t, away.Header.Get("Location")).page(t)
	require.Equal(t, "/tasks?status=FAILED&page=1", form.Find("[name=next]").AttrOr("value", ""))
	require.Zero(t, form.Find("header nav a").Length(), "there is nowhere to go yet")
	for _, evil := range []string{"https://evil.example/", "//evil.example", `/\evil.example`, "/\tevil"} {
		require.Equal(t, "/tasks", stranger.get(t, "/login?next="+url.QueryEscape(evil)).page(t).Find("[name=next]").AttrOr(
			"value", ""), evil)
	}
	wrong := stranger.send(t, "/login", url.Values{"name": {"管理员"}, "password": {"wrong"}, "next": {"/workers"}})
	require.Equal(t, http.StatusUnauthorized, wrong.StatusCode)
	require.Equal(t, "/workers", wrong.page(t).Find("[name=next]").AttrOr("value", ""))
	unknown := stranger.send(t, "/login", url.Values{"name": {"没有这个人"}, "password": {"wrong"}, "next": {"/workers"}})
	require.Equal(t, wrong.page(t).Find(".alert").Text(), unknown.page(t).Find(".alert").Text(),
		"it does not say which is wrong")
	in := stranger.send(t, "/login", url.Values{"name": {"管理员"}, "password": {goodPassword}, "next": {"/workers"}})
	require.Equal(t, "/workers", in.Header.Get("Location"))
	for _, cookie := range in.Cookies() {
		require.True(t, cookie.HttpOnly, cookie.Name)
		require.Equal(t, http.SameSiteLaxMode, cookie.SameSite, cookie.Name)
	}
	require.Equal(t, "/tasks", stranger.get(t, "/login").Header.Get("Location"), "nobody signs in twice")
	account := stranger.get(t, "/account").page(t)
	require.Equal(t, 2, account.Find("tbody tr").Length(), "both browsers")
	require.Equal(t, http.StatusOK, stranger.get(t, "/logout").StatusCode)
	require.Equal(t, http.StatusOK, stranger.get(t, "/tasks").StatusCode, "a link does not sign out")
	session := stranger.session(t)
	require.Equal(t, "/login", stranger.send(t, "/logout", nil).Header.Get("Location"))
	require.Empty(t, stranger.session(t))
	stranger.setCookie(t, "wending", session)
	require.Equal(t, http.StatusSeeOther, stranger.get(t, "/tasks").StatusCode,
		"the session has ended, not only the cookie")

	// Signing out everywhere ends all sessions.
	again := s.signedIn(t, "管理员")
	require.Equal(t, http.StatusOK, b.get(t, "/tasks").StatusCode)
	require.Equal(t, "/login", again.send(t, "/account/sessions/end", nil).Header.Get("Location"))
	require.Equal(t, http.StatusSeeOther, b.get(t, "/tasks").StatusCode)
	require.NotContains(t, s.told.String(), goodPassword)
	require.NotContains(t, s.told.String(), session)
}

// A session planted in a browser by somebody else does not become the session of the person who signs in there. A
// cookie is not enough without proof that a page of this site makes the request, and tokens are never read from a
// cookie or an address.
func TestCookiesNeedProof(t *testing.T) {
	t.Parallel()
	s := newGuardedSite(t)
	s.user(t, "李雷", people.Editor, db.DefaultProject)
	attacker := s.signedIn(t, "李雷")
	planted := attacker.session(t)
	s.user(t, "韩梅梅", people.Editor, db.DefaultProject)
	b := s.newBrowser(t)
	b.setCookie(t, "wending", planted)
	require.Equal(t, http.StatusSeeOther, b.send(t, "/login",
		url.Values{"name": {"韩梅梅"}, "password": {goodPassword}}).StatusCode)
	require.NotEqual(t, planted, b.session(t))
	require.Contains(t, b.get(t, "/account").page(t).Find("h1").Text(), "韩梅梅")
	require.Equal(t, http.StatusSeeOther, attacker.get(t, "/account").StatusCode, "the planted session has ended")

	id := s.draft(t, b)
	for name, header := range map[string]http.Header{
		"nothing":         {},
		"another site":    {"Origin": {"https://evil.example"}},
		"null":            {"Origin": {"null"}},
		"cross-site":      {"Sec-Fetch-Site": {"cross-site"}},
		"same-site":       {"Sec-Fetch-Site": {"same-site"}, "Origin": {"https://other.example"}},
		"none":            {"Sec-Fetch-Site": {"none"}},
		"its own address": {"Referer": {s.URL + "/tasks"}},
	} {
		for _, path := range []string{"/tasks/" + id + "/delete", "/account/sessions/end", "/logout"} {
			request, err := http.NewRequest(http.MethodPost, s.URL+path, nil)
			require.NoError(t, err)
			for header, values := range header {
				request.Header[header] = values
			}
			require.Equal(t, http.StatusForbidden, b.do(t, request).StatusCode, "%s %s", name, path)
		}
		request, err := http.NewRequest(http.MethodDelete, s.URL+api+"/"+id, nil)
		require.NoError(t, err)
		request.Header = header.Clone()
		require.Equal(t, http.StatusForbidden, b.do(t, request).StatusCode, name)
	}
	embedded, err := http.NewRequest(http.MethodGet, s.URL+api+"/"+id, nil)
	require.NoError(t, err)
	embedded.Header.Set("Sec-Fetch-Site", "cross-site")
	embedded.Header.Set("Sec-Fetch-Mode", "no-cors")
	require.Equal(t, http.StatusForbidden, b.do(t, embedded).StatusCode)
	require.Equal(t, http.StatusOK, b.get(t, "/tasks/"+id).StatusCode, "nothing of it happened")

	token := s.token(t, people.Admin, db.DefaultProject, nil)
	require.Equal(t, http.StatusUnauthorized,
		s.ask(t, "", http.MethodGet, api+"?token="+token+"&access_token="+token, nil).StatusCode)
	other := s.newBrowser(t)
	for _, name := range []string{"wending", "token", "Authorization", "__Host-wending"} {
		other.setCookie(t, name, token)
	}
	require.Equal(t, http.StatusUnauthorized, other.get(t, api).StatusCode)
	require.Equal(t, http.StatusOK, s.ask(t, token, http.MethodGet, api, nil).StatusCode)
}

// draft creates a draft in a browser and returns its id.
func (s *guarded) draft(t testing.TB, b *browser) string {
	t.Helper()
	fake := agenttest.New(t, func(w http.ResponseWriter, _ agenttest.Call) { agenttest.Stream(w, "x") })
	request := s.form(t, api, map[string]string{
		"task_name": "t", "agent_api_url": fake.URL, "start": "false", "file@q.csv": questions,
	})
	request.Header.Set("Origin", s.URL)
	answer := b.do(t, request)
	require.Equal(t, http.StatusCreated, answer.StatusCode, "%s", answer.body)
	var created struct {
		TaskID string `json:"task_id"`
	}
	answer.into(t, &created)
	return created.TaskID
}

// Guessing is stopped without affecting the account's owner elsewhere, or in a browser in which the account has signed
// in before.
func TestGuessingIsStoppedForTheGuesserAlone(t *testing.T) {
	t.Parallel()
	s := &guarded{site: newSiteAt(t, dbtest.URL(t), 0,
		handlers.Access{HasAccounts: true, Trusted: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})}
	s.people = people.New(s.store)
	s.user(t, "李雷", people.Editor, db.DefaultProject)
	from := func(b *browser, address, name, password string) int {
		form := url.Values{"name": {name}, "password": {password}}
		request, err := http.NewRequest(http.MethodPost, s.URL+"/login", strings.NewReader(form.Encode()))
		require.NoError(t, err)
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		request.Header.Set("Origin", s.URL)
		request.Header.Set("X-Forwarded-For", address)
		return b.do(t, request).StatusCode
	}
	known := s.newBrowser(t)
	require.Equal(t, http.StatusSeeOther, from(known, "10.0.0.5", "李雷", goodPassword))
	guesser := s.newBrowser(t)
	for range 5 {
		require.Equal(t, http.StatusUnauthorized, from(guesser, "10.0.0.5", "李雷", "guess"))
	}
	require.Equal(t, http.StatusTooManyRequests, from(guesser, "10.0.0.5", "李雷", goodPassword), "the right password, too")
	require.Equal(t, http.StatusTooManyRequests, from(s.newBrowser(t), "10.0.0.5", "李雷", goodPassword))
	require.Equal(t, http.StatusSeeOther, from(s.newBrowser(t), "10.0.0.6", "李雷", goodPassword), "elsewhere")
	require.Equal(t, http.StatusSeeOther, from(known, "10.0.0.5", "李雷", goodPassword),
		"from the same address, at a browser that the account knows")
	for range 49 { // counted directly, because real attempts are slow by design
		_, err := s.people.Attempt(t.Context(), "address 10.0.0.7", 50)
		require.NoError(t, err)
	}
	require.Equal(t, http.StatusUnauthorized, from(guesser, "10.0.0.7", "nobody", "guess"))
	require.Equal(t, http.StatusTooManyRequests, from(guesser, "10.0.0.7", "李雷", "guess"),
		"many accounts from one address")

	// An account is also protected against guesses from many addresses with few guesses each; it can still sign in with
	// browsers that it has used before.
	s.user(t, "韩梅梅", people.Editor, db.DefaultProject)
	friend := s.newBrowser(t)
	require.Equal(t, http.StatusSeeOther, from(friend, "10.1.0.0", "韩梅梅", goodPassword))
	for n := range 20 {
		name := []string{"韩梅梅", " 韩梅梅"}[n%2]
		require.Equal(t, http.StatusUnauthorized, from(s.newBrowser(t), "10.1.0."+strconv.Itoa(n+1), name, "guess"), n)
	}
	require.Equal(t, http.StatusTooManyRequests, from(s.newBrowser(t), "10.1.0.100", "韩梅梅", goodPassword))
	require.Equal(t, http.StatusSeeOther, from(friend, "10.1.0.100", "韩梅梅", goodPassword))
	require.Equal(t, http.StatusSeeOther, from(s.newBrowser(t), "10.1.0.100", "李雷", goodPassword),
		"others' accounts are as before")

	// The recorded address is the one that the trusted proxy reports, not one that a client adds to the header.
	var told []string
	require.NoError(t, s.tables.Select(&told,
		`SELECT DISTINCT address FROM audit_entries WHERE action = 'sign-in' ORDER BY address`))
	require.Equal(t, []string{"10.0.0.5", "10.0.0.6", "10.1.0.0", "10.1.0.100"}, told)
	require.Equal(t, http.StatusTooManyRequests, from(guesser, "1.2.3.4, 10.0.0.7", "李雷", "guess"))
}

// Sessions end when they are not used, and after a week at the latest, by the database's clock.
func TestSessionsEnd(t *testing.T) {
	t.Parallel()
	s := newGuardedSite(t)
	user := s.user(t, "李雷", people.Editor, db.DefaultProject)
	for what, age := range map[string]string{
		"unused":   `UPDATE sessions SET seen_at = now() - interval '12 h 1 min'`,
		"old":      `UPDATE sessions SET created_at = now() - interval '7 d 1 min'`,
		"disabled": `UPDATE users SET disabled_at = now()`,
	} {
		b := s.signedIn(t, "李雷")
		require.Equal(t, http.StatusOK, b.get(t, "/tasks").StatusCode, what)
		s.tables.MustExec(age)
		require.Equal(t, http.StatusSeeOther, b.get(t, "/tasks").StatusCode, what)
		s.tables.MustExec(`UPDATE users SET disabled_at = NULL`)
	}
	b := s.signedIn(t, "李雷")
	s.tables.MustExec(`UPDATE sessions SET seen_at = now() - interval '11 h'`)
	require.Equal(t, http.StatusOK, b.get(t, "/tasks").StatusCode)
	var isFresh bool
	require.NoError(t, s.tables.Get(&isFresh, `SELECT max(seen_at) > now() - interval '1 min' FROM sessions`))
	require.True(t, isFresh, "a session that is used goes on")

	// A changed password ends the other sessions.
	elsewhere := s.signedIn(t, "李雷")
	changed := b.send(t, "/account/password", url.Values{"current": {"wrong"}, "password": {"a much better one"}})
	require.Equal(t, http.StatusUnprocessableEntity, changed.StatusCode)
	changed = b.send(t, "/account/password", url.Values{"current": {goodPassword}, "password": {"a much better one"}})
	require.Equal(t, "/account?done=saved", changed.Header.Get("Location"))
	require.Equal(t, http.StatusOK, b.get(t, "/tasks").StatusCode)
	require.Equal(t, http.StatusSeeOther, elsewhere.get(t, "/tasks").StatusCode)
	require.NoError(t, s.people.ChangeUser(t.Context(), user.ID, people.Change{IsDisabled: ptr(true)}))
	require.Equal(t, http.StatusSeeOther, b.get(t, "/tasks").StatusCode)
}

// Only people who have just signed in can create tokens: someone who finds a browser open cannot, and typed values
// survive the sign-in.
func TestTokensAskForAFreshSignIn(t *testing.T) {
	t.Parallel()
	s := newGuardedSite(t)
	s.user(t, "李雷", people.Editor, db.DefaultProject)
	b := s.signedIn(t, "李雷")
	place := "/projects/" + db.DefaultProject.String()
	typed := url.Values{"name": {"夜间 pipeline"}, "role": {"reviewer"}, "days": {"30"}}
	s.tables.MustExec(`UPDATE sessions SET created_at = now() - interval '16 min'`)
	request, err := http.NewRequest(http.MethodPost, s.URL+"/api/v1/tokens", strings.NewReader(`{"name": "x"}`))
	require.NoError(t, err)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Origin", s.URL)
	require.Contains(t, b.do(t, request).mustBe(t, 403)["message"], "重新登录")
	refused := b.send(t, place+"/tokens", typed)
	require.Equal(t, http.StatusForbidden, refused.StatusCode)
	require.Equal(t, "夜间 pipeline", refused.page(t).Find("form[action$='/tokens'] [name=name]").AttrOr("value", ""))
	again := refused.page(t).Find("[role=alert] a.btn").AttrOr("href", "")
	form := b.get(t, again)
	require.Equal(t, http.StatusOK, form.StatusCode, "somebody who is signed in can prove it again")
	require.Equal(t, "李雷", form.page(t).Find("[name=name]").AttrOr("value", ""))
	next := form.page(t).Find("[name=next]").AttrOr("value", "")
	back := b.send(t, "/login", url.Values{"name": {"李雷"}, "password": {goodPassword}, "next": {next}}).
		Header.Get("Location")
	page := b.get(t, back).page(t)
	require.Equal(t, "夜间 pipeline", page.Find("form[action$='/tokens'] [name=name]").AttrOr("value", ""))
	require.Equal(t, "reviewer", page.Find("form[action$='/tokens'] [name=role] [selected]").AttrOr("value", ""))
	require.Equal(t, "30", page.Find("form[action$='/tokens'] [name=days] [selected]").AttrOr("value", ""))
	made := b.send(t, place+"/tokens", typed)
	require.Equal(t, http.StatusCreated, made.StatusCode)
	s.ask(t, made.page(t).Find("#new-token").Text(), http.MethodGet, api, nil).mustBe(t, 200)
}

// Only an administrator who has just signed in can create and change accounts: someone who finds the browser open can
// neither promote an account to administrator nor set a password. The values typed for a new account survive the
// sign-in, except the password.
func TestAccountsAskForAFreshSignIn(t *testing.T) {
	t.Parallel()
	s := newGuardedSite(t)
	admin := s.user(t, "李雷", people.Admin, db.DefaultProject)
	other := s.user(t, "韩梅梅", people.Viewer, db.DefaultProject)
	require.NoError(t, s.people.ChangeUser(t.Context(), admin.ID, people.Change{IsAdmin: ptr(true)}))
	b := s.signedIn(t, "李雷")
	s.tables.MustExec(`UPDATE sessions SET created_at = now() - interval '16 min'`)
	typed := url.Values{"name": {"王芳"}, "password": {goodPassword}, "role": {"reviewer"}, "is_admin": {"true"}}
	place := "/admin/users/" + other.ID.String()
	for path, form := range map[string]url.Values{
		"/admin/users": typed,
		place:          {"is_admin": {"true"}},
		place + "?":    {"password": {"a much better one"}},
	} {
		refused := b.send(t, path, form)
		require.Equal(t, http.StatusForbidden, refused.StatusCode, path)
		require.NotEmpty(t, refused.page(t).Find("[role=alert] a.btn").AttrOr("href", ""), path)
		if password := form.Get("password"); password != "" {
			require.NotContains(t, string(refused.body), password, path)
		}
	}
	var users int
	require.NoError(t, s.tables.Get(&users, `SELECT count(*) FROM users`))
	require.Equal(t, 2, users)
	changed, err := s.people.User(t.Context(), other.ID)
	require.NoError(t, err)
	require.False(t, changed.IsAdmin)

	again := b.send(t, "/admin/users", typed).page(t).Find("[role=alert] a.btn").AttrOr("href", "")
	next := b.get(t, again).page(t).Find("[name=next]").AttrOr("value", "")
	require.NotContains(t, next, url.QueryEscape(goodPassword))
	back := b.send(t, "/login", url.Values{"name": {"李雷"}, "password": {goodPassword}, "next": {next}}).
		Header.Get("Location")
	page := b.get(t, back).page(t)
	require.Equal(t, "王芳", page.Find("details[open] [name=name]").AttrOr("value", ""))
	require.Equal(t, "reviewer", page.Find("[name=role] [selected]").AttrOr("value", ""))
	require.Equal(t, http.StatusSeeOther, b.send(t, "/admin/users", typed).StatusCode)
	require.Equal(t, http.StatusSeeOther, b.send(t, place, url.Values{"is_admin": {"true"}}).StatusCode)
}

// Setting a new password, and signing out everywhere, revoke all of the account's tokens except those that their
// owner ticks.
func TestTokensEndWithThePassword(t *testing.T) {
	t.Parallel()
	s := newGuardedSite(t)
	user := s.user(t, "李雷", people.Editor, db.DefaultProject)
	other := s.token(t, people.Viewer, db.DefaultProject, ptr(s.user(t, "韩梅梅", people.Editor, db.DefaultProject).ID))
	status := func(token string) int { return s.ask(t, token, http.MethodGet, api, nil).StatusCode }
	for what, end := range map[string]func(b *browser, form url.Values) int{
		"a new password": func(b *browser, form url.Values) int {
			form["current"], form["password"] = []string{goodPassword}, []string{"a much better one"}
			return b.send(t, "/account/password", form).StatusCode
		},
		"everywhere": func(b *browser, form url.Values) int { return b.send(t, "/account/sessions/end", form).StatusCode },
	} {
		s.tables.MustExec(`UPDATE users SET password_hash = $1`, *user.PasswordHash)
		b := s.signedIn(t, "李雷")
		lost, kept := s.token(t, people.Viewer, db.DefaultProject, &user.ID),
			s.token(t, people.Editor, db.DefaultProject, &user.ID)
		tick := b.get(t, "/account").page(t).Find("form[action='/account/password'] label:contains('"+kept[len(kept)-4:]+
			"') input").AttrOr("name", "")
		require.NotEmpty(t, tick, what)
		require.Equal(t, http.StatusOK, status(lost), what)
		require.Equal(t, http.StatusSeeOther, end(b, url.Values{tick: {"true"}}), what)
		require.Equal(t, http.StatusUnauthorized, status(lost), what)
		require.Equal(t, http.StatusOK, status(kept), what)
	}
	root := s.token(t, people.Admin, db.DefaultProject, nil)
	last := s.token(t, people.Viewer, db.DefaultProject, &user.ID)
	s.ask(t, root, http.MethodPatch, "/api/v1/users/"+user.ID.String(), object{"password": "given by somebody else"}).
		mustBe(t, 200)
	require.Equal(t, http.StatusUnauthorized, status(last), "a password that an administrator sets")
	require.Equal(t, http.StatusOK, status(other), "others keep theirs")
	require.Equal(t, http.StatusOK, status(root))
}

// An administrator's token is limited to its project; a token with the reach of the installation covers everything.
func TestTokensReachWhatTheySay(t *testing.T) {
	t.Parallel()
	s := newGuardedSite(t)
	law := s.project(t, "法务")
	s.user(t, "李雷", people.Admin, db.DefaultProject)
	s.tables.MustExec(`UPDATE users SET is_admin = true`)
	b := s.signedIn(t, "李雷")
	made := b.send(t, "/projects/"+law.String()+"/tokens", url.Values{"name": {"of law"}, "role": {"admin"}})
	require.Equal(t, http.StatusCreated, made.StatusCode, "%s", made.body)
	add := func(reach people.Reach) string {
		value, err := s.people.AddToken(t.Context(),
			people.Token{ID: uuid.New(), Name: string(reach), ProjectID: law, Role: people.Admin, Reach: reach}, 0)
		require.NoError(t, err)
		return value
	}
	prompt := s.made(t, s.token(t, people.Admin, db.DefaultProject, nil), "/api/v1/prompts",
		object{"name": "elsewhere", "user": "x"})
	for name, test := range map[string]struct {
		token               string
		accounts, elsewhere int
	}{
		"made on a page":      {made.page(t).Find("#new-token").Text(), 403, 404},
		"of a project":        {add(people.ReachProject), 403, 404},
		"of an older version": {add(people.ReachAccounts), 200, 404},
		"of the installation": {add(people.ReachInstallation), 200, 200},
	} {
		for _, path := range []string{"/api/v1/users", "/api/v1/audit"} {
			require.Equal(t, test.accounts, s.ask(t, test.token, http.MethodGet, path, nil).StatusCode, "%s %s", name, path)
		}
		require.Equal(t, test.elsewhere, s.ask(t, test.token, http.MethodGet, "/api/v1/prompts/"+prompt, nil).StatusCode,
			name)
		mine := s.ask(t, test.token, http.MethodPost, "/api/v1/prompts", object{"name": name, "user": "x"}).mustBe(t, 201)
		require.Equal(t, http.StatusOK, s.ask(t, test.token, http.MethodGet,
			"/api/v1/prompts/"+mine["id"].(string)+"?project="+law.String(), nil).StatusCode, "its own project comes first")
	}
}

// A user who signs in with a password that another person chose can only choose a new one, or sign out.
func TestAFirstPasswordIsChanged(t *testing.T) {
	t.Parallel()
	s := newGuardedSite(t)
	root := s.token(t, people.Admin, db.DefaultProject, nil)
	made := s.ask(t, root, http.MethodPost, "/api/v1/users", object{
		"name": "李雷", "password": goodPassword, "role": "editor", "must_change_password": true,
	}).mustBe(t, 201)
	require.Equal(t, true, made["must_change_password"])
	plain := s.ask(t, root, http.MethodPost, "/api/v1/users", object{"name": "pipeline", "password": goodPassword}).
		mustBe(t, 201)
	require.Equal(t, false, plain["must_change_password"])
	s.ask(t, root, http.MethodPost, "/api/v1/users", object{
		"name": "x", "password": goodPassword, "must_change_password": "soon",
	}).mustBe(t, 422)

	b := s.newBrowser(t)
	in := b.send(t, "/login", url.Values{"name": {"李雷"}, "password": {goodPassword}, "next": {"/workers?x=1"}})
	require.Equal(t, "/workers?x=1", in.Header.Get("Location"))
	away := b.get(t, "/workers?x=1").Header.Get("Location")
	require.Equal(t, "/account/password?next=%2Fworkers%3Fx%3D1", away)
	for _, path := range []string{"/tasks", "/account", "/account/passkeys", "/projects", "/nowhere",
		"/api/openapi.json"} {
		require.NotEqual(t, http.StatusOK, b.get(t, path).StatusCode, path)
	}
	refused := b.get(t, api).mustBe(t, 403)
	require.Equal(t, "FORBIDDEN", refused["code"])
	require.Contains(t, refused["message"], "初始密码")
	for _, path := range []string{"/account/passkeys", "/account/second", "/account/sessions/end", "/demo",
		"/projects/" + db.DefaultProject.String() + "/tokens"} {
		require.Contains(t, b.send(t, path, nil).Header.Get("Location"), "/account/password", path)
	}
	page := b.get(t, away).page(t)
	require.Zero(t, page.Find("header nav a").Length(), "there is nowhere else to go")
	require.Equal(t, 1, page.Find("form[action='/logout']").Length())
	typed := url.Values{"current": {goodPassword}, "password": {goodPassword}, "next": {"/workers?x=1"}}
	same := b.send(t, "/account/password", typed)
	require.Equal(t, http.StatusUnprocessableEntity, same.StatusCode)
	require.Contains(t, same.page(t).Find("#password-error").Text(), "不同")
	require.Equal(t, "/workers?x=1", same.page(t).Find("[name=next]").AttrOr("value", ""))
	typed.Set("password", "a much better one")
	require.Equal(t, "/workers?x=1", b.send(t, "/account/password", typed).Header.Get("Location"))
	require.Equal(t, http.StatusOK, b.get(t, "/workers?x=1").StatusCode)
	b.get(t, api).mustBe(t, 200)
	require.Equal(t, "/tasks", b.get(t, "/account/password").Header.Get("Location"), "nothing is left to do")

	// The same applies to accounts created on the page, unless the option is unticked.
	s.tables.MustExec(`UPDATE users SET is_admin = true`)
	require.Equal(t, 1, b.get(t, "/admin/users").page(t).Find("[name=must_change_password][checked]").Length())
	kept := b.send(t, "/admin/users", url.Values{"name": {"b"}, "password": {"short"}})
	require.Zero(t, kept.page(t).Find("[name=must_change_password][checked]").Length(), "what was typed is kept")
	b.send(t, "/admin/users", url.Values{"name": {"韩梅梅"}, "password": {goodPassword}, "must_change_password": {"true"}})
	leaver := s.signedIn(t, "韩梅梅")
	require.Equal(t, http.StatusSeeOther, leaver.get(t, "/tasks").StatusCode)
	require.Equal(t, "/login", leaver.send(t, "/logout", nil).Header.Get("Location"), "one can always leave")
}

// With two processes on one database, a session begun on one is valid on the other, and ending it on one ends it on
// the other.
func TestSessionsAreThoseOfTheDatabase(t *testing.T) {
	t.Parallel()
	database := dbtest.URL(t)
	one := &guarded{site: newSiteAt(t, database, 0, handlers.Access{HasAccounts: true})}
	two := &guarded{site: newSiteAt(t, database, 0, handlers.Access{HasAccounts: true})}
	one.people, two.people = people.New(one.store), people.New(two.store)
	one.user(t, "李雷", people.Editor, db.DefaultProject)
	b := one.signedIn(t, "李雷")
	there := two.newBrowser(t)
	there.setCookie(t, "wending", b.session(t))
	require.Equal(t, http.StatusOK, there.get(t, "/tasks").StatusCode)
	b.send(t, "/logout", nil)
	require.Equal(t, http.StatusSeeOther, there.get(t, "/tasks").StatusCode)
}

// When users lose a right, every response that they are receiving under that right ends, including open streams.
func TestStreamsEndWithTheRight(t *testing.T) {
	t.Parallel()
	s := newGuardedSite(t)
	root := s.token(t, people.Admin, db.DefaultProject, nil)
	id := s.everything(t, root, agenttest.New(t, answering(nil)).URL)["evaluation-tasks"]
	owner := s.user(t, "李雷", people.Editor, db.DefaultProject)
	open := func(token string) (ended chan struct{}) {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		t.Cleanup(cancel)
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL+api+"/"+id+"/progress", nil)
		require.NoError(t, err)
		request.Header.Set("Authorization", "Bearer "+token)
		answer, err := http.DefaultClient.Do(request)
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, answer.StatusCode)
		lines := bufio.NewReader(answer.Body)
		_, err = lines.ReadString('\n')
		require.NoError(t, err)
		ended = make(chan struct{})
		go func() {
			defer close(ended)
			defer answer.Body.Close()
			_, _ = io.Copy(io.Discard, lines)
		}()
		return ended
	}
	kept := open(root)
	for what, end := range map[string]func(token uuid.UUID){
		"revoked":  func(token uuid.UUID) { require.NoError(t, s.people.RevokeToken(t.Context(), token)) },
		"expired":  func(token uuid.UUID) { s.tables.MustExec(`UPDATE tokens SET expires_at = now() WHERE id = $1`, token) },
		"a member": func(uuid.UUID) { require.NoError(t, s.people.RemoveMember(t.Context(), db.DefaultProject, owner.ID)) },
		"disabled": func(uuid.UUID) {
			require.NoError(t, s.people.ChangeUser(t.Context(), owner.ID, people.Change{IsDisabled: ptr(true)}))
		},
	} {
		require.NoError(t, s.people.SetMember(t.Context(), db.DefaultProject, owner.ID, people.Viewer))
		s.tables.MustExec(`UPDATE users SET disabled_at = NULL`)
		token := uuid.New()
		value, err := s.people.AddToken(t.Context(),
			people.Token{ID: token, Name: what, ProjectID: db.DefaultProject, Role: people.Viewer, UserID: &owner.ID}, time.Hour)
		require.NoError(t, err)
		stream := open(value)
		end(token)
		select {
		case <-stream:
		case <-time.After(time.Minute):
			t.Fatal("the stream goes on:", what)
		}
	}
	select {
	case <-kept:
		t.Fatal("others' streams end, too")
	default:
	}
}

// Behind a proxy that speaks HTTPS, only this site can set the cookie; other clients' claims about the protocol do
// not count.
func TestCookiesBehindAProxy(t *testing.T) {
	t.Parallel()
	for _, isTrusted := range []bool{true, false} {
		access := handlers.Access{HasAccounts: true}
		if isTrusted {
			access.Trusted = []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}
		}
		s := &guarded{site: newSiteAt(t, dbtest.URL(t), 0, access)}
		s.people = people.New(s.store)
		s.user(t, "李雷", people.Editor, db.DefaultProject)
		form := url.Values{"name": {"李雷"}, "password": {goodPassword}}
		request, err := http.NewRequest(http.MethodPost, s.URL+"/login", strings.NewReader(form.Encode()))
		require.NoError(t, err)
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		request.Header.Set("X-Forwarded-Proto", "https")
		answer := s.newBrowser(t).do(t, request)
		require.Equal(t, http.StatusSeeOther, answer.StatusCode)
		name := "wending"
		if isTrusted {
			name = "__Host-wending"
		}
		strict := ""
		if isTrusted {
			strict = "max-age=31536000; includeSubDomains"
		}
		require.Equal(t, strict, answer.Header.Get("Strict-Transport-Security"))
		require.Len(t, answer.Cookies(), 2)
		for _, cookie := range answer.Cookies() {
			require.Equal(t, isTrusted, cookie.Secure, cookie.Name)
			require.Equal(t, isTrusted, strings.HasPrefix(cookie.Name, "__Host-"), cookie.Name)
			require.Equal(t, "/", cookie.Path)
			require.Empty(t, cookie.Domain)
		}
		require.Contains(t, answer.Header.Get("Set-Cookie")+strings.Join(answer.Header.Values("Set-Cookie"), " "), name+"=")
	}
}

// Choices in cookies without the prefix __Host-, from older versions, count until they are made again; cookies that
// authenticate are never accepted without it.
func TestCookiesOfOlderVersionsAreReplaced(t *testing.T) {
	t.Parallel()
	access := handlers.Access{HasAccounts: true, Trusted: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")},
		HSTSWithoutSubdomains: true}
	s := &guarded{site: newSiteAt(t, dbtest.URL(t), 0, access)}
	s.people = people.New(s.store)
	s.user(t, "李雷", people.Editor, db.DefaultProject)
	ask := func(method, path string, cookies map[string]string, form url.Values) response {
		request, err := http.NewRequest(method, s.URL+path, strings.NewReader(form.Encode()))
		require.NoError(t, err)
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		request.Header.Set("Origin", s.URL)
		request.Header.Set("X-Forwarded-Proto", "https")
		for name, value := range cookies {
			request.AddCookie(&http.Cookie{Name: name, Value: value})
		}
		return (&browser{s, &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		}}}).do(t, request)
	}
	lang := func(cookies map[string]string) string {
		return ask(http.MethodGet, "/login", cookies, nil).page(t).Find("html").AttrOr("lang", "")
	}
	require.Equal(t, "en", lang(map[string]string{"lang": "en"}))
	require.Equal(t, "zh-CN", lang(map[string]string{"lang": "en", "__Host-lang": "zh-CN"}))
	chosen := ask(http.MethodPost, "/settings", map[string]string{"lang": "en"}, url.Values{"lang": {"zh-CN"}})
	require.Equal(t, "max-age=31536000", chosen.Header.Get("Strict-Transport-Security"), "as it is set")
	ages := map[string]int{}
	for _, cookie := range chosen.Cookies() {
		ages[cookie.Name] = cookie.MaxAge
	}
	require.Equal(t, map[string]int{"__Host-lang": 31536000, "lang": -1}, ages)

	in := ask(http.MethodPost, "/login", nil, url.Values{"name": {"李雷"}, "password": {goodPassword}})
	var session string
	for _, cookie := range in.Cookies() {
		if cookie.Name == "__Host-wending" {
			session = cookie.Value
		}
	}
	require.Equal(t, http.StatusOK, ask(http.MethodGet, "/tasks", map[string]string{"__Host-wending": session},
		nil).StatusCode)
	require.Equal(t, http.StatusSeeOther, ask(http.MethodGet, "/tasks", map[string]string{"wending": session},
		nil).StatusCode, "another name of the site could have set it")
}

// Regardless of how many sign-ins are begun from one address, other clients can still begin one, and nothing is
// stored for unfinished ones.
func TestBegunSignInsKeepNobodyOut(t *testing.T) {
	t.Parallel()
	keys, err := access.NewPasskeys("http://localhost:1234")
	require.NoError(t, err)
	s := &guarded{site: newSiteAt(t, dbtest.URL(t), 0, handlers.Access{HasAccounts: true, Passkeys: keys})}
	s.Server.URL = strings.Replace(s.URL, "127.0.0.1", "localhost", 1)
	provided, _ := newProvidedSite(t, "*=viewer")
	for n := range 510 {
		require.Equal(t, http.StatusOK, s.newBrowser(t).send(t, "/login/passkey", nil).StatusCode, n)
		require.Equal(t, http.StatusSeeOther, provided.newBrowser(t).get(t, "/login/oidc").StatusCode, n)
	}
	for _, tables := range []*guarded{s, provided} {
		var stored int
		require.NoError(t, tables.tables.Get(&stored,
			`SELECT (SELECT count(*) FROM challenges) + (SELECT count(*) FROM failed_sign_ins)`))
		require.Zero(t, stored)
	}
}

// Wrong passkeys do not count as attempts, so that nobody is locked out because of a neighbour. If there are many
// from one address, most of them are only counted, because anyone could otherwise fill the audit.
func TestWrongPasskeysAreCounted(t *testing.T) {
	t.Parallel()
	const origin = "http://localhost:1234"
	keys, err := access.NewPasskeys(origin)
	require.NoError(t, err)
	s := &guarded{site: newSiteAt(t, dbtest.URL(t), 0, handlers.Access{HasAccounts: true, Passkeys: keys})}
	s.Server.URL = strings.Replace(s.URL, "127.0.0.1", "localhost", 1)
	b := s.newBrowser(t)
	var ceremony struct {
		Key     string
		Options struct{ PublicKey struct{ Challenge string } }
	}
	require.NoError(t, json.Unmarshal(b.send(t, "/login/passkey", nil).body, &ceremony))
	text := base64.RawURLEncoding.EncodeToString
	said := text([]byte(`{"type":"webauthn.get","challenge":"` + ceremony.Options.PublicKey.Challenge + `","origin":"` +
		origin + `"}`))
	site := sha256.Sum256([]byte("localhost"))
	wrong := fmt.Sprintf(
		`{"id":"eA","rawId":"eA","type":"public-key","response":{"clientDataJSON":%q,"authenticatorData":%q,"signature":"eA","userHandle":%q}}`,
		said, text(append(site[:], 5, 0, 0, 0, 1)), text(make([]byte, 16)))
	for range 80 {
		request, err := http.NewRequest(http.MethodPost, s.URL+"/login/passkey/done", strings.NewReader(wrong))
		require.NoError(t, err)
		request.Header.Set("Origin", s.URL)
		request.Header.Set("X-Passkey", ceremony.Key)
		require.Equal(t, http.StatusForbidden, b.do(t, request).StatusCode)
	}
	var entries, counted int
	require.NoError(t, s.tables.Get(&entries,
		`SELECT count(*) FROM audit_entries WHERE action = 'sign-in.refused' AND status = 403`))
	require.Equal(t, 50, entries)
	require.NoError(t, s.tables.Get(&counted,
		`SELECT count FROM audit_counts WHERE action = 'sign-in.refused' AND object_id = '127.0.0.1'`))
	require.Equal(t, 30, counted)
	require.Equal(t, http.StatusOK, b.send(t, "/login/passkey", nil).StatusCode, "neighbours may try")
}

// Concurrent guesses count individually: the correct one among them does not get in just because they arrive
// together.
func TestGuessesAtOnceCount(t *testing.T) {
	t.Parallel()
	s := newGuardedSite(t)
	s.user(t, "李雷", people.Editor, db.DefaultProject)
	var refused, late atomic.Int64
	var all sync.WaitGroup
	for range 40 {
		b := s.newBrowser(t)
		all.Go(func() {
			answer, err := b.client.PostForm(s.URL+"/login", url.Values{"name": {"李雷"}, "password": {"guess"}})
			if err != nil {
				t.Error(err)
				return
			}
			_ = answer.Body.Close()
			switch answer.StatusCode {
			case http.StatusUnauthorized:
				refused.Add(1)
			case http.StatusTooManyRequests:
				late.Add(1)
			default:
				t.Error(answer.StatusCode)
			}
		})
	}
	all.Wait()
	require.EqualValues(t, 5, refused.Load())
	require.EqualValues(t, 35, late.Load())
}
