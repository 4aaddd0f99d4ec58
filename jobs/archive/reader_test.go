package archive

import (
	"archive/zip"
	"bytes"
	"context"
	"io"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func packed(t *testing.T, count int, content string) *bytes.Reader {
	t.Helper()
	return packedAs(t, "file ", count, content)
}

func packedAs(t *testing.T, name string, count int, content string) *bytes.Reader {
	t.Helper()
	var out bytes.Buffer
	files := zip.NewWriter(&out)
	for n := range count {
		file, err := files.Create(name + strconv.Itoa(n))
		require.NoError(t, err)
		_, err = io.WriteString(file, content)
		require.NoError(t, err)
	}
	require.NoError(t, files.Close())
	return bytes.NewReader(out.Bytes())
}

// Reading ends with the request, and when it took too much of the processor's time for what was read.
func TestReadingEnds(t *testing.T) {
	t.Parallel()
	content := packed(t, 1, strings.Repeat("a line\n", 1000))
	ctx, cancel := context.WithCancel(t.Context())
	r, err := newReader(ctx, content, content.Size())
	require.NoError(t, err)
	l, err := r.lines("file 0", 1<<20, 1<<10)
	require.NoError(t, err)
	defer l.close()
	_, err = l.next()
	require.NoError(t, err)
	r.began -= maxTime + time.Second
	slow := (*Error)(nil)
	_, err = l.next()
	require.ErrorAs(t, err, &slow)
	require.Equal(t, ProblemSlow, slow.Problem)
	r.read += 2 * bytesPerSecond
	_, err = l.next()
	require.NoError(t, err, "who has read more may take longer")
	cancel()
	_, err = l.next()
	require.ErrorIs(t, err, context.Canceled)
}

// A ZIP file of many small files is refused before all of them are listed.
func TestTheListOfFilesIsBounded(t *testing.T) {
	t.Parallel()
	content := packedAs(t, strings.Repeat("n", 60_000), 150, "")
	_, err := newReader(t.Context(), content, content.Size())
	damaged := (*Error)(nil)
	require.ErrorAs(t, err, &damaged)
	require.Equal(t, ProblemDamaged, damaged.Problem)
}

// Members of an object on several lines are found, or what encloses them.
func TestLineOf(t *testing.T) {
	t.Parallel()
	const content = "{\n \"a\": 1,\n \"b\": [\n  {\"c\": 1},\n  {\n   \"c\":\n    2}\n ]\n}"
	for member, line := range map[string]int{"": 1, "a": 2, "b": 3, "b[1].c": 4, "b[2]": 5, "b[2].c": 7, "b[2].d": 5, "d": 1} {
		require.Equal(t, line, lineOf([]byte(content), member), member)
	}
}
