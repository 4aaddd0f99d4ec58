package facts_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"wending/db/measure/facts"
)

func read(t testing.TB, answers ...string) facts.Reading {
	t.Helper()
	reading, err := facts.Question(t.Context(), answers)
	require.NoError(t, err)
	return reading
}

// A statement lists its values, the most frequent first, each with the answers that have it, and the places in them.
func TestAQuestionsConflictIsOneStatement(t *testing.T) {
	t.Parallel()
	answers := []string{
		"答复期限为 30 日，逾期视为同意。", "答复期限是三十天，逾期视为同意。", "请注意：答复期限为 30 日，逾期视为同意。",
		"答复期限为 35 日，逾期视为同意。", "答复期限为 30 日，逾期视为同意。",
	}
	reading := read(t, answers...)
	require.Equal(t, facts.Conflict, reading.Differ)
	require.Len(t, reading.Statements, 1)
	s := reading.Statements[0]
	require.True(t, s.IsConflict)
	require.Equal(t, facts.Duration, s.Kind)
	require.Equal(t, "答复期限为", s.Label)
	require.Len(t, s.Values, 2)
	require.Equal(t, "30 day", s.Values[0].Value)
	require.Equal(t, []int{0, 1, 2, 4}, s.Values[0].Runs)
	require.Equal(t, "35 日", s.Values[1].Text)
	require.Equal(t, []int{3}, s.Values[1].Runs)
	require.Empty(t, s.Missing)
	for _, value := range s.Values {
		for _, place := range value.Places {
			require.Contains(t, []string{"30 日", "三十天", "35 日"}, answers[place.Answer][place.Start:place.End])
		}
	}
}

// A fact that some answers leave out is an omission; equal answers, and answers in another notation, do not differ.
func TestAQuestionsOmissions(t *testing.T) {
	t.Parallel()
	reading := read(t, "押金 500 元，退房后 7 日内退还。", "押金 500 元。", "押金五百元。")
	require.Equal(t, facts.Omission, reading.Differ)
	require.Len(t, reading.Statements, 1)
	require.False(t, reading.Statements[0].IsConflict)
	require.Equal(t, []int{1, 2}, reading.Statements[0].Missing)
	require.Equal(t, []int{0}, reading.Statements[0].Values[0].Runs)

	require.Equal(t, facts.None, read(t, "押金 500 元。", "押金五百元！", "押金 500 元。").Differ)
	require.Equal(t, facts.None, read(t, "押金 500 元。").Differ)
	require.Equal(t, facts.None, read(t).Differ)
	require.Equal(t, facts.None, read(t, "带上身份证，再加一张照片。", "带上身份证，再加照片。").Differ, "一张 is an article here")
	require.Equal(t, facts.Conflict, read(t, "带上身份证，再加一张照片。", "带上身份证，再加三张照片。").Differ, "but still a number")
	require.Equal(t, facts.None, read(t, "第一次补办要 40 元，第二天就能拿。", "补办要 40 元，次日就能拿。").Differ, "idioms")
}

// A missing 不 is found in the one answer that lacks it, however the other answers are worded.
func TestAQuestionsNegationIsFound(t *testing.T) {
	t.Parallel()
	reading := read(t, "会员积分不可以转赠他人。", "会员积分不可以转赠他人。", "会员积分可以转赠他人。", "积分不能转赠他人。")
	require.Equal(t, facts.Conflict, reading.Differ)
	require.Equal(t, facts.Polarity, reading.Statements[0].Kind)
	var runs []int
	for _, value := range reading.Statements[0].Values[1:] {
		runs = append(runs, value.Runs...)
	}
	require.Equal(t, []int{2}, runs)
}

// A conflict between two answers is found although the most frequent answer does not mention the fact.
func TestAConflictBesideTheMostFrequentAnswer(t *testing.T) {
	t.Parallel()
	reading := read(t, "可以退款。", "可以退款。", "可以退款。手续费为 5 元。", "可以退款。手续费为 9 元。")
	require.Equal(t, facts.Conflict, reading.Differ)
	require.Equal(t, facts.Money, reading.Statements[0].Kind)
	require.Equal(t, []int{2}, reading.Statements[0].Values[0].Runs)
	require.Equal(t, []int{3}, reading.Statements[0].Values[1].Runs)
	require.Equal(t, []int{0, 1}, reading.Statements[0].Missing)
}

// A range is one value, not two.
func TestAQuestionsRange(t *testing.T) {
	t.Parallel()
	reading := read(t, "每次服用 5–10 片。", "每次服用 5 至 10 片。", "每次服用 6–12 片。")
	require.Len(t, reading.Statements, 1)
	require.Equal(t, facts.Range, reading.Statements[0].Kind)
	require.Equal(t, "5–10 片", reading.Statements[0].Values[0].Value)
	require.Equal(t, []int{0, 1}, reading.Statements[0].Values[0].Runs)
	require.Equal(t, "6–12 片", reading.Statements[0].Values[1].Value)
}

// An answer is compared with the standard answer: only contradictions count, not additions or omissions.
func TestExpectedFacts(t *testing.T) {
	t.Parallel()
	answer := "根据规定，企业应当在收到通知后 35 日内答复。申请费为 50 元，可以邮寄，也可以当面递交。\n\n" +
		"### 结论\n\n按现有事实，**该违约金一般会被调低**。\n\n1. 恶意违约的一方请求减少违约金，法院一般不予支持。"
	for standard, want := range map[string]string{
		"应当在收到通知后 30 日内答复。": "30 日 → 35 日",
		"30 日":             "30 日 → 35 日",
		"应当在三十五天内答复。":      "",
		"35 日；复议期限为 60 日。": "",
		"申请费 50 元。":        "",
		"申请费 80 元。":        "80 元 → 50 元",
		"按现有事实，该违约金一般不会被调低。": "不会 → 按现有事实，**该违约金一般会被调低**。",
	} {
		var got []string
		found, err := new(facts.Reader).Expected(t.Context(), standard, []string{answer})
		require.NoError(t, err)
		for _, d := range found[0] {
			got = append(got, d.A.Text+" → "+d.B.Text)
		}
		require.Equal(t, want, strings.Join(got, "; "), standard)
	}
}

// A range differs from another one if either end differs, but not if it is only written in a different notation.
func TestExpectedRanges(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string]int{
		"- 每次 5–10 mg/kg，每 4–8 小时可以重复一次；\n- 24 小时内不超过 4 次；": 1,
		"每次 5–10 mg/kg，每 6–9 小时可以重复一次。":                     1,
		"每次 5–10 mg/kg，每 4–9 小时可以重复一次。":                     1,
		"每次 5–10 mg/kg，每六至八小时可以重复一次。":                       0,
		"每次 5 至 10 mg/kg，每 6～8 小时可以重复一次。":                   0,
	} {
		found, err := new(facts.Reader).Expected(t.Context(), "每次 5–10 mg/kg，每 6–8 小时可以重复一次；", []string{answer})
		require.NoError(t, err)
		require.Len(t, found[0], want, answer)
	}
}

// An answer may omit the standard answer's value and have another value that all the other answers have, too: that is
// not a contradiction, unless the answer has the other value once more than they do.
func TestExpectedFactsAreReadBesideTheOtherAnswers(t *testing.T) {
	t.Parallel()
	standard := "到期时成长值未达标的，降一级；黑金卡享有 3 个月的保级期。"
	answers := []string{
		"等级有效期 12 个月，每月更新。\n\n到期时成长值未达标的，降一级；黑金卡享有 3 个月的保级期。",
		"等级有效期 12 个月，每月更新。\n\n到期时成长值未达标的，降一级。",
		"等级有效期 12 个月，每月更新。\n\n到期时成长值未达标的，降一级；黑金卡享有 12 个月的保级期。",
		standard,
	}
	found, err := new(facts.Reader).Expected(t.Context(), standard, answers)
	require.NoError(t, err)
	var contradicting []int
	for n := range found {
		if len(found[n]) > 0 {
			contradicting = append(contradicting, n)
		}
	}
	require.Equal(t, []int{2}, contradicting)
	require.Equal(t, "3 个月", found[2][0].A.Text)
	require.Equal(t, "12 个月", found[2][0].B.Text)

	alone, err := new(facts.Reader).Expected(t.Context(), standard, answers[1:2])
	require.NoError(t, err)
	require.Len(t, alone[0], 1, "without the other answers, the value could be the standard answer's")
}

// Long answers are only compared with the most frequent one, and the comparison stops when its context ends.
func TestLongAnswersAreComparedWithTheMostFrequentOne(t *testing.T) {
	t.Parallel()
	answers := make([]string, 20)
	for n := range answers {
		answers[n] = table(60_000, n%3*50)
	}
	reading := read(t, answers...)
	require.Equal(t, facts.Conflict, reading.Differ)
	require.Len(t, reading.Statements, 2)
	require.Len(t, reading.Statements[0].Values, 2)

	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := facts.Question(ended, answers)
	require.ErrorIs(t, err, context.Canceled)
}
