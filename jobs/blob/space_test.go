package blob_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"wending/jobs/blob"
)

// A disk counts as full at 95%, unless it still has a lot of free space.
func TestADiskIsFullAt95Percent(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		free, total      uint64
		isNearly, isFull bool
	}{
		{0, 0, false, false}, // not measured
		{50 << 30, 100 << 30, false, false},
		{9 << 30, 100 << 30, true, false},
		{5 << 30, 100 << 30, false, true},
		{0, 100 << 30, false, true},
		{4 << 20, 100 << 20, false, true},
		{500 << 30, 10_000 << 30, false, false}, // 95% of a large disk
		{15 << 30, 10_000 << 30, true, false},
		{9 << 30, 10_000 << 30, false, true},
	} {
		space := blob.Space{Free: test.free, Total: test.total}
		require.Equal(t, test.isNearly, space.IsNearlyFull(), "%+v: %d%%", space, space.Percent())
		require.Equal(t, test.isFull, space.IsFull(), "%+v: %d%%", space, space.Percent())
	}
	dir := t.TempDir()
	space, err := blob.SpaceOf(dir, filepath.Join(dir, "not there"))
	require.NoError(t, err)
	require.Positive(t, space.Total)
	require.GreaterOrEqual(t, space.Total, space.Free)
}
