package measure

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// table computes the Levenshtein distance by its definition.
func table(a, b []rune) int {
	row := make([]int, len(b)+1)
	for n := range row {
		row[n] = n
	}
	for i, r := range a {
		diagonal := row[0]
		row[0] = i + 1
		for j, s := range b {
			cost := 1
			if r == s {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(row[j+1]+1, row[j]+1, diagonal+cost)
		}
	}
	return row[len(b)]
}

// The bit-parallel distance equals the definition's, also across word boundaries.
func TestTheDistanceIsThatOfTheDefinition(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(5, 6))
	var by alphabet // shared by all texts
	for _, length := range []int{3, 20, 63, 64, 65, 127, 128, 129, 300} {
		for range 300 {
			text := func() []rune {
				made := make([]rune, r.IntN(length+1))
				for n := range made {
					made[n] = rune('a' + r.IntN(1+r.IntN(8)))
				}
				return made
			}
			a, b := text(), text()
			x, y := by.encode(a), by.encode(b)
			require.Equal(t, table(a, b), by.distance(x, y), "%q, %q", string(a), string(b))
		}
	}
}
