package handlers_test

import (
	"encoding/json"
	"fmt"
	"html"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"wending/db/dbtest"
	"wending/db/measure"
	"wending/jobs/tasks"
)

const (
	// answersBudget is how long the server may take for a page of long answers, and worstBudget is how long it may take
	// for a page of hostile answers.
	answersBudget = 60 * time.Millisecond
	worstBudget   = 500 * time.Millisecond
)

// longAnswer returns an answer of about 3,000 characters to a question, with headings, lists and a table. Each variant
// of an answer states one number differently, and is worded differently in some places.
func longAnswer(question, variant int) string {
	var text strings.Builder
	for part := range 8 {
		fmt.Fprintf(&text, "## %d. 第%d部分\n\n", part+1, question*8+part)
		for line := range 5 {
			n := part*5 + line
			days, how := 30, "书面"
			if n == 7 {
				days += variant
			}
			if variant > 0 && (n+variant)%5 == 0 {
				how = []string{"正式", "及时以书面", "当面", "以挂号信"}[variant%4]
			}
			fmt.Fprintf(&text, "- 根据第%d条的规定，公司应当在收到申请之日起 %d 日内%s作出答复，并将处理结果通知申请人；逾期未答复的，申请人可以向上一级机关投诉。\n", question+n, days, how)
		}
		fmt.Fprintf(&text, "\n| 项目 | 金额 |\n| --- | --- |\n| 违约金 | %d 元 |\n| 押金 | 1,200 元 |\n\n", 1000+part)
	}
	return text.String()
}

// otherWords returns an answer of 3,000 characters that shares no sentence with the answers to other questions or with
// other variants.
func otherWords(question, variant int) string {
	words := []rune("应当可以收到申请答复处理结果通知机关投诉合同约定违约责任期限金额费用争议管辖法院仲裁解除终止生效签字盖章附件条款双方甲乙")
	var text strings.Builder
	seed := uint32(question*31 + variant*7919 + 1)
	for n := range 3000 {
		seed = seed*1664525 + 1013904223
		text.WriteRune(words[int(seed>>16)%len(words)])
		if n%40 == 39 {
			text.WriteString("。\n")
		}
	}
	return text.String()
}

// hostile lists shapes of answers that a page must show without delay.
var hostile = []struct {
	name            string
	questions, runs int
	answer          func(question, variant int) string
}{
	{"all-differ", 20, 20, func(question, variant int) string {
		return longAnswer(question, variant) + fmt.Sprintf("第 %d 稿", variant)
	}},
	{"nothing-in-common", 20, 20, otherWords},
	{"1-MB", 4, 5, func(question, variant int) string {
		return strings.Repeat(longAnswer(question, variant%3), 1_000_000/3/3000+1)
	}},
	{"line-of-100-KB", 20, 5, func(_, variant int) string {
		return strings.Repeat("x", 50_000) + fmt.Sprint(variant) + strings.Repeat("y", 50_000)
	}},
	{"line-of-words", 20, 5, func(question, variant int) string {
		return strings.ReplaceAll(strings.Repeat(otherWords(question, variant%3), 5), "\n", "")
	}},
	{"table-of-5000-rows", 20, 5, func(_, variant int) string {
		var text strings.Builder
		for n := range 5000 {
			fmt.Fprintf(&text, "| %d | %d 元 |\n", n, n*7+variant*n%3)
		}
		return text.String()
	}},
	{"replaced-bytes", 20, 20, func(question, variant int) string {
		return strings.ReplaceAll(longAnswer(question, variant), "当", "\uFFFD")
	}},
	{"right-to-left-and-combining", 20, 20, func(_, variant int) string {
		return strings.Repeat(fmt.Sprintf("שלום עולם %d\u202e é\u0301\u0300\u0308 ", variant), 200) +
			strings.Repeat("\u0301", 2000)
	}},
	{"json-cut", 20, 20, func(question, variant int) string {
		text, _ := json.Marshal(map[string]any{"answer": longAnswer(question, variant), "list": []int{1, 2, 3}})
		return string(text[:len(text)-20])
	}},
	{"json-of-many-keys", 20, 5, func(_, variant int) string {
		members := map[string]any{}
		for n := range 2000 {
			members[fmt.Sprintf("key%d", n)] = n * (1 + variant%2)
		}
		text, _ := json.Marshal(members)
		return string(text)
	}},
	{"html", 20, 20, func(question, variant int) string {
		return strings.Repeat("<script>alert(1)</script><b onclick=x>", 80) + otherWords(question, variant)
	}},
}

// answered stores a task with the given number of different answers to each question.
func (s *site) answered(b *testing.B, questions, runsOfEach, kinds int,
	answer func(question, variant int) string) string {
	b.Helper()
	id := dbtest.Seed(b, s.tables, 1, questions, runsOfEach)
	var runs []struct {
		ID       int64 `db:"id"`
		Question int   `db:"question"`
		RunIndex int   `db:"run_index"`
	}
	require.NoError(b, s.tables.Select(&runs,
		`SELECT id, dense_rank() OVER (ORDER BY item_id) AS question, run_index FROM evaluation_runs WHERE task_id = $1`, id))
	for _, run := range runs {
		text := answer(run.Question, run.RunIndex%kinds)
		_, err := s.tables.Exec(
			`UPDATE evaluation_runs SET response_body = $2, answer_key = $3, status = 'SUCCEEDED', error_code = NULL WHERE id = $1`, run.ID, text, measure.Key([]byte(text)))
		require.NoError(b, err)
	}
	_, err := s.tables.Exec(
		`DELETE FROM question_statistics WHERE item_id IN (SELECT id FROM evaluation_items WHERE task_id = $1)`, id)
	require.NoError(b, err)
	require.NoError(b, tasks.AssessTask(b.Context(), s.store, id))
	_, err = s.tables.Exec(`VACUUM ANALYZE`)
	require.NoError(b, err)
	return "/tasks/" + id.String() + "/results"
}

// The time for a page of 20 questions with 20 long answers each: with 4 different ones, as usual, and in shapes that
// agents should not send. first-ms is the time for the first visit, and ms is the shortest time of later ones. cpu-ms
// is the process's CPU time, including the client's, and x-escaping is how many times the answers could be escaped in
// that time.
func BenchmarkPagesOfLongAnswers(b *testing.B) {
	s := newSite(b, false)
	b.Run("usual", func(b *testing.B) { s.measureAnswers(b, 20, 20, 4, longAnswer, answersBudget) })
	for _, shape := range hostile {
		b.Run(shape.name, func(b *testing.B) {
			s.measureAnswers(b, shape.questions, shape.runs, shape.runs, shape.answer, worstBudget)
		})
	}
}

// measureAnswers opens a page of answers in each view.
func (s *site) measureAnswers(b *testing.B, questions, runs, kinds int, answer func(question, variant int) string,
	budget time.Duration) {
	b.Helper()
	path := s.answered(b, questions, runs, kinds, answer)
	open := func(b *testing.B, query string) (took, used time.Duration) {
		b.Helper()
		start, before := time.Now(), processTime(b)
		request, err := http.NewRequest(http.MethodGet, s.URL+path+query, nil)
		require.NoError(b, err)
		page, err := s.client.Do(request)
		require.NoError(b, err)
		_, err = io.Copy(io.Discard, page.Body)
		require.NoError(b, err)
		require.Equal(b, http.StatusOK, page.StatusCode)
		return time.Since(start), processTime(b) - before
	}
	for _, view := range []struct{ name, query string }{{"merged", "?view=merged"}, {"aligned", "?view=columns&align=on"},
		{"columns", "?view=columns&align=off"}} {
		b.Run(view.name, func(b *testing.B) {
			for b.Loop() {
				first, firstUsed := open(b, view.query)
				least, used, escaped := time.Duration(1<<62), time.Duration(1<<62), time.Duration(1<<62)
				for range 5 {
					took, cpu := open(b, view.query)
					least, used = min(least, took), min(used, cpu)
					escaped = min(escaped, escaping(questions, runs, answer))
				}
				b.ReportMetric(float64(first.Milliseconds()), "first-ms")
				b.ReportMetric(float64(firstUsed.Milliseconds()), "first-cpu-ms")
				b.ReportMetric(float64(least.Milliseconds()), "ms")
				b.ReportMetric(float64(used.Milliseconds()), "cpu-ms")
				b.ReportMetric(100*least.Seconds()/budget.Seconds(), "%-of-budget")
				b.ReportMetric(float64(used)/float64(escaped), "x-escaping")
			}
		})
	}
}

// processTime returns the CPU time that the process has used.
func processTime(b *testing.B) time.Duration {
	b.Helper()
	var used syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &used))
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// escaping returns how long it takes to escape answers.
func escaping(questions, runs int, answer func(question, variant int) string) time.Duration {
	var all []string
	for question := range questions {
		for run := range runs {
			all = append(all, answer(question, run))
		}
	}
	start, length := time.Now(), 0
	for _, text := range all {
		length += len(html.EscapeString(text))
	}
	return max(time.Since(start), time.Duration(length)/1e6, 1)
}
