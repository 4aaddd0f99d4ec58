package handlers_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A link created from a filtered report shows the answers to the questions that the filters select, and no others.
func TestAFilteredReportIsShared(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	_, id := s.importAnswers(t, "a.csv",
		"question_id,question,answer,city\na,退货期限,7 日,北京\nb,运费多少,8 元,上海\nc,退货地址,仓库,北京\n")
	filters := url.Values{"column.city": {"北京"}}.Encode()
	link := s.get(t, "/tasks/"+id+"/results?"+filters).page(t).Find(`.shown-of a[href^="/tasks/` + id + `/shares?"]`)
	require.Equal(t, "/tasks/"+id+"/shares?"+filters, link.AttrOr("href", ""))
	form := s.get(t, link.AttrOr("href", "")).page(t).Find("form.filters")
	require.Contains(t, form.Text(), "2 题")
	require.Equal(t, 0, form.Find("[name=kind]").Length())
	made := s.post(t, form.AttrOr("action", ""), map[string]string{"days": "7", "kind": "report"})
	require.Equal(t, http.StatusCreated, made.StatusCode, "%s", made.body)
	page := made.page(t)
	require.Contains(t, page.Find("table").Text(), "2 题")
	address := page.Find("#new-share").Text()
	shared := s.get(t, strings.TrimPrefix(address, s.URL))
	require.Equal(t, http.StatusOK, shared.StatusCode)
	text := string(shared.body)
	for _, shown := range []string{"退货期限", "7 日", "退货地址", "仓库"} {
		require.Contains(t, text, shown)
	}
	for _, hidden := range []string{"运费多少", "8 元", "上海"} {
		require.NotContains(t, text, hidden)
	}

	drawn := s.drawn(t)
	some := s.post(t, "/tasks/"+drawn+"/shares?"+url.Values{"search": {"画"}}.Encode(), map[string]string{"days": "7"})
	path := strings.TrimPrefix(some.page(t).Find("#new-share").Text(), s.URL)
	require.Contains(t, string(s.get(t, path).body), "answer to 画")
	require.Equal(t, http.StatusOK, s.get(t, path+"/files/"+s.assetsOf(t, drawn, "question_id=a")[0].ID).StatusCode)
	require.Equal(t, http.StatusNotFound, s.get(t, path+"/files/"+s.assetsOf(t, drawn, "question_id=b")[0].ID).StatusCode,
		"a file of a question that is not shown")
	whole := s.post(t, "/tasks/"+id+"/shares", map[string]string{"days": "7", "kind": "results"}).page(t)
	require.Contains(t, string(s.get(t, strings.TrimPrefix(whole.Find("#new-share").Text(), s.URL)).body), "运费多少")
}

// The API shares the same filtered answers as the page, with the same checks, and lists the filters of links.
func TestTheAPISharesFilteredAnswers(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	_, id := s.importAnswers(t, "a.csv",
		"question_id,question,answer,city\na,退货期限,7 日,北京\nb,运费多少,8 元,上海\nc,退货地址,仓库,北京\n")
	made := s.entry(t, "POST", "shares", object{"task_id": id, "filters": "?column.city=北京&search="}, 201)
	require.Equal(t, []any{"results", "column.city=%E5%8C%97%E4%BA%AC", 2.0},
		[]any{made["kind"], made["filters"], made["questions"]})
	shared := string(s.get(t, strings.TrimPrefix(made["url"].(string), s.URL)).body)
	require.Contains(t, shared, "退货地址")
	require.NotContains(t, shared, "运费多少")
	page := s.post(t, "/tasks/"+id+"/shares?"+url.Values{"column.city": {"上海"}, "done": {"x"}}.Encode(),
		map[string]string{"days": "7"})
	require.Equal(t, http.StatusCreated, page.StatusCode)
	whole := s.entry(t, "POST", "shares", object{"task_id": id}, 201)
	require.Equal(t, []any{"report", nil, nil}, []any{whole["kind"], whole["filters"], whole["questions"]})
	all := s.entry(t, "POST", "shares", object{"task_id": id, "kind": "results", "filters": "variant=1"}, 201)
	require.Equal(t, []any{"variant=1", 3.0}, []any{all["filters"], all["questions"]})
	list := s.entry(t, "GET", "shares?task_id="+id, nil, 200)["items"].([]any)
	require.Equal(t, "column.city=%E4%B8%8A%E6%B5%B7", list[2].(object)["filters"])

	for filters, column := range map[string]string{
		"": "filters", "%zz": "filters", "a=%00": "filters", "filter=": "filters", "page=2": "filters",
		"sort=risk": "filters", "column.city=" + strings.Repeat("x", 4000): "filters",
		"filter=nonsense": "filter", "column.land=北京": "column.land", "sample=x": "sample", "variant=9": "variant",
		"finish_reason=x": "finish_reason", "min_latency_ms=x": "min_latency_ms",
	} {
		refused := s.entry(t, "POST", "shares", object{"task_id": id, "filters": filters}, 422)
		require.Equal(t, "PARAMETER_INVALID", refused["code"], filters)
		require.Equal(t, column, refused["details"].([]any)[0].(object)["column"], filters)
	}
	for _, kind := range []string{"report", "replay"} {
		refused := s.entry(t, "POST", "shares",
			object{"task_id": id, "kind": kind, "question_id": "a", "filters": "column.city=北京"}, 422)
		require.Equal(t, "PARAMETER_INVALID", refused["code"], kind)
	}
	require.Len(t, s.entry(t, "GET", "shares?task_id="+id, nil, 200)["items"], 4)
	require.Zero(t, s.reports.Load(), s.told.String())
}
