package report

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Bars are at least a millisecond wide, at most thirty in number, and cover the span without a gap.
func TestLatencyBarsCoverTheirSpan(t *testing.T) {
	t.Parallel()
	for _, span := range [][2]int{{0, 0}, {1, 1}, {5, 9}, {0, 29}, {0, 30}, {200, 230}, {401, 30_000}, {1, 600_000}} {
		edges := latencyEdges(span[0], span[1])
		require.LessOrEqual(t, len(edges)-1, maxBars, "%v", span)
		require.Equal(t, span[0], edges[0])
		require.Equal(t, span[1]+1, edges[len(edges)-1])
		for n := 1; n < len(edges); n++ {
			require.Greater(t, edges[n], edges[n-1], "%v: %v", span, edges)
		}
	}
}
