package measure_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"wending/db/measure"
)

func TestAnswersThatDifferInFormHaveOneContent(t *testing.T) {
	t.Parallel()
	contents, count := measure.Contents([]string{
		"答复期限为 30 日。", "**答复期限为30日**", "答复期限为 35 日。", "", "  ", `{"a": 1, "b": 2}`, "```json\n{\"b\":2,\"a\":1.0}\n```",
		"3~5 天", "35 天",
	})
	require.Equal(t, []int{0, 0, 1, 2, 2, 3, 3, 4, 5}, contents)
	require.Equal(t, 6, count)
}

func TestNumbersByMeaning(t *testing.T) {
	t.Parallel()
	answer := func(text string) measure.Answer { return measure.Answer{Key: measure.Key([]byte(text))} }
	groups := measure.Meanings{Groups: map[string]int{}, Unsure: map[string]bool{}}
	for text, group := range map[string]int{"x": 7, "x2": 7, "y": 300, "z": 1} {
		groups.Groups[string(measure.Key([]byte(text)))] = group
	}
	groups.Unsure[string(measure.Key([]byte("y")))] = true
	variants := [][]measure.Answer{
		{answer("y"), answer("x"), answer("x2"), {}, answer("x")},
		{answer("y"), answer("z"), answer("z"), answer("z"), {IsMissing: true}},
	}
	require.True(t, groups.Covers(variants))
	all, order := measure.ByMeaning(variants, groups)
	require.Equal(t, []int{7, 1, 300}, order, "the most common first, ties by first appearance")
	require.Equal(t, "CAA-A", all[0].Letters)
	require.InDelta(t, 6.0/20, *all[0].Agreement, 1e-12)
	require.Equal(t, 2, all[0].Distinct)
	require.InDelta(t, -(0.75*math.Log(0.75) + 0.25*math.Log(0.25)), *all[0].Entropy, 1e-12)
	require.Equal(t, []int{1}, all[0].Unsure)
	require.Equal(t, "CBBB-", all[1].Letters)
	require.Nil(t, all[1].Agreement, "a run is missing")

	require.False(t, groups.Covers([][]measure.Answer{{answer("new")}}))
	none, order := measure.ByMeaning([][]measure.Answer{{{}, {}}}, groups)
	require.Empty(t, order)
	require.Zero(t, *none[0].Agreement)
	require.Nil(t, none[0].Entropy)
	require.Equal(t, "--", none[0].Letters)
}

func TestRunsAskedLaterOnlyHaveLetters(t *testing.T) {
	t.Parallel()
	x, y := measure.Key([]byte("x")), measure.Key([]byte("y"))
	groups := measure.Meanings{Groups: map[string]int{string(x): 1, string(y): 2}}
	all, _ := measure.ByMeaning([][]measure.Answer{{{Key: x}, {Key: x}, {Key: y, IsExtra: true}}}, groups)
	require.Equal(t, "AAB", all[0].Letters)
	require.Equal(t, 1.0, *all[0].Agreement)
	require.Equal(t, 1, all[0].Distinct)
}
