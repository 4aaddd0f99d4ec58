package main

import (
	"bytes"
	"net"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"wending/db/dbtest"
)

// The doctor finds nothing wrong while the program runs normally; otherwise it names each problem and its remedy. It
// never creates a key.
func TestTheDoctorSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	database, redis, folder := dbtest.Start(t), dbtest.Redis(t), dbtest.Folder(t)
	shared := []string{"--database-url", database, "--redis-url", redis, "--data-dir", folder}
	doctor := func(args ...string) (code int, states map[string]string, said string) {
		var out, log bytes.Buffer
		code = run(t.Context(), append([]string{"doctor"}, args...), func(string) string { return "" }, &out, &log)
		states = map[string]string{}
		for _, line := range regexp.MustCompile(`(?m)^(\S+) +(.{18}) `).FindAllStringSubmatch(out.String(), -1) {
			states[string(bytes.TrimSpace([]byte(line[2])))] = line[1]
		}
		return code, states, out.String()
	}
	code, states, said := doctor(shared...)
	require.Zero(t, code, said)
	require.Equal(t, "warning", states["secret key"], said)
	require.NoFileExists(t, folder+"/secret.key")

	start(t, append([]string{"serve", "--listen-addr", "127.0.0.1:0", "--secret-key", dbtest.SecretKey}, shared...)...)
	code, states, said = doctor(append(shared, "--secret-key", dbtest.SecretKey)...)
	require.Zero(t, code, said)
	for _, name := range []string{"settings", "data folder", "PostgreSQL", "secret key", "Redis", "store of files"} {
		require.Equal(t, "ok", states[name], said)
	}
	code, states, said = doctor(append(shared, "--secret-key", "another")...)
	require.Equal(t, 1, code, said)
	require.Equal(t, "FAILED", states["secret key"], said)
	require.Contains(t, said, "rotate-key")

	closed, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, closed.Close())
	open, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer open.Close()
	_, tables := dbtest.OpenAt(t, database)
	for name, host := range map[string]string{"open": open.Addr().String(), "closed": closed.Addr().String()} {
		tables.MustExec(`INSERT INTO agents (id, name, protocol, url, retry_on)
			VALUES (gen_random_uuid(), $1, 'wending', $2, '{}')`, name, "http://"+host+"/secret-path")
	}
	code, states, said = doctor(append(shared, "--secret-key", dbtest.SecretKey)...)
	require.Zero(t, code, said)
	require.Equal(t, "warning", states["agents' hosts"], said)
	require.Contains(t, said, "1 of 2 cannot be reached from here")
	require.Contains(t, said, closed.Addr().String())
	require.NotContains(t, said, "secret-path")
	_, states, said = doctor(append(shared, "--secret-key", dbtest.SecretKey, "--agent-api-allowlist", "10.0.0.1",
		"--backup-cron", "0 3 * * *", "--backup-to", folder+"/backups")...)
	require.Contains(t, said, "2 of 2 cannot be reached from here")
	require.Contains(t, said, "AGENT_API_ALLOWLIST")
	require.Equal(t, "ok", states["place of backups"], said)
	code, states, said = doctor("--database-url", "postgres://u:p@"+closed.Addr().String()+"/d", "--redis-url",
		"redis://"+closed.Addr().String(), "--data-dir", folder, "--runs-per-item", "100", "--oidc-issuer",
		"http://"+closed.Addr().String())
	require.Equal(t, 1, code, said)
	for _, name := range []string{"settings", "PostgreSQL", "Redis", "OpenID provider"} {
		require.Equal(t, "FAILED", states[name], said)
	}
	require.Contains(t, said, "check DATABASE_URL")
	require.Contains(t, said, "RUNS_PER_ITEM")
	require.NotContains(t, said, "u:p@")
}

// The doctor checks the directory, warns of unencrypted passwords, and never prints the service account's password.
func TestTheDoctorAsksTheDirectory(t *testing.T) {
	t.Parallel()
	server := dbtest.StartSlapd(t, `
dn: uid=lilei,`+dbtest.SlapdBase+`
objectClass: inetOrgPerson
cn: Li Lei
sn: Li
uid: lilei
`)
	for _, test := range []struct{ url, startTLS, bindPassword, state, says string }{
		{server.Secure, "true", dbtest.SlapdServicePassword, "ok", "one person was found"},
		{server.Plain, "true", dbtest.SlapdServicePassword, "ok", "one person was found"},
		{server.Plain, "false", dbtest.SlapdServicePassword, "warning", "unencrypted"},
		{server.Plain, "true", "canary", "FAILED", "LDAP_BIND_PASSWORD"},
		{server.Plain + "/dc=example", "true", "canary", "FAILED", "LDAP_URL"},
	} {
		var out, log bytes.Buffer
		environment := map[string]string{"AUTH": "ldap", "LDAP_URL": test.url, "LDAP_STARTTLS": test.startTLS,
			"LDAP_CA_FILE": server.CAFile, "LDAP_BIND_DN": dbtest.SlapdService, "LDAP_BIND_PASSWORD": test.bindPassword,
			"LDAP_BASE_DN": dbtest.SlapdBase, "LDAP_GROUP_ROLES": "testers=editor", "DATA_DIR": dbtest.Folder(t)}
		run(t.Context(), []string{"doctor"}, func(name string) string { return environment[name] }, &out, &log)
		require.Regexp(t, `(?m)^`+test.state+` +LDAP directory .*`+test.says, out.String())
		require.NotContains(t, out.String()+log.String(), test.bindPassword)
	}
}
