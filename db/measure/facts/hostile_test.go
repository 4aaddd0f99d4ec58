package facts_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"wending/db/measure/claim"
	"wending/db/measure/facts"
)

// hostile has answers with which the fuzzer begins.
var hostile = []string{
	"", " ", "\x00\xff\xfe", "第", "第条", "百分之", "¥", "$-", "1,", "1.2.", "1-2-", "半", "| | |\n|---|",
	"{\"a\": [1, {\"b\": \"c\"}]}",
	"{\"a\": \"”}\"}", "[[[[[[", "<td", "<table><tr><td>1 元<td>2 元</table>", "<script>alert('30 日')</script>",
	"&nbsp;&amp;&", "**", "****",
	"不不不不不", "可以不不可以", "12:", "12:60", "25:00", "0 点", "31/31/2024", "2024-13-40", "Section", "Section (((",
	"option", "答案", "选",
	"99999999999999999999999999999999999999 元", "1e999 %", "九十九万亿亿亿亿", "零零零零点零", "half a", "a week", "- - - 1", "① ② ③",
	"\u0301\u0301",
}

func FuzzRead(f *testing.F) {
	for _, answer := range hostile {
		f.Add(answer, "不得超过 30 天，每次 5–10 mg/kg。")
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		if len(a)+len(b) > 20_000 {
			t.Skip()
		}
		last := 0
		for _, fact := range facts.Read(a) {
			require.LessOrEqual(t, last, fact.Start, "facts come in the order of their places")
			last = fact.Start
			require.True(t, fact.Start >= 0 && fact.Start < fact.End && fact.End <= len(a), "%+v", fact)
			if utf8.ValidString(a) {
				require.True(t, utf8.ValidString(a[fact.Start:fact.End]), "%+v", fact)
			}
		}
		first := facts.Compare(a, b)
		require.Equal(t, first, facts.Compare(a, b), "it is deterministic")
		require.Empty(t, facts.Compare(a, a))
		reading, err := facts.Question(t.Context(), []string{a, b, a + b})
		require.NoError(t, err)
		for _, s := range reading.Statements {
			require.NotEmpty(t, s.Values)
			for _, v := range s.Values {
				require.NotEmpty(t, v.Runs)
				for _, p := range v.Places {
					answer := []string{a, b, a + b}[p.Answer]
					require.True(t, p.Start >= 0 && p.Start < p.End && p.End <= len(answer), "%+v", p)
				}
			}
		}
	})
}

// Twenty different answers, made of the beginning of one text and the end of another: JSON and characters that are cut
// in the middle, tables that end in other tables.
func FuzzQuestion(f *testing.F) {
	for n, answer := range hostile {
		f.Add(answer, hostile[(n+7)%len(hostile)])
	}
	f.Add(`{"期限": "30 日", "fees": [{"name": "a", "amount": 1.5}, {"name": "b"}]}`,
		"| 项 | 值 |\n|---|---|\n| e\u0301 | 5 % |\n| \u200fالرد 30 | 不得 |")
	f.Fuzz(func(t *testing.T, a, b string) {
		if len(a)+len(b) > 2000 {
			t.Skip()
		}
		answers := make([]string, 20)
		var memory claim.Memory
		for n := range answers {
			answers[n] = a[:len(a)*n/20] + b[len(b)*n/20:]
			require.Equal(t, claim.Read(answers[n]).Claims, memory.Learn(answers[n]).Claims, "%q", answers[:n+1])
		}
		reading, err := facts.Question(t.Context(), answers)
		require.NoError(t, err)
		for _, s := range reading.Statements {
			isListed := map[int]bool{}
			for _, v := range s.Values {
				require.Len(t, v.Places, len(v.Runs))
				for _, p := range v.Places {
					require.False(t, isListed[p.Answer], "an answer has one value of a statement")
					isListed[p.Answer] = true
					require.True(t, p.Start >= 0 && p.Start < p.End && p.End <= len(answers[p.Answer]), "%+v", p)
				}
			}
			for _, run := range s.Missing {
				require.False(t, isListed[run], "what an answer states is not missing in it")
			}
			require.LessOrEqual(t, utf8.RuneCountInString(s.Label), 20)
		}
	})
}

// Bytes that are not characters, and HTML, are skipped; the positions of facts refer to the answer.
func TestHostileTextIsRead(t *testing.T) {
	t.Parallel()
	answer := "\xff<table><tr><th>渠道<th>限额</tr><tr><td>柜台</td><td>５０万元</td></tr></table>\xfe"
	list := facts.Read(answer)
	require.Len(t, list, 1)
	require.Equal(t, "500000 CNY", list[0].Value)
	require.Equal(t, "５０万元", answer[list[0].Start:list[0].End])
	require.Empty(t, facts.Compare(answer, strings.ReplaceAll(answer, "５０万元", "500,000 元")))
}
