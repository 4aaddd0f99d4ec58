package measure_test

import (
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"wending/db/measure"
)

// A question is tested by its verdicts if both sides have some, and otherwise by its answers; all questions are one
// family.
func TestSingleQuestionsAreTested(t *testing.T) {
	t.Parallel()
	judged := func(id int64, passesA, passesB int) measure.Pair {
		return measure.Pair{
			A: measure.ComparedQuestion{ID: id, Judged: 5, Passes: passesA},
			B: measure.ComparedQuestion{ID: id, Judged: 5, Passes: passesB},
		}
	}
	pairs := []measure.Pair{judged(1, 5, 0), judged(2, 5, 4), {}, {}}
	keys := map[int][2][]string{2: {runKeys("AAAAA"), runKeys("BBBBB")}, 3: {runKeys("A"), runKeys("B")}}
	require.False(t, measure.AreVerdicts(pairs))
	require.True(t, measure.AreVerdicts(pairs[:2]))
	keysOf := func(n int) (a, b []string) {
		assert.Contains(t, keys, n, "questions with verdicts are tested by these")
		return keys[n][0], keys[n][1]
	}
	require.NoError(t, measure.TestQuestions(t.Context(), pairs, keysOf))
	ended, end := context.WithCancel(t.Context())
	end()
	require.ErrorIs(t, measure.TestQuestions(ended, slices.Clone(pairs), keysOf), context.Canceled)
	// Only 2 of C(10,5) = 252 tables are as uneven as 5 : 0, and none is more likely than 5 : 4. Likewise, only 2 of the
	// 252 divisions of five A and five B keep them apart.
	require.InDelta(t, 2.0/252, pairs[0].Tested.P, 1e-9)
	require.InDelta(t, 1, pairs[1].Tested.P, 1e-9)
	require.InDelta(t, 2.0/252, pairs[2].Tested.P, 1e-9)
	require.Nil(t, pairs[3].Tested, "one run has nothing to agree with")
	require.InDelta(t, 3.0/252, pairs[0].Tested.Q, 1e-9, "2/252 · 3/2: two of three have this p")
	require.True(t, pairs[0].Tested.IsOfVerdicts)
	require.False(t, pairs[2].Tested.IsOfVerdicts)
	require.True(t, pairs[0].IsChanged())
	require.False(t, pairs[1].IsChanged())
	require.False(t, pairs[3].IsChanged())
	require.Len(t, measure.Comparison{Pairs: pairs}.Changed(), 2)
}

// A confirmation considers only the fresh runs: a change holds if they show it again, in the same direction.
func TestAChangeIsConfirmedByItsFreshRunsAlone(t *testing.T) {
	t.Parallel()
	fresh := func(keys string, judged, passes int) measure.Fresh {
		return measure.Fresh{First: 6, Last: 10, Keys: runKeys(keys), Judged: judged, Passes: passes}
	}
	fell := measure.Pair{A: measure.ComparedQuestion{Judged: 5, Passes: 5},
		B: measure.ComparedQuestion{Judged: 5, Passes: 0}}
	of := func(pair measure.Pair, a, b measure.Fresh) measure.Pair {
		pair.Confirmed = &measure.Confirmed{A: a, B: b}
		return pair
	}
	pairs := []measure.Pair{
		of(fell, fresh("AAAAA", 5, 5), fresh("BBBBB", 5, 0)),
		of(fell, fresh("AAAAA", 5, 3), fresh("BBBBB", 5, 3)),
		of(fell, fresh("AAAAA", 5, 0), fresh("BBBBB", 5, 5)),
		of(measure.Pair{}, fresh("AAAAA", 0, 0), fresh("BBBBB", 0, 0)),
		of(fell, fresh("AAAAA", 5, 5), fresh("BBB", 3, 0)),
		of(measure.Pair{}, measure.Fresh{First: 6, Last: 6, Keys: runKeys("A")},
			measure.Fresh{First: 6, Last: 6, Keys: runKeys("B")}),
		{},
	}
	measure.ConfirmQuestions(pairs)
	var outcomes []measure.Outcome
	for _, pair := range pairs[:6] {
		outcomes = append(outcomes, pair.Confirmed.Outcome)
	}
	require.Equal(t, []measure.Outcome{
		measure.Held, measure.NotHeld, measure.NotHeld /* in the other direction */, measure.Held, measure.IsAsking,
		measure.Untested,
	}, outcomes)
	require.InDelta(t, 2.0/252*4/3, pairs[0].Confirmed.Tested.Q, 1e-9, "three of four tests have this p")
	require.Nil(t, pairs[4].Confirmed.Tested)
	require.Nil(t, pairs[6].Confirmed)
	require.Equal(t, 2, measure.Comparison{Pairs: pairs}.InOutcome(measure.Held))
}
