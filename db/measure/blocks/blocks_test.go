package blocks_test

import (
	"fmt"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"wending/db/measure"
	"wending/db/measure/blocks"
)

// cut returns the texts of an answer's blocks, each prefixed with the first letter of its kind.
func cut(answer string) (written []string) {
	for _, block := range blocks.Cut(answer) {
		written = append(written, string(block.Kind[0])+" "+block.Text)
	}
	return written
}

func TestAnAnswerIsCutIntoBlocks(t *testing.T) {
	t.Parallel()
	require.Equal(t, []string{
		"h ## 一、结论", "p 可以要求赔偿。", "i 1. 书面提出", "i - 保留回执", "r | 药物 | 间隔 |", "r | 布洛芬 | 6–8 小时 |",
		"c ```go\nx := 1\n\ny := 2\n```", "p 完。",
	}, cut(
		"## 一、结论\r\n\r\n可以要求赔偿。\n1. 书面提出\n- 保留回执\n| 药物 | 间隔 |\n|---|:--:|\n| 布洛芬 | 6–8 小时 |\n```go\nx := 1\n\ny := 2\n```\n完。"))
	require.Equal(t, []string{"m a[1]: 1", "m a[2].c: x", "m b: null"},
		cut("```json\n{\"b\": null, \"a\": [1.0, {\"c\": \"x\"}]}\n```"))
	require.Equal(t, []string{"p {\"a\": [1, 2"}, cut(`{"a": [1, 2`), "JSON that is cut is text")
	require.Equal(t, []string{"c ```\nopen"}, cut("```\nopen"))
	require.Empty(t, cut(" \n\n"))
	long := strings.Repeat("第一句话说明情况。", 400)
	parts := cut(long)
	require.Greater(t, len(parts), 5)
	whole := ""
	for _, part := range parts {
		require.True(t, strings.HasSuffix(part, "。"), "a cut never falls inside a sentence")
		whole += strings.TrimPrefix(part, "p ")
	}
	require.Equal(t, long, whole)
}

// termsOf returns a term for each text; its index is the number of its fact.
func termsOf(texts []string) (terms []blocks.Term) {
	for n, text := range texts {
		terms = append(terms, blocks.Term{Fact: n, Text: text})
	}
	return terms
}

// marks writes the pieces of the only block that differs as [-deleted] and [+inserted]; after the sign, a fact has a !
// and a difference in form a ·.
func marks(t *testing.T, terms [2][]string, a, b string) (written string, unit blocks.Unit) {
	t.Helper()
	reading := blocks.Align([]blocks.Answer{{a, termsOf(terms[0])}, {b, termsOf(terms[1])}})
	for _, one := range reading.Units {
		for _, other := range one.Others {
			unit = one
			for _, piece := range reading.Pieces(one, other, time.Second) {
				sign := map[blocks.Degree]string{blocks.Form: "·", blocks.Wording: "", blocks.Fact: "!"}[piece.Degree]
				switch piece.Op {
				case measure.Delete:
					written += "[-" + sign + piece.Text + "]"
				case measure.Insert:
					written += "[+" + sign + piece.Text + "]"
				default:
					written += piece.Text
				}
			}
		}
	}
	return written, unit
}

func TestWhatDiffersIsMarkedByHowMuchItMatters(t *testing.T) {
	t.Parallel()
	facts := [2][]string{{"30 日", "可以"}, {"35 日", "不可以"}}
	written, unit := marks(t, facts, "同样的开头。\n公司应在收到之日起 30 日内答复，并保留回执。", "同样的开头。\n公司应自收到之日起 35 日内答复，并留存回执。")
	require.Equal(t, "公司应[-在][+自]收到之日起 [-!30 日][+!35 日]内答复，并[-保留][+留存]回执。", written)
	require.Equal(t, blocks.Fact, unit.Degree)
	written, _ = marks(t, facts, "您可以要求支付赔偿金，两者择一。", "您不可以要求支付赔偿金，两者择一。")
	require.Equal(t, "您[-!可以][+!不可以]要求支付赔偿金，两者择一。", written, "a term is marked as a whole")
	written, unit = marks(t, [2][]string{}, "**保留** 回执，并登记。", "保留回执, 并登记")
	require.Equal(t, "[-·**]保留[-·** ]回执[-·，][+·, ]并登记[-·。]", written)
	require.Equal(t, blocks.Form, unit.Degree)
	written, _ = marks(t, [2][]string{{"0 日"}, {"5 日"}}, "在 30 日内办理完毕即可。", "在 35 日内办理完毕即可。")
	require.NotContains(t, written, "!", "a term within another number is none")
	_, unit = marks(t, [2][]string{}, "1. 甲方负责\n2. 乙方验收", "1. 乙方验收\n2. 甲方负责")
	require.Equal(t, blocks.Form, unit.Degree, "another order and other numbers of entries are form")
}

func TestAFactIsFoundBeneathItsLikeInOtherWords(t *testing.T) {
	t.Parallel()
	shared := "开头的一段，两份回答完全一样，说明背景与适用范围。\n"
	written, unit := marks(t, [2][]string{{"2 年"}, {"三年"}}, shared+"休学累计不超过 2 年。咨询：教学楼 B 座。",
		shared+"挂科或者受过处分，当年不能参评。\n想休学的话，加起来最多三年。")
	require.Equal(t, "想休学的话，加起来最多[-!2 年][+!三年]。", written)
	require.Equal(t, blocks.Fact, unit.Degree)
	require.True(t, unit.Others[0].IsReworded)
}

func TestWithoutTimeADifferenceIsCoarseButNeverWithinANumber(t *testing.T) {
	t.Parallel()
	reading := blocks.Align([]blocks.Answer{{"在 30 日内书面答复，并保留回执。", termsOf([]string{"30 日"})},
		{"在 35 日内书面答复，并留存回执。", termsOf([]string{"35 日"})}})
	unit := reading.Units[0]
	require.Equal(t, blocks.Fact, unit.Degree)
	pieces := reading.Pieces(unit, unit.Others[0], 0)
	require.Equal(t, blocks.Piece{Op: measure.Delete, Text: "30 日", Degree: blocks.Fact}, pieces[1])
	require.Equal(t, "在 ", pieces[0].Text)
}

func TestOnlyTheCellOfATableIsMarked(t *testing.T) {
	t.Parallel()
	written, unit := marks(t, [2][]string{{"6–8 小时"}, {"4–6 小时"}}, "| 药物 | 间隔 |\n|---|---|\n| 布洛芬 | 6–8 小时 |",
		"| 药物 | 间隔 |\n|---|---|\n| 布洛芬混悬液 | 4–6 小时 |")
	require.Equal(t, "| 布洛芬[+混悬液] | [-!6–8 小时][+!4–6 小时] |", written)
	require.Equal(t, "| 药物 | 间隔 |", unit.Head)
	require.Equal(t, []string{"| 布洛芬 |", " a\\|b |"}, blocks.Cells("| 布洛芬 | a\\|b |"))
}

func TestEqualBlocksAreSharedAndUnlikeAnswersStandApart(t *testing.T) {
	t.Parallel()
	reading := blocks.Align([]blocks.Answer{
		{Text: "一样的一段话在这里。\n补偿为 3 个月工资。\n结束语也一样。"},
		{Text: "一样的一段话在这里。\n补偿为 4 个月工资。\n结束语也一样。"},
		{Text: "一样的一段话在这里。\n补偿为 4 个月工资。\n还要补充一点：注意时效。\n结束语也一样。"},
		{Text: "抱歉，我无法确认合同条款，请拨打客服热线。"},
	})
	require.Len(t, reading.Units, 4)
	require.Equal(t, []int{0, 1, 2}, reading.Units[0].Sharing)
	require.Equal(t, blocks.Same, reading.Units[0].Degree)
	require.Equal(t, []int{0}, reading.Units[1].Sharing)
	require.Len(t, reading.Units[1].Others, 1, "those that say the same share a place")
	require.Equal(t, []int{1, 2}, reading.Units[1].Others[0].Answers)
	require.Empty(t, reading.Units[2].Text, "only one has it")
	require.Equal(t, []int{2}, reading.Units[2].Others[0].Answers)
	require.Equal(t, []int{3}, reading.Apart)
	require.Less(t, reading.Likeness[3], 0.3)
	require.Greater(t, reading.Likeness[1], 0.9)
}

func TestOneChangeInAJSONInAnotherOrderIsOneChange(t *testing.T) {
	t.Parallel()
	written, unit := marks(t, [2][]string{{"30000"}, {"35000"}}, `{"金额":{"上限":30000,"币种":"CNY"},"说明":"同上"}`,
		`{"说明":"同上","金额":{"币种":"CNY","上限":35000}}`)
	require.Equal(t, "金额.上限: [-!30000][+!35000]", written)
	require.Equal(t, blocks.Member, unit.Kind)
}

// processorTime is the thread's CPU time, which does not grow while other work keeps the machine busy.
func processorTime(t *testing.T) time.Duration {
	t.Helper()
	var used syscall.Rusage
	require.NoError(t, syscall.Getrusage(syscall.RUSAGE_THREAD, &used))
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// No agent output makes aligning slow, and none of its text is lost.
func TestHostileAnswersAreAligned(t *testing.T) {
	t.Parallel()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	rows := func(n, changed int) string {
		var text strings.Builder
		for i := range n {
			value := i * 7
			if i == changed {
				value++
			}
			fmt.Fprintf(&text, "| %d | %d |\n", i, value)
		}
		return text.String()
	}
	longKey := `{"` + strings.Repeat("费用", 20_000) + `": [` + strings.Repeat("1, ", 5000)
	for name, pair := range map[string][2]string{
		"a table of 5,000 rows":           {rows(5000, -1), rows(5000, 2500)},
		"nothing in common":               {strings.Repeat("甲乙丙丁。\n", 3000), strings.Repeat("子丑寅卯！\n", 3000)},
		"one line of 100 KB":              {strings.Repeat("x", 100_000), strings.Repeat("x", 99_999) + "y"},
		"one line of words":               {strings.Repeat("word ", 20_000), strings.Repeat("word ", 19_000) + "other"},
		"invalid UTF-8":                   {"ab\xff\xfe\ncd。", "ab\xff\ncd。e"},
		"right to left and combining":     {"שלום עולם\né́", "שלום עולם!\né"},
		"a fence that is not closed":      {"```\n" + strings.Repeat("a\n", 10_000), "```\n" + strings.Repeat("b\n", 10_000)},
		"a JSON that is deep and cut":     {strings.Repeat(`{"a":`, 20_000), strings.Repeat(`[`, 20_000)},
		"a JSON with a long key":          {longKey + "0]}", longKey + "2]}"},
		"all lines the same":              {strings.Repeat("同\n", 8000), strings.Repeat("同\n", 7000)},
		"more blocks than an answer has":  {rows(20_000, -1), rows(20_000, 19_999)},
		"a thousand changes in one order": {rows(1000, -1), strings.ReplaceAll(rows(1000, -1), "7", "8")},
	} {
		start := processorTime(t)
		reading := blocks.Align([]blocks.Answer{{Text: pair[0]}, {Text: pair[1]}})
		require.Less(t, processorTime(t)-start, 5*time.Second, name) // quadratic time would be much longer
		for _, unit := range reading.Units {
			for _, other := range unit.Others {
				whole := ""
				for _, piece := range reading.Pieces(unit, other, time.Second) {
					if piece.Op != measure.Delete {
						whole += piece.Text
					}
				}
				if len(reading.Pieces(unit, other, time.Second)) > 0 {
					require.Equal(t, other.Text, whole, name)
				}
			}
		}
	}
}

func FuzzAlign(f *testing.F) {
	f.Add("## a\n1. b 30 日\n```\nc", "## a\n2. b 35 日\n| x |", "30 日")
	f.Add(`{"a": [1, {"b": null}]}`, "{}", "1")
	f.Add("\xff\n。", "", "\xff")
	f.Fuzz(func(t *testing.T, a, b, term string) {
		reading := blocks.Align([]blocks.Answer{{a, []blocks.Term{{Text: term}}}, {b, []blocks.Term{{Text: term}}}})
		require.Len(t, reading.Likeness, 2)
		for _, like := range reading.Likeness {
			require.True(t, like >= 0 && like <= 1.0001, like)
		}
		for _, unit := range reading.Units {
			for _, other := range unit.Others {
				mine, theirs := "", ""
				for _, piece := range reading.Pieces(unit, other, time.Second) {
					if piece.Op != measure.Delete {
						theirs += piece.Text
					}
					if piece.Op != measure.Insert {
						mine += piece.Text
					}
				}
				if len(reading.Pieces(unit, other, time.Second)) > 0 {
					require.Equal(t, other.Text, theirs)
					if !other.IsReworded {
						require.Equal(t, unit.Text, mine)
					}
				}
			}
		}
	})
}

// Twenty answers of 3,000 characters, each worded differently.
func BenchmarkAlignTwenty(b *testing.B) {
	var answers []blocks.Answer
	for n := range 20 {
		var text strings.Builder
		for line := range 30 {
			fmt.Fprintf(&text, "%d. 根据第%d条的规定，公司应当在收到书面申请之日起 %d 日内作出答复，并将处理结果%s通知申请人；逾期未答复的，申请人可以向上一级机关投诉，也可以直接申请仲裁。\n", line+1,
				30+line, 30, strings.Repeat("及时", n%4+line%2))
		}
		answers = append(answers, blocks.Answer{Text: text.String(), Terms: []blocks.Term{{Text: "30 日"}}})
	}
	for b.Loop() {
		blocks.Align(answers)
	}
}

// Chinese is compared by words, and a negation is a word of its own.
func TestChineseIsMarkedByWords(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ a, b, want string }{
		{"破损的，应当联系客服。", "破损的，应该联系客服。", "破损的，[-应当][+应该]联系客服。"},
		{"退票不收取手续费。", "退票不收手续费。", "退票不[-收取][+收]手续费。"},
		{"名单公示五个自然日。", "名单公示五个工作日。", "名单公示五个[-自然日][+工作日]。"},
		{"升级后 14 天内可以回滚。", "升级后 14 天内能够回滚。", "升级后 14 天内[-可以][+能够]回滚。"},
		{"违约金一般不会被调低。", "违约金一般会被调低。", "违约金一般[-不]会被调低。"},
		{"龘靐齉可以用。", "龘靐齉能用。", "龘靐齉[-可以][+能]用。"},
	} {
		got, _ := marks(t, [2][]string{}, c.a, c.b)
		require.Equal(t, c.want, got)
	}
}
