package meaning

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"wending/db/measure"
)

// keyed returns an answer for each letter; - is a run without an answer.
func keyed(letters string) (answers []measure.Answer) {
	for _, letter := range letters {
		answer := measure.Answer{Key: measure.Key([]byte(string(letter)))}
		if letter == '-' {
			answer.Key = nil
		}
		answers = append(answers, answer)
	}
	return answers
}

// grouped returns groups: the answers whose letters occur in the nth text are in group n.
func grouped(groups ...string) Groups {
	of := Groups{Of: map[string]int{}, Unsure: map[string]bool{}}
	for n, letters := range groups {
		for _, letter := range letters {
			of.Of[string(measure.Key([]byte(string(letter))))] = n
		}
	}
	return of
}

func TestNumbersByMeaning(t *testing.T) {
	t.Parallel()
	groups := Groups{Of: map[string]int{}, Unsure: map[string]bool{}}
	for letter, group := range map[string]int{"x": 7, "w": 7, "y": 300, "z": 1} {
		groups.Of[string(measure.Key([]byte(letter)))] = group
	}
	groups.Unsure[string(measure.Key([]byte("y")))] = true
	variants := [][]measure.Answer{keyed("yxw-x"), append(keyed("yzzz"), measure.Answer{IsMissing: true})}
	require.True(t, groups.cover(variants[0]))
	all, order := Sum(variants, []Groups{groups, groups})
	require.Equal(t, []int{7, 1, 300}, order, "the most common first, ties by first appearance")
	require.Equal(t, "CAA-A", all[0].Letters)
	require.InDelta(t, 6.0/20, *all[0].Agreement, 1e-12)
	require.Equal(t, 2, all[0].Distinct)
	require.InDelta(t, -(0.75*math.Log(0.75) + 0.25*math.Log(0.25)), *all[0].Entropy, 1e-12)
	require.Equal(t, []int{1}, all[0].Unsure)
	require.Equal(t, "CBBB-", all[1].Letters)
	require.Nil(t, all[1].Agreement, "a run is missing")

	require.False(t, groups.cover(keyed("n")))
	none, order := Sum([][]measure.Answer{keyed("--")}, []Groups{groups})
	require.Empty(t, order)
	require.Zero(t, *none[0].Agreement)
	require.Nil(t, none[0].Entropy)
	require.Equal(t, "--", none[0].Letters)
}

func TestRunsAskedLaterOnlyHaveLetters(t *testing.T) {
	t.Parallel()
	answers := keyed("xxy")
	answers[2].IsExtra = true
	all, _ := Sum([][]measure.Answer{answers}, []Groups{grouped("x", "y")})
	require.Equal(t, "AAB", all[0].Letters)
	require.Equal(t, 1.0, *all[0].Agreement)
	require.Equal(t, 1, all[0].Distinct)
}

// correction returns what a person said about a variant's answers.
func correction(variant int, groups ...string) (said Correction) {
	said.Variant, said.Version, said.Reviewer = variant, 1, "李雷"
	for n, letters := range groups {
		for _, letter := range letters {
			said.Keys = append(said.Keys, measure.Key([]byte(string(letter))))
			said.Groups = append(said.Groups, int64(n))
			said.Contents = append(said.Contents, int64(len(said.Contents)))
		}
	}
	return said
}

// item returns an item whose answers a model grouped; an empty model means that no model did.
func item(model Groups, variants ...string) groupedItem {
	one := groupedItem{Contents: 2, HasMeaning: len(model.Of) > 0, corrections: map[int]Correction{}}
	for key, group := range model.Of {
		one.Grouping.Add([]byte(key), group, model.Unsure[key])
	}
	for _, letters := range variants {
		one.variants = append(one.variants, keyed(letters))
	}
	return one
}

func TestWhatAPersonSaysStandsBeforeWhatAModelSaid(t *testing.T) {
	t.Parallel()
	one := item(grouped("abc", "d"), "aabcd", "aabdd")
	one.corrections[1] = correction(1, "ab", "cd")
	of, by := one.grouped()
	require.Equal(t, []By{Person, Model}, by)
	all, _ := Sum(one.variants, of)
	require.Equal(t, "AAABB", all[0].Letters, "c joined d, which keeps its letter")
	require.Equal(t, "AAABB", all[1].Letters, "what nobody corrected stays")
	require.Empty(t, all[0].Unsure)

	withdrawn, name := one.corrections[1], "韩梅"
	withdrawn.WithdrawnBy = &name
	one.corrections[1] = withdrawn
	_, by = one.grouped()
	require.Equal(t, []By{Model, Model}, by, "the model's groups count again")

	one.corrections[1] = correction(1, "a", "b", "c", "d")
	of, _ = one.grouped()
	all, _ = Sum(one.variants, of)
	require.Equal(t, 4, all[0].Distinct)
	require.Equal(t, "AA", all[0].Letters[:2])
	require.Equal(t, all[0].Letters[4], all[1].Letters[4], "d says the same in both variants")
}

func TestAPersonsGroupingStandsAsLongAsTheAnswersDo(t *testing.T) {
	t.Parallel()
	one := item(grouped("abcn", "d"), "abcdn")
	one.corrections[1] = correction(1, "ab", "cd")
	of, by := one.grouped()
	require.Equal(t, []By{Person}, by)
	all, _ := Sum(one.variants, of)
	require.Equal(t, "AABBA", all[0].Letters)
	require.Equal(t, []int{5}, all[0].Unsure, "nobody has placed the new answer")

	others := item(grouped("ax", "yz"), "axyz")
	others.corrections[1] = correction(1, "ab", "cd")
	of, by = others.grouped()
	require.Equal(t, []By{Model}, by, "only one of the answers is still there")
	all, _ = Sum(others.variants, of)
	require.Equal(t, "AABB", all[0].Letters)

	unknown := item(Groups{}, "abn", "cd")
	unknown.corrections[1], unknown.corrections[2] = correction(1, "a", "b"), correction(2, "cd")
	_, by = unknown.grouped()
	require.Equal(t, []By{"", Person}, by, "nobody has grouped the new answer of the first variant")
}

func TestTheModelIsMeasuredAgainstPeople(t *testing.T) {
	t.Parallel()
	model := grouped("abc", "d", "e")
	model.Unsure[string(measure.Key([]byte("e")))] = true
	var of Reliability
	said := correction(1, "ab", "cd", "e")
	of.compare(said, model)
	of.compare(correction(1, "abc"), model)
	of.compare(correction(1, "ax"), model) // the model was not asked about x
	sameForm := correction(1, "ab")
	sameForm.Contents[1] = sameForm.Contents[0]
	of.compare(sameForm, model) // only one content, so no pair
	of = of.computed()
	require.Equal(t, 3, of.Questions)
	require.Equal(t, 2, of.Unchanged)
	require.Equal(t, 9, of.Pairs)
	require.Equal(t, 4, of.Unsure)
	require.Equal(t, [3]int{4, 2, 1}, [3]int{of.Same, of.Joined, of.Parted})
	require.InDelta(t, 6.0/9, *of.Agreement, 1e-12)
	require.InDelta(t, 8.0/11, *of.F1, 1e-12)
	require.Nil(t, Score(nil, nil, nil).F1)
	require.Equal(t, 1.0, *Score([][]int64{{0, 0, 1}}, [][]int64{{5, 5, 2}}, [][]bool{{false, false, true}}).F1)
}
