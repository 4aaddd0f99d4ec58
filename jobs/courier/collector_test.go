package courier_test

import (
	"bytes"
	"context"
	"fmt"
	"image"
	"image/png"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/stretchr/testify/require"

	"wending/db"
	"wending/db/dbtest"
	"wending/jobs/agent/guard"
	"wending/jobs/blob"
	"wending/jobs/blob/blobtest"
	"wending/jobs/courier"
	"wending/jobs/secret"
)

func TestMain(m *testing.M) { dbtest.Main(m) }

// picture returns a PNG whose content depends on a number.
func picture(t *testing.T, number int) []byte {
	t.Helper()
	canvas := image.NewRGBA(image.Rect(0, 0, 20+number, 10))
	var file bytes.Buffer
	require.NoError(t, png.Encode(&file, canvas))
	return file.Bytes()
}

// produce stores an inline image for each run of a task; together they have the given number of different contents. It
// returns the number of images.
func produce(t *testing.T, tables *sqlx.DB, task uuid.UUID, distinct int) (count int) {
	t.Helper()
	const insert = `
		INSERT INTO assets (id, task_id, unit_id, epoch, item_id, target, number, path, kind, is_preview, content)
		SELECT gen_random_uuid(), r.task_id, r.unit_id, r.epoch, r.item_id, 1, 1, 'p.png', 'image', false, $2
		FROM evaluation_runs r
		WHERE r.task_id = $1 AND r.id % $3 = $4`
	for n := range distinct {
		result, err := tables.Exec(insert, task, picture(t, n), distinct, n)
		require.NoError(t, err)
		rows, err := result.RowsAffected()
		require.NoError(t, err)
		count += int(rows)
	}
	return count
}

func newCollector(t *testing.T, store *db.Store, files blob.Store, isOwner bool) *courier.Collector {
	t.Helper()
	allowed, err := guard.New(guard.Config{})
	require.NoError(t, err)
	sealer, err := secret.NewSealer(secret.Keys{Current: dbtest.SecretKey})
	require.NoError(t, err)
	client := courier.NewFetcher(allowed)
	t.Cleanup(client.Close)
	return &courier.Collector{Store: store, Files: files, Client: client, Sealer: sealer, MaxBytes: 1 << 20,
		IsOwner: isOwner, Log: slog.New(slog.DiscardHandler)}
}

// run runs a collector until the test ends or stop is called.
func run(t *testing.T, one *courier.Collector) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); one.Run(ctx) }()
	stop = func() { cancel(); <-done }
	t.Cleanup(stop)
	return stop
}

func states(t *testing.T, tables *sqlx.DB, task uuid.UUID) map[string]int {
	t.Helper()
	var rows []struct {
		State string
		Count int
	}
	require.NoError(t, tables.Select(&rows,
		`SELECT state, count(*) AS count FROM assets WHERE task_id = $1 GROUP BY state`, task))
	counts := map[string]int{}
	for _, row := range rows {
		counts[row.State] = row.Count
	}
	return counts
}

// keys returns the keys of the files in a store, without the mark and thumbnails.
func keys(t *testing.T, files blob.Store) (list []string) {
	t.Helper()
	require.NoError(t, files.Walk(t.Context(), func(entry blob.Entry) error {
		if entry.Key != ".wending" && !strings.Contains(entry.Key, "/thumbnails/") {
			list = append(list, entry.Key)
		}
		return nil
	}))
	return list
}

// Two machines that share a bucket copy all files, storing equal content only once, although both claim as many files
// as they can.
func TestTwoMachinesShareABucket(t *testing.T) {
	t.Parallel()
	store, tables := dbtest.Open(t)
	task := dbtest.Seed(t, tables, 1, 40, 5)
	count := produce(t, tables, task, 7)
	require.Equal(t, 200, count)
	endpoint := blobtest.Start(t)
	run(t, newCollector(t, store, blobtest.Open(t, endpoint, "shared"), true))
	run(t, newCollector(t, store, blobtest.Open(t, endpoint, "shared"), false))
	dbtest.Await(t, time.Minute, "the copies", func() bool { return states(t, tables, task)["STORED"] == count })
	require.Len(t, keys(t, blobtest.Open(t, endpoint, "shared")), 7)
	var pointed int
	require.NoError(t, tables.Get(&pointed, `SELECT count(DISTINCT storage_key) FROM assets`))
	require.Equal(t, 7, pointed)
}

// A task whose files arrive slowly leaves slots for the files of other tasks.
func TestFilesThatDripLeavePlacesToOthers(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	var dripping atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		dripping.Add(1)
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		select {
		case <-release:
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(release) })
	store, tables := dbtest.Open(t)
	slow, quick := dbtest.Seed(t, tables, 1, 40, 5), dbtest.Seed(t, tables, 1, 4, 5)
	_, err := tables.Exec(`
		INSERT INTO assets (id, task_id, unit_id, epoch, item_id, target, number, path, kind, is_preview, original_url)
		SELECT gen_random_uuid(), r.task_id, r.unit_id, r.epoch, r.item_id, 1, 1, 'p.png', 'image', false, $2
		FROM evaluation_runs r
		WHERE r.task_id = $1`, slow, server.URL)
	require.NoError(t, err)
	files, err := blob.NewDisk(t.TempDir())
	require.NoError(t, err)
	one := newCollector(t, store, files, true)
	reaching, err := guard.New(guard.Config{AllowLoopback: true})
	require.NoError(t, err)
	one.Client = courier.NewFetcher(reaching)
	t.Cleanup(one.Client.Close)
	stop := run(t, one)
	dbtest.Await(t, 20*time.Second, "files that drip", func() bool { return dripping.Load() >= 4 })
	count := produce(t, tables, quick, 1)
	dbtest.Await(t, 20*time.Second, "the others' copies", func() bool {
		return states(t, tables, quick)["STORED"] == count
	})
	require.LessOrEqual(t, int(dripping.Load()), 8, "half of the places")
	stop()
}

// A machine with a different folder leaves the files to the other machines.
func TestAnotherFolderIsNotUsed(t *testing.T) {
	t.Parallel()
	store, tables := dbtest.Open(t)
	task := dbtest.Seed(t, tables, 1, 2, 2)
	count := produce(t, tables, task, 1)
	own, err := blob.Open("file://"+t.TempDir(), blob.Credentials{})
	require.NoError(t, err)
	other, err := blob.Open("file://"+t.TempDir(), blob.Credentials{})
	require.NoError(t, err)
	stop := run(t, newCollector(t, store, other, false))
	dbtest.Hold(t, 1500*time.Millisecond, "the files to wait", func() bool {
		return states(t, tables, task)["QUEUED"] == count
	})
	run(t, newCollector(t, store, own, true))
	dbtest.Await(t, 20*time.Second, "the copies", func() bool { return states(t, tables, task)["STORED"] == count })
	stop()
	require.Empty(t, keys(t, other))
}

// A store of another installation is left alone, even by the owner process, to which all of its files would seem
// unreferenced.
func TestAnotherInstallationsStoreIsLeftAlone(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	files, err := blob.Open("file://"+t.TempDir(), blob.Credentials{})
	require.NoError(t, err)
	key := uuid.NewString() + "/1-1/theirs.png"
	for name, content := range map[string]string{".wending": "the mark of another", key: "x"} {
		require.NoError(t, files.Put(ctx, name, strings.NewReader(content), int64(len(content))))
	}
	store, tables := dbtest.Open(t)
	task := dbtest.Seed(t, tables, 1, 1, 1)
	count := produce(t, tables, task, 1)
	stop := run(t, newCollector(t, store, files, true))
	dbtest.Hold(t, 1200*time.Millisecond, "the files to wait", func() bool {
		return states(t, tables, task)["QUEUED"] == count
	})
	stop()
	sweeper := courier.Sweeper{Store: store, Files: &older{Store: files}, Log: slog.New(slog.DiscardHandler)}
	require.NoError(t, sweeper.Sweep(ctx))
	require.Equal(t, []string{key}, keys(t, files))
}

// fullDisk is a store that is out of space for a while.
type fullDisk struct {
	blob.Store
	isFull atomic.Bool
	puts   atomic.Int64
}

func (f *fullDisk) Put(ctx context.Context, key string, content io.Reader, size int64) error {
	if key != ".wending" && f.isFull.Load() {
		f.puts.Add(1)
		return fmt.Errorf("store a file: %w", syscall.ENOSPC)
	}
	return f.Store.Put(ctx, key, content, size)
}

// With a full disk, no file is lost: the files wait, the problem is reported, and the files are copied once there is
// space.
func TestAFullDiskHoldsTheFilesUp(t *testing.T) {
	t.Parallel()
	store, tables := dbtest.Open(t)
	task := dbtest.Seed(t, tables, 1, 1, 3)
	count := produce(t, tables, task, 3)
	folder, err := blob.Open("file://"+t.TempDir(), blob.Credentials{})
	require.NoError(t, err)
	files := &fullDisk{Store: folder}
	files.isFull.Store(true)
	run(t, newCollector(t, store, files, true))
	dbtest.Await(t, 20*time.Second, "the first attempts", func() bool { return files.puts.Load() >= int64(count) })
	dbtest.Await(t, time.Minute, "the reason", func() bool {
		var said int
		require.NoError(t,
			tables.Get(&said, `SELECT count(*) FROM assets WHERE state = 'QUEUED' AND error = '["file.store"]'`))
		return said == count
	})
	require.Empty(t, keys(t, folder))
	files.isFull.Store(false)
	dbtest.Await(t, 30*time.Second, "the copies", func() bool { return states(t, tables, task)["STORED"] == count })
}

// The sweep removes files that no asset refers to, and records which files are missing. Files that are too new, or
// whose names show that this program did not write them, are kept.
func TestTheSweepFindsOrphansBothWays(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	store, tables := dbtest.Open(t)
	task := dbtest.Seed(t, tables, 1, 1, 2)
	count := produce(t, tables, task, 2)
	files, err := blob.Open("file://"+t.TempDir(), blob.Credentials{})
	require.NoError(t, err)
	stop := run(t, newCollector(t, store, files, true))
	dbtest.Await(t, 20*time.Second, "the copies", func() bool { return states(t, tables, task)["STORED"] == count })
	stop()
	put := func(key string) { require.NoError(t, files.Put(ctx, key, strings.NewReader("x"), 1)) }
	put(uuid.NewString() + "/1-1/old.png")
	put(task.String() + "/99-1/old.png")
	put("not-ours.txt")
	aged := &older{Store: files, young: task.String() + "/99-1/young.png"}
	put(aged.young)
	var gone string
	require.NoError(t, tables.Get(&gone, `SELECT storage_key FROM assets ORDER BY id LIMIT 1`))
	require.NoError(t, files.Delete(ctx, gone))
	sweeper := courier.Sweeper{Store: store, Files: aged, Log: slog.New(slog.DiscardHandler)}
	require.NoError(t, sweeper.Sweep(ctx))
	left := keys(t, files)
	require.ElementsMatch(t, []string{"not-ours.txt", aged.young, storedKey(t, tables)}, left)
	require.Equal(t, map[string]int{"STORED": 1, "FAILED": 1}, states(t, tables, task))

	elsewhere, err := blob.Open("file://"+t.TempDir(), blob.Credentials{})
	require.NoError(t, err)
	sweeper.Files = elsewhere // an empty folder of another installation: no file is recorded as lost
	require.NoError(t, sweeper.Sweep(ctx))
	require.Equal(t, map[string]int{"STORED": 1, "FAILED": 1}, states(t, tables, task))
}

func storedKey(t *testing.T, tables *sqlx.DB) (key string) {
	t.Helper()
	require.NoError(t, tables.Get(&key, `SELECT storage_key FROM assets WHERE state = 'STORED'`))
	return key
}

// older is a store that reports all files but one as two hours old.
type older struct {
	blob.Store
	young string
}

func (o *older) Walk(ctx context.Context, take func(blob.Entry) error) error {
	return o.Store.Walk(ctx, func(entry blob.Entry) error {
		if entry.Key != o.young {
			entry.StoredAt = entry.StoredAt.Add(-2 * time.Hour)
		}
		return take(entry)
	})
}
