package jobs_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"wending/db"
	"wending/db/dbtest"
	"wending/jobs"
	"wending/jobs/agent/agenttest"
	"wending/jobs/secret"
	"wending/jobs/tasks"
)

func TestHeadersThatCannotBeDecryptedFailTheTaskWithItsReason(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	fake := agenttest.New(t, answer)
	other, err := secret.NewSealer(secret.Keys{Current: "CQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQk="})
	require.NoError(t, err)
	taskID, launchID := b.task(t, fake.URL, 2, func(n *db.NewTask) {
		n.Task.Targets[0].SealedHeaders, err = other.Seal(map[string]string{"Authorization": "Bearer x"}, n.Task.ID.String())
		require.NoError(t, err)
	})
	b.startWorker(t, 1)
	require.NoError(t, b.queue.EnqueueLaunch(t.Context(), launchID))
	task := b.awaitEnd(t, taskID, 20*time.Second)
	require.Equal(t, db.TaskFailed, task.Status)
	require.Equal(t, jobs.FailureSecretKey, *task.FailureCode)
	require.Empty(t, fake.Calls())
}

// A worker that was started before the installation's key was replaced leaves launches whose secrets it cannot open
// to other workers.
func TestAWorkerWithTheFormerKeyFailsNobodysTask(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	fake := agenttest.New(t, answer)
	current, err := tasks.NewSealer(t.Context(), b.store,
		secret.Keys{Current: "CQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQk="})
	require.NoError(t, err)
	taskID, launchID := b.task(t, fake.URL, 2, func(n *db.NewTask) {
		require.NoError(t, tasks.Seal(current, tasks.Target{URL: fake.URL, Headers: map[string]string{"X-Key": "k"}},
			&n.Task.Targets[0]))
	})
	stop := b.startWorker(t, 1)
	require.NoError(t, b.queue.EnqueueLaunch(t.Context(), launchID))
	dbtest.Await(t, 20*time.Second, "the worker has tried", func() bool {
		task, err := b.store.Task(t.Context(), db.AllProjects(), taskID)
		require.NoError(t, err)
		return task.Status == db.TaskRunning
	})
	stop()
	task, err := b.store.Task(t.Context(), db.AllProjects(), taskID)
	require.NoError(t, err)
	require.Equal(t, db.TaskRunning, task.Status)
	require.Empty(t, fake.Calls())
	b.sealer = current
	b.startWorker(t, 1)
	b.requireComplete(t, b.awaitEnd(t, taskID, 30*time.Second))
}

// The first process decides which key is the installation's key; only a process that also has that key may replace
// it.
func TestAnotherSecretKeyIsRefused(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	key := func(n byte) string { return base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{n}, 32)) }
	open := func(keys secret.Keys) error {
		_, err := tasks.NewSealer(t.Context(), b.store, keys)
		return err
	}
	b.task(t, "http://127.0.0.1:1/", 1, func(n *db.NewTask) { // as in a version that stored no check value
		require.NoError(t, tasks.Seal(b.sealer,
			tasks.Target{URL: "http://127.0.0.1:1/", Headers: map[string]string{"X-Key": "k"}}, &n.Task.Targets[0]))
	})
	require.ErrorIs(t, open(secret.Keys{Current: key(5)}), tasks.ErrForeignKey, "what is stored was sealed with another")
	require.NoError(t, open(secret.Keys{Current: dbtest.SecretKey}))
	require.NoError(t, open(secret.Keys{Current: dbtest.SecretKey}))
	require.ErrorIs(t, open(secret.Keys{Current: key(5)}), tasks.ErrForeignKey)
	require.NoError(t, open(secret.Keys{Current: key(5), Previous: []string{dbtest.SecretKey}}), "the key is replaced")
	require.NoError(t, open(secret.Keys{Current: key(5)}))
	require.ErrorIs(t, open(secret.Keys{Current: dbtest.SecretKey}), tasks.ErrForeignKey)
}

func TestTheAgentGetsItsHeadersAndTheExtraPayload(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	fake := agenttest.New(t, answer)
	taskID, launchID := b.task(t, fake.URL, 1, func(n *db.NewTask) {
		n.Task.RunsPerItem = 1
		require.NoError(t, tasks.Seal(b.sealer, tasks.Target{
			URL: fake.URL + "/ask?key=canary1", Headers: map[string]string{"X-Api-Key": "k<&>"},
			Payload: json.RawMessage(`{"model":"canary2","stream":false}`),
		}, &n.Task.Targets[0]))
	})
	b.startWorker(t, 1)
	require.NoError(t, b.queue.EnqueueLaunch(t.Context(), launchID))
	b.requireComplete(t, b.awaitEnd(t, taskID, 20*time.Second))
	call := fake.Calls()[0]
	require.Equal(t, "k<&>", call.Header.Get("X-Api-Key"))
	require.Equal(t, "canary2", call.Body["model"])
	require.Equal(t, "key=canary1", call.Query)
	require.Equal(t, false, call.Body["stream"])
	b.requireNowhere(t, "k<&>", "canary1", "canary2")
}

// Values sealed with another key are sealed again batch by batch. An interruption does no harm, and values that no
// key opens stay.
func TestSecretsAreSealedAgainWithANewKey(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	newSealer := func(n byte, previous ...string) *secret.Sealer {
		key := base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{n}, 32))
		sealer, err := secret.NewSealer(secret.Keys{Current: key, Previous: previous})
		require.NoError(t, err)
		return sealer
	}
	unknown, next := newSealer(3), newSealer(2, dbtest.SecretKey)
	target := tasks.Target{URL: "http://127.0.0.1:1/?k=v", Headers: map[string]string{"X-Key": "k"},
		Payload: json.RawMessage(`{"p":1}`)}
	var ids []uuid.UUID
	for n := range 151 {
		sealer := b.sealer
		if n == 20 {
			sealer = unknown
		}
		id, _ := b.task(t, "http://127.0.0.1:1/", 1, func(task *db.NewTask) {
			if n == 30 { // this task has no secrets
				return
			}
			require.NoError(t, tasks.Seal(sealer, target, &task.Task.Targets[0]))
		})
		ids = append(ids, id)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var steps [][2]int
	progress := func(changed, left int) {
		steps = append(steps, [2]int{changed, left})
		cancel()
	}
	require.ErrorIs(t, tasks.Reseal(ctx, b.store, next, progress), context.Canceled)
	require.Len(t, steps, 1, "interrupted after the first batch")
	first := steps[0]
	require.Equal(t, 100, first[0]+first[1])
	require.NoError(t, tasks.Reseal(t.Context(), b.store, next, progress))
	require.Equal(t, [2]int{149 - first[0], 1}, steps[len(steps)-1])
	alone := newSealer(2)
	for n, id := range ids {
		task, err := b.store.Task(t.Context(), db.AllProjects(), id)
		require.NoError(t, err)
		opened, err := tasks.Open(alone, task.Targets[0])
		switch n {
		case 20:
			require.ErrorIs(t, err, secret.ErrKey)
			opened, err = tasks.Open(unknown, task.Targets[0])
			require.NoError(t, err)
			require.Equal(t, target, opened)
		case 30:
			require.NoError(t, err)
			require.Equal(t, tasks.Target{URL: "http://127.0.0.1:1/"}, opened)
		default:
			require.NoError(t, err)
			require.Equal(t, target, opened)
		}
	}
}

// requireNowhere checks that no task contains any of the secrets in plain text.
func (b *bench) requireNowhere(t testing.TB, secrets ...string) {
	t.Helper()
	var rows []string
	require.NoError(t, b.tables.Select(&rows, `
		SELECT t::text || g::text || encode(coalesce(sealed_headers, ''), 'escape') || encode(coalesce(sealed_payload, ''),
		'escape') ||
			encode(coalesce(sealed_query, ''), 'escape') || encode(coalesce(sealed_template, ''), 'escape')
		FROM evaluation_tasks t
		JOIN task_targets g ON g.task_id = t.id`))
	require.NotEmpty(t, rows)
	for _, secret := range secrets {
		require.NotContains(t, strings.Join(rows, "\n"), secret)
	}
}
