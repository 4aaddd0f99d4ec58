package handlers_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/PuerkitoBio/goquery"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/net/html"
)

// uncounted are the parts of pages whose digits count nothing that a page could list, with the reason.
var uncounted = map[string]string{
	"a, button, label, option, select, time": "what leads somewhere, what is entered, and moments",
	"article.result":                         "a question with its answers: what it counts is in sight",
	".task-head .named .quiet, .compared":    "how a task is planned",
	"p.hint, p.lead, details.method, dialog, .extend, .margins, .says, [title] + small.mono": "explanations",
	".plot-scale, .axis, .tick, .key, svg.interval, svg.bar-stack, svg.levels":               "scales, and drawings of what is written beside them",
	"thead, dt, caption, figcaption, th[scope=row], .causes small.mono":                      "names",
	"#launches td:nth-child(4)": "who started a launch",
	"td.asked-of, .asked-cell, ol.differing, ul.worst, ul.newest, ol.shifts": "questions, answers and their facts",
	"td.figure small, td .quiet, .variants-table small":                      "intervals and percentiles",
	".pager, .map summary": "positions in a list",
}

// measured matches amounts that are no counts: shares, intervals, times.
const measured = "%｜ms｜秒｜至｜个百分点｜Token"

// deadNumbers returns the texts with counts in a page's content that lead nowhere.
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

// Every count on the pages of a task leads to what it counts, whatever else is new on them.
func TestNoCountLeadsNowhere(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	id, several := s.sliced(t), s.twoVariants(t)
	c := newCompared(t, s)
	judged := s.entry(t, "POST", "evaluation-tasks", c.task(), 201)["task_id"].(string)
	s.awaitDone(t, judged)
	s.entry(t, "PUT", "evaluation-tasks/"+id+"/items/q1/review",
		object{"reviewer": "李雷", "verdict": "FAIL", "version": 0, "reasons": []string{"number"}}, 200)
	for _, path := range []string{
		"/tasks?columns=agreement,pass_rate,facts,verdicts,cost,dataset,agent", "/tasks?group=dataset",
		"/tasks/" + id, "/tasks/" + several, "/tasks/" + judged,
		"/tasks/" + id + "/report?by=category", "/tasks/" + judged + "/report?by=level", "/tasks/" + several + "/report",
		"/tasks/" + several + "/variants", "/tasks/" + judged + "/variants", "/tasks/" + id + "/results",
		"/tasks/" + judged + "/results", "/tasks/" + id + "/gallery",
		"/comparison?by=category&a=" + id + "&b=" + id, "/comparison?a=" + judged + ":1&b=" + judged + ":2",
		"/tasks/history?file=q.csv",
	} {
		answer := s.get(t, path)
		require.Equal(t, http.StatusOK, answer.StatusCode, path)
		assert.Empty(t, deadNumbers(answer.page(t)), path)
	}
}
