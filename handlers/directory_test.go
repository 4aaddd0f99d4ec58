package handlers_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-ldap/ldap/v3"
	"github.com/stretchr/testify/require"

	"wending/db"
	"wending/db/dbtest"
	"wending/db/people"
	"wending/handlers"
	"wending/handlers/access"
)

// The password of everybody in the test's directory.
const directoryPassword = "a directory's password"

// person returns the entry (LDIF) of a person.
func person(uid, mail string) string {
	return fmt.Sprintf("\ndn: uid=%s,ou=people,%s\nobjectClass: inetOrgPerson\ncn: %s\nsn: %s\nuid: %s\nmail: %s\n"+
		"userPassword: %s\n", uid, dbtest.SlapdBase, uid, uid, uid, mail, directoryPassword)
}

// folder returns the entry of an organizational unit.
func folder(name string) string {
	return fmt.Sprintf("\ndn: ou=%s,%s\nobjectClass: organizationalUnit\nou: %s\n", name, dbtest.SlapdBase, name)
}

// group returns the entry of a group that lists its members: DNs, or the names of POSIX accounts.
func group(name, under string, members ...string) string {
	class, list := "groupOfNames", "member"
	if !strings.Contains(members[0], "=") {
		class, list = "posixGroup\ngidNumber: 500", "memberUid"
	}
	return fmt.Sprintf("\ndn: cn=%s,ou=%s,%s\nobjectClass: %s\ncn: %s\n%s: %s\n", name, under, dbtest.SlapdBase, class,
		name, list, strings.Join(members, "\n"+list+": "))
}

func dnOf(uid string) string { return "uid=" + uid + ",ou=people," + dbtest.SlapdBase }

// directorySite is a site whose users sign in with a directory, and that directory.
type directorySite struct {
	*guarded
	*dbtest.Slapd
	visitors atomic.Int32
}

func configOf(server *dbtest.Slapd, roles string) access.DirectoryConfig {
	return access.DirectoryConfig{URL: server.Secure, StartTLS: true, CAFile: server.CAFile,
		BindDN: dbtest.SlapdService, BindPassword: dbtest.SlapdServicePassword, BaseDN: "ou=people," + dbtest.SlapdBase,
		GroupBaseDN: "ou=groups," + dbtest.SlapdBase, GroupRoles: roles}
}

func newDirectorySite(t *testing.T, server *dbtest.Slapd, config access.DirectoryConfig) *directorySite {
	t.Helper()
	directory, err := access.NewDirectory(config)
	require.NoError(t, err)
	s := &guarded{site: newSiteAt(t, dbtest.URL(t), 0, handlers.Access{HasAccounts: true, Directory: directory,
		Trusted: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})}
	s.people = people.New(s.store)
	return &directorySite{guarded: s, Slapd: server}
}

// from signs in at an address of the client.
func (b *browser) from(t *testing.T, address, name, password string) response {
	t.Helper()
	form := url.Values{"name": {name}, "password": {password}, "next": {"/compare"}}
	request, err := http.NewRequest(http.MethodPost, b.URL+"/login", strings.NewReader(form.Encode()))
	require.NoError(t, err)
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	request.Header.Set("Origin", b.URL)
	request.Header.Set("X-Forwarded-For", address)
	return b.do(t, request)
}

// in signs in with a browser and an address that nobody has used before.
func (s *directorySite) in(t *testing.T, name, password string) (*browser, response) {
	t.Helper()
	b := s.newBrowser(t)
	n := s.visitors.Add(1)
	return b, b.from(t, fmt.Sprintf("10.%d.%d.1", n/200, n%200), name, password)
}

// change changes the directory as its administrator.
func (s *directorySite) change(t *testing.T, do func(*ldap.Conn) error) {
	t.Helper()
	admin, err := ldap.DialURL(s.Plain)
	require.NoError(t, err)
	defer admin.Close()
	require.NoError(t, admin.Bind(dbtest.SlapdAdmin, dbtest.SlapdServicePassword))
	require.NoError(t, do(admin))
}

func (s *directorySite) rolesOf(t *testing.T, name string) map[string]people.Role {
	t.Helper()
	known, err := s.people.UserNamed(t.Context(), name)
	require.NoError(t, err)
	found, err := s.people.MembershipsOf(t.Context(), known.ID)
	require.NoError(t, err)
	byName := map[string]people.Role{}
	for _, one := range found {
		byName[one.ProjectName] = one.Role
	}
	return byName
}

// People sign in with the password of the one entry that has their name. Their rights follow from groups of all kinds,
// but only from those below the groups' base. Nothing that is typed becomes part of a filter.
func TestSigningInWithADirectory(t *testing.T) {
	t.Parallel()
	server := dbtest.StartSlapd(t, folder("people")+folder("groups")+folder("elsewhere")+
		person("lilei", "lilei@example.com")+person("hanmeimei", "han@example.com")+person("admin", "admin@example.com")+
		person("nobody", "nobody@example.com")+person("wang(wu)*", "wangwu@example.com")+
		person("twin", "twin1@example.com")+person("twin2", "twin")+person("impostor", "impostor@example.com")+
		group("Testers", "groups", dnOf("lilei"), dnOf("wang(wu)*"))+
		group("operators", "groups", "hanmeimei", "somebody")+
		group("operators", "elsewhere", dnOf("impostor"), dnOf("lilei")))
	s := newDirectorySite(t, server, configOf(server, "testers=editor, testers=viewer@法务, OPERATORS=admin"))
	s.project(t, "法务")
	local := s.user(t, "admin", people.Admin, db.DefaultProject)

	page := s.newBrowser(t).get(t, "/login?next=/compare").page(t)
	require.Equal(t, 1, page.Find("#password").Length(), "the form is the same")
	require.Zero(t, page.Find("#passkey").Length())
	b, answer := s.in(t, "lilei", directoryPassword)
	require.Equal(t, "/compare", answer.Header.Get("Location"), "%s", answer.body)
	require.Equal(t, http.StatusOK, b.get(t, "/compare").StatusCode)
	require.Equal(t, map[string]people.Role{"默认": people.Editor, "法务": people.Viewer}, s.rolesOf(t, "lilei"))
	require.Equal(t, http.StatusForbidden, b.get(t, "/admin/users").StatusCode, "a group elsewhere does not count")
	require.Contains(t, string(b.get(t, "/account").body), "密码")
	require.Zero(t, b.get(t, "/account").page(t).Find("[name=current]").Length(), "the password is changed elsewhere")

	// Other spellings and the address lead to the same account.
	before, err := s.people.UserNamed(t.Context(), "lilei")
	require.NoError(t, err)
	for _, name := range []string{" LiLei ", "LILEI@example.com"} {
		_, answer = s.in(t, name, directoryPassword)
		require.Equal(t, http.StatusSeeOther, answer.StatusCode, name)
	}
	var accounts int
	require.NoError(t, s.tables.Get(&accounts, `SELECT count(*) FROM users WHERE subject = $1`, *before.Subject))
	require.Equal(t, 1, accounts)
	require.True(t, strings.HasPrefix(*before.Subject, "ldap entryUUID="), *before.Subject)

	operator, answer := s.in(t, "hanmeimei", directoryPassword)
	require.Equal(t, http.StatusSeeOther, answer.StatusCode)
	users := operator.get(t, "/admin/users")
	require.Equal(t, http.StatusOK, users.StatusCode, "POSIX groups count")
	require.Zero(t, users.page(t).Find("[name=password]").Length(), "accounts are not created here")
	_, answer = s.in(t, "wang(wu)*", directoryPassword)
	require.Equal(t, http.StatusSeeOther, answer.StatusCode, "unusual, but a name: also in the search for groups")

	t.Run("refused", func(t *testing.T) { s.refuse(t) })
	require.Contains(t, s.told.String(), "more than one entry matches")

	// The name of a local account is not given to another person, who gets another name.
	_, answer = s.in(t, "admin", directoryPassword)
	require.Equal(t, http.StatusForbidden, answer.StatusCode, "in no group")
	require.Contains(t, string(answer.body), "用户组")
	s.change(t, func(admin *ldap.Conn) error {
		modify := ldap.NewModifyRequest("cn=Testers,ou=groups,"+dbtest.SlapdBase, nil)
		modify.Add("member", []string{dnOf("admin")})
		return admin.Modify(modify)
	})
	_, answer = s.in(t, "admin", directoryPassword)
	require.Equal(t, http.StatusSeeOther, answer.StatusCode)
	twin, err := s.people.UserNamed(t.Context(), "admin · admin@example.com")
	require.NoError(t, err)
	require.NotEqual(t, local.ID, twin.ID)

	// An account that is deactivated here stays out, and learns why once the password is right.
	require.NoError(t, s.people.ChangeUser(t.Context(), before.ID, people.Change{IsDisabled: ptr(true)}))
	_, answer = s.in(t, "lilei", directoryPassword)
	require.Equal(t, http.StatusForbidden, answer.StatusCode)
	require.Contains(t, string(answer.body), "此账号已停用")
	_, answer = s.in(t, "lilei", "wrong")
	require.Equal(t, http.StatusUnauthorized, answer.StatusCode)
	require.Equal(t, http.StatusSeeOther, b.get(t, "/compare").StatusCode, "signed out")

	var audit string
	require.NoError(t, s.tables.Get(&audit, `SELECT string_agg(e::text, E'\n') FROM audit_entries e`))
	require.Contains(t, audit, "sign-in.refused")
	require.Regexp(t, `sign-in,user,[^,]+,hanmeimei`, audit)
	for _, secret := range []string{directoryPassword, dbtest.SlapdServicePassword, goodPassword} {
		require.NotContains(t, audit, secret)
		require.NotContains(t, s.told.String(), secret)
	}
	refused := operator.send(t, "/admin/users", url.Values{"name": {"x"}, "password": {goodPassword}, "role": {"viewer"}})
	require.Equal(t, http.StatusForbidden, refused.StatusCode)
	require.Contains(t, string(refused.body), "不能在此创建或设置密码")
}

// refuse requires that credentials which must not sign anybody in are refused.
func (s *directorySite) refuse(t *testing.T) {
	for what, test := range map[string]struct{ name, password string }{
		"a wrong password":          {"lilei", "wrong"},
		"no password":               {"lilei", ""},
		"no name":                   {"", directoryPassword},
		"a filter":                  {"*)(uid=*", directoryPassword},
		"a pattern":                 {"lile*", directoryPassword},
		"an or":                     {"x)(|(uid=lilei", directoryPassword},
		"nobody":                    {"unknown", directoryPassword},
		"nul":                       {"lilei\x00", directoryPassword},
		"two entries":               {"twin", directoryPassword},
		"the service account":       {"wending", dbtest.SlapdServicePassword},
		"a local account":           {"admin", goodPassword},
		"a long name":               {strings.Repeat("x", 300), directoryPassword},
		"a DN":                      {dnOf("lilei"), directoryPassword},
		"a very long password":      {"lilei", strings.Repeat("x", 300)},
		"another person's password": {"hanmeimei", goodPassword},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel() // because a refusal takes its time
			b, answer := s.in(t, test.name, test.password)
			require.Equal(t, http.StatusUnauthorized, answer.StatusCode)
			require.Contains(t, answer.page(t).Find("[role=alert]").Text(), "用户名或密码不正确")
			require.Empty(t, b.session(t))
		})
	}
}

// Guesses are counted for the entry, however its name is written, and the browsers of its owner are not affected.
func TestGuessesWithADirectoryAreCounted(t *testing.T) {
	t.Parallel()
	server := dbtest.StartSlapd(t, folder("people")+folder("groups")+person("lilei", "lilei@example.com")+
		person("hanmeimei", "han@example.com"))
	s := newDirectorySite(t, server, configOf(server, "*=editor"))
	known := s.newBrowser(t)
	require.Equal(t, http.StatusSeeOther, known.from(t, "10.0.0.5", "lilei", directoryPassword).StatusCode)
	for n := range 5 {
		name := []string{"lilei", "LILEI", "lilei@example.com"}[n%3]
		require.Equal(t, http.StatusUnauthorized, s.newBrowser(t).from(t, "10.0.0.5", name, "guess").StatusCode)
	}
	for _, name := range []string{"lilei", "LiLei", "lilei@example.com"} {
		require.Equal(t, http.StatusTooManyRequests, s.newBrowser(t).from(t, "10.0.0.5", name, directoryPassword).StatusCode)
		require.Equal(t, http.StatusSeeOther, known.from(t, "10.0.0.5", name, directoryPassword).StatusCode, name)
	}
	require.Equal(t, http.StatusSeeOther, s.newBrowser(t).from(t, "10.0.0.5", "hanmeimei", directoryPassword).StatusCode,
		"others sign in")
	for range 5 {
		require.Equal(t, http.StatusUnauthorized, s.newBrowser(t).from(t, "10.0.0.6", "unknown", "guess").StatusCode)
	}
	require.Equal(t, http.StatusTooManyRequests, s.newBrowser(t).from(t, "10.0.0.6", "unknown", "guess").StatusCode,
		"as for names that the directory has")
}

// A user's rights are updated from the directory within the hour while a session lasts; the session ends if the
// directory no longer has the user. If the directory is unavailable, that does not count as a wrong password.
func TestADirectoryIsAskedAgain(t *testing.T) {
	t.Parallel()
	server := dbtest.StartSlapd(t, folder("people")+folder("groups")+person("lilei", "lilei@example.com")+
		person("leaver", "leaver@example.com")+person("locked", "locked@example.com")+
		person("outsider", "outsider@example.com")+group("operators", "groups", "lilei", "leaver", "locked", "outsider")+
		group("testers", "groups", dnOf("leaver")))
	config := configOf(server, "operators=admin, testers=editor")
	config.URL, config.GroupFilter = server.Plain, "(memberUid={name})" // and StartTLS; DNs are found in memberOf only
	s := newDirectorySite(t, server, config)
	b, answer := s.in(t, "lilei", directoryPassword)
	require.Equal(t, http.StatusSeeOther, answer.StatusCode, "%s", s.told.String())
	leaver, answer := s.in(t, "leaver", directoryPassword)
	require.Equal(t, http.StatusSeeOther, answer.StatusCode)
	locked, answer := s.in(t, "locked", directoryPassword)
	require.Equal(t, http.StatusSeeOther, answer.StatusCode)
	outsider, answer := s.in(t, "outsider", directoryPassword)
	require.Equal(t, http.StatusSeeOther, answer.StatusCode)
	shows := func(b *browser, path string, status int) func() bool {
		return func() bool { // a page that is being sent when rights change is cut off, so its body is not read
			answer, err := b.client.Get(b.URL + path)
			return err == nil && answer.Body.Close() == nil && answer.StatusCode == status
		}
	}
	require.True(t, shows(b, "/admin/users", http.StatusOK)())
	s.change(t, func(admin *ldap.Conn) error {
		move := ldap.NewModifyRequest("cn=operators,ou=groups,"+dbtest.SlapdBase, nil)
		move.Delete("memberUid", []string{"lilei", "outsider"})
		join := ldap.NewModifyRequest("cn=testers,ou=groups,"+dbtest.SlapdBase, nil)
		join.Add("member", []string{dnOf("lilei")})
		lock := ldap.NewModifyRequest(dnOf("locked"), nil)
		lock.Replace("pwdAccountLockedTime", []string{"000001010000Z"})
		return errors.Join(admin.Modify(move), admin.Modify(join), admin.Modify(lock),
			admin.Del(ldap.NewDelRequest(dnOf("leaver"), nil)))
	})
	s.tables.MustExec(`UPDATE sessions SET seen_at = now() - interval '11 hours'`)
	s.age(t, "55 min")
	dbtest.Await(t, 30*time.Second, "the end of the rights, also while nobody uses them", func() bool {
		return len(s.rolesOf(t, "outsider")) == 0
	})
	dbtest.Await(t, 30*time.Second, "the new groups", shows(b, "/admin/users", http.StatusForbidden))
	require.True(t, shows(b, "/compare", http.StatusOK)(), "an editor, by memberOf, without signing in again")
	dbtest.Await(t, 30*time.Second, "the end of the leaver's session", shows(leaver, "/tasks", http.StatusSeeOther))
	dbtest.Await(t, 30*time.Second, "the end of the locked session", shows(locked, "/tasks", http.StatusSeeOther))
	require.True(t, shows(outsider, "/compare", http.StatusForbidden)(), "in no group any more")
	for _, name := range []string{"leaver", "locked"} {
		_, answer = s.in(t, name, directoryPassword)
		require.Equal(t, http.StatusUnauthorized, answer.StatusCode, name)
	}

	server.Stop()
	for range 7 {
		answer = s.newBrowser(t).from(t, "10.9.9.9", "lilei", directoryPassword)
		require.Equal(t, http.StatusServiceUnavailable, answer.StatusCode)
		require.Contains(t, answer.page(t).Find("[role=alert]").Text(), "暂时没有响应")
	}
	require.Equal(t, "lilei", answer.page(t).Find("#name").AttrOr("value", ""))
	s.age(t, "55 min")
	dbtest.Await(t, 30*time.Second, "a failed renewal", func() bool {
		return strings.Contains(s.told.String(), "will retry until its session ends")
	})
	require.True(t, shows(b, "/compare", http.StatusOK)(), "until the hour is over")
	s.age(t, "61 min")
	require.True(t, shows(b, "/compare", http.StatusSeeOther)())
	require.NotContains(t, s.told.String(), dbtest.SlapdServicePassword)
	require.NotContains(t, s.told.String(), directoryPassword)
}

// Connections are encrypted, and only to the server that the certificate names, unless the settings say otherwise.
// Checking the settings finds what a sign-in would stumble over.
func TestADirectoryIsChecked(t *testing.T) {
	t.Parallel()
	server := dbtest.StartSlapd(t, folder("people")+folder("groups")+folder("empty")+person("lilei", "lilei@example.com")+
		group("testers", "groups", dnOf("lilei")))
	for what, test := range map[string]struct {
		change func(*access.DirectoryConfig)
		says   string // empty means that the check succeeds
	}{
		"ldaps":    {func(*access.DirectoryConfig) {}, ""},
		"StartTLS": {func(c *access.DirectoryConfig) { c.URL = server.Plain }, ""},
		"plain":    {func(c *access.DirectoryConfig) { c.URL, c.StartTLS, c.CAFile = server.Plain, false, "" }, ""},
		"an untrusted certificate": {func(c *access.DirectoryConfig) { c.CAFile = "" },
			"unknown authority"},
		"StartTLS with an untrusted certificate": {func(c *access.DirectoryConfig) { c.URL, c.CAFile = server.Plain, "" },
			"unknown authority"},
		"another server's certificate": {func(c *access.DirectoryConfig) {
			c.URL = strings.Replace(c.URL, "127.0.0.1", "localhost", 1)
		}, "certificate"},
		"TLS where there is none": {func(c *access.DirectoryConfig) {
			c.URL = strings.Replace(server.Plain, "ldap:", "ldaps:", 1)
		}, "check LDAP_URL"},
		"nobody there":     {func(c *access.DirectoryConfig) { c.URL = "ldap://127.0.0.1:9" }, "check LDAP_URL"},
		"a wrong password": {func(c *access.DirectoryConfig) { c.BindPassword = "canary" }, "sign in as LDAP_BIND_DN"},
		"no people":        {func(c *access.DirectoryConfig) { c.BaseDN = "ou=empty," + dbtest.SlapdBase }, "nobody below"},
		"no base":          {func(c *access.DirectoryConfig) { c.BaseDN = "ou=none," + dbtest.SlapdBase }, "LDAP_BASE_DN"},
		"no groups' base": {func(c *access.DirectoryConfig) { c.GroupBaseDN = "ou=none," + dbtest.SlapdBase },
			"LDAP_GROUP_BASE_DN"},
		"not allowed to look": {func(c *access.DirectoryConfig) {
			c.BindDN, c.BindPassword = dnOf("lilei"), directoryPassword
		}, "LDAP_BASE_DN"},
		"an anonymous search": {func(c *access.DirectoryConfig) { c.BindDN, c.BindPassword = "", "" }, "LDAP_BASE_DN"},
		"other groups":        {func(c *access.DirectoryConfig) { c.GroupFilter = "(memberUid={name})" }, ""},
		"people found otherwise": {func(c *access.DirectoryConfig) {
			c.UserFilter = "(&(objectClass=inetOrgPerson)(cn={name}))"
		}, ""},
	} {
		config := configOf(server, "*=viewer")
		test.change(&config)
		directory, err := access.NewDirectory(config)
		require.NoError(t, err, what)
		found, err := directory.Check(t.Context())
		if test.says == "" {
			require.NoError(t, err, what)
			require.Contains(t, found, "one person was found", what)
			continue
		}
		require.ErrorContains(t, err, test.says, what)
		require.NotContains(t, err.Error(), dbtest.SlapdServicePassword, what)
		require.NotContains(t, err.Error(), "canary", what)
	}
}
