package handlers_test

import (
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/PuerkitoBio/goquery"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/net/html"

	"wending/db/dbtest"
	"wending/jobs/agent/agenttest"
)

// uncounted lists the parts of pages whose digits are not counts of anything that a page could list. Its keys are CSS
// selectors, its values describe what the parts contain.
var uncounted = map[string]string{
	"a, button, label, option, select, time": "what leads somewhere, what is entered, and moments",
	"article.result":                         "a question with its answers: what it counts is in sight",
	".task-head .named .quiet, .compared":    "how a task is planned",
	"p.hint, p.lead, details.method, dialog, .extend, .margins, .says, [title] + small.mono": "explanations",
	".plot-scale, .axis, .tick, .key, svg.interval, svg.bar-stack, svg.levels":               "scales, and drawings of what is written beside them",
	"h2[id^=differing-] small": "how many questions are listed below it",
	"thead, dt, caption, figcaption, th[scope=row], .causes small.mono": "names",
	"#launches td:nth-child(4)":                                         "who started a launch",
	".board-keys, .flights h2":                                          "keys of the squares and calls that follow",
	"noscript":                                                          "what is not shown",
	".asked-of, .asked-cell, ol.differing, ul.worst, ul.newest, ol.shifts": "questions, answers and their facts",
	"td.figure small, td .quiet, .variants-table small":                    "intervals and percentiles",
	".pager, .map summary":                 "positions in a list",
	"form.draw .hint, .unfinished ul.hint": "how large a sample can be, and the numbers of open questions",
}

// measured matches amounts that are not counts: shares, intervals, times.
const measured = "%｜ms｜秒｜至｜个百分点｜Token"

// deadNumbers returns the texts in a page's content that state a count without a link to what is counted.
func deadNumbers(page *goquery.Document) (dead []string) {
	content := page.Find("main").Clone()
	for selector := range uncounted {
		content.Find(selector).Remove()
	}
	var walk func(node *html.Node, place string)
	walk = func(node *html.Node, place string) {
		said := strings.Join(strings.Fields(node.Data), " ")
		if node.Type == html.TextNode && strings.ContainsAny(said, "123456789") &&
			!strings.ContainsFunc(said, func(r rune) bool { return strings.ContainsRune("%:", r) }) && !isMeasured(said) {
			dead = append(dead, place+": "+said)
		}
		if node.Type == html.ElementNode {
			place += " " + node.Data
			for _, one := range node.Attr {
				if one.Key == "class" {
					place += "." + strings.ReplaceAll(one.Val, " ", ".")
				}
			}
		}
		for child := node.FirstChild; child != nil; child = child.NextSibling {
			walk(child, place)
		}
	}
	walk(content.Nodes[0], "")
	return dead
}

func isMeasured(said string) bool {
	for unit := range strings.SplitSeq(measured, "｜") {
		if strings.Contains(said, unit) {
			return true
		}
	}
	return false
}

// Every count on a task's pages links to what it counts, including counts that are added later.
func TestNoCountLeadsNowhere(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	id, several := s.sliced(t), s.twoVariants(t)
	c := newCompared(t, s)
	judged := s.entry(t, "POST", "evaluation-tasks", c.task(), 201)["task_id"].(string)
	s.awaitDone(t, judged)
	s.entry(t, "PUT", "evaluation-tasks/"+id+"/items/q1/review",
		object{"reviewer": "李雷", "verdict": "FAIL", "version": 0, "reasons": []string{"number"}}, 200)
	hook := newReceiver(t, always(200))
	schedule := s.schedule(t, "夜", id,
		object{"channels": []string{s.channel(t, "hook", hook.URL, object{"events": []string{"finished"}})}})
	s.fire(t, schedule, hook)
	for _, path := range []string{
		"/tasks/" + s.underWay(t), "/library/schedules/" + schedule, "/tasks?columns=agreement,pass_rate,facts,verdicts,cost,dataset,agent", "/tasks?group=dataset",
		"/tasks/" + id, "/tasks/" + several, "/tasks/" + judged,
		"/tasks/" + id + "/report?by=category", "/tasks/" + judged + "/report?by=level", "/tasks/" + several + "/report",
		"/tasks/" + several + "/variants", "/tasks/" + judged + "/variants", "/tasks/" + id + "/results",
		"/tasks/" + judged + "/results", "/tasks/" + id + "/gallery", "/tasks/" + id + "/review",
		"/comparison?by=category&a=" + id + "&b=" + id, "/comparison?a=" + judged + ":1&b=" + judged + ":2",
		"/tasks/history?file=q.csv",
	} {
		answer := s.get(t, path)
		require.Equal(t, http.StatusOK, answer.StatusCode, path)
		assert.Empty(t, deadNumbers(answer.page(t)), path)
	}
}

// underWay starts a task with one answered question, one failed question, and one that is being asked until the test
// ends.
func (s *site) underWay(t *testing.T) (id string) {
	t.Helper()
	ended := make(chan struct{})
	fake := agenttest.New(t, func(w http.ResponseWriter, call agenttest.Call) {
		switch call.Question {
		case "问1":
			agenttest.Stream(w, "x")
		case "问2":
			http.Error(w, "down", http.StatusBadGateway)
		default:
			<-ended
		}
	})
	t.Cleanup(func() { close(ended) })
	id = s.create(t, fake.URL, map[string]string{"runs_per_item": "2", "concurrency": "2", "rate_limit": "unlimited",
		"file@q.csv": "question,standard_answer\n问1,a\n问2,a\n问3,a\n问4,a\n"})
	dbtest.Await(t, time.Minute, "two questions are finished and one is being asked", func() bool {
		states := map[string]int{}
		for _, one := range s.entry(t, "GET", "evaluation-tasks/"+id+"/items", nil, 200)["items"].([]any) {
			states[one.(object)["state"].(string)]++
		}
		return states["done"] == 1 && states["failed"] == 1 && states["running"] == 1
	})
	return id
}

// Every number in the table of reviewers leads to exactly as many questions. A reviewer in an address is dropped if the
// task has no such reviewer.
func TestNumbersOfReviewersLeadToTheirQuestions(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	id := s.sliced(t)
	for _, one := range []object{
		{"question": "q1", "reviewer": "李雷", "verdict": "FAIL"}, {"question": "q2", "reviewer": "李雷", "verdict": "PASS"},
		{"question": "q1", "reviewer": "韩梅梅", "verdict": "PASS"},
	} {
		s.entry(t, "PUT", "evaluation-tasks/"+id+"/items/"+one["question"].(string)+"/review",
			object{"reviewer": one["reviewer"], "verdict": one["verdict"], "version": 0}, 200)
	}
	s.entry(t, "PUT", "evaluation-tasks/"+id+"/review-assignments", object{"reviewers": []string{"李雷", "王芳"}}, 200)
	links := 0
	s.get(t, "/tasks/"+id+"/review").page(t).Find("td.number a").Each(func(_ int, link *goquery.Selection) {
		links++
		path := link.AttrOr("href", "")
		require.Equal(t, link.Text(), strconv.Itoa(s.get(t, path).page(t).Find("article.result").Length()), path)
	})
	require.Equal(t, 7, links, "judged, passed, failed of 李雷; judged, passed of 韩梅梅; assigned to 李雷 and 王芳")
	refused := s.get(t, "/tasks/"+id+"/results?reviewer=x&assigned=y")
	require.Equal(t, http.StatusSeeOther, refused.StatusCode)
	require.NotContains(t, refused.Header.Get("Location"), "reviewer=x")
}

// labels selects the labels of figures: on tiles, in columns of numbers and on plots.
const labels = "main dl.tiles dt, main dl.counts dt, main th.figure, main th.number, main .tasks thead th, " +
	"main .history thead th, main figure:not(.fingerprint) figcaption, main caption, main #details h2"

// unexplained matches the labels that name no figure: questions, sides, variants, and what describes a task.
var unexplained = regexp.MustCompile(`^(#|题数|总数|甲|乙|次数|\d+|任务名称|创建时间|操作|数据集|智能体|版本对比|状态|进度)$`)

// Every figure leads to its explanation, next to its label or next to the heading of its section.
func TestEveryFigureIsExplained(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	id, several := s.sliced(t), s.twoVariants(t)
	c := newCompared(t, s)
	judged := s.entry(t, "POST", "evaluation-tasks", c.task(), 201)["task_id"].(string)
	s.awaitDone(t, judged)
	hook := newReceiver(t, always(200))
	schedule := s.schedule(t, "夜", id,
		object{"channels": []string{s.channel(t, "hook", hook.URL, object{"events": []string{"finished"}})}})
	s.fire(t, schedule, hook)
	for path, least := range map[string]int{
		"/tasks?columns=agreement,pass_rate,facts,verdicts,cost,dataset,agent": 5,
		"/tasks/" + id: 12, "/tasks/" + several: 10, "/tasks/" + judged: 10,
		"/tasks/" + id + "/report?by=category": 10, "/tasks/" + judged + "/report?by=level": 10,
		"/tasks/" + several + "/report": 5, "/tasks/" + several + "/variants": 8, "/tasks/" + judged + "/variants": 8,
		"/tasks/" + id + "/results": 4, "/tasks/" + judged + "/results": 3, "/tasks/" + id + "/gallery": 4,
		"/tasks/" + id + "/review": 5, "/comparison?by=category&a=" + id + "&b=" + id: 8,
		"/comparison?a=" + judged + ":1&b=" + judged + ":2": 2, "/tasks/history?file=q.csv": 5,
		"/library/schedules/" + schedule: 6,
	} {
		answer := s.get(t, path)
		require.Equal(t, http.StatusOK, answer.StatusCode, path)
		explained := 0
		answer.page(t).Find(labels).Each(func(_ int, label *goquery.Selection) {
			said := strings.Join(strings.Fields(label.Text()), " ")
			section := label.Closest("section")
			if !label.Is("h2") { // for a heading, a link at a label below it is enough
				section = section.Find("h2, h3")
			}
			if said == "" || unexplained.MatchString(said) {
				return
			}
			if assert.Positive(t, label.Find("a.why").Length()+section.Find("a.why").Length(), "%s: %s", path, said) {
				explained++
			}
		})
		assert.GreaterOrEqual(t, explained, least, path)
	}
}
