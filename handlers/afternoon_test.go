package handlers_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/PuerkitoBio/goquery"
	"github.com/stretchr/testify/require"

	"wending/db/dbtest"
	"wending/jobs/agent/agenttest"
)

// fourQuestions creates a task of four questions: one with equal answers, one whose answers differ in format, one whose
// answers differ in wording, and one with a failed run.
func fourQuestions(t *testing.T, s *site) (id string) {
	t.Helper()
	long := strings.Repeat("应当承担违约责任。", 30)
	agent := agenttest.New(t, answering(map[string][]string{
		"甲": {"北京"}, "乙": {"Paris", "paris."}, "丙": {long + "三十", long + "五十（抱歉）"}, "丁": {"好", ""},
	}))
	id = s.create(t, agent.URL, map[string]string{"concurrency": "1",
		"file@q.csv": "question_id,question,standard_answer\nq1,甲,a\nq2,乙,a\nq3,丙,a\nq4,丁,a\n"})
	s.awaitDone(t, id)
	return id
}

// shownNumbers returns the numbers of the questions that a page shows, in order.
func shownNumbers(page *goquery.Document) string {
	var numbers []string
	page.Find(".result").Each(func(_ int, card *goquery.Selection) {
		numbers = append(numbers, card.AttrOr("data-number", ""))
	})
	return strings.Join(numbers, " ")
}

// as makes a request as a reviewer whose name is stored in the browser.
func (s *site) as(t *testing.T, name, path string) response {
	t.Helper()
	request, err := http.NewRequest(http.MethodGet, s.URL+path, nil)
	require.NoError(t, err)
	request.AddCookie(&http.Cookie{Name: "reviewer", Value: url.PathEscape(name)})
	return s.do(t, request)
}

// Other columns of the dataset are also searched, because in a task with prompts they may contain the question.
func TestTheColumnsOfADatasetAreSearched(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	fake := agenttest.New(t, func(w http.ResponseWriter, _ agenttest.Call) { agenttest.Stream(w, "x") })
	id := s.create(t, fake.URL, map[string]string{
		"runs_per_item": "1",
		"file@q.csv":    "question_id,question,standard_answer,类别,Region\nq1,一,a,退款,North\nq2,二,b,物流,South\nq3,三,c,退款,\n",
	})
	s.awaitDone(t, id)
	for search, numbers := range map[string]string{"退款": "1 3", "south": "2", "region": ""} {
		require.Equal(t, numbers, shownNumbers(s.get(t, "/tasks/"+id+"/results?search="+url.QueryEscape(search)).page(t)),
			search)
	}
}

func TestAReportIsFilteredSortedAndSearched(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	id := fourQuestions(t, s)
	results := "/tasks/" + id + "/results"
	for query, numbers := range map[string]string{
		"":                                 "3 2 4 1",
		"?sort=number":                     "1 2 3 4",
		"?filter=unstable":                 "3 2",
		"?filter=failed":                   "4",
		"?filter=identical":                "4 1",
		"?filter=format_only":              "2",
		"?filter=wording":                  "",
		"?filter=facts":                    "3",
		"?filter=different":                "",
		"?sort=agreement":                  "4 2 3 1",
		"?sort=-length":                    "3 1 2 4",
		"?sort=agreement&filter=unstable":  "2 3",
		"?search=" + url.QueryEscape("抱歉"): "3",
		"?search=PARIS":                    "2",
		"?search=" + url.QueryEscape("丁"):  "4",
		"?search=nothing":                  "",
		"?review=open":                     "3 2 4 1",
		"?review=PASS":                     "",
	} {
		require.Equal(t, numbers, shownNumbers(s.get(t, results+query).page(t)), query)
	}
	jump := s.get(t, results+"?search=2").page(t).Find(".shown-of a[href$='/results/2']")
	require.Equal(t, 1, jump.Length(), "a number leads to its question, whether or not a text has it")
	jump = s.get(t, results+"?search=5").page(t).Find(".shown-of a[href$='/results/5']")
	require.Zero(t, jump.Length(), "there are four")
	page := s.get(t, results+"?filter=unstable&sort=agreement").page(t)
	squares := s.fragment(t, page.Find(".map-sheet").AttrOr("hx-get", "")).page(t)
	require.Equal(t, 4, squares.Find(".squares a").Length(), "the map has all")
	require.Equal(t, 2, squares.Find(".squares .is-left-out").Length())
	require.NotContains(t, squares.Find(".squares a").First().AttrOr("href", ""), "filter",
		"what the filter hides is shown without it")
	require.Contains(t, squares.Find(".squares a").Eq(1).AttrOr("href", ""), "filter=unstable&sort=agreement")
	require.Equal(t, results+"?filter=unstable&sort=agreement",
		s.get(t, page.Find(".map-sheet").AttrOr("hx-get", "")).Header.Get("Location"), "the map is a part of a page")
	require.Equal(t, "有多种回答（2）", page.Find("[name=filter] [selected]").Text())
	require.Equal(t, "最不一致的在前", page.Find("[name=sort] [selected]").Text())
	for _, bad := range []string{"?filter=x", "?review=x", "?sort=x", "?view=x", "?text=x"} {
		require.Equal(t, http.StatusSeeOther, s.get(t, results+bad).StatusCode, bad)
	}
	require.Equal(t, 1, page.Find(".fingerprint > svg").Length())
	require.Equal(t, "1,2,3,4", page.Find(".fingerprint > svg").AttrOr("data-numbers", ""), "the most agreement first")
}

// A question is retried within the page: its card shows the progress and replaces itself, and the report stays open
// for other readers.
func TestAQuestionIsRetriedInPlace(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	release := make(chan struct{})
	var isRetry atomic.Bool
	fake := agenttest.New(t, func(w http.ResponseWriter, call agenttest.Call) {
		switch {
		case call.Question == "fine":
			agenttest.Stream(w, "fine")
		case !isRetry.Load():
			http.Error(w, "down", http.StatusBadGateway)
		default:
			<-release
			agenttest.Stream(w, "there")
		}
	})
	answers := sync.OnceFunc(func() { close(release) })
	t.Cleanup(answers) // runs before the agent's own server is closed, even after a failure
	id := s.create(t, fake.URL, map[string]string{"max_retries": "0",
		"file@q.csv": "question_id,question,standard_answer\nq1,bad,a\nq2,fine,a\n"})
	s.awaitDone(t, id)
	isRetry.Store(true)
	results := "/tasks/" + id + "/results"
	part := func() *goquery.Document { return s.fragment(t, results+"/1").page(t) }
	require.Equal(t, "重试此题", part().Find(".result .verdict form button").Text())

	form := strings.NewReader(url.Values{"question_id": {"q1"}}.Encode())
	request, err := http.NewRequest(http.MethodPost, s.URL+"/tasks/"+id+"/retry", form)
	require.NoError(t, err)
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	request.Header.Set("HX-Request", "true")
	answer := s.do(t, request)
	require.Equal(t, http.StatusOK, answer.StatusCode, "it does not leave the page")
	require.Contains(t, answer.page(t).Find(".retrying").Text(), "重试")
	require.Equal(t, results+"/1", answer.page(t).Find(".retrying").AttrOr("hx-get", ""))
	dbtest.Await(t, time.Minute, "the runs", func() bool {
		return strings.Contains(part().Find(".retrying").Text(), "重试中 0/5")
	})
	require.Zero(t, part().Find(".result").Length(), "only the line moves until the runs have ended")
	page := s.get(t, results).page(t)
	require.Equal(t, 1, page.Find(".result .retrying").Length(), "who opens the report meanwhile sees it too")
	require.Equal(t, 2, page.Find(".result").Length())
	answers()
	s.awaitDone(t, id)
	last := s.fragment(t, results+"/1")
	require.Regexp(t, "^#q[0-9]+$", last.Header.Get("HX-Retarget"), "then the card takes its place")
	done := last.page(t).Find(".result")
	require.Zero(t, done.Find(".retrying").Length(), "it comes to rest")
	require.Equal(t, "A A A A A", strings.TrimPrefix(done.Find(".strip").AttrOr("aria-label", ""), "各次运行："))
	require.Contains(t, done.Find(".verdict .level").Text(), "逐字相同")
}

// Reviewers judge in turn, the questions with the most at stake first. All of them can read a review and its history;
// the report is signed off, and shows what has changed since.
func TestAReviewFromTheFirstVerdictToTheSignature(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	id := fourQuestions(t, s)
	base := "/tasks/" + id
	judge := func(question, reviewer, verdict string, version int) {
		answer := s.send(t, http.MethodPut, api+"/"+id+"/items/"+question+"/review",
			map[string]any{"reviewer": reviewer, "verdict": verdict, "note": "依据 " + verdict, "version": version})
		require.Equal(t, http.StatusOK, answer.StatusCode, "%s", answer.body)
	}
	next := func(name, query string) string {
		return s.as(t, name, base+"/review/next"+query).Header.Get("Location")
	}
	require.Equal(t, base+"/review/3", next("李雷", ""), "the most at stake first")
	require.Equal(t, base+"/review/2", next("李雷", "?after=3"), "skipped")
	require.Equal(t, base+"/review/3", next("李雷", "?after=1"), "after the last comes the first")
	page := s.as(t, "李雷", base+"/review/3").page(t)
	require.Equal(t, "3", shownNumbers(page))
	require.Contains(t, page.Find(".report-bar").Text(), "0/")
	require.Contains(t, page.Find(".position").Text(), "第 1 / 4 题")
	judge("q4", "李雷", "FAIL", 0)
	judge("q2", "李雷", "PASS", 0)
	require.Equal(t, base+"/review/3", next("李雷", ""))
	require.Equal(t, base+"/review/1", next("李雷", "?after=3"), "what was skipped is not asked again at once")
	require.Equal(t, base+"/review/2", next("韩梅梅", "?after=3"), "everybody has their own turn")
	require.Equal(t, base+"/review/3", next("", ""), "without a name: what nobody judged")
	judge("q4", "韩梅梅", "PASS", 0)
	judge("q4", "李雷", "UNSURE", 1)

	results := base + "/results"
	for query, numbers := range map[string]string{"?review=open": "3 1", "?review=PASS": "2", "?review=disagree": "4",
		"?review=FAIL": ""} {
		require.Equal(t, numbers, shownNumbers(s.get(t, results+query).page(t)), query)
	}
	require.Equal(t, "1 3", shownNumbers(s.as(t, "李雷", results+"?sort=number&review=mine").page(t)))
	require.Equal(t, "1 2 3", shownNumbers(s.as(t, "韩梅梅", results+"?sort=number&review=mine").page(t)))
	require.Contains(t, s.as(t, "李雷", results).page(t).Find(".report-bar").Text(), "已评 2/4 · 待我评 2")
	history := s.fragment(t, results+"/4/reviews").page(t).Find("li")
	require.Equal(t, 3, history.Length())
	require.Contains(t, history.Eq(0).Text(), "存疑")
	require.Contains(t, history.Eq(2).Text(), "不通过")

	// Questions are assigned, and each reviewer sees who is to judge a question.
	answer := s.send(t, http.MethodPut, api+"/"+id+"/review-assignments",
		map[string]any{"reviewers": []string{"李雷", "韩梅梅", "李雷"}, "overlap": 0.25})
	require.Equal(t, http.StatusOK, answer.StatusCode, "%s", answer.body)
	var assigned struct {
		Items []struct {
			QuestionID string `json:"question_id"`
			Reviewers  []string
		}
	}
	require.NoError(t, json.Unmarshal(answer.body, &assigned))
	require.Equal(t, []string{"李雷"}, assigned.Items[0].Reviewers)
	require.Equal(t, []string{"李雷", "韩梅梅"}, assigned.Items[3].Reviewers)
	require.Equal(t, "1", shownNumbers(s.as(t, "李雷", results+"?review=mine").page(t)))
	require.Equal(t, "3", shownNumbers(s.as(t, "韩梅梅", results+"?review=mine").page(t)))
	require.Contains(t, s.get(t, results+"?sort=number").page(t).Find(".said-of").Eq(2).Text(), "评审人：韩梅梅")
	require.Equal(t, http.StatusUnprocessableEntity,
		s.send(t, http.MethodPut, api+"/"+id+"/review-assignments", map[string]any{"reviewers": []string{" "}}).StatusCode)
	require.Equal(t, http.StatusSeeOther, s.post(t, base+"/assignments",
		map[string]string{"reviewers": "甲\n\n乙 \n", "order": "random", "overlap": "100"}).StatusCode)
	require.Contains(t, s.get(t, results+"?sort=number").page(t).Find(".said-of").Eq(2).Text(), "评审人：乙、甲")
	require.Equal(t, http.StatusSeeOther, s.post(t, base+"/assignments",
		map[string]string{"reviewers": "", "overlap": "0"}).StatusCode)
	require.NotContains(t, s.get(t, results+"?sort=number").page(t).Find(".said-of").Text(), "评审人")

	judge("q1", "李雷", "PASS", 0)
	judge("q3", "李雷", "PASS", 0)
	require.Equal(t, base+"/review", next("李雷", ""), "nothing is left")
	summary := s.as(t, "李雷", base+"/review").page(t)
	require.Contains(t, summary.Text(), "1 题有两人以上评审")
	require.Equal(t, "4", summary.Find("table tbody tr").Eq(0).Find("td").Eq(2).Text())
	require.Equal(t, "李雷", summary.Find("[name=reviewer]").AttrOr("value", ""))
	refused := s.post(t, base+"/sign-off", map[string]string{"reviewer": " ", "note": "可以上线"})
	require.Equal(t, http.StatusUnprocessableEntity, refused.StatusCode)
	require.Equal(t, "可以上线", refused.page(t).Find("[name=note]").Text(), "nothing typed is lost")
	refused = s.post(t, base+"/sign-off", map[string]string{"reviewer": "李雷", "note": strings.Repeat("长", 10_001)})
	require.Equal(t, http.StatusUnprocessableEntity, refused.StatusCode, "as by the API")
	refused = s.post(t, base+"/assignments",
		map[string]string{"reviewers": "甲\n" + strings.Repeat("长", 65), "overlap": "0"})
	require.Equal(t, http.StatusUnprocessableEntity, refused.StatusCode)
	require.Contains(t, refused.page(t).Find("[name=reviewers]").Text(), "甲", "nothing typed is lost")
	require.Equal(t, base+"/review?done=signed",
		s.post(t, base+"/sign-off", map[string]string{"reviewer": "李雷", "note": "可以上线"}).Header.Get("Location"))
	page = s.get(t, base+"/review").page(t)
	require.Contains(t, page.Find(".said-list").Text(), "通过 4 · 不通过 0 · 存疑 1")
	require.NotContains(t, page.Find(".said-list").Text(), "签发后有改动")
	judge("q1", "李雷", "FAIL", 1)
	require.Contains(t, s.get(t, base+"/review").page(t).Find(".said-list").Text(), "签发后有改动")
}

// Answers can be read in the format their author intended. Markup in an agent's answer stays text, and can neither run
// nor load anything.
func TestAnswersAreFormatted(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	text :=
		"# 意见\n\n- **应予**支持\n- `x < 1`\n\n| a | b |\n|---|---|\n| 1 | <img src=x onerror=alert(1)> |\n\n[link](javascript:alert(1)) ![bild](https://x.example/p.png)\n\n<script>alert(2)</script>"
	fake := agenttest.New(t, answering(map[string][]string{"md": {text}, "json": {`{"b":[1,2],"a":"<b>"}`}}))
	id := s.create(t, fake.URL,
		map[string]string{"file@q.csv": "question_id,question,standard_answer\nq1,md,a\nq2,json,a\n"})
	s.awaitDone(t, id)
	page := s.get(t, "/tasks/"+id+"/results?text=formatted&view=merged").page(t)
	markdown := page.Find(".result").Eq(0).Find(".formatted")
	require.Equal(t, "意见", markdown.Find(".heading").Text())
	require.Equal(t, 2, markdown.Find("li").Length())
	require.Equal(t, "应予", markdown.Find("strong").Text())
	require.Equal(t, 2, markdown.Find("tr").Length())
	require.Zero(t, markdown.Find("a, img, script, iframe, style, form").Length())
	require.Contains(t, markdown.Text(), "<script>alert(2)</script>")
	require.Contains(t, markdown.Text(), "link (javascript:alert(1))")
	//nolint:testifylint // the layout of the JSON matters
	require.Equal(t, "{\n  \"a\": \"<b>\",\n  \"b\": [\n    1,\n    2\n  ]\n}",
		page.Find(".result").Eq(1).Find(".formatted pre").Text())
	require.Equal(t, 2, s.get(t, "/tasks/"+id+"/results").page(t).Find(".merged .formatted").Length(),
		"the browser keeps it")
	require.Zero(t, s.get(t, "/tasks/"+id+"/results?text=raw").page(t).Find(".formatted").Length())
}

// A report is a single document for printing and for sending to others: it loads nothing, and only its own script
// runs in it.
func TestAReportIsOneDocument(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	hostile := "\u202Eevil\u200B</article></main><script>alert(1)</script><style>*{}</style>" +
		strings.Repeat("长", 3500) + "\x00"
	fake := agenttest.New(t, answering(map[string][]string{"一": {hostile, hostile + "不同"}, "二": {"x"}}))
	id := s.create(t, fake.URL, map[string]string{"concurrency": "1", "task_name": "签发",
		"file@q.csv": "question_id,question,standard_answer\nq1,一,<b>a</b>\nq2,二,b\n"})
	require.Equal(t, http.StatusConflict, s.get(t,
		"/tasks/"+s.create(t, fake.URL, map[string]string{"start": "false"})+"/results/print").StatusCode)
	s.awaitDone(t, id)
	require.Equal(t, http.StatusOK, s.send(t, http.MethodPut, api+"/"+id+"/items/q1/review",
		map[string]any{"reviewer": "李雷", "verdict": "FAIL", "note": "<i>不对</i>"}).StatusCode)
	require.Equal(t, http.StatusCreated, s.send(t, http.MethodPost, api+"/"+id+"/sign-off",
		map[string]any{"reviewer": "李雷", "note": "退回"}).StatusCode)
	file := s.get(t, api+"/"+id+"/export?format=html")
	require.Equal(t, http.StatusOK, file.StatusCode)
	require.Equal(t, "text/html; charset=utf-8", file.Header.Get("Content-Type"))
	require.Contains(t, file.Header.Get("Content-Disposition"), "_report.html")
	printed := s.get(t, "/tasks/"+id+"/results/print")
	require.Equal(t, http.StatusOK, printed.StatusCode)

	for name, answer := range map[string]response{"file": file, "page": printed} {
		page := answer.page(t)
		require.Equal(t, 2, page.Find("article").Length(), name)
		require.Equal(t, 1, page.Find("script").Length(), name)
		require.Equal(t, 2, page.Find("style").Length(), name)
		require.Zero(t, page.Find("[src], link, iframe, a[href], form[action]").Length(), "%s asks for nothing", name)
		policy := page.Find("meta[http-equiv]").AttrOr("content", "")
		for _, inline := range []string{page.Find("script").Text(), page.Find("style").First().Text(),
			page.Find("style").Last().Text()} {
			sum := sha256.Sum256([]byte(inline))
			require.Contains(t, policy, "'sha256-"+base64.StdEncoding.EncodeToString(sum[:])+"'", name)
		}
		require.True(t, strings.HasPrefix(policy, "default-src 'none';"), policy)
		first := page.Find("article").First()
		require.Equal(t, "wording", first.AttrOr("data-level", ""))
		require.Equal(t, "FAIL", first.AttrOr("data-opinion", ""))
		require.Contains(t, first.Find(".said-list").Text(), "<i>不对</i>")
		require.Equal(t, "不同", first.Find(".groups > li > .block ins").Text())
		require.Equal(t, strings.TrimSuffix(hostile, "\x00")+"␀",
			strings.TrimSpace(first.Find(".reading .unit .block").First().Text()))
		require.Contains(t, page.Find(".cover").Text(), "退回")
	}
	require.Contains(t, printed.Header.Get("Content-Security-Policy"), "sha256-",
		"the page's own policy lets its style and script be")
}
