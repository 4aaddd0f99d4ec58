package marks

import (
	"testing"

	"github.com/stretchr/testify/require"

	"wending/db"
	"wending/db/measure"
	"wending/db/report"
)

// If several answers are equally common, the others are marked against the one that agrees with the majority of runs on
// every fact.
func TestTheTypicalAnswerIsTheOneToCompareWith(t *testing.T) {
	t.Parallel()
	run := func(n int) db.Run { return db.Run{Variant: 1, RunIndex: n} }
	fact := measure.Fact{Values: []measure.Value{{Text: "三年", Runs: []int{2, 3}}, {Text: "两年", Runs: []int{1}}}}
	q := Question{
		Answers: []Distinct{{"A", "两年", []db.Run{run(1)}}, {"B", "三年", []db.Run{run(2)}}, {"C", "三年。", []db.Run{run(3)}}},
		Alike: report.Question{Variants: []report.VariantLikeness{{Variant: 1,
			Likeness: report.Likeness{Facts: report.Facts{fact}}}}},
	}
	letters := func(answers []Distinct) (all string) {
		for _, one := range answers {
			all += one.Letter
		}
		return all
	}
	require.Equal(t, "BAC", letters(q.typicalFirst()))
	q.Answers[0].Runs = []db.Run{run(1), run(4)}
	require.Equal(t, "ABC", letters(q.typicalFirst()), "the most common answer stays the first, whatever it says")

	require.True(t, IsRare(fact, 1, 1))
	require.False(t, IsRare(fact, 3, 1))
	require.False(t, IsRare(fact, 9, 1), "a run that does not state the fact")
	tied := measure.Fact{Values: []measure.Value{{Text: "三年", Runs: []int{1}}, {Text: "两年", Runs: []int{2}}}}
	require.True(t, IsRare(tied, 1, 2))
	require.False(t, IsRare(tied, 2, 2), "of equally frequent values, the most common answer's is the usual one")
}
