package measure_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/text/unicode/norm"

	"wending/db/measure"
)

// answers makes the runs of a question from texts: "✗" is a run without an answer, "…" one that never took place.
func answers(texts ...string) (all []measure.Answer) {
	for _, text := range texts {
		switch text {
		case "✗":
			all = append(all, measure.Answer{})
		case "…":
			all = append(all, measure.Answer{IsMissing: true})
		default:
			all = append(all, measure.Answer{Key: measure.Key([]byte(text)), Text: []byte(text)})
		}
	}
	return all
}

// assess sums up the answers of one variant.
func assess(texts ...string) measure.Question {
	questions, _, err := measure.Assess(context.Background(), "", [][]measure.Answer{answers(texts...)})
	if err != nil {
		panic(err)
	}
	return questions[0]
}

// A letter means the same answer in all variants of a question; all other results belong to one variant.
func TestVariantsShareLettersAndNothingElse(t *testing.T) {
	t.Parallel()
	questions, differences, err := measure.Assess(t.Context(), "", [][]measure.Answer{
		answers("北京", "北京市", "✗"), answers("上海", "北京市", "北京市"), answers("…", "…", "…"),
	})
	require.NoError(t, err)
	require.Equal(t, []string{"BA-", "CAA", "---"},
		[]string{questions[0].Letters, questions[1].Letters, questions[2].Letters})
	require.Equal(t, []int{2, 2, 0}, []int{questions[0].Distinct, questions[1].Distinct, questions[2].Distinct})
	require.Len(t, differences, 2, "from A to B and to C")
	for n, texts := range [][]string{{"北京", "北京市", "✗"}, {"上海", "北京市", "北京市"}, {"…", "…", "…"}} {
		alone := assess(texts...)
		require.Equal(t, alone.Agreement, questions[n].Agreement)
		require.Equal(t, alone.Consensus, questions[n].Consensus)
		require.Equal(t, alone.Similarity, questions[n].Similarity)
		require.Equal(t, alone.Level, questions[n].Level)
	}
}

// The worked example of metrics.md, question by question.
func TestTheWorkedExample(t *testing.T) {
	t.Parallel()
	mean := func(questions [][]string, number func(measure.Question) *float64) (sum float64) {
		for _, texts := range questions {
			sum += *number(assess(texts...)) / float64(len(questions))
		}
		return sum
	}
	a := [][]string{{"Paris", "Paris ", "Paris", "Lyon", "paris"}, {"42", "42", "42", "42", "42"},
		{"yes", "no", "✗", "yes", "✗"}}
	b := [][]string{{"Paris", "Paris", "Paris", "Paris", "Paris"}, {"42", "42", "42", "42", "41"},
		{"yes", "yes", "yes", "yes", "✗"}}
	agreement := func(q measure.Question) *float64 { return q.Agreement }
	consensus := func(q measure.Question) *float64 { return q.Consensus }
	similarity := func(q measure.Question) *float64 { return q.Similarity }
	require.InDelta(t, 0.4667, mean(a, agreement), 0.0001)
	require.InDelta(t, 0.7333, mean(b, agreement), 0.0001)
	require.InDelta(t, 0.6667, mean(a, consensus), 0.0001)
	require.InDelta(t, 0.8667, mean(b, consensus), 0.0001)
	require.InDelta(t, 0.6244, mean(a, similarity), 0.0001)
	require.InDelta(t, 0.9333, mean(b, similarity), 0.0001)
	first := assess(a[0]...)
	require.Equal(t, "AAABC", first.Letters)
	require.Equal(t, 3, first.Distinct)
	require.Equal(t, "AB-A-", assess(a[2]...).Letters)
}

func TestTheLevelOfAQuestion(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("合同自成立之日起生效，双方应当履行各自的义务。", 20)
	for _, test := range []struct {
		level measure.Level
		texts []string
	}{
		{measure.Identical, []string{"北京", "北京 ", "北京"}},
		{measure.Identical, []string{"café", "cafe\u0301", "✗"}},
		{measure.FormatOnly, []string{"**北京**。", "北京", "北京!"}},
		{measure.FormatOnly, []string{"Paris", "paris.", "# PARIS"}},
		{measure.FormatOnly, []string{"１２３ kg", "123 KG"}},
		{measure.FormatOnly, []string{"- one\n- two", "* one\n* two", "> one\n\ntwo"}},
		{measure.FormatOnly, []string{"1,234,567 元", "1234567元"}},
		{measure.FormatOnly, []string{"The answer is 42.", "the answer is 42"}},
		{measure.FormatOnly, []string{`{"a": 1.0, "b": [true, null]}`, "```json\n{\"b\":[true,null],\"a\":1}\n```"}},
		{measure.Facts, []string{"1.5", "15"}},
		{measure.Facts, []string{"-5", "5"}},
		{measure.Facts, []string{"1 2", "12"}},
		{measure.Different, []string{"50%", "50"}},
		{measure.Facts, []string{`{"a":1}`, `{"a":2}`}},
		{measure.Wording, []string{long + "完。", long + "结束。"}},
		{measure.Facts, []string{long + "期限为 14 日。", long + "期限为 19 日。", long + "期限为十四日。"}},
		{measure.Facts, []string{"约 3~5 天", "约 35 天"}}, // equal except for format
		{measure.Different, []string{"期限为 14 日。", long + "期限为 19 日。"}},
		{measure.Different, []string{"北京", "上海"}},
		{measure.Different, []string{"", "北京"}},
		{measure.Different, []string{"!", "?!"}}, // nothing is left of either text
		{measure.Empty, []string{"", " \n", "✗"}},
		{measure.Unknown, []string{"北京", "✗", "✗"}},
		{measure.Unknown, []string{"✗", "✗"}},
		{measure.Unknown, []string{"北京"}},
	} {
		require.Equal(t, test.level, assess(test.texts...).Level, "%q", test.texts)
		slices.Reverse(test.texts)
		require.Equal(t, test.level, assess(test.texts...).Level, "%q, the other way round", test.texts)
	}
}

func TestWhatIsUnknownIsNil(t *testing.T) {
	t.Parallel()
	one := assess("a")
	require.Nil(t, one.Agreement)
	require.Nil(t, one.Consensus)
	require.Nil(t, one.Similarity)
	require.Equal(t, "A", one.Letters)
	missing := assess("a", "a", "…")
	require.Nil(t, missing.Agreement)
	require.Nil(t, missing.Consensus)
	require.InDelta(t, 1, *missing.Similarity, 0)
	require.Equal(t, "AA-", missing.Letters)
	failed := assess("✗", "✗")
	require.Zero(t, *failed.Agreement)
	require.Zero(t, *failed.Consensus)
	require.Nil(t, failed.Similarity)
}

// random makes a text of a few words in two scripts, so that many stretches are equal.
func random(r *rand.Rand, length int) string {
	pieces := []string{"the ", "answer ", "is ", "42", ". ", "北京", "是", "首都", "\n", "e\u0301", "👨‍👩‍👧", "-", "\x00", "  "}
	var text strings.Builder
	for range r.IntN(length + 1) {
		text.WriteString(pieces[r.IntN(len(pieces))])
	}
	return text.String()
}

// apply turns a into b.
func apply(t *testing.T, d measure.Difference, a, b string) string {
	t.Helper()
	from, to := []rune(a), []rune(b)
	var made []rune
	for _, step := range d.Steps {
		require.Positive(t, step.Length)
		switch step.Op {
		case measure.Equal:
			require.Equal(t, string(from[:step.Length]), string(to[:step.Length]))
			made, from, to = append(made, from[:step.Length]...), from[step.Length:], to[step.Length:]
		case measure.Delete:
			from = from[step.Length:]
		case measure.Insert:
			made, to = append(made, to[:step.Length]...), to[step.Length:]
		}
	}
	require.Empty(t, from)
	require.Empty(t, to)
	return string(made)
}

// Applying a difference to the first text gives exactly the second, also after storing and reading it.
func TestADifferenceMakesOneTextOfTheOther(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		a, b := random(r, 60), random(r, 60)
		d := measure.CompareTexts(a, b, measure.DifferenceTime)
		require.Equal(t, b, apply(t, d, a, b))
		parsed, err := measure.ParseDifference(d.String())
		require.NoError(t, err)
		require.Equal(t, d, parsed)
	}
	for _, bad := range []string{"=", "x3", "=0", "=1-", "3", "=-1"} {
		_, err := measure.ParseDifference(bad)
		require.Error(t, err, bad)
	}
}

// Words and numbers are replaced as a whole, Chinese text character by character.
func TestDifferencesAreOfWordsOrCharacters(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ a, b, steps string }{
		{"the capital is Paris", "the capital is Lyon", "=15-5+4"},
		{"costs 1,234.5 today", "costs 1,234.6 today", "=6-7+7=6"},
		{"首都是北京", "首都是南京", "=3-1+1=1"},
		{"same", "same", "=4"},
		{"", "new", "+3"},
		{"old", "", "-3"},
		{"", "", ""},
	} {
		require.Equal(t, test.steps, measure.CompareTexts(test.a, test.b, measure.DifferenceTime).String(), "%q, %q",
			test.a, test.b)
	}
}

// Texts that are too long are compared by their beginning and end.
func TestLongTextsAreComparedCoarsely(t *testing.T) {
	t.Parallel()
	same := strings.Repeat("字", 300_000)
	a, b := same+"北京是首都"+same, same+"上海不是"+same
	d := measure.CompareTexts(a, b, measure.DifferenceTime)
	require.Equal(t, "~=300000-5+4=300000", d.String())
	require.Equal(t, b, apply(t, d, a, b))
}

// The order of the runs only affects which answer gets which letter when counts are equal.
func TestTheOrderOfRunsDoesNotMatter(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(3, 4))
	for range 300 {
		texts := []string{"✗"}
		for range 2 + r.IntN(6) {
			texts = append(texts, random(r, 4))
		}
		before := assess(texts...)
		for range 5 {
			r.Shuffle(len(texts), func(n, m int) { texts[n], texts[m] = texts[m], texts[n] })
			after := assess(texts...)
			require.Equal(t, before.Level, after.Level, "%q", texts)
			require.InDelta(t, *before.Agreement, *after.Agreement, 1e-12)
			require.InDelta(t, *before.Consensus, *after.Consensus, 1e-12)
			require.InDelta(t, *before.Similarity, *after.Similarity, 1e-12)
			require.Equal(t, counts(before.Letters), counts(after.Letters))
		}
	}
}

func counts(letters string) string {
	sorted := strings.Split(letters, "")
	slices.Sort(sorted)
	return strings.Join(sorted, "")
}

// Twenty long answers that differ in many places take little time.
func BenchmarkAssess(b *testing.B) {
	sentence := "第%d条 合同自双方签字之日起生效，任何一方不得擅自变更或者解除。The parties agree to clause %d.\n"
	texts := make([]string, 20)
	for n := range texts {
		for clause := range 60 {
			texts[n] += fmt.Sprintf(sentence, clause, clause*(1+n%7)%13)
		}
	}
	all := answers(texts...)
	for b.Loop() {
		_, _, err := measure.Assess(b.Context(), "", [][]measure.Answer{all})
		require.NoError(b, err)
	}
}

// distance is the edit distance by its definition: a full table, with a row for each character.
func distance(a, b []rune) int {
	table := make([][]int, len(a)+1)
	for i := range table {
		table[i] = make([]int, len(b)+1)
		for j := range table[i] {
			switch {
			case i == 0 || j == 0:
				table[i][j] = i + j
			case a[i-1] == b[j-1]:
				table[i][j] = table[i-1][j-1]
			default:
				table[i][j] = 1 + min(table[i-1][j-1], table[i-1][j], table[i][j-1])
			}
		}
	}
	return table[len(a)][len(b)]
}

// plain returns a text in the form in which it is compared.
func plain(text string) string { return strings.TrimSpace(norm.NFC.String(text)) }

// For 1,000 random questions the numbers equal those of metrics.md, computed by going through all pairs of runs.
func TestRandomAnswersGiveTheSameNumbersInAnotherWay(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(15, 16))
	for range 1000 {
		var texts []string
		for range 2 + r.IntN(6) {
			if r.IntN(6) == 0 {
				texts = append(texts, "✗")
			} else {
				texts = append(texts, random(r, 5))
			}
		}
		equal, pairs, most := 0, 0, 0
		similar, compared, seen := 0.0, 0, map[string]bool{}
		for n, a := range texts {
			same := 0
			for m, b := range texts {
				isEqual := a != "✗" && plain(a) == plain(b)
				if isEqual {
					same++
				}
				if n == m {
					continue
				}
				pairs++
				if isEqual {
					equal++
				}
				if a != "✗" && b != "✗" {
					x, y := []rune(plain(a)), []rune(plain(b))
					compared++
					if longer := max(len(x), len(y)); longer > 0 {
						similar += 1 - float64(distance(x, y))/float64(longer)
					} else {
						similar++
					}
				}
			}
			most = max(most, same)
			if a != "✗" {
				seen[plain(a)] = true
			}
		}
		got := assess(texts...)
		require.InDelta(t, float64(equal)/float64(pairs), *got.Agreement, 1e-12, "%q", texts)
		require.InDelta(t, float64(most)/float64(len(texts)), *got.Consensus, 1e-12, "%q", texts)
		require.Equal(t, len(seen), got.Distinct, "%q", texts)
		if compared == 0 {
			require.Nil(t, got.Similarity)
		} else {
			require.InDelta(t, similar/float64(compared), *got.Similarity, 1e-12, "%q", texts)
		}
	}
}

// Contradictions of the standard answer are found in each answer, and listed with the answer's runs; another notation
// is not a contradiction.
func TestAnswersAreReadBesideTheStandardAnswer(t *testing.T) {
	t.Parallel()
	const answer = "公司应当在收到申请之日起 35 日内书面答复。"
	all := answers(answer, "公司应当在收到申请之日起三十日内书面答复。", answer)
	questions, _, err := measure.Assess(t.Context(), "收到申请之日起 30 日内书面答复。", [][]measure.Answer{all, answers(answer)})
	require.NoError(t, err)
	want := []measure.ExpectedFact{{Kind: "duration", Label: "收到申请之日起", Value: "≤ 30 day", Text: "30 日",
		Values: []measure.Value{
			{Value: "≤ 35 day", Text: "35 日", Runs: []int{1, 3}},
		}}}
	require.Equal(t, want, questions[0].Expected)
	require.Equal(t, "30 日 → 35 日", questions[0].Expected[0].String())
	require.Equal(t, []int{1}, questions[1].Expected[0].Values[0].Runs)
	questions, _, err = measure.Assess(t.Context(), "收到申请之日起 35 天内答复。", [][]measure.Answer{answers(answer, answer)})
	require.NoError(t, err)
	require.Empty(t, questions[0].Expected)
}
