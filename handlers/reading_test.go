package handlers_test

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/PuerkitoBio/goquery"
	"github.com/stretchr/testify/require"

	"wending/db/dbtest"
	"wending/jobs/agent/agenttest"
)

// clauses returns the text of a contract. Two such texts differ only in the amount that different states.
func clauses(different string) string {
	var text strings.Builder
	for n := range 40 {
		fmt.Fprintf(&text, "第%d条 合同自双方签字之日起生效。", n)
	}
	text.WriteString("违约金为" + different + "元。<b>不是标记</b>\n")
	for n := range 40 {
		fmt.Fprintf(&text, "第%d条 争议由法院管辖。", n+40)
	}
	return text.String()
}

// A word that an answer lacks is marked at the place where it is missing, even in columns, and the fold ends after it.
func TestAMissingWordIsMarkedInColumns(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	before, behind := strings.Repeat("一", 250), strings.Repeat("二", 300)
	var calls atomic.Int64
	fake := agenttest.New(t, func(w http.ResponseWriter, _ agenttest.Call) {
		if calls.Add(1) == 2 {
			agenttest.Stream(w, before+"但可以停止"+behind)
			return
		}
		agenttest.Stream(w, before+"但不可以停止"+behind)
	})
	id := s.create(t, fake.URL, map[string]string{"concurrency": "1", "runs_per_item": "3",
		"file@q.csv": "question,standard_answer\nq,a\n"})
	s.awaitDone(t, id)
	marked := s.get(t, "/tasks/"+id+"/results?view=columns").page(t).Find(".run:has(del)")
	require.Equal(t, 1, marked.Length())
	require.Equal(t, "不", marked.Find("summary del").Text(), "the head of the fold reaches to it")
	head := marked.Find("summary .text")
	require.True(t, strings.HasSuffix(head.Text(), "但不..."), head.Text())
	require.Equal(t, before+"但可以停止"+behind, marked.Find(".fold > .text").Clone().Find("del").Remove().End().Text())
}

// The shortened beginning of a formatted answer contains only numbers that are in the answer.
func TestAFormattedBeginningHasWholeRows(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	table := "结论如下：\n\n| 项目 | 金额 |\n| --- | --- |\n" + strings.Repeat("| 违约金 | 1,200 元 |\n", 60)
	fake := agenttest.New(t, answering(map[string][]string{"表": {table}}))
	id := s.create(t, fake.URL, map[string]string{"file@q.csv": "question,standard_answer\n表,a\n"})
	s.awaitDone(t, id)
	head := s.get(t, "/tasks/"+id+"/results?text=formatted&view=columns").page(t).Find("summary .formatted").First()
	require.Greater(t, head.Find("tr").Length(), 10)
	head.Find("tr").Slice(1, goquery.ToEnd).Each(func(_ int, row *goquery.Selection) {
		require.Equal(t, "违约金1,200 元", row.Text())
	})
	require.Equal(t, "…", head.Find("p").Last().Text(), "what is left out is announced")
}

// The merged view shows each distinct answer once, with its difference from the most common one; columns mark the
// differences. Neither changes any text.
func TestAnswersShowTheirDifferences(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	bodies := []string{clauses("1,000"), clauses("2,000"), clauses("1,000")}
	var calls atomic.Int64
	fake := agenttest.New(t, func(w http.ResponseWriter, _ agenttest.Call) {
		if n := int(calls.Add(1)) - 1; n < len(bodies) {
			agenttest.Stream(w, bodies[n])
			return
		}
		http.Error(w, "down", http.StatusBadGateway)
	})
	id := s.create(t, fake.URL, map[string]string{"concurrency": "1", "file@q.csv": "question,standard_answer\nq,a\n"})
	s.awaitDone(t, id)
	results := "/tasks/" + id + "/results"

	page := s.get(t, results).page(t)
	require.Equal(t, "逐段", page.Find("[data-view][aria-current]").Text(), "an answer is longer than 300 characters")
	page = s.get(t, results+"?view=columns").page(t)
	require.Equal(t, "五列", page.Find("[data-view][aria-current]").Text())
	require.Equal(t, "有回答的 3 次：关键信息不同", page.Find(".verdict .level").Text())
	require.Contains(t, page.Find(".verdict").Text(), "一致率 10.0%")
	var shown []string
	page.Find(".run").Each(func(_ int, run *goquery.Selection) {
		if whole := run.Find(".fold > .text"); whole.Length() == 1 {
			shown = append(shown, whole.Clone().Find("del").Remove().End().Text())
		}
	})
	require.ElementsMatch(t, bodies, shown, "every text as it came, but for what is struck out")
	require.Equal(t, "1,000", page.Find(".run .fold > .text del").Text())
	require.Equal(t, "2,000", page.Find(".run .fold > .text mark").Text())
	require.Contains(t, page.Find(".run .fold > summary mark").Text(), "2,000",
		"a fold does not end before the first difference")

	page = s.get(t, results+"?view=merged").page(t)
	voices := page.Find(".read .voices > li")
	require.Equal(t, 2, voices.Length())
	require.Contains(t, voices.First().Text(), "2 次")
	unit := page.Find(".reading .unit.is-fact")
	require.Equal(t, 1, unit.Length(), "the one place in which a fact differs")
	require.Equal(t, "1,000元", unit.Find(".stated-here").Text())
	require.Equal(t, "1,000元", unit.Find("del.fact").Text())
	require.Equal(t, "2,000元", unit.Find("ins.fact").Text())
	other := unit.Find(".block").Last().Clone()
	other.Find("del").Remove()
	require.Contains(t, bodies[1], other.Text(), "without what is deleted, it is the answer")
	place := page.Find(".stated .is-rare a").AttrOr("href", "")
	require.Equal(t, 1, page.Find(place).Length(), "the fact leads to its place")
	require.Regexp(t, `^\d+ 段相同`, page.Find(".unit-fold summary").First().Text())
	whole := ""
	page.Find(".reading .unit-fold .block, .reading .unit .block").Each(func(_ int, block *goquery.Selection) {
		if block.Find("del").Length() == 0 {
			whole += block.Text()
		}
	})
	require.Equal(t, strings.Join(strings.Fields(bodies[0]), ""), strings.Join(strings.Fields(whole), ""),
		"nothing of the answer is left out")
	failed := page.Find(".merged > li")
	require.Equal(t, 1, failed.Length(), "the failures together")
	require.Contains(t, failed.Text(), "HTTP_502")
	require.Contains(t, failed.Find("header").Text(), "2 次")

	require.Equal(t, "逐段", s.get(t, results).page(t).Find("[data-view][aria-current]").Text(),
		"the browser keeps the view")
	require.Equal(t, http.StatusSeeOther, s.get(t, results+"?view=none").StatusCode)
}

// Before the first launch has ended, questions whose runs are all done can be read.
func TestWhatIsDoneCanBeReadWhileATaskRuns(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	release := make(chan struct{})
	fake := agenttest.New(t, func(w http.ResponseWriter, call agenttest.Call) {
		if call.Question == "second" {
			<-release
		}
		agenttest.Stream(w, "x")
	})
	id := s.create(t, fake.URL,
		map[string]string{"file@q.csv": "question_id,question,standard_answer\nq1,first,a\nq2,second,a\n"})
	type answer struct {
		IsFinal bool `json:"is_final"`
		Items   []struct {
			QuestionID string `json:"question_id"`
			Level      string
			Letters    string
			Number     int
		}
		Pagination struct{ Total int }
	}
	read := func() (told answer) {
		s.get(t, api+"/"+id+"/results?partial=1").into(t, &told)
		return told
	}
	dbtest.Await(t, time.Minute, "the first question", func() bool { return len(read().Items) == 1 })
	told := read()
	require.False(t, told.IsFinal)
	require.Equal(t, 1, told.Pagination.Total)
	require.Equal(t, "q1", told.Items[0].QuestionID)
	require.Equal(t, "identical", told.Items[0].Level)
	require.Equal(t, "AAAAA", told.Items[0].Letters)
	require.Equal(t, http.StatusConflict, s.get(t, api+"/"+id+"/results").StatusCode)
	require.Equal(t, http.StatusConflict, s.get(t, "/tasks/"+id+"/results").StatusCode)
	page := s.get(t, "/tasks/"+id+"/results?partial=1").page(t)
	require.Equal(t, 1, page.Find(".result").Length())
	require.Contains(t, page.Find(".partial").Text(), "1 / 2 题")
	require.Zero(t, page.Find("[data-export]").Length())
	squares := s.fragment(t, page.Find(".map-sheet").AttrOr("hx-get", "")).page(t).Find(".squares a")
	require.Equal(t, 2, squares.Length())
	page.Find(".report-bar .segments a, .pager a").AddSelection(squares).Each(func(_ int, link *goquery.Selection) {
		require.Contains(t, link.AttrOr("href", ""), "partial=1")
	})
	require.Contains(t, s.get(t, "/tasks/"+id).page(t).Find("a[href*=partial]").Text(), "先看已完成的 1 题")
	require.Regexp(t, `^/tasks/`+id+`/results\?partial=1#q\d+$`,
		s.get(t, page.Find(".result h2 > a").AttrOr("href", "")).Header.Get("Location"))
	news := func(known string) string {
		return s.fragment(t, "/tasks/"+id+"/news?known="+known).page(t).Find("#news").Text()
	}
	require.Empty(t, strings.TrimSpace(news("1")))
	require.Contains(t, news("0"), "有新完成的题")
	close(release)
	s.awaitDone(t, id)
	require.Len(t, read().Items, 2)
	require.True(t, read().IsFinal)
	require.Contains(t, news("1"), "查看完整报告")

	var statistics struct {
		IsFinal  bool `json:"is_final"`
		Variants []struct {
			Number    int
			Agreement float64
			Levels    map[string]int
		}
		ItemsShared int `json:"items_shared"`
	}
	s.get(t, api+"/"+id+"/statistics").into(t, &statistics)
	require.True(t, statistics.IsFinal)
	require.Equal(t, 2, statistics.ItemsShared)
	require.Equal(t, 1, statistics.Variants[0].Number)
	require.InDelta(t, 1, statistics.Variants[0].Agreement, 0)
	require.Equal(t, 2, statistics.Variants[0].Levels["identical"])
}

// Every question has a link with its number, which leads to its page.
func TestAQuestionHasALink(t *testing.T) {
	t.Parallel()
	s := newSite(t, false)
	id := s.fill(t, 45, 2, 10)
	page := s.get(t, "/tasks/"+id+"/results?page=3&sort=number").page(t)
	link := page.Find(".result h2 > a").First().AttrOr("href", "")
	require.Equal(t, "/tasks/"+id+"/results/41", link)
	answer := s.get(t, link)
	require.Equal(t, http.StatusSeeOther, answer.StatusCode)
	require.Equal(t, "/tasks/"+id+"/results?page=3&sort=number#"+page.Find(".result").First().AttrOr("id", ""),
		answer.Header.Get("Location"))
	require.NotContains(t, s.get(t, "/tasks/"+id+"/results/1").Header.Get("Location"), "page")
	for _, none := range []string{"0", "46", "x", "-1", "99999999999999999999"} {
		require.Equal(t, http.StatusNotFound, s.get(t, "/tasks/"+id+"/results/"+none).StatusCode, none)
	}
}

// Answers longer than 300 characters are shown by paragraph unless the reader has chosen otherwise, and a page
// passes its view on to its fragments.
func TestLongAnswersAreReadByParagraph(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	fake := agenttest.New(t,
		answering(map[string][]string{"短": {strings.Repeat("短", 300)}, "长": {strings.Repeat("长", 301)}}))
	task := func(question string) string {
		id := s.create(t, fake.URL, map[string]string{"runs_per_item": "7",
			"file@q.csv": "question,standard_answer\n" + question + ",\n"})
		s.awaitDone(t, id)
		return "/tasks/" + id + "/results"
	}
	short, long := task("短"), task("长")
	page := s.get(t, short).page(t)
	require.Equal(t, "7 列", page.Find("[data-view][aria-current]").Text())
	require.Equal(t, 7, page.Find(".run").Length())
	require.JSONEq(t, `{"Wending-View": "columns"}`, page.Find(".cards").AttrOr("hx-headers", ""))
	page = s.get(t, long).page(t)
	require.Equal(t, "逐段", page.Find("[data-view][aria-current]").Text())
	require.Equal(t, 1, page.Find(".merged > li").Length(), "one answer")
	require.Equal(t, 1, page.Find(".is-line .whole").Length(), "in one line until it is opened")
	require.Zero(t, s.get(t, long+"?view=columns").page(t).Find(".merged").Length())
}

// Long answers are shown where they differ: facts in the cells of a table, words on a line for each answer, and
// answers with the same content on a single line. Columns are aligned on request.
func TestAnswersTakeTheRoomThatTheirDifferencesNeed(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	filler := strings.Repeat("本段说明办理的一般流程与注意事项。\n\n", 20)
	table := "## 剂量\n\n| 药物 | 间隔 |\n|---|---|\n| 对乙酰氨基酚 | 4–6 小时 |\n| 布洛芬 | 6–8 小时 |\n\n" + filler
	words := "**申请人**应当在七日内提交材料，并保留回执。\n\n" + filler
	fake := agenttest.New(t, answering(map[string][]string{
		"表": {table, table, strings.Replace(table, "6–8 小时", "2–3 小时", 1)},
		"词": {words, words, strings.Replace(words, "保留回执", "妥善保留回执", 1)},
		"同": {words, words, strings.ReplaceAll(words, "**", "")},
	}))
	id := s.create(t, fake.URL, map[string]string{"runs_per_item": "3",
		"file@q.csv": "question,standard_answer\n表,布洛芬的间隔为 6–8 小时\n词,七日内\n同,七日内\n"})
	s.awaitDone(t, id)
	results := "/tasks/" + id + "/results"
	page := s.get(t, results).page(t)
	require.Equal(t, "排版", page.Find("[data-shown-as][aria-current]").Text(),
		"blocks are formatted unless a reader wants them as they came")

	card := page.Find("#q1")
	require.Equal(t, 1, card.Find(".unit.is-fact").Length())
	other := card.Find(".unit.is-fact .cells").Last()
	require.Equal(t, []string{"药物", "间隔", "布洛芬"},
		other.Find("td").Slice(0, 3).Map(func(_ int, cell *goquery.Selection) string {
			return cell.Text()
		}), "the head names the columns")
	require.Equal(t, "2–3 小时", other.Find("td").Last().Find("ins.fact").Text(), "the cell alone is marked")
	require.Equal(t, 1, card.Find(".read > aside .standard").Length(), "the standard answer is beside what differs")
	require.Equal(t, "剂量", card.Find(".reading > .unit-fold > summary .above").Text(),
		"what the place stands under, on the line of the fold before it")
	require.Contains(t, card.Find(".reading > .unit-fold > .units").First().Text(), "剂量", "the fold has its heading, too")
	require.Equal(t, 1, card.Find(".read > aside > .stated").Length(),
		"a single difference is named beside the standard answer")
	require.Zero(t, card.Find(".stated-rows").Length(), "and has no row of its own")

	card = page.Find("#q2")
	require.Equal(t, "妥善", card.Find(".groups > li > .block ins").Text())
	require.Contains(t, card.Find(".groups > li").First().Find("summary").Text(), "逐段展开 · 全文 21 段",
		"the first line opens all of it")
	require.Equal(t, "申请人", card.Find(".groups strong").First().Text())
	require.Contains(t, card.Find(".groups .about").Last().Text(), "未发现关键信息不同")

	card = page.Find("#q3")
	require.True(t, card.HasClass("is-line"))
	require.Equal(t, "仅格式不同", card.Find(".level").Text())
	require.Contains(t, card.Find(".whole .units").Text(), "标准答案")

	raw := s.get(t, results+"?text=raw").page(t)
	require.Contains(t, raw.Find("#q1 .unit.is-fact .block").Last().Text(), "| 布洛芬 | ",
		"one key away the text is as it came")
	columns := s.get(t, results+"?view=columns&align=on").page(t)
	require.Equal(t, "对齐", columns.Find("[data-align][aria-current]").Text())
	row := columns.Find("#q1 .aligned.is-fact")
	require.Equal(t, 3, row.Find(".run").Length(), "a place in a column for each run")
	require.Equal(t, 1, strings.Count(row.Text(), "= 同 A"), "what is said again is not written again")
	require.Equal(t, "2–3 小时", row.Find(".run.is-loud ins.fact").First().Text())
	require.Equal(t, "对齐", s.get(t, results).page(t).Find("[data-align][aria-current]").Text(),
		"the browser keeps the choice")
	require.Equal(t, http.StatusSeeOther, s.get(t, results+"?align=some").StatusCode)
}

// If a question has many long answers, the page contains only the places where facts differ; the rest is loaded when
// it is opened.
func TestFoldsOfLongQuestionsComeWhenTheyAreOpened(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	var answers []string
	for run := range 20 {
		text := ""
		for line := range 200 {
			text += fmt.Sprintf("%d. 根据有关规定，申请人应当%s提交第 %d 份材料并登记，由经办人核对后归档保存，以备查验。\n", line+1,
				[]string{"及时", "尽快", "按时", "尽早"}[(run+line)%4], line+1)
		}
		days := 30
		if run == 7 {
			days = 35
		}
		answers = append(answers, text+fmt.Sprintf("公司应当在 %d 日内书面答复。\n附 %s\n", days, strings.Repeat("甲", run+1)))
	}
	fake := agenttest.New(t, answering(map[string][]string{"问": answers}))
	id := s.create(t, fake.URL, map[string]string{"runs_per_item": "20", "file@q.csv": "question,standard_answer\n问,\n"})
	s.awaitDone(t, id)
	page := s.get(t, "/tasks/"+id+"/results").page(t)
	later := page.Find("[hx-get*='units=']")
	require.NotZero(t, later.Length())
	for n := range later.Length() {
		part := s.fragment(t, later.Eq(n).AttrOr("hx-get", "")).page(t)
		require.NotZero(t, part.Find(".unit .block").Length())
	}
	require.Contains(t, page.Find(".unit.is-fact").Text(), "35 日")
	require.Equal(t, http.StatusUnprocessableEntity, s.fragment(t, "/tasks/"+id+"/results/1?units=x").StatusCode)
}

// When judging the answers to a prompt, a reviewer sees the columns of the row from which the prompt was made.
func TestACardHasTheVariablesOfItsRow(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	fake := agenttest.New(t, func(w http.ResponseWriter, _ agenttest.Call) { agenttest.Stream(w, "x") })
	id := s.create(t, fake.URL, map[string]string{"file@q.csv": "question,standard_answer,产品,语气\n怎么退货,,<b>耳机</b>,客气\n"})
	s.awaitDone(t, id)
	for view, own := range map[string][]string{"columns": nil, "merged": {"question_id"}} {
		variables := s.get(t, "/tasks/"+id+"/results?view="+view).page(t).Find("article details .variables")
		require.Equal(t, append(own, "产品", "语气"), variables.Find("dt").Map(func(_ int, name *goquery.Selection) string {
			return name.Text()
		}), view)
		require.Contains(t, variables.Find("dd").Eq(len(own)).Text(), "<b>耳机</b>", view)
	}
}

// A run's page has the letter of its answer, the standard answer, and the differences from the most common answer;
// the squares of a card link to the answers.
func TestARunIsReadBesideItsQuestion(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	const most, other = "答复期限为 **30 日**，逾期视为同意。", "答复期限为 **35 日**，逾期视为同意。"
	fake := agenttest.New(t, answering(map[string][]string{"问": {most, most, other}}))
	id := s.create(t, fake.URL, map[string]string{"concurrency": "1", "runs_per_item": "3",
		"file@q.csv": "question,standard_answer\n问,三十日\n"})
	s.awaitDone(t, id)
	report := s.get(t, "/tasks/"+id+"/results?view=columns").page(t)
	squares := report.Find("nav.strip a")
	require.Equal(t, 3, squares.Length())
	for n, letter := range []string{"A", "A", "B"} {
		require.Equal(t, letter, squares.Eq(n).Text())
		answer := report.Find(squares.Eq(n).AttrOr("href", "#"))
		require.Equal(t, "#"+strconv.Itoa(n+1), answer.Find(".index").Text())
	}
	require.Contains(t, report.Find("[data-copy-address]").AttrOr("data-copy-address", ""), "/tasks/"+id+"/results")

	run := report.Find(".run").Eq(2).Find("a.plain-link").AttrOr("href", "")
	page := s.get(t, run).page(t)
	require.Equal(t, "B", page.Find(".head .letter").Text())
	require.Contains(t, page.Find(".standard").Text(), "三十日")
	require.Equal(t, other, page.Find(".answer .text").Text())
	require.Equal(t, "/tasks/"+id+"/results/1", page.Find(".head .group a").Eq(2).AttrOr("href", ""))
	marked := s.get(t, run+"?text=marked").page(t).Find(".answer .text")
	require.Equal(t, "30", marked.Find("del").Text())
	require.Equal(t, "35", marked.Find("mark").Text())
	require.Equal(t, "35 日", s.get(t, run+"?text=formatted").page(t).Find(".answer strong").Text())
	require.Equal(t, http.StatusSeeOther, s.get(t, run+"?text=bold").StatusCode)
	same := s.get(t, report.Find(".run").Eq(0).Find("a.plain-link").AttrOr("href", "")+"?text=marked").page(t)
	require.Equal(t, 2, same.Find(".answer .segments a").Length(), "the most common answer has no differences from itself")
	require.Equal(t, most, same.Find(".answer .text").Text())
}
