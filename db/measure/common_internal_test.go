package measure

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// The matches are in the order of both texts, and no common subsequence is longer: over several rows of 64 cells and
// beyond the kept rows, with few and with many different tokens.
func TestMatchesAreALongestCommonSequence(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(27, 1))
	for n := range 400 {
		kinds := 1 + r.IntN(1+n/2)
		a, b := make([]rune, r.IntN(300)), make([]rune, r.IntN(300))
		for _, text := range [2][]rune{a, b} {
			for i := range text {
				text[i] = rune(1 + r.IntN(kinds))
			}
		}
		found, isFound := matches(a, b)
		require.True(t, isFound)
		for k, m := range found {
			require.Equal(t, a[m.inA], b[m.inB])
			require.True(t, k == 0 || found[k-1].inA < m.inA && found[k-1].inB < m.inB)
		}
		require.Len(t, found, longestCommon(a, b))
	}
	long := make([]rune, 1<<15)
	_, isFound := matches(long, long)
	require.False(t, isFound, "the table would be too large")
}

// longestCommon computes the length of a longest common subsequence by its definition.
func longestCommon(a, b []rune) int {
	above := make([]int, len(a)+1)
	for _, r := range b {
		row := make([]int, len(a)+1)
		for i := range a {
			row[i+1] = max(row[i], above[i+1])
			if a[i] == r {
				row[i+1] = above[i] + 1
			}
		}
		above = row
	}
	return above[len(a)]
}
