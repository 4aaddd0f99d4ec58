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

// A page lays out the usual answers of its questions; long ones leave room for others. Time has no influence.
func TestAnAllowanceIsShared(t *testing.T) {
	t.Parallel()
	page := &Allowance{}
	for range 20 {
		require.True(t, page.allows(20*3000), "20 answers of 1,000 characters")
		page.Take(20 * 3000)
	}
	require.True(t, (&Allowance{laid: mostLaid - 1}).allows(usualAnswers))
	require.False(t, (&Allowance{laid: mostLaid}).allows(1))
	require.True(t, (&Allowance{}).allows(5_000_000), "the first question is laid out, however long it is")
	require.False(t, (&Allowance{laid: mostLaid - 1}).allows(usualAnswers+1), "long questions leave room for the others")
	require.True(t, (*Allowance)(nil).allows(5_000_000))
}

// A page holds the folds of its first questions; those of the others are loaded when they are opened.
func TestAPageHoldsTheFirstFolds(t *testing.T) {
	t.Parallel()
	page := &Allowance{}
	require.True(t, page.holds(heldFolds+1), "the first question's, however long it is")
	require.False(t, page.holds(1))
	page = &Allowance{}
	require.True(t, page.holds(heldFolds/2))
	require.True(t, page.holds(heldFolds/2))
	require.False(t, page.holds(1))
	require.True(t, (*Allowance)(nil).holds(5_000_000))
}
