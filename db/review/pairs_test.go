package review_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"wending/db"
	"wending/db/dbtest"
	"wending/db/review"
)

// The answers of a pair and their order are drawn once; verdicts are kept in versions, per reviewer, and no longer
// count when an answer is replaced. A reviewer who has begun sees the result only at the end.
func TestPairsAreComparedBlind(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	store, tables := dbtest.Open(t)
	id := dbtest.SeedVariants(t, tables, 1, 40, 3, 3)
	tables.MustExec(`UPDATE evaluation_runs SET answer_key = decode(md5(id::text), 'hex') WHERE status = 'SUCCEEDED'`)
	reviews, of := review.New(store), review.Matchup{A: 1, B: 3}
	read := func() review.Pairs {
		pairs, err := reviews.Pairs(ctx, id, of)
		require.NoError(t, err)
		return pairs
	}
	require.Empty(t, read())
	require.NoError(t, reviews.DrawPairs(ctx, id, of))
	drawn := read()
	require.NotEmpty(t, drawn)
	require.NoError(t, reviews.DrawPairs(ctx, id, of))
	require.Equal(t, drawn, read(), "drawn once")
	swapped := map[bool]int{}
	for _, one := range drawn {
		swapped[one.IsSwapped]++
	}
	require.Len(t, swapped, 2, "the order is drawn for each question")
	tables.MustExec(`
		UPDATE evaluation_runs r SET answer_key = o.answer_key, response_body = o.response_body
		FROM evaluation_runs o WHERE r.id = $1 AND o.id = $2`, drawn[0].RunA, drawn[0].RunB)
	require.True(t, read()[0].IsEqual)
	all := read().ToJudge()
	require.Len(t, all, len(drawn)-1)

	compare := func(pair review.Pair, reviewer string, shown review.Preference, version int) error {
		place := review.PairPlace{Of: of, QuestionID: pair.QuestionID, Reviewer: reviewer}
		stored, err := reviews.Compare(ctx, id, place, shown.AsShown(pair.IsSwapped), version)
		if err == nil {
			require.Equal(t, version+1, stored.Version)
		}
		return err
	}
	for n, pair := range all {
		require.False(t, read().IsRevealedTo("李雷"), "%d verdicts", n)
		require.NoError(t, compare(pair, "李雷", review.PrefersA, 0)) // always the one shown first
	}
	pairs := read()
	require.True(t, pairs.IsRevealedTo("李雷"))
	require.True(t, pairs.IsFinishedBy("李雷"))
	require.False(t, pairs.IsFinishedBy(""))
	require.True(t, pairs.IsRevealedTo(""), "each pair has a verdict")
	preferred := pairs.Preferred()
	second := 0
	for _, pair := range all {
		if pair.IsSwapped {
			second++
		}
	}
	require.InDelta(t, float64(len(all)-second)/float64(len(all)), *preferred.Share, 1e-9)
	require.Equal(t, []int{len(all) - second, second, 0}, []int{preferred.A, preferred.B, preferred.Ties},
		"a verdict is about the variants, not about the places")
	require.Len(t, pairs.Preferring(-1), second)

	require.NoError(t, compare(all[0], "韩梅", review.Same, 0))
	require.False(t, read().IsRevealedTo("韩梅"), "in the midst of it")
	conflict := (*review.ConflictError)(nil)
	require.ErrorAs(t, compare(all[0], "韩梅", review.PrefersA, 0), &conflict)
	require.Equal(t, review.Same, read().ToJudge()[0].By("韩梅").Verdict, "a refused verdict changes nothing")
	require.NoError(t, compare(all[0], "韩梅", review.PrefersB, 1))
	require.Equal(t, 2, read().ToJudge()[0].By("韩梅").Version)
	require.Equal(t, []string{"李雷", "韩梅"}, read().Reviewers())

	// A withdrawn verdict does not count, but its version does.
	other := review.PairPlace{Of: of, QuestionID: all[0].QuestionID, Reviewer: "韩梅"}
	require.ErrorAs(t, reviews.WithdrawPair(ctx, id, other, 1), &conflict)
	require.NotNil(t, read().ToJudge()[0].By("韩梅"), "a refused withdrawal changes nothing")
	require.NoError(t, reviews.WithdrawPair(ctx, id, other, 2))
	withdrawn := read().ToJudge()[0]
	require.Nil(t, withdrawn.By("韩梅"))
	require.Equal(t, 2, withdrawn.VersionBy("韩梅"))
	require.Equal(t, len(all), read().Preferred().Verdicts)
	require.ErrorIs(t, reviews.WithdrawPair(ctx, id, other, 2), db.ErrNotFound, "it was withdrawn already")
	other.Reviewer = "王芳"
	require.ErrorIs(t, reviews.WithdrawPair(ctx, id, other, 0), db.ErrNotFound)
	require.NoError(t, compare(all[0], "韩梅", review.PrefersB, 2))
	standings, err := reviews.Standings(ctx, id)
	require.NoError(t, err)
	require.Equal(t, []review.Standing{
		{A: 1, B: 3, Done: len(all), Equal: len(drawn) - len(all), Preferred: read().Preferred()}}, standings)

	// A replaced answer is compared again.
	tables.MustExec(`UPDATE evaluation_runs SET is_current = false WHERE id = $1`, all[0].RunA)
	require.Len(t, read(), len(drawn)-1)
	require.ErrorIs(t, compare(all[0], "韩梅", review.Same, 3), db.ErrNotFound)
	require.NoError(t, reviews.DrawPairs(ctx, id, of))
	redrawn := read().ToJudge()[0]
	require.Equal(t, all[0].QuestionID, redrawn.QuestionID)
	require.Nil(t, redrawn.By("韩梅"))
	require.Equal(t, 3, redrawn.VersionBy("韩梅"))
	require.NoError(t, compare(redrawn, "韩梅", review.Same, 3))
	require.Equal(t, 4, read().ToJudge()[0].By("韩梅").Version)
}
