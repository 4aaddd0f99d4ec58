package main

import (
	"context"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/webauthn"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"wending/db/dbtest"
	"wending/jobs/agent/agenttest"
)

// commandWith runs the program with an input and returns its exit code and all of its output.
func commandWith(t *testing.T, input string, args ...string) (code int, said string) {
	t.Helper()
	command := exec.Command(os.Args[0], args...)
	command.Env = append(os.Environ(), "WENDING_TEST_PROGRAM=1")
	command.Dir = t.TempDir() // so that there is no .env
	command.Stdin = strings.NewReader(input)
	output, _ := command.CombinedOutput()
	return command.ProcessState.ExitCode(), string(output)
}

const goodPassword = "correct horse battery"

// A department is set up from the command line while the program runs; pipelines use a token.
func TestAccountsAndTokensFromTheCommandLine(t *testing.T) {
	t.Parallel()
	folder := dbtest.Folder(t)
	program := start(t, "up", "--data-dir", folder, "--auth", "local", "--listen-addr", "127.0.0.1:0",
		"--agent-api-allowlist", "127.0.0.1", "--evaluation-concurrency", "4", "--rate-limit-per-agent", "unlimited")
	run := func(input string, args ...string) (int, string) {
		t.Helper()
		return commandWith(t, input, append(args, "--data-dir", folder)...)
	}
	status := func(token, path string) int {
		t.Helper()
		request, err := http.NewRequest(http.MethodGet, program.url+path, nil)
		require.NoError(t, err)
		request.Header.Set("Authorization", "Bearer "+token)
		answer, err := http.DefaultTransport.RoundTrip(request)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		return answer.StatusCode
	}
	for what, args := range map[string][]string{
		"short":      {"short\n", "user", "add", "李雷"},
		"common":     {"password2026\n", "user", "add", "李雷"},
		"no project": {goodPassword, "user", "add", "李雷", "--project", "nowhere"},
		"no account": {goodPassword, "user", "passwd", "nobody"},
		"nobody":     {"", "user", "disable", "nobody"},
		"invisible":  {goodPassword, "user", "add", "li\u202elei"},
		"a token's":  {goodPassword, "user", "add", "token:x"},
		"an address": {goodPassword, "user", "add", "127.0.0.1"},
		"its name":   {"correct horse 1", "user", "add", "correct horse"},
		"a role":     {goodPassword, "user", "add", "李雷", "--role", "king"},
		"days":       {"", "token", "create", "x", "--days", "-1"},
	} {
		code, said := run(args[0], args[1:]...)
		require.NotZero(t, code, "%s: %s", what, said)
		require.NotContains(t, said, "panic", what)
	}
	code, said := run(goodPassword+"\r\n", "user", "add", "李雷", "--role", "editor")
	require.Zero(t, code, said)
	require.Equal(t, "李雷 is editor in 默认\n", said)
	code, said = run(goodPassword, "user", "add", "李雷")
	require.Equal(t, 1, code, said)
	code, said = run(goodPassword, "user", "add", "ｚｈａｎｇ")
	require.Zero(t, code, said)
	require.Contains(t, said, "zhang is viewer")
	code, said = run(goodPassword, "user", "add", "zhаng") // a Cyrillic a
	require.Equal(t, 1, code, said)
	require.Contains(t, said, "looks like")
	jar, err := cookiejar.New(nil)
	require.NoError(t, err)
	first := http.Client{Jar: jar}
	_, err = first.PostForm(program.url+"/login", url.Values{"name": {"李雷"}, "password": {goodPassword}})
	require.NoError(t, err)
	page, err := first.Get(program.url + "/tasks")
	require.NoError(t, err)
	require.NoError(t, page.Body.Close())
	require.Equal(t, "/account/password", page.Request.URL.Path, "whoever made the account knows its password")
	signIn := func(password string) int {
		answer, err := http.PostForm(program.url+"/login",
			url.Values{"name": {"李雷"}, "password": {password}, "next": {"/healthz"}})
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		return answer.StatusCode
	}
	require.Equal(t, http.StatusOK, signIn(goodPassword))
	code, said = run("another good password", "user", "passwd", "李雷")
	require.Zero(t, code, said)
	require.Equal(t, http.StatusUnauthorized, signIn(goodPassword))
	require.Equal(t, http.StatusOK, signIn("another good password"))
	code, said = run("", "user", "disable", "李雷")
	require.Zero(t, code, said)
	require.Equal(t, http.StatusUnauthorized, signIn("another good password"))

	code, token := run("", "token", "create", "pipeline")
	require.Zero(t, code, token)
	token = strings.TrimSpace(token)
	require.Regexp(t, "^wnd_[A-Z2-7]{26}$", token)
	require.Equal(t, http.StatusOK, status(token, "/api/v1/evaluation-tasks"))
	require.Equal(t, http.StatusForbidden, status(token, "/api/v1/users"), "an editor's")
	another := token[:len(token)-1] + "X"
	if another == token {
		another = token[:len(token)-1] + "Y"
	}
	require.Equal(t, http.StatusUnauthorized, status(another, "/api/v1/evaluation-tasks"))
	_, admin := run("", "token", "create", "manager", "--role", "admin", "--days", "0")
	require.Equal(t, http.StatusOK, status(strings.TrimSpace(admin), "/api/v1/channels"))
	require.Equal(t, http.StatusForbidden, status(strings.TrimSpace(admin), "/api/v1/users"),
		"of its project and nothing else")
	_, operator := run("", "token", "create", "operator", "--installation", "--days", "0")
	for _, path := range []string{"/api/v1/users", "/api/v1/audit", "/api/v1/projects"} {
		require.Equal(t, http.StatusOK, status(strings.TrimSpace(operator), path), path)
	}
	code, said = run("", "token", "create", "both", "--installation", "--role", "viewer")
	require.NotZero(t, code, said)

	fake := agenttest.New(t, func(w http.ResponseWriter, _ agenttest.Call) { agenttest.Stream(w, "x") })
	work := t.TempDir()
	file := filepath.Join(work, "task.yaml")
	require.NoError(t, os.WriteFile(filepath.Join(work, "q.csv"), []byte("question,standard_answer\na,x\n"), 0o600))
	require.NoError(t,
		os.WriteFile(file, []byte("task_name: gate\nagent_api_url: "+fake.URL+"\ndataset_file: q.csv\nruns_per_item: 2\n"),
			0o600))
	code, said = commandWith(t, "", "eval", "-f", file, "--server", program.url, "--fail-under", "agreement=0.5",
		"--token", token)
	require.Zero(t, code, said)
	code, said = commandWith(t, "", "eval", "-f", file, "--server", program.url, "--fail-under", "agreement=0.5")
	require.Equal(t, 2, code, said)
	require.Contains(t, said, "sign in")

	code, said = run("", "audit", "verify")
	require.Zero(t, code, said)
	require.Contains(t, said, "the audit log is complete")
	require.NotContains(t, program.stopped(t), token, "not in the log")
}

// On a site that other machines can reach, signing in requires HTTPS and a list of the site's names.
func TestSigningInBeyondThisMachineNeedsHTTPS(t *testing.T) {
	t.Parallel()
	base := Settings{ListenAddr: "0.0.0.0:0", Auth: "local"}
	for name, test := range map[string]struct {
		change func(*Settings)
		says   string
	}{
		"nothing":  {func(*Settings) {}, "needs HTTPS"},
		"http":     {func(s *Settings) { s.PublicURL, s.Proxies = "http://wending.example", "10.0.0.1" }, "needs HTTPS"},
		"no proxy": {func(s *Settings) { s.PublicURL = "https://wending.example" }, "needs HTTPS"},
		"a second factor for nobody": {func(s *Settings) {
			s.ListenAddr, s.Auth, s.SecondFactor = "127.0.0.1:0", "off", true
		}, "REQUIRE_SECOND_FACTOR"},
		"a second factor without a name": {func(s *Settings) {
			s.PublicURL, s.Proxies, s.SecondFactor = "https://10.0.0.7", "10.0.0.1", true
		}, "passkeys are bound to a host name"},
		"a proxy": {func(s *Settings) { s.PublicURL, s.Proxies = "https://wending.example", "10.0.0.1" }, ""},
		"half a key": {func(s *Settings) {
			s.PublicURL, s.TLSCert = "https://wending.example", "cert.pem"
		}, "must be set together"},
		"on loopback":     {func(s *Settings) { s.ListenAddr = "127.0.0.1:0" }, ""},
		"without a login": {func(s *Settings) { s.Auth = "off" }, "AUTH=local"},
		"no certificate": {func(s *Settings) {
			s.PublicURL, s.TLSCert, s.TLSKey = "https://wending.example", "none.pem", "none.pem"
		}, "TLS_CERT_FILE"},
		"odd proxies": {func(s *Settings) { s.ListenAddr, s.Proxies = "127.0.0.1:0", "proxy.example" }, "TRUSTED_PROXIES"},
		"no issuer":   {func(s *Settings) { s.ListenAddr, s.Auth = "127.0.0.1:0", "oidc" }, "OIDC_ISSUER"},
		"issuer by http": {func(s *Settings) {
			s.ListenAddr, s.Auth, s.OIDCIssuer, s.OIDCClient = "127.0.0.1:0", "oidc", "http://id.example", "x"
		}, "must be https"},
		"nobody may enter": {func(s *Settings) {
			s.ListenAddr, s.Auth, s.OIDCIssuer, s.OIDCClient = "127.0.0.1:0", "oidc", "https://id.example", "x"
		}, "OIDC_GROUP_ROLES"},
		"odd groups": {func(s *Settings) {
			s.ListenAddr, s.Auth, s.OIDCIssuer, s.OIDCClient, s.OIDCGroups = "127.0.0.1:0", "oidc", "https://id.example",
				"x", "testers"
		}, "OIDC_GROUP_ROLES"},
		"a provider": {func(s *Settings) {
			s.ListenAddr, s.Auth, s.OIDCIssuer, s.OIDCClient, s.OIDCGroups = "127.0.0.1:0", "oidc", "https://id.example", "x",
				"testers=editor"
		}, ""},
		"no directory": {func(s *Settings) { s.ListenAddr, s.Auth = "127.0.0.1:0", "ldap" }, "LDAP_URL"},
		"a directory": {func(s *Settings) {
			s.ListenAddr, s.Auth, s.LDAPURL, s.LDAPBaseDN, s.LDAPRoles = "127.0.0.1:0", "ldap", "ldaps://ldap.example",
				"dc=example", "testers=editor"
		}, ""},
		"a second factor with a directory": {func(s *Settings) {
			s.ListenAddr, s.Auth, s.SecondFactor = "127.0.0.1:0", "ldap", true
		}, "REQUIRE_SECOND_FACTOR"},
	} {
		s := base
		test.change(&s)
		listener, err := s.listen()
		if err == nil {
			_, err = s.access(listener.Addr().String())
			require.NoError(t, listener.Close())
		}
		if test.says == "" {
			require.NoError(t, err, name)
		} else {
			require.ErrorContains(t, err, test.says, name)
		}
	}
}

// In a real browser: a user who is not signed in is redirected to the sign-in and back, typed values are restored,
// and a passkey replaces the password.
func TestSigningInInABrowser(t *testing.T) {
	t.Parallel()
	folder := dbtest.Folder(t)
	program := start(t, "up", "--data-dir", folder, "--auth", "local", "--listen-addr", "127.0.0.1:0")
	code, said := commandWith(t, goodPassword, "user", "add", "李雷", "--admin", "--role", "admin",
		"--no-must-change-password", "--data-dir", folder)
	require.Zero(t, code, said)
	b := openBrowser(t, strings.Replace(program.url, "127.0.0.1", "localhost", 1)) // passkeys require a host name
	b.do(webauthn.Enable(), chromedp.ActionFunc(func(ctx context.Context) error {
		_, err := webauthn.AddVirtualAuthenticator(&webauthn.VirtualAuthenticatorOptions{
			Protocol: webauthn.AuthenticatorProtocolCtap2, Transport: webauthn.AuthenticatorTransportInternal,
			HasResidentKey: true, HasUserVerification: true,
			IsUserVerified: true, AutomaticPresenceSimulation: true,
		}).Do(ctx)
		return err
	}))
	signIn := func(password string) {
		t.Helper()
		b.do(chromedp.WaitVisible("#password"), chromedp.SetValue("#name", "李雷"), chromedp.SendKeys("#password", password))
		b.follows(".gate form button.btn")
	}
	b.open("/projects")
	b.sees("h1", "登录")
	b.requireAccessible("sign-in")
	signIn(goodPassword)
	b.sees("h1", "空间")
	b.sees(".who summary", "李雷")

	b.open("/account")
	b.do(chromedp.WaitVisible("form#passkey button"))
	b.follows("form#passkey button")
	b.sees("td", "Chrome")
	for _, path := range []string{"/account", "/admin/users", "/admin/audit?check=1", "/projects",
		"/projects/00000000-0000-4000-8000-000000000001"} {
		b.open(path)
		b.do(chromedp.Click(".who summary"), chromedp.WaitVisible(".who .menu"))
		b.requireAccessible(path)
	}

	// The session ends while the user is typing.
	b.do(chromedp.SendKeys(`form[action$="/members"] [name=name]`, "韩梅梅"))
	code, said = commandWith(t, "another good password", "user", "passwd", "李雷", "--data-dir", folder)
	require.Zero(t, code, said)
	b.follows(`form.filters[action$="/members"] button`)
	b.sees("h1", "登录")
	signIn("another good password")
	b.sees("h1", "默认")
	var typed string
	b.evaluate(`document.querySelector('form.filters[action$="/members"] [name=name]').value`, &typed)
	require.Equal(t, "韩梅梅", typed, "nothing typed is lost")

	// A passkey signs in on its own.
	b.open("/logout")
	b.follows(".gate form button")
	b.do(chromedp.WaitVisible("form#passkey button"))
	b.follows("form#passkey button")
	b.sees("h1", "我的评测任务")
	b.open("/account")
	b.sees("td", "通行密钥")
	b.do(chromedp.Evaluate(`document.documentElement.classList.add("dark")`, nil))
	b.requireAccessible("account in the dark")
	require.NotContains(t, program.stopped(t), "level=ERROR")
}

// Sessions, recent sign-ins and tokens are timed by the database's clock, so a machine whose clock is an hour ahead
// signs nobody out early.
func TestAccountsOnAMachineWithAWrongClock(t *testing.T) {
	if os.Getenv("WENDING_CHAOS") != "full" { // requires a build with a shifted clock
		t.Skip("make chaos runs it")
	}
	folder := dbtest.Folder(t)
	program := startCommand(t, exec.Command(skewedProgram(t), "up", "--data-dir", folder, "--auth", "local",
		"--listen-addr", "127.0.0.1:0"))
	code, said := commandWith(t, goodPassword, "user", "add", "李雷", "--role", "editor", "--no-must-change-password",
		"--data-dir", folder)
	require.Zero(t, code, said)
	jar, err := cookiejar.New(nil)
	require.NoError(t, err)
	client := http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error {
		return http.ErrUseLastResponse
	}}
	ask := func(method, path string, form url.Values) int {
		t.Helper()
		request, err := http.NewRequest(method, program.url+path, strings.NewReader(form.Encode()))
		require.NoError(t, err)
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		request.Header.Set("Origin", program.url)
		answer, err := client.Do(request)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		return answer.StatusCode
	}
	require.Equal(t, http.StatusSeeOther, ask(http.MethodPost, "/login",
		url.Values{"name": {"李雷"}, "password": {goodPassword}}))
	require.Equal(t, http.StatusOK, ask(http.MethodGet, "/tasks", nil))
	require.Equal(t, http.StatusNotFound, ask(http.MethodPost, "/account/second", url.Values{"needs": {"true"}}),
		"signed in a moment ago: only the passkey is missing")
	require.Equal(t, http.StatusSeeOther, ask(http.MethodPost, "/account/sessions/end", nil))
	require.Equal(t, http.StatusSeeOther, ask(http.MethodGet, "/tasks", nil))
}
