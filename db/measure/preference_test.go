package measure

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Zeros and ones that belong together are one observation for the sign test, and widen Wilson's interval.
func TestTheSignsOfASample(t *testing.T) {
	t.Parallel()
	var alone, together Sample
	for n := range 40 {
		number, cluster := 1.0, string(rune('a'+n/4))
		if n%8 >= 6 {
			number, cluster = 0, "x"+cluster
		}
		alone.Add(number, "")
		together.Add(number, cluster)
	}
	require.Equal(t, Wilson(0.75, 40), alone.Wilson())
	require.Less(t, together.Wilson()[0], alone.Wilson()[0])
	require.Greater(t, together.Wilson()[1], alone.Wilson()[1])
	require.InDelta(t, 0.3018, together.SignTest(), 1e-4, "five or fewer of fifteen, twice")
	require.Less(t, alone.SignTest(), 0.01)
	require.InDelta(t, 2*(1+10+45)/1024.0,
		sampleOf([]float64{1, 1, 1, 1, 0, 1, 1, 1, 0, 1}, make([]string, 10)...).SignTest(), 1e-12,
		"two or fewer of ten, twice")

	one := sampleOf([]float64{1, 1}, "a", "a")
	require.Nil(t, one.Wilson(), "several numbers of one cluster")
	require.InDelta(t, 1, one.SignTest(), 1e-12)
	require.Equal(t, Wilson(1, 2), sampleOf([]float64{1, 1, 1}, "a", "a", "b").Wilson(),
		"all are the same: as many as there are clusters")
	even := sampleOf([]float64{1, 0, 1, 0}, "a", "a", "b", "b")
	require.InDelta(t, 1, even.SignTest(), 1e-12, "a cluster without a direction does not count")
	require.Equal(t, Wilson(0.5, 2), even.Wilson())
}
