package review_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"wending/db"
	"wending/db/review"
)

// said returns a verdict of a reviewer on a variant of a question, or on one of its answers if run is not 0.
func said(reviewer string, variant, run int) (one review.Review) {
	one.Reviewer, one.Variant = reviewer, variant
	if run != 0 {
		one.RunIndex = &run
	}
	return one
}

func TestHowFarTheReviewOfAQuestionIs(t *testing.T) {
	t.Parallel()
	require.Equal(t, review.Todo, review.StateOf(nil, 1))
	both := []review.Review{said("a", 1, 0), said("a", 2, 0)}
	require.Equal(t, review.Done, review.StateOf(both, 1))
	require.Equal(t, review.Others, review.StateOf(both, 2), "one person has judged two variants")
	require.Equal(t, review.Done, review.StateOf(append(both, said("b", 1, 0)), 2))

	two := 2
	require.False(t, review.IsTaken(both, []string{"b", "c"}, nil), "without a number every reviewer is asked")
	require.False(t, review.IsTaken(both, nil, &two))
	require.False(t, review.IsTaken(both, []string{"a"}, &two), "the same person again")
	require.True(t, review.IsTaken(both, []string{"b"}, &two))
}

func TestOthersVerdictsAreSeenAfterOnesOwn(t *testing.T) {
	t.Parallel()
	open, hidden := db.Task{RunsPerItem: 2}, db.Task{RunsPerItem: 2}
	hidden.HidesReviews = true
	own := func(verdicts ...review.Review) []review.Review { return review.Own("a", verdicts) }
	sees := func(task db.Task, one review.Review, own []review.Review) bool {
		return review.Sees(task, one, "a", own)
	}
	require.True(t, sees(open, said("b", 1, 0), nil))
	require.False(t, sees(hidden, said("b", 1, 0), nil))
	require.True(t, sees(hidden, said("a", 1, 0), nil))
	require.False(t, review.Sees(hidden, said("", 1, 0), "", nil), "nobody is nobody's author")
	require.True(t, sees(hidden, said("b", 1, 2), own(said("a", 1, 0))), "the question covers its answers")
	require.False(t, sees(hidden, said("b", 2, 0), own(said("a", 1, 0))), "another variant")
	require.True(t, sees(hidden, said("b", 1, 2), own(said("a", 1, 2))))
	require.False(t, sees(hidden, said("b", 1, 1), own(said("a", 1, 2))), "another answer")
	require.False(t, sees(hidden, said("b", 1, 0), own(said("a", 1, 2))), "an answer is not the question")
	hidden.RunsPerItem = 1
	require.True(t, sees(hidden, said("b", 1, 0), own(said("a", 1, 1))), "but it is where each question has one")
	outdated := said("a", 1, 0)
	outdated.IsOutdated = true
	require.Empty(t, own(outdated, said("b", 1, 0)))

	withdrawn := review.Version{Review: said("a", 1, 0), IsWithdrawn: true}
	versions := []review.Version{withdrawn, {Review: said("a", 1, 0)}, {Review: said("b", 1, 0)}}
	require.Len(t, review.Visible(hidden, versions, "a"), 2, "one's own verdict is withdrawn")
	require.Len(t, review.Visible(hidden, versions[1:], "a"), 2)
	require.Len(t, review.Visible(open, versions, "c"), 3)
}
