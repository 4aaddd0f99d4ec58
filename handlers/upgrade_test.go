package handlers_test

import (
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/stretchr/testify/require"

	"wending/db/dbtest"
	"wending/db/people"
	"wending/db/pg"
	"wending/handlers"
	"wending/handlers/access"
)

// beforeAccounts is the number of the last migration before accounts existed.
const beforeAccounts = "00026"

// migrateTo creates the schema of an older version in a database; last is the number of its last migration.
func migrateTo(t *testing.T, database, last string) {
	t.Helper()
	older := t.TempDir()
	files, err := filepath.Glob("../db/migrations/*.sql")
	require.NoError(t, err)
	for _, file := range files {
		if name := filepath.Base(file); name[:len(last)] <= last {
			content, err := os.ReadFile(file)
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(filepath.Join(older, name), content, 0o600))
		}
	}
	require.NoError(t, pg.Migrate(t.Context(), database, os.DirFS(older)))
}

// Accounts whose names look alike, from before such names were refused, are kept; no new account can resemble them, and
// administrators' tokens keep their reach.
func TestAccountsOfOlderVersionsAreUpgraded(t *testing.T) {
	t.Parallel()
	database := dbtest.Empty(t)
	migrateTo(t, database, "00031")
	tables, err := sqlx.Connect("postgres", database)
	require.NoError(t, err)
	tables.MustExec(`
		INSERT INTO users (id, name, created_at) VALUES (gen_random_uuid(), 'admin', now() - interval '1 day'),
		(gen_random_uuid(), 'аdmin', now()), (gen_random_uuid(), '李雷', now());
		INSERT INTO tokens (id, name, hash, hint, project_id, role) VALUES
			(gen_random_uuid(), 'operator', sha256('wnd_operator'), 'x', '00000000-0000-4000-8000-000000000001', 'admin'),
			(gen_random_uuid(), 'pipeline', sha256('wnd_pipeline'), 'x', '00000000-0000-4000-8000-000000000001', 'editor')`)
	require.NoError(t, tables.Close())
	s := &guarded{site: newSiteAt(t, database, 0, handlers.Access{HasAccounts: true})}
	s.people = people.New(s.store)
	var alike int
	require.NoError(t, s.tables.Get(&alike, `SELECT count(*) FROM users WHERE skeleton IS NULL`))
	require.Equal(t, 1, alike, "the younger one of the two that look alike")
	for _, name := range []string{"adrnin", "аdmin", "李雷"} {
		require.ErrorIs(t, s.people.AddUser(t.Context(), people.User{ID: uuid.New(), Name: name}), people.ErrNameTaken, name)
	}
	s.ask(t, "wnd_operator", http.MethodGet, "/api/v1/users", nil).mustBe(t, 200)
	s.ask(t, "wnd_pipeline", http.MethodGet, "/api/v1/users", nil).mustBe(t, 403)
}

// After the upgrade, the objects of an installation without accounts belong to the first project. The first user, who
// follows the set-up link, joins that project.
func TestAnInstallationWithoutAccountsIsUpgraded(t *testing.T) {
	t.Parallel()
	database := dbtest.Empty(t)
	migrateTo(t, database, beforeAccounts)
	tables, err := sqlx.Connect("postgres", database)
	require.NoError(t, err)
	task := dbtest.Seed(t, tables, 3, 2, 2)
	tables.MustExec(`
		INSERT INTO providers (id, name, protocol, base_url, retry_on)
		VALUES (gen_random_uuid(), '旧服务', 'openai', 'https://x.example', '{timeout}');
		INSERT INTO prompts (id, name, description) VALUES (gen_random_uuid(), '旧提示词', '');
		INSERT INTO prompt_versions (entry_id, version, system_template, user_template, note) SELECT id, 1, '', 'x', ''
		FROM prompts`)
	require.NoError(t, tables.Close())

	s := &guarded{site: newSiteAt(t, database, 0, handlers.Access{HasAccounts: true})}
	s.people = people.New(s.store)
	link, err := access.SetupLink(t.Context(), s.people, s.URL)
	require.NoError(t, err)
	b := s.newBrowser(t)
	key := b.get(t, strings.TrimPrefix(link, s.URL)).page(t).Find("[name=key]").AttrOr("value", "")
	made := b.send(t, "/setup", url.Values{"key": {key}, "name": {"管理员"}, "password": {goodPassword},
		"again": {goodPassword}})
	require.Equal(t, http.StatusSeeOther, made.StatusCode, "%s", made.body)
	page := b.get(t, "/tasks").page(t)
	require.Contains(t, page.Find(".who").Text(), "默认")
	require.Equal(t, 3, page.Find(".tasks tbody tr").Length())
	require.Equal(t, http.StatusOK, b.get(t, "/tasks/"+task.String()+"/results").StatusCode)
	require.Contains(t, string(b.get(t, "/library/providers").body), "旧服务")
	require.Contains(t, string(b.get(t, "/library/prompts").body), "旧提示词")
}
