package access

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-ldap/ldap/v3"
	"github.com/stretchr/testify/require"
)

func validDirectory() DirectoryConfig {
	return DirectoryConfig{URL: "ldaps://ldap.example", BaseDN: "ou=people,dc=example", BindDN: "cn=x,dc=example",
		BindPassword: "canary", GroupRoles: "Testers=editor"}
}

// Settings that would not work, or would let the wrong people in, are refused with what to do, and without secrets.
func TestSettingsOfADirectoryAreChecked(t *testing.T) {
	t.Parallel()
	notPEM := filepath.Join(t.TempDir(), "ca.pem")
	require.NoError(t, os.WriteFile(notPEM, []byte("not PEM"), 0o600))
	for what, test := range map[string]struct {
		change func(*DirectoryConfig)
		says   string // empty means that the settings are valid
	}{
		"valid":                  {func(*DirectoryConfig) {}, ""},
		"a port":                 {func(c *DirectoryConfig) { c.URL = "ldap://[::1]:3890/" }, ""},
		"Active Directory":       {func(c *DirectoryConfig) { c.BindDN = `EXAMPLE\wending` }, ""},
		"anonymous":              {func(c *DirectoryConfig) { c.BindDN, c.BindPassword = "", "" }, ""},
		"nested groups":          {func(c *DirectoryConfig) { c.GroupFilter = "(member:1.2.840.113556.1.4.1941:={dn})" }, ""},
		"no URL":                 {func(c *DirectoryConfig) { c.URL = "" }, "LDAP_URL"},
		"another scheme":         {func(c *DirectoryConfig) { c.URL = "https://ldap.example" }, "LDAP_URL"},
		"no scheme":              {func(c *DirectoryConfig) { c.URL = "ldap.example:389" }, "LDAP_URL"},
		"a base in the URL":      {func(c *DirectoryConfig) { c.URL = "ldaps://ldap.example/dc=example" }, "LDAP_URL"},
		"a password in the URL":  {func(c *DirectoryConfig) { c.URL = "ldaps://cn=x:canary@ldap.example" }, "LDAP_URL"},
		"no base":                {func(c *DirectoryConfig) { c.BaseDN = "" }, "LDAP_BASE_DN"},
		"an odd base":            {func(c *DirectoryConfig) { c.BaseDN = "people" }, "LDAP_BASE_DN"},
		"an odd account":         {func(c *DirectoryConfig) { c.BindDN = "cn=x,dc" }, "LDAP_BIND_DN"},
		"an odd groups' base":    {func(c *DirectoryConfig) { c.GroupBaseDN = "groups" }, "LDAP_GROUP_BASE_DN"},
		"no password":            {func(c *DirectoryConfig) { c.BindPassword = "" }, "LDAP_BIND_PASSWORD"},
		"a password for nobody":  {func(c *DirectoryConfig) { c.BindDN = "" }, "LDAP_BIND_DN"},
		"no roles":               {func(c *DirectoryConfig) { c.GroupRoles = "" }, "LDAP_GROUP_ROLES must be set"},
		"odd roles":              {func(c *DirectoryConfig) { c.GroupRoles = "testers=king" }, "LDAP_GROUP_ROLES"},
		"no authorities":         {func(c *DirectoryConfig) { c.CAFile = notPEM + ".none" }, "LDAP_CA_FILE"},
		"authorities not in PEM": {func(c *DirectoryConfig) { c.CAFile = notPEM }, "LDAP_CA_FILE"},
		"a filter for everybody": {func(c *DirectoryConfig) { c.UserFilter = "(uid=lilei)" }, "{name}"},
		"a broken filter":        {func(c *DirectoryConfig) { c.UserFilter = "(uid={name}" }, "LDAP_USER_FILTER"},
		"all groups":             {func(c *DirectoryConfig) { c.GroupFilter = "(objectClass=groupOfNames)" }, "LDAP_GROUP_FILTER"},
		"a broken group filter":  {func(c *DirectoryConfig) { c.GroupFilter = "member={dn}" }, "LDAP_GROUP_FILTER"},
	} {
		config := validDirectory()
		test.change(&config)
		_, err := NewDirectory(config)
		if test.says == "" {
			require.NoError(t, err, what)
			continue
		}
		require.ErrorContains(t, err, test.says, what)
		require.NotContains(t, err.Error(), "canary", what)
	}
}

// What is put into a filter stays one value.
func TestFiltersAreFilled(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"lilei", "李雷", "*", "*)(uid=*", `a\2a`, "x\x00y", "(", "{dn}", "{name}", `\`} {
		filter := fill("(&(uid={name})(member={dn}))", text, text)
		require.Equal(t, 2, strings.Count(filter, "="+ldap.EscapeFilter(text)+")"), filter)
		compiled, err := ldap.CompileFilter(filter)
		require.NoError(t, err, text)
		require.Len(t, compiled.Children, 2, text)
		for _, one := range compiled.Children {
			require.Equal(t, ldap.FilterMap[ldap.FilterEqualityMatch], one.Description, text)
			require.Equal(t, text, one.Children[1].Data.String(), "as it was typed")
		}
	}
	_, err := ldap.CompileFilter(fill(DefaultGroupFilter, "", "cn=x")) // a person without uid
	require.NoError(t, err)
}

// An entry is known by its permanent id, and not at all if an administrator of the directory has locked it.
func TestEntriesAreRead(t *testing.T) {
	t.Parallel()
	for want, attributes := range map[string]map[string][]string{
		"":                     {"uid": {"lilei"}},
		"entryUUID=ab-1":       {"entryuuid": {"AB-1"}, "objectGUID": {"\x01\xff"}},
		"objectGUID=01ff":      {"objectGUID": {"\x01\xff"}},
		"nsUniqueId=ab-1":      {"nsuniqueid": {"ab-1"}},
		"ipaUniqueID=ab-2-3-4": {"ipaUniqueID": {"ab-2-3-4"}},
	} {
		about := &consultation{entry: ldap.NewEntry("uid=lilei,dc=example", attributes)}
		require.Equal(t, want, about.subject())
	}
	for _, test := range []struct {
		name, value string
		isLocked    bool
	}{
		{"userAccountControl", "514", true}, {"userAccountControl", "512", false}, {"userAccountControl", "66050", true},
		{"pwdAccountLockedTime", "000001010000Z", true}, {"pwdAccountLockedTime", "20260101000000Z", false},
		{"nsAccountLock", "TRUE", true}, {"nsAccountLock", "false", false}, {"uid", "2", false},
	} {
		entry := ldap.NewEntry("uid=lilei,dc=example", map[string][]string{test.name: {test.value}})
		require.Equal(t, test.isLocked, isLocked(entry), test)
	}
}
