package handlers_test

import (
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/descope/virtualwebauthn"
	"github.com/golang-jwt/jwt/v5"
	"github.com/google/uuid"
	"github.com/oauth2-proxy/mockoidc"
	"github.com/stretchr/testify/require"

	"wending/db"
	"wending/db/dbtest"
	"wending/db/people"
	"wending/handlers"
	"wending/handlers/access"
	"wending/jobs/secret"
)

// newProvidedSite starts an OpenID Connect provider, and a site whose users sign in there.
func newProvidedSite(t *testing.T, grants string) (*guarded, *mockoidc.MockOIDC) {
	t.Helper()
	provider, err := mockoidc.Run()
	require.NoError(t, err)
	t.Cleanup(func() { _ = provider.Shutdown() })
	granted, err := access.ParseGrants("OIDC_GROUP_ROLES", grants)
	require.NoError(t, err)
	openID := &access.OpenID{Issuer: provider.Issuer(), ClientID: provider.ClientID, ClientSecret: provider.ClientSecret,
		Grants: granted}
	s := &guarded{site: newSiteAt(t, dbtest.URL(t), 0, handlers.Access{HasAccounts: true, OpenID: openID})}
	s.people, openID.Site = people.New(s.store), s.URL
	return s, provider
}

// throughProvider signs in at the provider as the given user, and returns the site's response to the redirect back.
func (b *browser) throughProvider(t *testing.T, provider *mockoidc.MockOIDC, user mockoidc.User, next string) response {
	t.Helper()
	provider.QueueUser(user)
	begun := b.get(t, "/login/oidc?next="+url.QueryEscape(next))
	require.Equal(t, http.StatusSeeOther, begun.StatusCode, "%s", begun.body)
	return b.backFrom(t, begun)
}

// backFrom follows a sign-in from its start to the provider and back.
func (b *browser) backFrom(t *testing.T, begun response) response {
	t.Helper()
	back := b.follow(t, begun.Header.Get("Location"))
	require.True(t, strings.HasPrefix(back, b.URL+"/login/oidc/callback?"), back)
	return b.get(t, strings.TrimPrefix(back, b.URL))
}

// follow sends a request to another server and returns the address to which it redirects.
func (b *browser) follow(t *testing.T, address string) string {
	t.Helper()
	answer, err := b.client.Get(address)
	require.NoError(t, err)
	defer answer.Body.Close()
	body, _ := io.ReadAll(answer.Body)
	require.Equal(t, http.StatusFound, answer.StatusCode, "%s", body)
	return answer.Header.Get("Location")
}

// The rights of a provider's users follow from their groups, and are updated at each sign-in. Users are identified
// by issuer and subject alone.
func TestSigningInAtAProvider(t *testing.T) {
	t.Parallel()
	s, provider := newProvidedSite(t, "testers=editor, /managers=viewer@法务, operators=admin, everybody-else=viewer@没有的空间")
	law := s.project(t, "法务")
	user := &mockoidc.MockUser{Subject: "17", Email: "lilei@example.com", PreferredUsername: "lilei",
		Groups: []string{"testers", "/managers"}}
	b := s.newBrowser(t)
	require.Equal(t, "/login/oidc?next=%2Fworkers",
		b.get(t, "/login?next=/workers").page(t).Find(".gate a.btn").AttrOr("href", ""))
	require.Equal(t, http.StatusForbidden, b.send(t, "/login",
		url.Values{"name": {"x"}, "password": {goodPassword}}).StatusCode, "there are no passwords")
	in := b.throughProvider(t, provider, user, "/workers")
	require.Equal(t, "/workers", in.Header.Get("Location"), "%s", in.body)
	known, err := s.people.UserNamed(t.Context(), "lilei")
	require.NoError(t, err)
	roles := func() map[string]people.Role {
		found, err := s.people.MembershipsOf(t.Context(), known.ID)
		require.NoError(t, err)
		byName := map[string]people.Role{}
		for _, one := range found {
			byName[one.ProjectName] = one.Role
		}
		return byName
	}
	require.Equal(t, map[string]people.Role{"默认": people.Editor, "法务": people.Viewer}, roles())

	// Roles given by people stay; roles given by groups follow the groups.
	require.NoError(t, s.people.SetMember(t.Context(), law, known.ID, people.Reviewer))
	user.Groups = []string{"operators"}
	user.PreferredUsername = "li.lei"
	require.Equal(t, "/tasks", s.newBrowser(t).throughProvider(t, provider, user, "//evil.example").Header.Get("Location"))
	require.Equal(t, map[string]people.Role{"默认": people.Admin, "法务": people.Reviewer}, roles())
	known, err = s.people.User(t.Context(), known.ID)
	require.NoError(t, err)
	require.True(t, known.IsAdmin)
	require.Equal(t, "li.lei", known.Name)

	// The name of a local account is not given to another user.
	local := s.user(t, "admin", people.Admin, db.DefaultProject)
	twin := &mockoidc.MockUser{Subject: "18", PreferredUsername: "admin", Email: "admin@evil.example",
		Groups: []string{"testers"}}
	require.Equal(t, "/tasks", s.newBrowser(t).throughProvider(t, provider, twin, "/tasks").Header.Get("Location"))
	signed, err := s.people.UserOf(t.Context(), provider.Issuer()+" 18")
	require.NoError(t, err)
	require.NotEqual(t, local.ID, signed.ID)
	require.Equal(t, "admin · admin@evil.example", signed.Name)

	for what, user := range map[string]*mockoidc.MockUser{
		"no group":        {Subject: "19", PreferredUsername: "nobody"},
		"another group":   {Subject: "20", PreferredUsername: "other", Groups: []string{"testers2"}},
		"project missing": {Subject: "21", PreferredUsername: "third", Groups: []string{"everybody-else"}},
	} {
		require.Equal(t, http.StatusForbidden, s.newBrowser(t).throughProvider(t, provider, user, "/tasks").StatusCode, what)
	}
	require.NoError(t, s.people.ChangeUser(t.Context(), signed.ID, people.Change{IsDisabled: ptr(true)}))
	require.Equal(t, http.StatusForbidden, s.newBrowser(t).throughProvider(t, provider, twin, "/tasks").StatusCode,
		"disabled here")
}

// claiming is a user about whom the provider makes unusual claims.
type claiming struct {
	*mockoidc.MockUser
	change func(jwt.MapClaims)
}

func (u claiming) Claims(scopes []string, base *mockoidc.IDTokenClaims) (jwt.Claims, error) {
	usual, err := u.MockUser.Claims(scopes, base)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(usual)
	if err != nil {
		return nil, err
	}
	claims := jwt.MapClaims{}
	if err := json.Unmarshal(text, &claims); err != nil {
		return nil, err
	}
	u.change(claims)
	return claims, nil
}

// Userinfo names its subject, as providers must.
func (u claiming) Userinfo([]string) ([]byte, error) {
	return json.Marshal(map[string]any{"sub": u.Subject, "preferred_username": u.PreferredUsername, "groups": u.Groups})
}

// Claims of the provider count only if they are about this user, for this client, and recent; a group that is
// written as a single text is one group.
func TestWhatAProviderSaysIsChecked(t *testing.T) {
	t.Parallel()
	s, provider := newProvidedSite(t, "operators=admin, testers=editor, Domain operators=viewer")
	in := func(change func(jwt.MapClaims)) response {
		user := &mockoidc.MockUser{Subject: uuid.NewString(), PreferredUsername: "lilei" + uuid.NewString(),
			Groups: []string{"testers"}}
		return s.newBrowser(t).throughProvider(t, provider, claiming{user, change}, "/tasks")
	}
	for what, test := range map[string]struct {
		change func(jwt.MapClaims)
		says   string // empty means that the sign-in succeeds
	}{
		"as usual":           {func(jwt.MapClaims) {}, ""},
		"no sub":             {func(c jwt.MapClaims) { delete(c, "sub") }, "sub"},
		"an empty sub":       {func(c jwt.MapClaims) { c["sub"] = "" }, "sub"},
		"for another client": {func(c jwt.MapClaims) { c["azp"] = "another" }, "azp"},
		"several audiences":  {func(c jwt.MapClaims) { c["aud"] = []string{provider.ClientID, "another"} }, "azp"},
		"several, and it is us": {func(c jwt.MapClaims) {
			c["aud"], c["azp"] = []string{provider.ClientID, "another"}, provider.ClientID
		}, ""},
		"a day ahead":            {func(c jwt.MapClaims) { c["iat"] = time.Now().Add(24 * time.Hour).Unix() }, "时钟"},
		"half a minute ahead":    {func(c jwt.MapClaims) { c["iat"] = time.Now().Add(30 * time.Second).Unix() }, ""},
		"one group of two words": {func(c jwt.MapClaims) { c["groups"] = "Domain operators" }, ""},
		"not operators":          {func(c jwt.MapClaims) { c["groups"] = "not operators" }, "用户组"},
		"no group":               {func(c jwt.MapClaims) { c["groups"] = "" }, ""}, // the groups in the user info count
	} {
		answer := in(test.change)
		if test.says == "" {
			require.Equal(t, http.StatusSeeOther, answer.StatusCode, "%s %s", what, answer.body)
			continue
		}
		require.Equal(t, http.StatusForbidden, answer.StatusCode, what)
		require.Contains(t, string(answer.body), test.says, what)
	}
	has, err := s.people.HasAdmin(t.Context())
	require.NoError(t, err)
	require.False(t, has, "nobody became an administrator by the words of a group")
}

// Names that a provider gives follow the rules for typed names.
func TestNamesFromAProviderFollowTheRules(t *testing.T) {
	t.Parallel()
	s, provider := newProvidedSite(t, "*=viewer")
	s.user(t, "admin", people.Admin, db.DefaultProject)
	for told, want := range map[string]string{
		"li\u202elei":        "lilei",
		"han\u200b\u2066mei": "hanmei",
		"ＷＡＮＧ　wu":            "WANG wu",
		"token:pipeline":     "token-pipeline@example.com",
		"127.0.0.1":          "address@example.com",
		"аdmin":              "аdmin · cyrillic@example.com", // its а is Cyrillic and looks like the Latin one
	} {
		subject := uuid.NewString()
		user := &mockoidc.MockUser{Subject: subject, PreferredUsername: told, Groups: []string{"testers"}}
		switch told {
		case "token:pipeline", "127.0.0.1", "аdmin":
			user.Email = want[strings.LastIndex(want, " ")+1:]
		}
		require.Equal(t, "/tasks", s.newBrowser(t).throughProvider(t, provider, user, "/tasks").Header.Get("Location"), told)
		signed, err := s.people.UserOf(t.Context(), provider.Issuer()+" "+subject)
		require.NoError(t, err)
		require.Equal(t, want, signed.Name)
	}
}

// A sign-in at a provider belongs to the browser that began it, works once, and must be meant for this site.
func TestSignInsAtAProviderAreBound(t *testing.T) {
	t.Parallel()
	s, provider := newProvidedSite(t, "testers=editor")
	user := &mockoidc.MockUser{Subject: "17", PreferredUsername: "lilei", Groups: []string{"testers"}}
	begin := func() (b *browser, callback string) {
		b = s.newBrowser(t)
		provider.QueueUser(user)
		return b, strings.TrimPrefix(b.follow(t, b.get(t, "/login/oidc").Header.Get("Location")), b.URL)
	}
	_, callback := begin()
	require.Equal(t, http.StatusForbidden, s.newBrowser(t).get(t, callback).StatusCode, "in another browser")
	b, callback := begin()
	require.Equal(t, http.StatusSeeOther, b.get(t, callback).StatusCode)
	require.Equal(t, http.StatusForbidden, b.get(t, callback).StatusCode, "once")
	b, callback = begin()
	require.Equal(t, http.StatusForbidden, b.get(t, strings.Replace(callback, "code=", "code=x", 1)).StatusCode)
	for what, change := range map[string]func(until *time.Time, detail map[string]any){
		"too late":        func(until *time.Time, _ map[string]any) { *until = time.Now().Add(-time.Hour) },
		"another's nonce": func(_ *time.Time, detail map[string]any) { detail["nonce"] = "another" },
		"another's state": func(_ *time.Time, detail map[string]any) { detail["state"] = "another" },
		"another's proof": func(_ *time.Time, detail map[string]any) {
			detail["verifier"] = "another-verifier-of-forty-three-characters-x"
		},
	} {
		b, callback = begin()
		b.changeBegun(t, "oidc", change)
		require.Equal(t, http.StatusForbidden, b.get(t, callback).StatusCode, what)
	}
	b, callback = begin()
	b.changeBegun(t, "passkey", func(*time.Time, map[string]any) {})
	require.Equal(t, http.StatusForbidden, b.get(t, callback).StatusCode, "sealed for something else")
	b, callback = begin()
	b.setCookie(t, "oidc", "")
	require.Equal(t, http.StatusForbidden, b.get(t, callback).StatusCode)
	b, callback = begin()
	denied := "/login/oidc/callback?error=access_denied&state=" + url.QueryEscape(mustQuery(t, callback, "state"))
	require.Equal(t, http.StatusForbidden, b.get(t, denied).StatusCode)
	require.Equal(t, http.StatusSeeOther, b.get(t, "/tasks").StatusCode, "nobody got in")

	require.NoError(t, provider.Shutdown())
	silent := &guarded{site: newSiteAt(t, dbtest.URL(t), 0,
		handlers.Access{HasAccounts: true, OpenID: &access.OpenID{Issuer: provider.Issuer(), ClientID: "x"}})}
	require.Equal(t, http.StatusServiceUnavailable, silent.newBrowser(t).get(t, "/login/oidc").StatusCode)
	for _, wrong := range []string{"testers", "=editor", "testers=king", "a=viewer,b"} {
		_, err := access.ParseGrants("OIDC_GROUP_ROLES", wrong)
		require.Error(t, err, wrong)
	}
}

// changeBegun changes the state of a sign-in that a browser keeps, and seals it as this site would.
func (b *browser) changeBegun(t *testing.T, kind string, change func(until *time.Time, detail map[string]any)) {
	t.Helper()
	sealer, err := secret.NewSealer(secret.Keys{Current: dbtest.SecretKey})
	require.NoError(t, err)
	site, err := url.Parse(b.URL)
	require.NoError(t, err)
	for _, cookie := range b.client.Jar.Cookies(site) {
		if cookie.Name != "oidc" {
			continue
		}
		sealed, err := base64.RawURLEncoding.DecodeString(cookie.Value)
		require.NoError(t, err)
		var begun struct {
			Until  time.Time      `json:"until"`
			Detail map[string]any `json:"detail"`
		}
		require.NoError(t, sealer.Open(sealed, "oidc", &begun))
		change(&begun.Until, begun.Detail)
		sealed, err = sealer.Seal(begun, kind)
		require.NoError(t, err)
		b.setCookie(t, "oidc", base64.RawURLEncoding.EncodeToString(sealed))
	}
}

func mustQuery(t *testing.T, address, name string) string {
	t.Helper()
	u, err := url.Parse(address)
	require.NoError(t, err)
	return u.Query().Get(name)
}

// age makes the rights of the provider's accounts look as if they were last read some time ago; by is how long ago, as
// a PostgreSQL interval.
func (s *guarded) age(t *testing.T, by string) {
	t.Helper()
	s.tables.MustExec(`UPDATE provider_sessions SET checked_at = now() - $1::interval`, by)
}

// Rights that groups give are read again before they are an hour old, while the session continues; the session ends
// when the provider's does.
func TestRightsOfAProviderAreReadAgain(t *testing.T) {
	t.Parallel()
	s, provider := newProvidedSite(t, "testers=editor, operators=admin")
	b := s.newBrowser(t)
	user := &mockoidc.MockUser{Subject: "17", PreferredUsername: "lilei", Groups: []string{"operators"}}
	require.Equal(t, http.StatusSeeOther, b.throughProvider(t, provider, claiming{user, func(jwt.MapClaims) {}},
		"/tasks").StatusCode)
	require.Equal(t, http.StatusOK, b.get(t, "/admin/users").StatusCode)
	usersPage := func() int { // the body is not read: a page that is still being sent when rights change is cut off
		answer, err := b.client.Get(b.URL + "/admin/users")
		if err != nil {
			return 0
		}
		_ = answer.Body.Close()
		return answer.StatusCode
	}
	isOperator := func() bool { return usersPage() == http.StatusOK }
	user.Groups = []string{"testers"}
	s.age(t, "55 min")
	dbtest.Await(t, 30*time.Second, "the new groups", func() bool { return usersPage() == http.StatusForbidden })
	require.Equal(t, http.StatusOK, b.get(t, "/compare").StatusCode, "an editor by now, without signing in again")
	var young bool
	require.NoError(t, s.tables.Get(&young,
		`SELECT bool_and(checked_at > now() - interval '1 min') FROM provider_sessions`))
	require.True(t, young)

	// Without a refresh token the groups are read from the user info.
	known, err := s.people.UserNamed(t.Context(), "lilei")
	require.NoError(t, err)
	sealer, err := secret.NewSealer(secret.Keys{Current: dbtest.SecretKey})
	require.NoError(t, err)
	var sealed []byte
	require.NoError(t, s.tables.Get(&sealed, `SELECT tokens FROM provider_sessions`))
	tokens := map[string]string{}
	require.NoError(t, sealer.Open(sealed, "provider's tokens of "+known.ID.String(), &tokens))
	require.NotEmpty(t, tokens["refresh"])
	tokens["refresh"] = ""
	sealed, err = sealer.Seal(tokens, "provider's tokens of "+known.ID.String())
	require.NoError(t, err)
	user.Groups = []string{"operators"}
	s.tables.MustExec(`UPDATE provider_sessions SET tokens = $1, checked_at = now() - interval '55 min'`, sealed)
	dbtest.Await(t, 30*time.Second, "the groups of the user info", isOperator)

	// If the provider cannot be queried or does not answer in time, the user is signed in again without noticing.
	s.age(t, "61 min")
	away := b.get(t, "/workers?x=1")
	require.Equal(t, "/login?next=%2Fworkers%3Fx%3D1", away.Header.Get("Location"))
	silent := b.get(t, away.Header.Get("Location"))
	require.Equal(t, "/login/oidc?next=%2Fworkers%3Fx%3D1", silent.Header.Get("Location"))
	provider.QueueUser(claiming{user, func(jwt.MapClaims) {}})
	require.Equal(t, "/workers?x=1", b.backFrom(t, b.get(t, silent.Header.Get("Location"))).Header.Get("Location"))
	require.True(t, isOperator())

	// When the provider has ended the session, our session ends.
	provider.QueueError(&mockoidc.ServerError{Code: http.StatusBadRequest, Error: "invalid_grant"})
	s.age(t, "55 min")
	dbtest.Await(t, 30*time.Second, "the end of the session", func() bool {
		// The page that is being sent when the session ends is cut off, so its body is not read.
		answer, err := b.client.Get(b.URL + "/tasks")
		if err != nil {
			return false
		}
		return answer.Body.Close() == nil && answer.StatusCode == http.StatusSeeOther
	})
	b.throughProvider(t, provider, claiming{user, func(jwt.MapClaims) {}}, "/tasks")
	b.send(t, "/logout", nil)
	require.Equal(t, http.StatusOK, b.get(t, "/login").StatusCode, "whoever leaves stays out")
}

// The provider ends sessions with a signed token, which works once: one session by its id, or all of an account.
func TestAProviderSignsOut(t *testing.T) {
	t.Parallel()
	s, provider := newProvidedSite(t, "*=editor")
	in := func(subject, sid string) *browser {
		b := s.newBrowser(t)
		user := claiming{&mockoidc.MockUser{Subject: subject, PreferredUsername: "user " + subject, Groups: []string{"x"}},
			func(c jwt.MapClaims) {
				c["sid"] = sid
			}}
		require.Equal(t, http.StatusSeeOther, b.throughProvider(t, provider, user, "/tasks").StatusCode)
		return b
	}
	isIn := func(b *browser) bool { return b.get(t, "/tasks").StatusCode == http.StatusOK }
	first, second, other := in("17", "one"), in("17", "two"), in("18", "three")
	const event = "http://schemas.openid.net/event/backchannel-logout"
	send := func(keys *mockoidc.Keypair, change func(jwt.MapClaims)) (status int, again func() int) {
		claims := jwt.MapClaims{
			"iss": provider.Issuer(), "aud": provider.ClientID, "iat": time.Now().Unix(),
			"exp": time.Now().Add(2 * time.Minute).Unix(), "jti": uuid.NewString(),
			"sub": "17", "events": map[string]any{event: map[string]any{}},
		}
		change(claims)
		signed, err := keys.SignJWT(claims)
		require.NoError(t, err)
		post := func() int {
			answer, err := http.PostForm(s.URL+"/login/oidc/backchannel", url.Values{"logout_token": {signed}})
			require.NoError(t, err)
			defer answer.Body.Close()
			require.Equal(t, "no-store", answer.Header.Get("Cache-Control"))
			return answer.StatusCode
		}
		return post(), post
	}
	forged, err := mockoidc.RandomKeypair(2048)
	require.NoError(t, err)
	status, _ := send(forged, func(jwt.MapClaims) {})
	require.Equal(t, http.StatusBadRequest, status, "signed by somebody else")
	for what, change := range map[string]func(jwt.MapClaims){
		"another client": func(c jwt.MapClaims) { c["aud"] = "another" },
		"another issuer": func(c jwt.MapClaims) { c["iss"] = "https://evil.example" },
		"no event":       func(c jwt.MapClaims) { delete(c, "events") },
		"another event": func(c jwt.MapClaims) {
			c["events"] = map[string]any{"http://example.com/other": map[string]any{}}
		},
		"an ID token":     func(c jwt.MapClaims) { c["nonce"] = "x" },
		"nobody":          func(c jwt.MapClaims) { delete(c, "sub") },
		"no jti":          func(c jwt.MapClaims) { delete(c, "jti") },
		"no iat":          func(c jwt.MapClaims) { delete(c, "iat") },
		"from the future": func(c jwt.MapClaims) { c["iat"] = time.Now().Add(time.Hour).Unix() },
		"expired":         func(c jwt.MapClaims) { c["exp"] = time.Now().Add(-time.Hour).Unix() },
	} {
		status, _ := send(provider.Keypair, change)
		require.Equal(t, http.StatusBadRequest, status, what)
	}
	answer, err := http.PostForm(s.URL+"/login/oidc/backchannel", nil)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	require.Equal(t, http.StatusBadRequest, answer.StatusCode)
	for _, junk := range []string{"junk", strings.Repeat("a.b.c", 20_000)} {
		answer, err := http.PostForm(s.URL+"/login/oidc/backchannel", url.Values{"logout_token": {junk}})
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		require.Equal(t, http.StatusBadRequest, answer.StatusCode)
	}
	require.True(t, isIn(first) && isIn(second) && isIn(other), "nothing of that ends anything")

	status, again := send(provider.Keypair, func(c jwt.MapClaims) { c["sid"] = "two" })
	require.Equal(t, http.StatusOK, status)
	require.True(t, isIn(first) && !isIn(second) && isIn(other), "the session that it names")
	second = in("17", "two")
	require.Equal(t, http.StatusBadRequest, again(), "a word counts once")
	require.True(t, isIn(second))
	status, _ = send(provider.Keypair, func(c jwt.MapClaims) { delete(c, "sub"); c["sid"] = "three" })
	require.Equal(t, http.StatusOK, status)
	require.True(t, isIn(first) && isIn(second) && !isIn(other), "without the account's name, too")
	status, _ = send(provider.Keypair, func(jwt.MapClaims) {})
	require.Equal(t, http.StatusOK, status)
	require.False(t, isIn(first) || isIn(second), "all of the account")
	var ended int
	require.NoError(t, s.tables.Get(&ended,
		`SELECT count(*) FROM audit_entries WHERE action = 'session.end' AND actor = 'user 17'`))
	require.Equal(t, 2, ended)

	local := newGuardedSite(t)
	answer, err = http.PostForm(local.URL+"/login/oidc/backchannel", nil)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	require.Equal(t, http.StatusNotFound, answer.StatusCode)
}

// A provider that recognises a user may answer without asking for credentials. Before changing how an account signs in,
// the user must authenticate again.
func TestAProviderIsAskedForAProof(t *testing.T) {
	t.Parallel()
	s, provider := newProvidedSite(t, "*=editor")
	user := claiming{&mockoidc.MockUser{Subject: "17", PreferredUsername: "lilei", Groups: []string{"x"}},
		func(jwt.MapClaims) {}}
	b := s.newBrowser(t)
	b.throughProvider(t, provider, user, "/tasks")
	place := "/projects/" + db.DefaultProject.String()
	refused := b.send(t, place+"/tokens", url.Values{"name": {"pipeline"}})
	require.Equal(t, http.StatusForbidden, refused.StatusCode)
	form := b.get(t, refused.page(t).Find("[role=alert] a.btn").AttrOr("href", "")).page(t)
	begun := b.get(t, form.Find(".gate a.btn").AttrOr("href", ""))
	require.Equal(t, "login", mustQuery(t, begun.Header.Get("Location"), "prompt"))
	require.Equal(t, "0", mustQuery(t, begun.Header.Get("Location"), "max_age"))
	for what, change := range map[string]func(jwt.MapClaims){
		"it does not say when": func(jwt.MapClaims) {},
		"long ago":             func(c jwt.MapClaims) { c["auth_time"] = time.Now().Add(-time.Hour).Unix() },
		"in the future":        func(c jwt.MapClaims) { c["auth_time"] = 1e30 },
	} {
		provider.QueueUser(claiming{user.MockUser, change})
		require.Equal(t, http.StatusForbidden,
			b.backFrom(t, b.get(t, form.Find(".gate a.btn").AttrOr("href", ""))).StatusCode, what)
	}
	require.Equal(t, http.StatusForbidden, b.send(t, place+"/tokens", url.Values{"name": {"pipeline"}}).StatusCode)
	provider.QueueUser(claiming{user.MockUser, func(c jwt.MapClaims) { c["auth_time"] = time.Now().Unix() }})
	begun = b.get(t, form.Find(".gate a.btn").AttrOr("href", ""))
	require.Contains(t, b.backFrom(t, begun).Header.Get("Location"), place)
	require.Equal(t, http.StatusCreated, b.send(t, place+"/tokens", url.Values{"name": {"pipeline"}}).StatusCode)
}

// passkeys holds the passkeys of a person who uses a browser.
type passkeys struct {
	*browser
	site   virtualwebauthn.RelyingParty
	device virtualwebauthn.Authenticator
	key    virtualwebauthn.Credential
	// lastKey is the key in the first response of the last ceremony.
	lastKey string
}

// ceremony posts form to the path begin, passes the options in the response to answer, and posts the body that answer
// returns to the path end.
func (p *passkeys) ceremony(t *testing.T, begin, end string, form url.Values,
	answer func(options string) string) response {
	t.Helper()
	begun := p.send(t, begin, form)
	if begun.StatusCode != http.StatusOK {
		return begun
	}
	var asked struct {
		Options json.RawMessage
		Key     string
	}
	begun.into(t, &asked)
	p.lastKey = asked.Key
	request, err := http.NewRequest(http.MethodPost, p.URL+end, strings.NewReader(answer(string(asked.Options))))
	require.NoError(t, err)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("X-Passkey", asked.Key)
	request.Header.Set("Origin", p.URL)
	return p.do(t, request)
}

// newCredential returns a new key. The library leaves out leading zeros of a point's coordinates (one key in 128),
// which no real device does and no site accepts: such keys are drawn again.
func newCredential() virtualwebauthn.Credential {
	const whole = 77 // bytes of a key on the curve P-256: two coordinates of 32 and their names
	for {
		if one := virtualwebauthn.NewCredential(virtualwebauthn.KeyTypeEC2); len(one.Key.AttestationData()) == whole {
			return one
		}
	}
}

func (p *passkeys) register(t *testing.T) response {
	t.Helper()
	return p.ceremony(t, "/account/passkeys", "/account/passkeys/done", nil, func(options string) string {
		asked, err := virtualwebauthn.ParseAttestationOptions(options)
		require.NoError(t, err)
		id := asked.UserID
		p.device.Options.UserHandle = []byte(id)
		return virtualwebauthn.CreateAttestationResponse(p.site, p.device, p.key, *asked)
	})
}

func (p *passkeys) signIn(t *testing.T, form url.Values) response {
	t.Helper()
	return p.ceremony(t, "/login/passkey", "/login/passkey/done", form, func(options string) string {
		asked, err := virtualwebauthn.ParseAssertionOptions(options)
		require.NoError(t, err)
		p.key.Counter++
		return virtualwebauthn.CreateAssertionResponse(p.site, p.device, p.key, *asked)
	})
}

// A passkey signs in alone, or as the second step after a password if the account requires that.
func TestPasskeys(t *testing.T) {
	t.Parallel()
	keys, err := access.NewPasskeys("http://localhost:1234")
	require.NoError(t, err)
	s := &guarded{site: newSiteAt(t, dbtest.URL(t), 0, handlers.Access{HasAccounts: true, Passkeys: keys})}
	s.people = people.New(s.store)
	s.Server.URL = strings.Replace(s.URL, "127.0.0.1", "localhost", 1) // sites at an IP address have no passkeys
	user := s.user(t, "李雷", people.Editor, db.DefaultProject)
	p := &passkeys{
		browser: s.signedIn(t, "李雷"), key: newCredential(), device: virtualwebauthn.NewAuthenticator(),
		site: virtualwebauthn.RelyingParty{ID: "localhost", Name: "Wending", Origin: "http://localhost:1234"},
	}
	require.Equal(t, 1, p.get(t, "/account").page(t).Find("form#passkey").Length())
	answer := p.register(t)
	require.Equal(t, http.StatusOK, answer.StatusCode, "%s", answer.body)
	p.device.AddCredential(p.key)
	require.Equal(t, 2, p.get(t, "/account").page(t).Find("table").Length())

	// The passkey signs in on its own.
	p.browser = s.newBrowser(t)
	answer = p.signIn(t, url.Values{"next": {"/workers"}})
	require.Equal(t, "/workers", answer.mustBe(t, 200)["next"])
	require.Contains(t, p.get(t, "/account").page(t).Find("h1").Text(), "李雷")

	// The passkey is the second step after the password.
	require.Equal(t, http.StatusSeeOther, p.send(t, "/account/second", url.Values{"needs": {"true"}}).StatusCode)
	p.browser = s.newBrowser(t)
	first := p.send(t, "/login", url.Values{"name": {"李雷"}, "password": {goodPassword}, "next": {"/library/agents"}})
	require.Equal(t, http.StatusOK, first.StatusCode)
	require.Equal(t, http.StatusSeeOther, p.get(t, "/tasks").StatusCode, "the password alone is not enough")
	second := first.page(t).Find("[name=second]").AttrOr("value", "")
	require.NotEmpty(t, second)
	require.Equal(t, "/library/agents", p.signIn(t, url.Values{"second": {second}}).mustBe(t, 200)["next"])
	var methods []string
	require.NoError(t, s.tables.Select(&methods, `SELECT method FROM sessions ORDER BY created_at`))
	require.Equal(t, []string{"password", "passkey", "password+passkey"}, methods)

	// Passkeys that are not the account's are refused: another key, another site, a copy whose counter went back.
	p.browser = s.newBrowser(t)
	stranger := *p
	stranger.key = newCredential()
	require.Equal(t, http.StatusForbidden, stranger.signIn(t, nil).StatusCode)
	elsewhere := *p
	elsewhere.site.Origin = "http://localhost.evil.example"
	require.Equal(t, http.StatusForbidden, elsewhere.signIn(t, nil).StatusCode)
	once := ""
	p.ceremony(t, "/login/passkey", "/login/passkey/done", nil, func(options string) string {
		asked, err := virtualwebauthn.ParseAssertionOptions(options)
		require.NoError(t, err)
		p.key.Counter++
		once = virtualwebauthn.CreateAssertionResponse(p.site, p.device, p.key, *asked)
		return once
	}).mustBe(t, 200)
	request, err := http.NewRequest(http.MethodPost, p.URL+"/login/passkey/done", strings.NewReader(once))
	require.NoError(t, err)
	request.Header.Set("X-Passkey", p.lastKey)
	request.Header.Set("Origin", p.URL)
	require.Equal(t, http.StatusForbidden, p.do(t, request).StatusCode, "an answer counts once")
	p.key.Counter = 0
	require.Equal(t, http.StatusForbidden, p.signIn(t, nil).StatusCode)
	p.key.Counter = 100
	require.NoError(t, s.people.ChangeUser(t.Context(), user.ID, people.Change{IsDisabled: ptr(true)}))
	require.Equal(t, http.StatusForbidden, p.signIn(t, nil).StatusCode)
	require.NoError(t, s.people.ChangeUser(t.Context(), user.ID, people.Change{IsDisabled: ptr(false)}))

	// Without passkeys the password alone is enough again. A session that began long ago cannot make that change.
	p.signIn(t, nil).mustBe(t, 200)
	s.tables.MustExec(`UPDATE sessions SET created_at = now() - interval '16 min'`)
	require.Equal(t, http.StatusForbidden, p.register(t).StatusCode)
	require.Equal(t, http.StatusForbidden, p.send(t, "/account/second", url.Values{"needs": {"false"}}).StatusCode)
	p.signIn(t, nil).mustBe(t, 200)
	id := p.get(t, "/account").page(t).Find("form[action*='/passkeys/']").AttrOr("action", "")
	require.Equal(t, http.StatusSeeOther, p.send(t, id, nil).StatusCode)
	s.signedIn(t, "李雷")

	for _, address := range []string{"http://127.0.0.1:8080", "https://10.0.0.7", "http://wending.example",
		"https://[::1]:8443", "https://wending"} {
		none, err := access.NewPasskeys(address)
		require.NoError(t, err, address)
		require.Nil(t, none, address)
	}
}

// If a second factor is mandatory, an account without one must register it right after the password and can do
// nothing else until then; afterwards the password alone does not sign in, and the last passkey stays.
func TestASecondFactorForEverybody(t *testing.T) {
	t.Parallel()
	keys, err := access.NewPasskeys("http://localhost:1234")
	require.NoError(t, err)
	s := &guarded{site: newSiteAt(t, dbtest.URL(t), 0,
		handlers.Access{HasAccounts: true, Passkeys: keys, NeedsSecond: true, PublicURL: "http://localhost:1234"})}
	s.people = people.New(s.store)
	local := s.URL
	s.Server.URL = strings.Replace(s.URL, "127.0.0.1", "localhost", 1)
	user := s.user(t, "李雷", people.Editor, db.DefaultProject)
	s.tables.MustExec(`UPDATE users SET must_change_password = true`)
	p := &passkeys{
		browser: s.signedIn(t, "李雷"), key: newCredential(), device: virtualwebauthn.NewAuthenticator(),
		site: virtualwebauthn.RelyingParty{ID: "localhost", Name: "Wending", Origin: "http://localhost:1234"},
	}
	require.Contains(t, p.get(t, "/tasks").Header.Get("Location"), "/account/password", "first things first")
	require.Equal(t, http.StatusSeeOther, p.register(t).StatusCode)
	p.send(t, "/account/password", url.Values{"current": {goodPassword}, "password": {"a much better one"}})
	away := p.get(t, "/library/agents").Header.Get("Location")
	require.Equal(t, "/account/passkeys?next=%2Flibrary%2Fagents", away)
	refused := p.get(t, api).mustBe(t, 403)
	require.Contains(t, refused["message"], "通行密钥")
	require.Contains(t, p.send(t, "/account/password",
		url.Values{"current": {"a much better one"}, "password": {goodPassword}}).Header.Get("Location"), "/account/passkeys")
	page := p.get(t, away).page(t)
	require.Equal(t, "/library/agents", page.Find("form#passkey [name=next]").AttrOr("value", ""))
	s.Server.URL = local
	elsewhere := s.newBrowser(t)
	elsewhere.send(t, "/login", url.Values{"name": {"李雷"}, "password": {"a much better one"}})
	require.Equal(t, "http://localhost:1234",
		elsewhere.get(t, "/account/passkeys").page(t).Find(".gate a").AttrOr("href", ""), "where passkeys work")
	s.Server.URL = strings.Replace(local, "127.0.0.1", "localhost", 1)
	p.register(t).mustBe(t, 200)
	p.device.AddCredential(p.key)
	require.Equal(t, http.StatusOK, p.get(t, "/library/agents").StatusCode)
	require.Equal(t, http.StatusForbidden, p.send(t, "/account/second", url.Values{"needs": {"false"}}).StatusCode)
	id := p.get(t, "/account").page(t).Find("form[action*='/passkeys/']").AttrOr("action", "")
	require.Equal(t, http.StatusForbidden, p.send(t, id, nil).StatusCode, "the last one")

	p.browser = s.newBrowser(t)
	first := p.send(t, "/login", url.Values{"name": {"李雷"}, "password": {"a much better one"}})
	require.Equal(t, http.StatusOK, first.StatusCode)
	require.Equal(t, http.StatusSeeOther, p.get(t, "/tasks").StatusCode, "the password alone is not enough")
	p.signIn(t, url.Values{"second": {first.page(t).Find("[name=second]").AttrOr("value", "")}}).mustBe(t, 200)
	require.Equal(t, http.StatusOK, p.get(t, "/tasks").StatusCode)
	token := s.token(t, people.Viewer, db.DefaultProject, &user.ID)
	s.ask(t, token, http.MethodGet, api, nil).mustBe(t, 200)
}
