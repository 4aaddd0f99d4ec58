package courier_test

import (
	"bytes"
	"compress/zlib"
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"wending/db/dbtest"
	"wending/db/upkeep"
	"wending/jobs/blob"
	"wending/jobs/courier"
)

// keeper returns a keeper of a fresh database with a folder of uploads, and the folder in which it keeps backups.
func keeper(t *testing.T, log io.Writer) (courier.BackupKeeper, string) {
	t.Helper()
	url := dbtest.URL(t)
	store, _ := dbtest.OpenAt(t, url)
	uploads, place := t.TempDir(), t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(uploads, "q.csv"), bytes.Repeat([]byte("question,"), 1000), 0o600))
	key := filepath.Join(t.TempDir(), "secret.key")
	require.NoError(t, os.WriteFile(key, []byte("k"), 0o600))
	disk, err := blob.NewDisk(place)
	require.NoError(t, err)
	return courier.BackupKeeper{
		Store: store, Place: disk, Keep: 2, Next: func(after time.Time) time.Time { return after },
		Log: slog.New(slog.NewTextHandler(log, nil)),
		Backup: courier.Backup{Version: "v1", KeyFile: key, Folders: map[string]string{"uploads": uploads},
			TempDir: t.TempDir(),
			Dump:    func(ctx context.Context, w io.Writer) error { return upkeep.Dump(ctx, url, w) }},
	}, place
}

// Due backups are made, checked and counted; older ones are removed, but nothing else in the folder.
func TestScheduledBackupsAreKept(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	k, place := keeper(t, &log)
	for _, name := range []string{"wending-20250101T000000Z.tar.gz", "wending-20250102T000000Z.tar.gz", "mine.tar.gz"} {
		require.NoError(t, os.WriteFile(filepath.Join(place, name), []byte("x"), 0o600))
	}
	require.NoError(t, k.Round(t.Context()))
	names, err := filepath.Glob(filepath.Join(place, "*.tar.gz"))
	require.NoError(t, err)
	require.Len(t, names, 3)
	require.Equal(t, "mine.tar.gz", filepath.Base(names[0]))
	require.Equal(t, "wending-20250102T000000Z.tar.gz", filepath.Base(names[1]))
	require.Contains(t, log.String(), "backup made and checked")
	require.Contains(t, log.String(), "removed=1")

	figures, err := upkeep.NewMonitor(k.Store).Figures(t.Context())
	require.NoError(t, err)
	require.NotNil(t, figures.LastBackupAt)
	info, err := os.Stat(names[2])
	require.NoError(t, err)
	require.Equal(t, info.Size(), figures.LastBackupBytes)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm(), "it has the key")
	require.False(t, figures.HasFailed())

	file, err := os.Open(names[2])
	require.NoError(t, err)
	defer file.Close()
	content, err := courier.CheckBackup(t.Context(), file)
	require.NoError(t, err)
	require.Equal(t, 1, content.Files)
	require.True(t, content.HasKey)
	require.Equal(t, "v1", content.Version)
	whole, err := os.ReadFile(names[2])
	require.NoError(t, err)
	for _, place := range []int{len(whole) / 2, len(whole) - 1200, 40} { // the dump, files, the manifest
		damaged := bytes.Clone(whole)
		damaged[place] ^= 0x40
		_, err = courier.CheckBackup(t.Context(), bytes.NewReader(damaged))
		require.Error(t, err, "byte %d of %d", place, len(whole))
	}
}

// A failed backup removes nothing, is recorded, and is not tried again before the next planned time.
func TestAFailedBackupIsSeen(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	k, place := keeper(t, &log)
	k.Keep = 1
	for _, name := range []string{"wending-20250101T000000Z.tar.gz", "wending-20250102T000000Z.tar.gz"} {
		require.NoError(t, os.WriteFile(filepath.Join(place, name), []byte("x"), 0o600))
	}
	whole := k.Backup.Dump
	for name, dump := range map[string]func(context.Context, io.Writer) error{
		"no space left": func(context.Context, io.Writer) error { return errors.New("no space left") },
		"damaged": func(_ context.Context, w io.Writer) error { // found by the check of what is stored
			_, err := io.WriteString(w, "not a dump")
			return err
		},
	} {
		k.Backup.Dump = dump
		require.NoError(t, k.Round(t.Context()), name)
		require.Contains(t, log.String(), name)
		names, err := filepath.Glob(filepath.Join(place, "*.tar.gz"))
		require.NoError(t, err)
		require.Len(t, names, 2, name)
		figures, err := upkeep.NewMonitor(k.Store).Figures(t.Context())
		require.NoError(t, err)
		require.True(t, figures.HasFailed(), name)
		require.Nil(t, figures.LastBackupAt)
	}
	require.Contains(t, log.String(), "backup failed, will try again at the next planned time")
	k.Backup.Dump, k.Next = whole, func(after time.Time) time.Time { return after.Add(time.Hour) }
	require.NoError(t, k.Round(t.Context()))
	figures, err := upkeep.NewMonitor(k.Store).Figures(t.Context())
	require.NoError(t, err)
	require.Nil(t, figures.LastBackupAt, "it is not due yet")
	k.Next = func(after time.Time) time.Time { return after }
	require.NoError(t, k.Round(t.Context()))
	figures, err = upkeep.NewMonitor(k.Store).Figures(t.Context())
	require.NoError(t, err)
	require.False(t, figures.HasFailed())
}

// Of several processes that find a backup due, one makes it; a process that is stopped leaves it to the next.
func TestOneProcessMakesABackup(t *testing.T) {
	t.Parallel()
	k, place := keeper(t, io.Discard)
	_, err := upkeep.NewMonitor(k.Store).PlanOfBackups(t.Context())
	require.NoError(t, err)
	began := time.Now()
	k.Next = func(after time.Time) time.Time { // due once, at the time of the first look
		if after.Before(began) {
			return began
		}
		return after.Add(time.Hour)
	}
	var made atomic.Int32
	dump := k.Backup.Dump
	stopping, stop := context.WithCancel(t.Context())
	k.Backup.Dump = func(ctx context.Context, w io.Writer) error {
		stop()
		return dump(ctx, w)
	}
	require.ErrorIs(t, k.Round(stopping), context.Canceled)
	k.Backup.Dump = func(ctx context.Context, w io.Writer) error {
		made.Add(1)
		return dump(ctx, w)
	}
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			if err := k.Round(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	require.NoError(t, k.Round(t.Context()))
	require.EqualValues(t, 1, made.Load())
	names, err := filepath.Glob(filepath.Join(place, "*.tar.gz"))
	require.NoError(t, err)
	require.Len(t, names, 1)
}

// The times of backups are in Beijing time.
func TestTimesOfBackups(t *testing.T) {
	t.Parallel()
	next, err := courier.BackupTimes("0 3 * * *")
	require.NoError(t, err)
	require.Equal(t, "2026-11-26T19:00:00Z",
		next(time.Date(2026, 11, 26, 18, 0, 0, 0, time.UTC)).UTC().Format(time.RFC3339))
	_, err = courier.BackupTimes("at night")
	require.Error(t, err)
}

// The progress of a backup is reported for the database and for the whole backup.
func TestABackupReportsItsProgress(t *testing.T) {
	t.Parallel()
	k, _ := keeper(t, io.Discard)
	seen := map[string]int64{}
	k.Backup.Progress = func(part string, bytes int64) { seen[part] = bytes }
	_, err := k.Backup.Write(t.Context(), io.Discard)
	require.NoError(t, err)
	require.Positive(t, seen["database"])
	require.Greater(t, seen["backup"], seen["database"])
}

// A block whose compressed data ends too early is damage too, although pg_restore would repeat it without end.
func TestABlockThatEndsTooEarlyIsDamage(t *testing.T) {
	t.Parallel()
	k, _ := keeper(t, io.Discard)
	var dump bytes.Buffer
	require.NoError(t, k.Backup.Dump(t.Context(), &dump))
	require.NoError(t, upkeep.CheckDump(t.Context(), bytes.NewReader(dump.Bytes()), upkeep.Patience))

	var empty bytes.Buffer
	require.NoError(t, zlib.NewWriter(&empty).Close())
	damaged := dump.Bytes()
	start := bytes.Index(damaged, []byte{0x78, 0x9c}) // the header of zlib's default level
	require.Positive(t, start)
	require.Less(t, empty.Len(), len(damaged)-start)
	copy(damaged[start:], empty.Bytes())
	require.ErrorContains(t, upkeep.CheckDump(t.Context(), bytes.NewReader(damaged), 2*time.Second), "damaged")
}
