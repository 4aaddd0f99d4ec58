package passage_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"wending/db/measure/passage"
)

// told returns a sentence together with its subject.
func told(t *passage.Text, s passage.Sentence) string {
	parts := []string{t.Slice(s.Span)}
	for _, about := range []passage.Span{s.Heading, s.Label, s.Row, s.Column} {
		if !about.IsEmpty() {
			parts = append(parts, t.Slice(about))
		}
	}
	return strings.Join(parts, " < ")
}

// A text is divided into sentences, cells and values, each with its heading, label, row and column.
func TestSentencesKnowWhatTheyAreAbout(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string][]string{
		"先申请。再等待 3.5 天！":                       {"先申请。", "再等待 3.5 天！"},
		"# 押金\n1. 金额：500 元":                    {"押金", "金额：500 元 < 押金 < 金额"},
		"| 项目 | 金额 |\n|---|---|\n| 押金 | 5 元 |": {"项目", "金额 < 项目", "押金 < 项目", "5 元 < 押金 < 金额"},
		`{"押金": {"金额": "5 元"}}`:                {"5 元 < 押金 < 金额"},
		"Pay $5 a day. It ends on Jan. 3.":     {"Pay $5 a day.", "It ends on Jan. 3."},
		"- - - 三天":                             {"三天"},
		"*\xb8":                                {"*"},
		"":                                     nil,
	} {
		text := passage.Read(answer)
		var got []string
		for _, s := range text.Sentences {
			got = append(got, told(text, s))
		}
		require.Equal(t, want, got, answer)
	}
}

// Marks, tags and character width are ignored, and every character maps to its bytes in the answer.
func TestMarksAreNotRead(t *testing.T) {
	t.Parallel()
	answer := "**押金**<br>１００　元 1½ 杯"
	text := passage.Read(answer)
	require.Equal(t, "押金\n100 元 1 1/2 杯", strings.ReplaceAll(string(text.Runes), "  ", " "))
	require.Equal(t, "１００", text.Slice(passage.Span{From: 3, To: 6}))
}

// Sentences that are equal except for form have the same signature; sentences about different subjects, or with
// different numbers, do not.
func TestSignatures(t *testing.T) {
	t.Parallel()
	of := func(answer string) uint64 { return passage.Read(answer).Signatures()[0] }
	require.Equal(t, of("押金 1,200 **元**。"), of("押金1200元"))
	require.NotEqual(t, of("3、5 天"), of("35 天"))
	require.NotEqual(t, of("3~5 天"), of("35 天"))
}
