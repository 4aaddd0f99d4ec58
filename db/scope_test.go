package db_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"wending/db"
	"wending/db/dbtest"
	"wending/db/engine"
	"wending/db/tasklist"
	"wending/db/upkeep"
)

// Objects of a project cannot be read or changed in the scope of another project, nor in the zero scope.
func TestTasksAreReachedWithinTheirScope(t *testing.T) {
	t.Parallel()
	store, tables := dbtest.Open(t)
	own, other := uuid.New(), uuid.New()
	tables.MustExec(`INSERT INTO projects (id, name) VALUES ($1, 'own'), ($2, 'other')`, own, other)
	const agent = "http://127.0.0.1:9"
	n := db.NewTask{
		Task: db.Task{
			ID: uuid.New(), ProjectID: own, Name: "t", Targets: dbtest.Targets(agent), Variants: dbtest.Variants(),
			RunsPerItem: 1, TimeoutSeconds: 1, Concurrency: 1,
		},
		Items: []db.NewItem{{QuestionID: "q", Question: "q"}},
	}
	_, err := store.CreateTask(t.Context(), n)
	require.NoError(t, err)
	id, launch := n.Task.ID, db.NewLaunch{Targets: dbtest.Limits(agent)}
	list := tasklist.New(store)
	for name, scope := range map[string]db.Scope{"another project": db.InProject(other), "forgotten": {}} {
		for did, do := range map[string]func() error{
			"read": func() error { _, err := store.Task(t.Context(), scope, id); return err },
			"launch": func() error {
				_, err := store.RequestLaunch(t.Context(), scope, id, db.LaunchSubmit, db.Selection{}, launch)
				return err
			},
			"extend":   func() error { _, err := store.ExtendTask(t.Context(), scope, id, nil, 2, launch); return err },
			"evaluate": func() error { _, err := store.EvaluateTask(t.Context(), scope, id, nil, nil, launch); return err },
			"append": func() error {
				items := []db.NewItem{{QuestionID: "r", Question: "r"}}
				_, err := engine.NewAdditions(store).Append(t.Context(), scope, id, items,
					engine.AdditionLimits{Items: 9, Bytes: 99}, launch)
				return err
			},
			"delete": func() error { return upkeep.New(store).DeleteTask(t.Context(), scope, id) },
		} {
			err := do()
			require.ErrorIs(t, err, db.ErrNotFound, "%s: %s: %v", name, did, err)
		}
		found, err := store.TasksByID(t.Context(), scope, []uuid.UUID{id})
		require.NoError(t, err)
		require.Empty(t, found, name)
		found, total, err := list.Tasks(t.Context(), scope, tasklist.Filter{}, db.Page{Number: 1, Size: 9})
		require.NoError(t, err)
		require.Empty(t, found, name)
		require.Zero(t, total, name)
		has, err := list.HasTasks(t.Context(), scope)
		require.NoError(t, err)
		require.False(t, has, name)
	}
	_, err = store.RequestLaunch(t.Context(), db.InProject(own), id, db.LaunchSubmit, db.Selection{}, launch)
	require.NoError(t, err)
	for _, scope := range []db.Scope{db.InProject(other), {}} {
		_, err = store.StopTask(t.Context(), scope, id, db.Actor{})
		require.ErrorIs(t, err, db.ErrConflict, "it has no launch that could be stopped")
	}
	for _, scope := range []db.Scope{db.InProject(own), db.AllProjects()} {
		task, err := store.Task(t.Context(), scope, id)
		require.NoError(t, err)
		require.Equal(t, db.TaskRunning, task.Status, "nobody stopped it")
		require.Equal(t, 1, task.TotalItems)
		require.Equal(t, db.InProject(own), task.Scope())
		_, total, err := list.Tasks(t.Context(), scope, tasklist.Filter{}, db.Page{Number: 1, Size: 9})
		require.NoError(t, err)
		require.Equal(t, 1, total)
	}
	n.Task.ID, n.Task.ProjectID = uuid.New(), uuid.Nil
	_, err = store.CreateTask(t.Context(), n)
	require.Error(t, err, "a task belongs to a project")
}
