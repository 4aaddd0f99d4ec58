package review_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"wending/db/review"
)

func TestQuestionsAreSplitEvenly(t *testing.T) {
	t.Parallel()
	require.Equal(t, [][]string{{"a"}, {"a"}, {"a"}, {"b"}, {"b"}},
		review.SplitQuestions(5, []string{"a", "b"}, false, 0))
	require.Equal(t, [][]string{nil, nil}, review.SplitQuestions(2, nil, false, 1))
	require.Equal(t, [][]string{{"a"}, {"a"}}, review.SplitQuestions(2, []string{"a"}, true, 1), "nobody to share with")
	for _, isRandom := range []bool{false, true} {
		counts, shared := map[string]int{}, 0
		for _, names := range review.SplitQuestions(100, []string{"a", "b", "c"}, isRandom, 0.2) {
			counts[names[0]]++
			if len(names) == 2 {
				shared++
				require.NotEqual(t, names[0], names[1])
			}
		}
		require.Equal(t, 20, shared)
		for _, count := range counts {
			require.InDelta(t, 33, count, 1)
		}
	}
}
