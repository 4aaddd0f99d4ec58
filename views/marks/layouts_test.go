package marks

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The least recently read layout is evicted, and a single layout never takes most of the cache.
func TestLayoutsAreBounded(t *testing.T) {
	t.Parallel()
	layouts := NewLayouts(10 * (layoutBytes + weight*1000))
	for n := range 20 {
		layouts.keep(layoutKey{byte(n)}, &laidOut{length: 1000})
		require.NotNil(t, layouts.of(layoutKey{0}), "it is read all the time")
		require.LessOrEqual(t, layouts.bytes, layouts.max)
	}
	require.Nil(t, layouts.of(layoutKey{1}))
	require.NotNil(t, layouts.of(layoutKey{19}))
	require.Len(t, layouts.byKey, 10)
	layouts.keep(layoutKey{99}, &laidOut{length: 2000})
	require.Nil(t, layouts.of(layoutKey{99}))
}

// Long questions leave time for the others.
func TestAnAllowanceIsShared(t *testing.T) {
	t.Parallel()
	require.True(t, (&Allowance{spent: alignFor - 1}).allows(lightAnswers))
	require.False(t, (&Allowance{spent: alignFor - 1}).allows(lightAnswers+1), "long questions leave time for the others")
}
