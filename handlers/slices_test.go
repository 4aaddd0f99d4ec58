package handlers_test

import (
	"bytes"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/PuerkitoBio/goquery"
	"github.com/stretchr/testify/require"
	"github.com/xuri/excelize/v2"

	"wending/jobs/agent/agenttest"
)

// sliced runs a task of six questions in three categories: the answers on 合同 contradict each other, and one question on
// 劳动 fails.
func (s *site) sliced(t *testing.T) (id string) {
	t.Helper()
	fake := agenttest.New(t, func(w http.ResponseWriter, call agenttest.Call) {
		switch {
		case strings.HasPrefix(call.Question, "合同"):
			agenttest.Stream(w, fmt.Sprintf("应当在 %d 日内付款。", 14+5*int(call.IdempotencyKey[len(call.IdempotencyKey)-1]%2)))
		case call.Question == "劳动二":
			http.Error(w, "down", http.StatusBadGateway)
		default:
			agenttest.Stream(w, "三十日")
		}
	})
	id = s.create(t, fake.URL, map[string]string{"runs_per_item": "4", "concurrency": "4", "rate_limit": "unlimited",
		"file@q.csv": "question_id,question,standard_answer,category,难 度\n" +
			"q1,合同一,14 日,合同,easy\nq2,合同二,14 " +
			"日,合同,hard\nq3,劳动一,三十日,劳动,easy\nq4,劳动二,三十日,劳动,hard\nq5,婚姻一,三十日,婚姻,easy\nq6,婚姻二,三十日,\"合同'; --\",hard\n"})
	s.awaitDone(t, id)
	return id
}

// found lists the questions in the results that match a query.
func (s *site) found(t *testing.T, id string, query url.Values) (ids []string) {
	t.Helper()
	for _, one := range s.entry(t, "GET", "evaluation-tasks/"+id+"/results?"+query.Encode(), nil, 200)["items"].([]any) {
		ids = append(ids, one.(object)["question_id"].(string))
	}
	return ids
}

// Results are filtered by the columns of the dataset and by the latency, tokens and cost of runs; a column or value
// that does not exist is refused by name.
func TestResultsAreNarrowedByColumnsAndNumbers(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	id := s.sliced(t)
	for _, one := range []struct {
		query url.Values
		ids   []string
	}{
		{url.Values{"column.category": {"合同"}}, []string{"q1", "q2"}},
		{url.Values{"column.category": {"合同", "劳动"}, "column.难 度": {"hard"}}, []string{"q2", "q4"}},
		{url.Values{"column.category": {"合同'; --"}}, []string{"q6"}},
		{url.Values{"column.category": {"none"}}, nil},
		{url.Values{"error_code": {"HTTP_502"}}, []string{"q4"}},
		{url.Values{"min_latency_ms": {"0"}, "column.难 度": {"easy"}}, []string{"q1", "q3", "q5"}},
		{url.Values{"min_latency_ms": {"600000"}}, nil},
		{url.Values{"max_cost": {"1"}}, nil},
		{url.Values{"min_total_tokens": {"1"}}, nil},
	} {
		require.Equal(t, one.ids, s.found(t, id, one.query), one.query.Encode())
	}
	for _, wrong := range []string{"column.categry=x", "min_latency_ms=fast", "max_cost=-1", "min_total_tokens=NaN"} {
		refused := s.get(t, api+"/"+id+"/results?"+wrong)
		require.Equal(t, http.StatusUnprocessableEntity, refused.StatusCode, wrong)
		require.Contains(t, string(refused.body), "PARAMETER_INVALID")
	}
	require.Contains(t, string(s.get(t, api+"/"+id+"/results?column.categry=x").body), "column.category")
}

// Statistics by a column are given for each of its values, each with its own levels, failures and intervals.
func TestStatisticsByAColumn(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	id := s.sliced(t)
	path := "evaluation-tasks/" + id + "/statistics"
	require.NotContains(t, s.entry(t, "GET", path, nil, 200), "slices")
	found := map[string]object{}
	for _, one := range s.entry(t, "GET", path+"?by=category", nil, 200)["slices"].([]any) {
		found[one.(object)["value"].(string)] = one.(object)
	}
	require.Len(t, found, 4)
	require.EqualValues(t, 2, found["合同"]["items"])
	contracts, work := found["合同"]["variants"].([]any)[0].(object), found["劳动"]["variants"].([]any)[0].(object)
	require.EqualValues(t, 2, contracts["facts_differ"].(object)["conflict"])
	require.EqualValues(t, 8, contracts["succeeded"])
	require.EqualValues(t, 8, work["runs_expected"])
	require.EqualValues(t, 4, work["failed"])
	require.InDelta(t, 0.5, work["success_rate"], 1e-9)
	require.NotNil(t, work["success_rate_interval"])
	require.EqualValues(t, 1, work["levels"].(object)["unknown"])
	refused := s.get(t, api+"/"+id+"/statistics?by=colour")
	require.Equal(t, http.StatusUnprocessableEntity, refused.StatusCode)
	require.Contains(t, string(refused.body), "category")
}

// The file and the print version contain what the filtered report shows; a value that does not exist is left out, and
// the page reports it.
func TestAFilteredReportIsExportedAndPrintedAsItIsShown(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	id := s.sliced(t)
	query := url.Values{"column.category": {"合同"}, "column.难 度": {"hard"}, "min_latency_ms": {"0"},
		"min_cost": {""}}.Encode()
	page := s.get(t, "/tasks/"+id+"/results?"+query).page(t)
	require.Equal(t, 1, page.Find("article.result").Length())
	require.Contains(t, page.Find(".shown-of").Text(), "筛出 1 题，共 6 题")
	require.Equal(t, "合同（2）", strings.TrimSpace(page.Find(`select[name="column.category"] option[selected]`).Text()))
	href, _ := page.Find(".shown-of a").First().Attr("href")
	rows := strings.Split(strings.TrimSpace(string(s.get(t, href).body)), "\r\n")
	require.Len(t, rows, 2)
	require.True(t, strings.HasPrefix(rows[1], "q2,"), rows[1])
	print := s.get(t, "/tasks/"+id+"/results/print?"+query).page(t)
	require.Contains(t, print.Text(), "合同二")
	require.NotContains(t, print.Text(), "婚姻一")
	rows = strings.Split(strings.TrimSpace(
		string(s.get(t, api+"/"+id+"/export?column.category="+url.QueryEscape("合同")).body)), "\r\n")
	require.Len(t, rows, 3)

}

// nearest follows redirects from an address to the final page, and returns the parameters that the page reports as
// left out.
func (s *site) nearest(t *testing.T, address string) (path, left string) {
	t.Helper()
	answer := s.get(t, address)
	for hops := 0; answer.Header.Get("Location") != "" && hops < 5; hops++ {
		path = answer.Header.Get("Location")
		answer = s.get(t, path)
	}
	require.Equal(t, http.StatusOK, answer.StatusCode, address)
	return path, answer.page(t).Find("#left-out").Text()
}

// If an address names a filter, column, order, page or view that does not exist, the nearest existing page is shown,
// with the names of all such parameters; for a file, it is the page that offers the file.
func TestWhatDoesNotExistIsLeftOutByName(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	id := s.sliced(t)
	task, both := "/tasks/"+id, "/comparison?a="+id+"&b="+id
	prompt := s.entry(t, "POST", "prompts", object{"name": "p", "user": "{{question}}"}, 201)["id"].(string)
	schedule := s.schedule(t, "nightly", id, nil)
	reads := map[string][]string{
		task + "/results?": {
			"filter=none", "filter=agreement-9", "sort=none", "view=none", "text=none", "align=none", "review=none",
			"finish_reason=none", "variant=9", "variant=x", "page=x", "page=-1", "page=7",
			"page=99999999", "page_size=0", "column.colour=red", "column.category=none", "min_latency_ms=fast", "max_cost=-1",
			"error_code=HTTP_999", "reason=none", "series=none", "saved=none",
		},
		task + "/results/export?format=csv&": {"filter=none", "column.colour=red", "column.category=none",
			"error_code=HTTP_999"},
		task + "/results/export?": {"format=none"},
		task + "/results/print?":  {"only=none", "filter=none", "column.colour=red"},
		task + "/review/next?": {"filter=none", "column.colour=red", "column.category=none",
			"error_code=HTTP_999", "saved=none"},
		task + "/review/1?": {"filter=none", "sort=none", "column.colour=red"},
		task + "/report?":   {"by=none", "include_defaults=maybe"},
		task + "/variants?": {"by=none", "sort=none", "page=9", "page=x"},
		task + "/gallery?": {"type=none", "variant=9", "page=9", "launches=9",
			"differing=9", "page=x"},
		both + "&": {"show=none", "by=none", "column.colour=red", "column.category=none",
			"page=9", "page_size=1000"},
		"/comparison/print?a=" + id + "&b=" + id + "&": {"only=none", "column.colour=red"},
		"/comparison?a=" + id + "&":                    {"page=9", "page=x"},
		"/comparison?":                                 {"page=9", "page_size=x"},
		"/tasks?":                                      {"status=NONE", "page=9", "page=x", "page_size=1000", "saved=none"},
		"/library/prompts?":                            {"page=9", "page=x", "page_size=0", "archived=maybe"},
		"/library/prompts/" + prompt + "?":             {"version=9", "version=x"},
		"/library/prompts/" + prompt + "/versions/1?":  {"against=9", "against=x"},
		"/library/schedules/" + schedule + "?":         {"page=9", "page=x"},
	}
	for page, wrongs := range reads {
		for _, wrong := range wrongs {
			name, _, _ := strings.Cut(wrong, "=")
			_, left := s.nearest(t, page+wrong)
			require.Contains(t, left, map[bool]string{false: wrong, true: "视图不存在"}[name == "saved"], page)
		}
	}
	path, left := s.nearest(t, task+"/results?sort=none&filter=facts&column.colour=red&page=9")
	for _, wrong := range []string{"sort=none", "column.colour=red", "page=9"} {
		require.Contains(t, left, wrong, "each of several")
	}
	require.Contains(t, path, "filter=facts", "what there is stays")
	path, _ = s.nearest(t, task+"/results/export?format=csv&filter=failed&sort=none")
	require.True(t, strings.HasPrefix(path, task+"/results?filter=failed&"), path)
}

// No list answers an address with invalid parameters with an error: it redirects to the nearest page.
func TestOddAddressesLeadToTheNearestPage(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	id := s.sliced(t)
	for _, path := range []string{
		"/tasks", "/tasks/" + id, "/tasks/" + id + "/results", "/tasks/" + id + "/report", "/tasks/" + id + "/review",
		"/tasks/" + id + "/sign-off",
		"/tasks/" + id + "/gallery", "/tasks/" + id + "/launches", "/tasks/" + id + "/variants", "/library/agents",
		"/library/datasets", "/library/prompts",
		"/library/schedules", "/workers", "/comparison", "/",
	} {
		for _, odd := range []string{
			"page=x", "page=0", "page=1000000", "page_size=9999", "status=NONE", "sort=none", "filter=none", "view=none",
			"variant=99", "archived=maybe",
			"by=none", "column.none=x", "query=%00%ff", "search=%00%ff", "a=x&b=y", "from=x", "left_out=%3Cscript%3E",
		} {
			answer := s.get(t, path+"?"+odd)
			for hops := 0; answer.Header.Get("Location") != "" && hops < 5; hops++ {
				answer = s.get(t, answer.Header.Get("Location"))
			}
			require.Contains(t, []int{http.StatusOK, http.StatusNotFound}, answer.StatusCode, path+"?"+odd)
			require.NotContains(t, string(answer.body), "<script>")
		}
	}
}

// A report is grouped by a column, and its numbers link to the questions that they count; the request sent for a
// question is one click away from its answers.
func TestAReportIsGroupedByAColumn(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	id := s.sliced(t)
	page := s.get(t, "/tasks/"+id+"/report?by=category").page(t)
	rows := page.Find("#slices tbody tr")
	require.Equal(t, 4, rows.Length())
	var agreements []float64
	rows.Find("a[href*='sort=agreement']").Each(func(_ int, link *goquery.Selection) {
		share, _, _ := strings.Cut(link.Text(), "%")
		percent, err := strconv.ParseFloat(share, 64)
		require.NoError(t, err)
		agreements = append(agreements, percent)
	})
	require.Len(t, agreements, 4)
	require.True(t, slices.IsSorted(agreements), "the worst first: %v", agreements)
	require.NotEqual(t, agreements[0], agreements[3])
	link := rows.Find("td a").First()
	href, _ := link.Attr("href")
	require.Contains(t, s.get(t, href).page(t).Find(".shown-of").Text(), "筛出 "+link.Text()+" 题")
	require.Equal(t, http.StatusSeeOther, s.get(t, "/tasks/"+id+"/report?by=none").StatusCode)
	unchosen := s.get(t, "/tasks/"+id+"/report").page(t)
	require.Equal(t, 4, unchosen.Find("#slices tbody tr").Length(), "the first column")
	require.Equal(t, "category", unchosen.Find("#slices th").First().Text())
	require.Equal(t, []string{"category：一致率最低的是“合同”，33.3%（2 题）；最高的是“劳动”，50.0%（2 题）",
		"难 度：一致率最低的是“hard”，44.4%（3 题）；最高的是“easy”，77.8%（3 题）。两者的 95% 置信区间有重叠，差距可能只是偶然"},
		unchosen.Find("#slices .sentences li").Map(func(_ int, line *goquery.Selection) string { return line.Text() }),
		"values of a single question are left out")

	fake := agenttest.New(t, func(w http.ResponseWriter, _ agenttest.Call) { agenttest.Stream(w, "答") })
	only := s.create(t, fake.URL, map[string]string{
		"file@q.csv": "question,standard_answer,类别\n一,a,甲\n二,a,乙\n三,a,乙\n"})
	s.awaitDone(t, only)
	require.Equal(t, 2, s.get(t, "/tasks/"+only+"/report").page(t).Find("#slices tbody tr").Length(), "one column")

	fold, _ := s.get(t, "/tasks/"+id+"/results").page(t).Find(".sent a").First().Attr("hx-get")
	require.Contains(t, string(s.fragment(t, fold).body), "&#34;question&#34;")
}

// A column of many values is offered if questions share them: any value can be typed, and the most frequent ones are
// proposed. A column in which every question differs is not offered.
func TestAColumnOfManyValuesIsOffered(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	fake := agenttest.New(t, func(w http.ResponseWriter, _ agenttest.Call) { agenttest.Stream(w, "yes") })
	const shared, single = 12, 42
	var rows strings.Builder
	for n := range 2*shared + single {
		topic := fmt.Sprintf("topic %02d", n)
		if n < 2*shared {
			topic = fmt.Sprintf("shared %02d", n/2)
		}
		fmt.Fprintf(&rows, "q%d,question %d,yes,%s,source %d\n", n, n, topic, n)
	}
	id := s.create(t, fake.URL, map[string]string{"runs_per_item": "1", "concurrency": "8", "rate_limit": "unlimited",
		"file@q.csv": "question_id,question,standard_answer,topic,source\n" + rows.String()})
	s.awaitDone(t, id)
	last := fmt.Sprintf("topic %02d", 2*shared+single-1)
	page := s.get(t, "/tasks/"+id+"/results?"+url.Values{"column.topic": {last}}.Encode()).page(t)
	require.Zero(t, page.Find(`[name="column.source"]`).Length())
	field := page.Find(`input[name="column.topic"]`)
	options := page.Find("datalist#" + field.AttrOr("list", "") + " option").Map(func(_ int, o *goquery.Selection) string {
		return o.AttrOr("value", "")
	})
	require.Len(t, options, 50)
	require.Equal(t, "shared 00", options[0])
	require.Equal(t, "topic 24", options[shared])
	require.Equal(t, last, field.AttrOr("value", ""), "a value beyond those that are proposed")
	require.Equal(t, 1, page.Find(".result").Length())

	values := s.get(t, "/tasks/"+id+"/report?by=topic").page(t).Find("#slices tbody tr th").Map(
		func(_ int, cell *goquery.Selection) string { return strings.TrimSpace(cell.Text()) })
	require.Contains(t, values[0], "shared", "a single question says little")
	require.Contains(t, values[shared], "topic")
}

// A comparison is filtered by the columns of the second task, and grouped by one: on its page, in the API and as a
// file.
func TestAComparisonIsNarrowedAndGroupedByColumns(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	a, b := s.sliced(t), s.sliced(t)
	sides := "?a=" + a + "&b=" + b
	type told struct {
		Items []struct {
			A struct {
				QuestionID string `json:"question_id"`
			}
		}
		Groups map[string]int
		Slices []struct {
			Value       *string
			Items       int
			Groups      map[string]int
			Differences map[string]struct {
				N          int
				Difference *float64
				Interval   []float64
			}
		}
		Differences map[string]struct{ N int }
	}
	get := func(query url.Values) (of told) {
		s.get(t, "/api/v1/comparison"+sides+"&"+query.Encode()).into(t, &of)
		return of
	}
	narrowed := get(url.Values{"column.category": {"合同", "劳动"}, "column.难 度": {"hard"}})
	require.Len(t, narrowed.Items, 2)
	require.Equal(t, "q2", narrowed.Items[0].A.QuestionID)
	require.Equal(t, 2, narrowed.Differences["success_rate"].N, "the numbers describe the questions that are left")
	require.Nil(t, narrowed.Slices)
	grouped := get(url.Values{"by": {"category"}})
	require.Len(t, grouped.Items, 6)
	require.Len(t, grouped.Slices, 4)
	require.Equal(t, "劳动", *grouped.Slices[0].Value)
	require.Equal(t, 2, grouped.Slices[0].Items)
	require.Equal(t, 2, grouped.Slices[0].Differences["latency_ms"].N+1, "one question has no answer")
	require.Equal(t, []float64{0, 0}, grouped.Slices[0].Differences["success_rate"].Interval)
	require.Len(t, get(url.Values{"by": {"category"}, "column.category": {"合同"}}).Slices, 1)
	for _, query := range []url.Values{{"by": {"none"}}, {"column.none": {"x"}}, {"min_cost": {"1"}}} {
		require.Equal(t, http.StatusUnprocessableEntity, s.get(t, "/api/v1/comparison"+sides+"&"+query.Encode()).StatusCode,
			query)
	}

	chosen := url.Values{"column.category": {"合同"}}.Encode()
	page := s.get(t, "/comparison"+sides+"&"+chosen).page(t)
	require.Equal(t, 2, page.Find(".compared-pair").Length())
	require.Equal(t, "合同", page.Find("select[name='column.category'] option[selected]").AttrOr("value", ""))
	export := page.Find("a[href*='format=csv']").AttrOr("href", "")
	require.Contains(t, export, "column.category")
	rows := strings.Split(strings.TrimSpace(string(s.get(t, export).body)), "\r\n")
	require.Len(t, rows, 3)
	require.True(t, strings.HasSuffix(rows[0], ",var_category,var_难 度"), rows[0])
	require.True(t, strings.HasSuffix(rows[1], ",合同,easy"), rows[1])
	require.Equal(t, 2, s.get(t, "/comparison/print"+sides+"&"+chosen).page(t).Find(".compared-pair").Length())
	by := s.get(t, "/comparison"+sides+"&by=category").page(t)
	require.Equal(t, 4, by.Find("#slices tbody tr").Length())
	link := by.Find("#slices tbody tr:contains(合同) th a").First().AttrOr("href", "")
	require.Equal(t, 2, s.get(t, link).page(t).Find(".compared-pair").Length(), "a value leads to its questions")
	for _, query := range []string{"by=none", "column.none=x", "column.category=none"} {
		require.Equal(t, http.StatusSeeOther, s.get(t, "/comparison"+sides+"&"+query).StatusCode, query)
	}
}

// The workbook has a sheet with the numbers of each value of each column, the same as the API's.
func TestTheWorkbookHasTheNumbersByColumn(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	id := s.sliced(t)
	book, err := excelize.OpenReader(bytes.NewReader(s.get(t, api+"/"+id+"/export?format=xlsx").body))
	require.NoError(t, err)
	defer book.Close()
	rows, err := book.GetRows("按数据列分组", excelize.Options{RawCellValue: true})
	require.NoError(t, err)
	place := func(title string) int { return slices.Index(rows[0], title) }
	found := map[string][]string{}
	for _, row := range rows[1:] {
		found[row[0]+"="+row[1]] = row
	}
	require.Len(t, found, 6, "four categories and two difficulties")
	for _, one := range s.entry(t, "GET", "evaluation-tasks/"+id+"/statistics?by=category", nil, 200)["slices"].([]any) {
		slice := one.(object)
		row, variant := found["category="+slice["value"].(string)], slice["variants"].([]any)[0].(object)
		require.Equal(t, fmt.Sprint(slice["items"]), row[place("题数")])
		share, err := strconv.ParseFloat(row[place("成功率")], 64)
		require.NoError(t, err)
		require.InDelta(t, variant["success_rate"], share, 1e-9)
		require.Equal(t, fmt.Sprint(variant["levels"].(object)["facts"]), row[place("关键信息不同")])
	}
}
