package archive

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"runtime"
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

// Reading ends with the request, or when it has used too much CPU time for the amount of data.
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

// A ZIP file with many small files is refused before all of them are listed.
func TestTheListOfFilesIsBounded(t *testing.T) {
	t.Parallel()
	content := packedAs(t, strings.Repeat("n", 60_000), 150, "")
	_, err := newReader(t.Context(), content, content.Size())
	damaged := (*Error)(nil)
	require.ErrorAs(t, err, &damaged)
	require.Equal(t, ProblemDamaged, damaged.Problem)
}

// A manifest with millions of short names, and objects with as many members, are refused while they are read: in memory
// their names would take many times the size of the text. The files of a ZIP file are counted, too.
func TestManyShortNamesTakeLittleMemory(t *testing.T) { //nolint:paralleltest // it measures the memory of the process
	many := func(before string, count int) string {
		var text strings.Builder
		text.WriteString(before)
		for n := range count {
			text.WriteString(`"` + strconv.FormatInt(int64(n), 36) + `":"",`)
		}
		return text.String() + `"":""}}`
	}
	content := zippedPart(t, manifestName, many(`{"kind":"wending-task","format":2,"parts":{`, 2_000_000))
	r, err := newReader(t.Context(), content, content.Size())
	require.NoError(t, err)
	var about manifest
	taken := allocated(func() { _, err = r.object(manifestName, maxManifest, &about) })
	refused := (*Error)(nil)
	require.ErrorAs(t, err, &refused)
	require.Equal(t, ProblemParts, refused.Problem)
	require.Equal(t, manifestName, refused.File)
	require.Less(t, taken, uint64(160<<20))

	line := []byte(many(`{"evaluations":[{"ratings":{`, 1_000_000) + "]}")
	taken = allocated(func() { err = checkNames(line) })
	require.ErrorAs(t, err, &refused)
	require.Equal(t, wantList, refused.Want)
	require.Less(t, taken, uint64(8<<20))

	files := packedAs(t, "", maxParts+2, "")
	_, err = newReader(t.Context(), files, files.Size())
	require.ErrorAs(t, err, &refused)
	require.Equal(t, ProblemParts, refused.Problem)
}

// allocated returns how many bytes a function allocates in total.
func allocated(do func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	do()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// zippedPart returns an archive with one part.
func zippedPart(t *testing.T, name, content string) *bytes.Reader {
	t.Helper()
	var out bytes.Buffer
	files := zip.NewWriter(&out)
	file, err := files.Create(name)
	require.NoError(t, err)
	_, err = io.WriteString(file, content)
	require.NoError(t, err)
	require.NoError(t, files.Close())
	return bytes.NewReader(out.Bytes())
}

// The line of a member in a multi-line object is found, or the line of its parent.
func TestLineOf(t *testing.T) {
	t.Parallel()
	const content = "{\n \"a\": 1,\n \"b\": [\n  {\"c\": 1},\n  {\n   \"c\":\n    2}\n ]\n}"
	for member, line := range map[string]int{"": 1, "a": 2, "b": 3, "b[1].c": 4, "b[2]": 5, "b[2].c": 7,
		"b[2].d": 5, "d": 1} {
		require.Equal(t, line, lineOf([]byte(content), member), member)
	}
}

// A name that occurs twice in an object, or that differs from a known name only in case, is refused; members with
// user-defined names may have any case.
func TestNamesAreThereOnceAndAsTheyAre(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		`{"question_id": "a", "question": "x\"{,}", "variables": ["a", "a"]}`:          "",
		`{"question_id": "a", "question_id": "b"}`:                                     "question_id " + wantOnce,
		`{"question_id": "a", "question\u005fid": "b"}`:                                "question_id " + wantOnce,
		`{"Question_ID": "a"}`:                                                         "Question_ID " + wantMember,
		`{"queſtion_id": "a"}`:                                                         "queſtion_id " + wantMember,
		`{"evaluations": [{"number": 1, "ratings": {"A": 1, "a": 2}}, {"number": 2}]}`: "",
		`{"evaluations": [{"ratings": {"A": 1}, "Score": 2}]}`:                         "Score " + wantMember,
		`{"evaluations": [{"ratings": {"A": 1, "A": 2}}]}`:                             "A " + wantOnce,
		`{"config": {"items": [{"B": 1}], "B": {"b": "B", "B": "\\"}}, "config": 1}`:   "config " + wantOnce,
	} {
		got := ""
		if wrong := (*Error)(nil); errors.As(checkNames([]byte(line)), &wrong) {
			got = wrong.Member + " " + wrong.Want
		}
		require.Equal(t, want, got, line)
	}
	var one item
	require.Error(t, decode([]byte(`{"QUESTION": "x"}`), &one))
}

// The last valid time is the end of the year 9999 in Beijing time.
func TestMomentsOfFourDigits(t *testing.T) {
	t.Parallel()
	for text, isWrong := range map[string]bool{
		"1970-01-01T00:00:00Z": false, "1969-12-31T23:59:59Z": true, "9999-12-31T23:59:59+08:00": false,
		"9999-12-31T23:59:59.9999999+08:00": true,
		"9999-12-31T16:00:00Z":              true, "9999-12-31T23:59:59Z": true, "0001-01-01T00:00:00Z": true,
		"10000-01-01T00:00:00Z": true,
	} {
		var m moment
		require.NoError(t, json.Unmarshal([]byte(strconv.Quote(text)), &m))
		require.Equal(t, isWrong, m.isWrong, text)
	}
}
