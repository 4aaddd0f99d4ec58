package facts_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"flag"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"wending/db/measure"
	"wending/db/measure/claim"
	"wending/db/measure/facts"
)

var update = flag.Bool("update", false, "write what is found in the labelled pairs to testdata/found.json")

// found holds everything that a revision of the rules finds in the labelled pairs.
type found struct {
	Revision int
	Digest   string
}

// Optimisations do not change what is found. A change that does must raise measure.Revision, so that tasks that have
// ended are assessed again; -update then writes the new digest.
func TestWhatIsFoundChangesOnlyWithTheRevision(t *testing.T) {
	t.Parallel()
	path := filepath.Join("testdata", "found.json")
	now := found{Revision: measure.Revision, Digest: digest(t)}
	if *update {
		content, err := json.Marshal(now)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(path, append(content, '\n'), 0o600))
	}
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	var before found
	require.NoError(t, json.Unmarshal(content, &before))
	require.Equal(t, before, now)
}

// digest is a hash of everything read in the labelled answers, found between them, and stated about questions.
func digest(t *testing.T) string {
	t.Helper()
	hash := sha256.New()
	var to io.Writer = hash
	if name := os.Getenv("WENDING_FACTS_DUMP"); name != "" {
		file, err := os.Create(name)
		require.NoError(t, err)
		defer func() { require.NoError(t, file.Close()) }()
		to = io.MultiWriter(hash, file)
	}
	lines := json.NewEncoder(to)
	for _, name := range []string{"bases.jsonl", "own_bases.jsonl", "more_bases.jsonl", "fresh_bases.jsonl",
		"denial_bases.jsonl"} {
		for _, b := range readLines[base](t, name) {
			for _, p := range b.pairs() {
				require.NoError(t, lines.Encode([]any{p.id, facts.Read(p.a), facts.Compare(p.a, p.b), facts.Compare(p.b, p.a)}))
			}
			reading, err := facts.Question(t.Context(), b.answers())
			require.NoError(t, err)
			require.NoError(t, lines.Encode([]any{b.ID, reading}))
		}
	}
	for _, shape := range longShapes {
		x, y := shape.pair(t, 4000)
		require.NoError(t, lines.Encode([]any{shape.name, facts.Read(x), facts.Compare(x, y)}))
	}
	return hex.EncodeToString(hash.Sum(nil)[:16])
}

// The claims of a sentence do not depend on whether another answer also contains it.
func TestSentencesThatAnswersShareAreReadAlike(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"bases.jsonl", "own_bases.jsonl", "more_bases.jsonl", "fresh_bases.jsonl",
		"denial_bases.jsonl"} {
		for _, b := range readLines[base](t, name) {
			var memory claim.Memory
			for _, answer := range b.answers() {
				alone, remembered := claim.Read(answer), memory.Learn(answer)
				require.Equal(t, alone.Claims, remembered.Claims, b.ID)
				require.Equal(t, alone.Taken, remembered.Taken, b.ID)
			}
		}
	}
	for _, pair := range [][2]string{
		{"这并不等于同意。不得转让。", "以上。不得转让。"}, {"押金 5 元。不退。", "可以。不退。"},
		{"| 项（元） | 5 |\n|---|---|\n| 甲 | 6 |", "| 项（天） | 5 |\n|---|---|\n| 甲 | 6 |"},
	} {
		var memory claim.Memory
		memory.Learn(pair[0])
		require.Equal(t, claim.Read(pair[1]).Claims, memory.Read(pair[1]).Claims, pair[1])
	}
}

// answers are the answers of a base, each also with its first edits applied.
func (b base) answers() []string {
	var all []string
	for _, name := range b.names() {
		all = append(all, b.text(name))
	}
	for n, c := range b.Edits {
		if n < 5 {
			all = append(all, b.edited(c))
		}
	}
	return all
}
