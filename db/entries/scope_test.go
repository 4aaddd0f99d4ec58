package entries_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"wending/db"
	"wending/db/dbtest"
	"wending/db/entries"
)

func TestMain(m *testing.M) { dbtest.Main(m) }

// An entry is read, changed, versioned and removed within the scope of its project or of all projects, and in no
// other.
func TestEntriesAreReachedWithinTheirScope(t *testing.T) {
	t.Parallel()
	store, tables := dbtest.Open(t)
	own, other := uuid.New(), uuid.New()
	tables.MustExec(`INSERT INTO projects (id, name) VALUES ($1, 'own'), ($2, 'other')`, own, other)
	home, library := db.InProject(own), entries.New(store)
	prompt := entries.Prompt{Entry: entries.Entry{ID: uuid.New(), Name: "简短"},
		PromptVersion: entries.PromptVersion{User: "{{question}}"}}
	require.NoError(t, library.InsertPrompt(t.Context(), home, prompt))
	page := db.Page{Number: 1, Size: 9}
	for name, scope := range map[string]db.Scope{"another project": db.InProject(other), "forgotten": {}} {
		for did, do := range map[string]func() error{
			"get":     func() error { _, err := library.Prompts.Get(t.Context(), scope, prompt.ID); return err },
			"named":   func() error { _, err := library.Prompts.Named(t.Context(), scope, prompt.Name); return err },
			"update":  func() error { return library.Prompts.Update(t.Context(), scope, prompt) },
			"remove":  func() error { _, err := library.Prompts.Remove(t.Context(), scope, prompt.ID); return err },
			"restore": func() error { return library.Prompts.Restore(t.Context(), scope, prompt.ID) },
			"add":     func() error { _, err := library.AddPromptVersion(t.Context(), scope, prompt); return err },
			"version": func() error { _, err := library.PromptVersion(t.Context(), scope, prompt.ID, 1); return err },
		} {
			err := do()
			require.ErrorIs(t, err, db.ErrNotFound, "%s: %s: %v", name, did, err)
		}
		rows, total, err := library.Prompts.List(t.Context(), scope, entries.Filter{}, page)
		require.NoError(t, err)
		require.Empty(t, rows, name)
		require.Zero(t, total, name)
		versions, err := library.PromptVersions(t.Context(), scope, prompt.ID, page)
		require.NoError(t, err)
		require.Empty(t, versions, name)
		notes, err := library.PromptNotes(t.Context(), scope, prompt.ID)
		require.NoError(t, err)
		require.Empty(t, notes, name)
	}
	require.Error(t, library.InsertPrompt(t.Context(), db.Scope{},
		entries.Prompt{Entry: entries.Entry{ID: uuid.New(), Name: "x"}}), "an entry belongs to a project")

	prompt.Name, prompt.User = "详细", "详细回答：{{question}}"
	require.NoError(t, library.Prompts.Update(t.Context(), home, prompt))
	changed, err := library.AddPromptVersion(t.Context(), db.AllProjects(), prompt)
	require.NoError(t, err)
	require.Equal(t, 2, changed.Version)
	found, err := library.Prompts.Named(t.Context(), home, "详细")
	require.NoError(t, err)
	require.Equal(t, prompt.User, found.User)
	versions, err := library.PromptVersions(t.Context(), home, prompt.ID, page)
	require.NoError(t, err)
	require.Len(t, versions, 2)
	isGone, err := library.Prompts.Remove(t.Context(), home, prompt.ID)
	require.NoError(t, err)
	require.True(t, isGone, "nothing used it")
}
