package facts_test

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"wending/db/measure/facts"
)

// longPair returns two answers of about the given number of characters that state the same things in other words,
// except for the numbers in each section.
func longPair(b testing.TB, characters int) (string, string) {
	b.Helper()
	bases := readLines[base](b, "bases.jsonl")
	var x, y strings.Builder
	for n, count := 0, 0; count < characters; n++ {
		base := bases[n%len(bases)]
		for _, w := range []struct {
			to   *strings.Builder
			text string
		}{{&x, base.Text}, {&y, base.Paraphrase1}} {
			fmt.Fprintf(w.to, "第 %d 节合计 %d 元。\n%s\n", n+1, 7*n+13, w.text)
		}
		count += utf8.RuneCountInString(base.Text)
	}
	return clip(x.String(), characters), clip(y.String(), characters)
}

func clip(s string, characters int) string {
	if runes := []rune(s); len(runes) > characters {
		return string(runes[:characters])
	}
	return s
}

// processorTime returns the CPU time of the process, so that other processes on the machine do not count.
func processorTime(b testing.TB) time.Duration {
	b.Helper()
	var usage syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// timeOf returns the processor time of one call of f.
func timeOf(b testing.TB, f func(), times int) time.Duration {
	b.Helper()
	before := processorTime(b)
	for range times {
		f()
	}
	return (processorTime(b) - before) / time.Duration(times)
}

// bareLoop decodes two answers and counts their digits: the minimum cost of reading them at all.
func bareLoop(x, y string) int {
	digits := 0
	for _, answer := range []string{x, y} {
		for _, r := range answer {
			if r >= '0' && r <= '9' {
				digits++
			}
		}
	}
	return digits
}

// The time for comparing two answers of 1,000 characters, also as a multiple of a bare loop over their characters.
func BenchmarkPairOf1000Characters(b *testing.B) {
	x, y := longPair(b, 1000)
	digits := 0
	for b.Loop() {
		const times = 300
		compared := timeOf(b, func() { facts.Compare(x, y) }, times)
		bare := timeOf(b, func() { digits += bareLoop(x, y) }, 1000*times)
		b.ReportMetric(float64(compared.Microseconds())/1000, "ms/pair")
		b.ReportMetric(float64(compared)/float64(max(1, bare)), "x-bare-loop")
	}
	require.Positive(b, digits)
}

// question returns different answers of about the given number of characters. Each consists of answers to the bases,
// one after another, in varying wordings.
func question(b testing.TB, answers, characters int) []string {
	b.Helper()
	bases := readLines[base](b, "bases.jsonl")
	list := make([]string, answers)
	for n := range list {
		var text strings.Builder
		for k := 0; utf8.RuneCountInString(text.String()) < characters; k++ {
			x := bases[k%len(bases)]
			names := x.names()
			fmt.Fprintf(&text, "%s\n", x.text(names[(n+k)%len(names)]))
			if n%7 == 0 {
				text.WriteString("合计 30 元。\n")
			}
		}
		list[n] = clip(fmt.Sprintf("%d 号回答。\n%s", n, text.String()), characters)
	}
	return list
}

// The time to find the facts of a question with 20 answers of 3,000 characters, also as a multiple of reading the
// answers.
func BenchmarkQuestionOf20Answers(b *testing.B) {
	answers := question(b, 20, 3000)
	for b.Loop() {
		whole := timeOf(b, func() {
			_, err := facts.Question(b.Context(), answers)
			require.NoError(b, err)
		}, 3)
		reading := timeOf(b, func() {
			for _, answer := range answers {
				facts.Read(answer)
			}
		}, 3)
		b.ReportMetric(float64(whole.Milliseconds()), "ms/question")
		b.ReportMetric(float64(whole)/float64(max(1, reading)), "x-reading")
	}
}

// How the time grows when the length doubles; 2 is linear.
func BenchmarkGrowthAt400000Characters(b *testing.B) {
	for _, shape := range longShapes {
		b.Run(shape.name, func(b *testing.B) {
			x, y := shape.pair(b, 400_000)
			halfX, halfY := shape.pair(b, 200_000)
			for b.Loop() {
				whole := timeOf(b, func() { facts.Compare(x, y) }, 2)
				half := timeOf(b, func() { facts.Compare(halfX, halfY) }, 4)
				b.ReportMetric(float64(whole.Milliseconds()), "ms/pair")
				b.ReportMetric(float64(whole)/float64(max(1, half)), "x-half")
			}
		})
	}
}

// An answer four times as long takes about four times as long to read, regardless of its content.
func TestLongAnswersAreReadInProportion(t *testing.T) { //nolint:paralleltest // it measures the time of the process
	for _, shape := range longShapes {
		took := func(characters int) time.Duration {
			x, y := shape.pair(t, characters)
			compare := func() {
				_, err := new(facts.Reader).Expected(t.Context(), x, []string{y, x + "1"})
				require.NoError(t, err)
			}
			return min(timeOf(t, compare, 1), timeOf(t, compare, 1))
		}
		isInProportion := func() bool {
			whole := took(80_000)
			return whole <= 40*time.Millisecond || whole < 10*took(20_000) // below 40 ms is too short to measure
		}
		tries := 0
		for tries < 5 && !isInProportion() { // on a busy machine a single measurement may be wrong
			tries++
		}
		require.Less(t, tries, 5, shape.name)
	}
}

// longShapes are long answers that might make reading or comparing slow.
var longShapes = []struct {
	name string
	pair func(b testing.TB, characters int) (string, string)
}{
	{"answers", longPair},
	{"one-line", func(b testing.TB, n int) (string, string) {
		x, y := longPair(b, n)
		oneLine := strings.NewReplacer("\n", " ", "。", "，", "！", "，", "；", "，", ".", " ", ";", " ", "?", " ", "？", "，")
		return oneLine.Replace(x), oneLine.Replace(y)
	}},
	{"table", func(_ testing.TB, n int) (string, string) {
		return table(n, 0), table(n, n/100)
	}},
	{"negations", func(_ testing.TB, n int) (string, string) {
		return repeat("不得超过，可以退款，不必办理", n), repeat("可以超过，不可以退款，必须办理", n)
	}},
	{"equal-values", func(_ testing.TB, n int) (string, string) {
		return repeat("3 天内退款；", n), repeat("5 天内退款；", n)
	}},
	{"other-amounts", func(_ testing.TB, n int) (string, string) {
		return amounts(n, 0), amounts(n, 1)
	}},
	{"token", func(_ testing.TB, n int) (string, string) {
		return repeat("a-", n), repeat("b-", n)
	}},
	{"negation-alone", func(_ testing.TB, n int) (string, string) {
		return strings.Repeat("不", n), strings.Repeat("不", n) + "1"
	}},
	{"verdicts", func(_ testing.TB, n int) (string, string) {
		return repeat("没有，", n), repeat("没有，", n) + "1"
	}},
	{"digits", func(_ testing.TB, n int) (string, string) {
		return strings.Repeat("0", n), strings.Repeat("0", n) + "1"
	}},
	{"numerals", func(_ testing.TB, n int) (string, string) {
		return strings.Repeat("一", n), strings.Repeat("二", n)
	}},
	{"blanks", func(_ testing.TB, n int) (string, string) {
		return "1" + strings.Repeat(" ", n) + "2", "1" + strings.Repeat(" ", n) + "3"
	}},
	{"headings", func(_ testing.TB, n int) (string, string) {
		return "# " + repeat("标题 ", n/2) + "\n" + repeat("第 1 步 3 元。\n", n/2),
			"# " + repeat("题标 ", n/2) + "\n" + repeat("第 1 步 4 元。\n", n/2)
	}},
	{"json", func(_ testing.TB, n int) (string, string) {
		return `[` + repeat(`{"名称": "甲", "金额": "3 元"},`, n) + `0]`, `[` + repeat(`{"金额": "5 元", "名称": "甲"},`, n) + `0]`
	}},
	{"cut-json", func(_ testing.TB, n int) (string, string) {
		return repeat(`{"a": [`, n), repeat("{\n}\n{\"b\": {", n)
	}},
	{"right-to-left", func(_ testing.TB, n int) (string, string) {
		return repeat("الرد خلال 30 يومًا، عברית 5.\n", n), repeat("الرد خلال 35 يومًا، عברית 5.\n", n)
	}},
	{"combining", func(_ testing.TB, n int) (string, string) {
		return repeat("e\u0301\u0302 3 元", n), repeat("e\u0301\u0300 4 元", n)
	}},
	{"other-words", func(_ testing.TB, n int) (string, string) {
		return otherWords(n, "a"), otherWords(n, "b")
	}},
	{"tags", func(_ testing.TB, n int) (string, string) {
		return repeat("<p <td <", n), repeat("&nbsp;&<b", n)
	}},
	{"bold", func(_ testing.TB, n int) (string, string) {
		return repeat("**", n), repeat("- **1** ", n)
	}},
}

// otherWords returns distinct words with digits.
func otherWords(characters int, letter string) string {
	var b strings.Builder
	for n := 0; b.Len() < characters; n++ {
		fmt.Fprintf(&b, "%s%dx%d ", letter, n*7919%100_003, n)
	}
	return b.String()
}

// amounts states the cost of many things.
func amounts(characters, more int) string {
	var b strings.Builder
	for n := 0; b.Len() < characters; n++ {
		fmt.Fprintf(&b, "项目%d费用%d元。\n", n, 7*n+more)
	}
	return b.String()
}

// repeat repeats a part up to a number of characters.
func repeat(part string, characters int) string {
	return strings.Repeat(part, characters/utf8.RuneCountInString(part))
}

// table writes a Markdown table; a shift other than 0 changes the amount in one row.
func table(characters, shift int) string {
	var b strings.Builder
	b.WriteString("| 编号 | 名称 | 金额 |\n|---|---|---|\n")
	for n := 0; b.Len() < characters; n++ {
		amount := 100 + n
		if shift > 0 && n == shift {
			amount++
		}
		fmt.Fprintf(&b, "| A-%d | 项目%d | %d 元 |\n", n, n%97, amount)
	}
	return b.String()
}

// fiveAnswers are questions with five different answers of about 900 characters each, as agents give them: alike
// except in one or two places, or differently worded.
func fiveAnswers(b testing.TB, areParaphrased bool) [][]string {
	b.Helper()
	bases := readLines[base](b, "more_bases.jsonl")
	questions := make([][]string, len(bases)/2)
	for n := range questions {
		x, y := bases[2*n], bases[2*n+1]
		list := make([]string, 5)
		for k := range list {
			name := "text"
			if areParaphrased && k%2 == 1 {
				name = "paraphrase1"
			}
			text := x.text(name)
			for m, c := range x.Edits {
				if m%5 == k && c.In == name {
					text = x.edited(c)
				}
			}
			list[k] = fmt.Sprintf("%s\n\n%s\n%s", text, y.text(name), strings.Repeat("。", k))
		}
		questions[n] = list
	}
	return questions
}

// The time to find the facts of a question with five different answers, also as a multiple of a bare loop over them.
func BenchmarkQuestionOf5Answers(b *testing.B) {
	for _, areParaphrased := range []bool{false, true} {
		b.Run(fmt.Sprintf("paraphrased=%v", areParaphrased), func(b *testing.B) {
			questions := fiveAnswers(b, areParaphrased)
			characters, digits := 0, 0
			for _, answers := range questions {
				for _, answer := range answers {
					characters += utf8.RuneCountInString(answer)
				}
			}
			for b.Loop() {
				const times = 10
				whole := timeOf(b, func() {
					for _, answers := range questions {
						_, err := facts.Question(b.Context(), answers)
						require.NoError(b, err)
					}
				}, times)
				bare := timeOf(b, func() {
					for _, answers := range questions {
						for _, answer := range answers {
							digits += bareLoop(answer, "")
						}
					}
				}, 100*times)
				b.ReportMetric(float64(whole.Microseconds())/1000/float64(len(questions)), "ms/question")
				b.ReportMetric(float64(whole)/float64(max(1, bare)), "x-bare-loop")
				b.ReportMetric(float64(characters)/5/float64(len(questions)), "characters")
			}
			require.Positive(b, digits)
		})
	}
}

// megabytes returns five different answers of 1 MB each, alike except for a few amounts, or with every second answer
// in other words.
func megabytes(b testing.TB, areParaphrased bool) []string {
	b.Helper()
	bases := append(readLines[base](b, "own_bases.jsonl"), readLines[base](b, "more_bases.jsonl")...)
	list := make([]string, 5)
	for n := range list {
		var text strings.Builder
		for k := 0; text.Len() < 1<<20; k++ {
			name := "text"
			if areParaphrased && n%2 == 1 {
				name = "paraphrase1"
			}
			fmt.Fprintf(&text, "%s\n", bases[k%len(bases)].text(name))
			if k%50 == n {
				fmt.Fprintf(&text, "第 %d 段合计 %d 元。\n", k, 30+n)
			}
		}
		list[n] = text.String()
	}
	return list
}

// The time to find the facts of a question with five answers of 1 MB, also as a multiple of a bare loop over them.
func BenchmarkQuestionOf5Megabytes(b *testing.B) {
	for _, areParaphrased := range []bool{false, true} {
		b.Run(fmt.Sprintf("paraphrased=%v", areParaphrased), func(b *testing.B) {
			answers := megabytes(b, areParaphrased)
			digits := 0
			for b.Loop() {
				whole := timeOf(b, func() {
					_, err := facts.Question(b.Context(), answers)
					require.NoError(b, err)
				}, 3)
				bare := timeOf(b, func() {
					for _, answer := range answers {
						digits += bareLoop(answer, "")
					}
				}, 20)
				b.ReportMetric(float64(whole.Milliseconds()), "ms/question")
				b.ReportMetric(float64(whole)/float64(max(1, bare)), "x-bare-loop")
			}
			require.Positive(b, digits)
		})
	}
}
