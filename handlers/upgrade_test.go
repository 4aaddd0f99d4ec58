package handlers_test

import (
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jmoiron/sqlx"
	"github.com/stretchr/testify/require"

	"wending/db/dbtest"
	"wending/db/people"
	"wending/db/pg"
	"wending/handlers"
	"wending/handlers/signin"
)

// beforeAccounts is the last migration of an installation that had none.
const beforeAccounts = "00026"

// What an installation without accounts has belongs to the first project after the upgrade, and to whoever follows the set-up link.
func TestAnInstallationWithoutAccountsIsUpgraded(t *testing.T) {
	t.Parallel()
	database, older := dbtest.URL(t), t.TempDir()
	files, err := filepath.Glob("../db/migrations/*.sql")
	require.NoError(t, err)
	for _, file := range files {
		if name := filepath.Base(file); name[:len(beforeAccounts)] <= beforeAccounts {
			content, err := os.ReadFile(file)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(filepath.Join(older, name), content, 0o600))
		}
	}
	require.NoError(t, pg.Migrate(t.Context(), database, os.DirFS(older)))
	tables, err := sqlx.Connect("postgres", database)
	require.NoError(t, err)
	task := dbtest.Seed(t, tables, 3, 2, 2)
	tables.MustExec(`
		INSERT INTO providers (id, name, protocol, base_url, retry_on) VALUES (gen_random_uuid(), '旧服务', 'openai', 'https://x.example', '{timeout}');
		INSERT INTO prompts (id, name, description) VALUES (gen_random_uuid(), '旧提示词', '');
		INSERT INTO prompt_versions (entry_id, version, system_template, user_template, note) SELECT id, 1, '', 'x', '' FROM prompts`)
	require.NoError(t, tables.Close())

	s := &guarded{site: newSiteAt(t, database, 0, handlers.Access{HasAccounts: true})}
	s.people = people.New(s.store)
	link, err := signin.SetupLink(t.Context(), s.people, s.URL)
	require.NoError(t, err)
	b := s.newBrowser(t)
	key := b.get(t, strings.TrimPrefix(link, s.URL)).page(t).Find("[name=key]").AttrOr("value", "")
	made := b.send(t, "/setup", url.Values{"key": {key}, "name": {"管理员"}, "password": {goodPassword}, "again": {goodPassword}})
	require.Equal(t, http.StatusSeeOther, made.StatusCode, "%s", made.body)
	page := b.get(t, "/tasks").page(t)
	require.Contains(t, page.Find(".who").Text(), "默认")
	require.Equal(t, 3, page.Find(".tasks tbody tr").Length())
	require.Equal(t, http.StatusOK, b.get(t, "/tasks/"+task.String()+"/results").StatusCode)
	require.Contains(t, string(b.get(t, "/library/providers").body), "旧服务")
	require.Contains(t, string(b.get(t, "/library/prompts").body), "旧提示词")
}
