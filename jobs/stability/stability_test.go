package stability_test

import (
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"wending/jobs/stability"
)

func TestAnswersThatCountAsEqual(t *testing.T) {
	t.Parallel()
	require.Equal(t, stability.Key([]byte(" 北京\n")), stability.Key([]byte("北京")))
	require.Equal(t, stability.Key([]byte("cafe\u0301")), stability.Key([]byte("café")))
	require.NotEqual(t, stability.Key([]byte("Paris")), stability.Key([]byte("paris")))
	require.NotEqual(t, stability.Key([]byte("a\xff")), stability.Key([]byte("a\xfe")))
}

// A is the most common answer, wherever it stands; equal counts go by the first appearance.
func TestTheMostCommonAnswerIsA(t *testing.T) {
	t.Parallel()
	a, b, c := stability.Key([]byte("a")), stability.Key([]byte("b")), stability.Key([]byte("c"))
	letters, groups := stability.Letters([][]byte{b, a, c, a, a, c})
	require.Equal(t, []string{"C", "A", "B", "A", "A", "B"}, letters)
	require.Equal(t, []stability.Group{{Letter: "A", Count: 3}, {Letter: "B", Count: 2}, {Letter: "C", Count: 1}}, groups)
}

func TestLettersFollowTheFirstAppearance(t *testing.T) {
	t.Parallel()
	a, b := stability.Key([]byte("a")), stability.Key([]byte("b"))
	letters, groups := stability.Letters([][]byte{b, nil, a, b, a})
	require.Equal(t, []string{"A", "", "B", "A", "B"}, letters)
	require.Equal(t, []stability.Group{{Letter: "A", Count: 2}, {Letter: "B", Count: 2}}, groups)
	var many [][]byte
	for n := range 28 {
		many = append(many, []byte{byte(n)})
	}
	letters, _ = stability.Letters(many)
	require.Equal(t, "Z", letters[25])
	require.Equal(t, "a", letters[26])
	seen := map[string]bool{}
	for n := range 400 {
		letter := stability.Letter(n)
		require.Equal(t, 1, utf8.RuneCountInString(letter))
		require.True(t, unicode.IsLetter([]rune(letter)[0]))
		require.False(t, seen[letter])
		seen[letter] = true
	}
}

// Five of five is the example of metrics.md.
func TestEqualAnswersProveLessThanTheyShow(t *testing.T) {
	t.Parallel()
	require.InDelta(t, 0.5655, stability.ProvedShare(5), 0.00005)
	require.InDelta(t, 0.8389, stability.ProvedShare(20), 0.00005)
}
