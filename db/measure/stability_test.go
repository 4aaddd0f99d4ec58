package measure_test

import (
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"wending/db/measure"
)

func TestAnswersThatCountAsEqual(t *testing.T) {
	t.Parallel()
	require.Equal(t, measure.Key([]byte(" 北京\n")), measure.Key([]byte("北京")))
	require.Equal(t, measure.Key([]byte("cafe\u0301")), measure.Key([]byte("café")))
	require.NotEqual(t, measure.Key([]byte("Paris")), measure.Key([]byte("paris")))
	require.NotEqual(t, measure.Key([]byte("a\xff")), measure.Key([]byte("a\xfe")))
}

// A is the most common answer, wherever it first appears; among answers with equal counts, the one that appears first
// comes first.
func TestTheMostCommonAnswerIsA(t *testing.T) {
	t.Parallel()
	a, b, c := measure.Key([]byte("a")), measure.Key([]byte("b")), measure.Key([]byte("c"))
	letters, groups := measure.Letters([][]byte{b, a, c, a, a, c})
	require.Equal(t, []string{"C", "A", "B", "A", "A", "B"}, letters)
	require.Equal(t, []measure.Group{{Letter: "A", Count: 3}, {Letter: "B", Count: 2}, {Letter: "C", Count: 1}}, groups)
}

func TestLettersFollowTheFirstAppearance(t *testing.T) {
	t.Parallel()
	a, b := measure.Key([]byte("a")), measure.Key([]byte("b"))
	letters, groups := measure.Letters([][]byte{b, nil, a, b, a})
	require.Equal(t, []string{"A", "", "B", "A", "B"}, letters)
	require.Equal(t, []measure.Group{{Letter: "A", Count: 2}, {Letter: "B", Count: 2}}, groups)
	var many [][]byte
	for n := range 28 {
		many = append(many, []byte{byte(n)})
	}
	letters, _ = measure.Letters(many)
	require.Equal(t, "Z", letters[25])
	require.Equal(t, "a", letters[26])
	seen := map[string]bool{}
	for n := range 400 {
		letter := measure.Letter(n)
		require.Equal(t, 1, utf8.RuneCountInString(letter))
		require.True(t, unicode.IsLetter([]rune(letter)[0]))
		require.False(t, seen[letter])
		seen[letter] = true
	}
}

// Five out of five is the example of metrics.md.
func TestEqualAnswersProveLessThanTheyShow(t *testing.T) {
	t.Parallel()
	require.InDelta(t, 0.5655, measure.ProvedShare(5), 0.00005)
	require.InDelta(t, 0.8389, measure.ProvedShare(20), 0.00005)
}
