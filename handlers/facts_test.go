package handlers_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
)

type toldFacts struct {
	FactsDiffer string `json:"facts_differ"`
	Facts       []struct {
		Kind, Label string
		Values      []struct {
			Value, Text string
			Runs        []int
		}
		Missing []int
	}
	Each [][]struct {
		Kind, Value, Text string
		Start, End        int
	}
}

func (s *site) facts(t *testing.T, answers ...string) toldFacts {
	t.Helper()
	answer := s.send(t, "POST", libraryAPI+"facts", object{"question": "答复期限是多久？", "answers": answers})
	require.Equal(t, http.StatusOK, answer.StatusCode, "%.300s", answer.body)
	told := toldFacts{}
	answer.into(t, &told)
	require.Len(t, told.Each, len(answers))
	for n, list := range told.Each {
		characters := []rune(strings.ToValidUTF8(answers[n], "\uFFFD"))
		for _, f := range list {
			require.Equal(t, f.Text, string(characters[f.Start:f.End]))
		}
	}
	return told
}

// A pipeline learns which answers contradict each other, on which fact, and where each states it; runs are counted
// from 1.
func TestFactsAreReadWithoutATask(t *testing.T) {
	t.Parallel()
	s := newSite(t, false)
	told := s.facts(t, "您好：答复期限为 30 日，不收费。", "答复期限是三十天，不收费。", "答复期限为 35 日，不收费。地址：100 号。")
	require.Equal(t, "conflict", told.FactsDiffer)
	require.Equal(t, "duration", told.Facts[0].Kind)
	require.Equal(t, "答复期限为", told.Facts[0].Label)
	require.Equal(t, "30 day", told.Facts[0].Values[0].Value)
	require.Equal(t, []int{1, 2}, told.Facts[0].Values[0].Runs)
	require.Equal(t, "35 日", told.Facts[0].Values[1].Text)
	require.Equal(t, []int{3}, told.Facts[0].Values[1].Runs)
	require.Equal(t, []int{}, told.Facts[0].Missing)
	require.Equal(t, 9, told.Each[0][0].Start)

	same := s.facts(t, "每次 5–10 片。", "每次5至10片")
	require.Equal(t, "none", same.FactsDiffer)
	require.Empty(t, same.Facts)
	require.Equal(t, "omission", s.facts(t, "每次 5–10 片，每日 3 次。", "每次5至10片").FactsDiffer)
}

// Anything but two to twenty texts is refused, with a description of valid input.
func TestFactsOfWhatAreNoAnswers(t *testing.T) {
	t.Parallel()
	s := newSite(t, false)
	many := make([]string, 21)
	for body, message := range map[*object]string{
		{}:                                 "answers",
		{"answers": []string{"one"}}:       "2–20 个值",
		{"answers": many}:                  "2–20 个值",
		{"answers": []any{"one", 2}}:       "一段文字",
		{"answers": []any{"one", nil}}:     "一段文字",
		{"answers": "one"}:                 "answers",
		{"answer": []string{"one", "two"}}: "是否想写 answers？",
		{"answers": []string{"1", "2"}, "question": 3}: "question",
	} {
		refused := s.entry(t, "POST", "facts", *body, 422)
		require.Equal(t, "PARAMETER_INVALID", refused["code"])
		require.Contains(t, refused["message"], message)
	}
}

// Large, broken and hostile answers are read in bounded time; answers that are even larger are refused.
func TestFactsOfHostileAnswers(t *testing.T) {
	t.Parallel()
	s := newSite(t, false)
	long := strings.Repeat("答复期限为 30 日，费用 5 元。\n", (1<<20)/48)
	require.Less(t, len(long), 1<<20)
	require.Equal(t, "conflict", s.facts(t, long+"上诉期限为 15 日。", long+"上诉期限为 10 日。").FactsDiffer)
	require.Equal(t, "REQUEST_TOO_LARGE", s.entry(t, "POST", "facts", object{"answers": []string{long + long, long + "1"}},
		413)["code"])
	require.Equal(t, "REQUEST_TOO_LARGE", s.entry(t, "POST", "facts",
		object{"answers": []string{strings.Repeat("x", 5<<20), ""}}, 413)["code"])

	different := make([]string, 20)
	for n := range different {
		different[n] = fmt.Sprintf("第 %d 种说法：共 %d 元，%d 日内付清。", n+1, 100+n, n+2)
	}
	told := s.facts(t, different...)
	require.Equal(t, "conflict", told.FactsDiffer)
	require.Len(t, told.Each, 20)

	var rows strings.Builder
	for n := range 5000 {
		fmt.Fprintf(&rows, "| 项目 %d | %d 元 |\n", n, 10*n)
	}
	table := "| 项目 | 金额 |\n|---|---|\n" + rows.String()
	told = s.facts(t, table, strings.Replace(table, "| 43210 元 |", "| 43219 元 |", 1))
	require.Len(t, told.Facts, 1)
	require.Equal(t, "43219 CNY", told.Facts[0].Values[1].Value)

	for _, answer := range []string{
		"", strings.Repeat("一", 100<<10), `{"金额": "30 元", "期限": [{"`, "\u202e30 日\u0301\u0301",
		"<script>alert('30 日')</script>", "\x00\x01",
	} {
		require.True(t, utf8.ValidString(answer))
		s.facts(t, answer, "30 日")
	}
	broken := strings.NewReader("{\"answers\":[\"\xff 30 日 \xfe\",\"35 日\"]}")
	answer, err := http.Post(s.URL+libraryAPI+"facts", "application/json", broken)
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	require.Equal(t, http.StatusOK, answer.StatusCode, "bytes that are no characters are read past")
}
