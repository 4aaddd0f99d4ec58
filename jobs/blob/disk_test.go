package blob_test

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"wending/jobs/blob"
)

func put(ctx context.Context, store blob.Store, key, content string) error {
	return store.Put(ctx, key, strings.NewReader(content), int64(len(content)))
}

func TestAFileIsStoredReplacedListedAndDeleted(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	for _, name := range []string{"plain", "with space", "引号'\"中文"} {
		dir := filepath.Join(t.TempDir(), name)
		disk, err := blob.NewDisk(dir)
		require.NoError(t, err)
		require.NoError(t, put(ctx, disk, "a/one", "1"))
		require.NoError(t, put(ctx, disk, "a/one", "2"))
		file, err := disk.Open(ctx, "a/one")
		require.NoError(t, err)
		content, err := io.ReadAll(file)
		require.NoError(t, err)
		require.NoError(t, file.Close())
		require.Equal(t, "2", string(content))
		entries, err := disk.List(ctx, "a")
		require.NoError(t, err)
		require.Len(t, entries, 1)
		require.Equal(t, "a/one", entries[0].Key)
		require.NoError(t, disk.Delete(ctx, "a"))
		require.NoError(t, disk.Delete(ctx, "a"))
		_, err = disk.Open(ctx, "a/one")
		require.ErrorIs(t, err, blob.ErrNotFound)
	}
}

func TestNoKeyLeadsOutOfTheFolder(t *testing.T) {
	t.Parallel()
	disk, err := blob.NewDisk(t.TempDir())
	require.NoError(t, err)
	for _, key := range []string{"../x", "/etc/passwd", "a/../../x", ""} {
		require.Error(t, put(t.Context(), disk, key, "x"), key)
		_, err := disk.Open(t.Context(), key)
		require.Error(t, err, key)
		require.Error(t, disk.Delete(t.Context(), key), key)
	}
}

// Nothing is left of a file that could not be stored.
func TestAFailedPutLeavesNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	disk, err := blob.NewDisk(dir)
	require.NoError(t, err)
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "task", "dataset.csv"), 0o700)) // a folder is in the way
	require.Error(t, put(t.Context(), disk, "task/dataset.csv", "x"))
	entries, err := disk.List(t.Context(), ".writing")
	require.NoError(t, err)
	require.Empty(t, entries)
}

// Files and folders can be given new keys, but never replace anything.
func TestMovingReplacesNothing(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	disk, err := blob.NewDisk(t.TempDir())
	require.NoError(t, err)
	for _, key := range []string{"a/one", "b/two", "x", "y"} {
		require.NoError(t, put(ctx, disk, key, key))
	}
	require.ErrorIs(t, disk.Move(ctx, "a", "b"), blob.ErrExists)
	require.ErrorIs(t, disk.Move(ctx, "x", "y"), blob.ErrExists)
	require.ErrorIs(t, disk.Move(ctx, "none", "other"), blob.ErrNotFound)
	require.Error(t, disk.Move(ctx, "../a", "c"))
	require.Error(t, disk.Move(ctx, "a", "../c"))
	require.NoError(t, disk.Move(ctx, "a", "deep/c"))
	require.NoError(t, disk.Move(ctx, "x", "deep/z"))
	for key, content := range map[string]string{"deep/c/one": "a/one", "b/two": "b/two", "deep/z": "x", "y": "y"} {
		file, err := disk.Open(ctx, key)
		require.NoError(t, err, key)
		read, err := io.ReadAll(file)
		require.NoError(t, err)
		require.NoError(t, file.Close())
		require.Equal(t, content, string(read), key)
	}
	_, err = disk.Open(ctx, "a/one")
	require.ErrorIs(t, err, blob.ErrNotFound)
}
