package handlers_test

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/PuerkitoBio/goquery"
	"github.com/stretchr/testify/require"

	"wending/jobs/agent/agenttest"
)

// counted matches a number with its unit: questions (题) or runs (次).
var counted = regexp.MustCompile(`^(?:.*\D)?(\d+)(?: (题|次).*)?$`)

// Every number that links to answers leads to exactly as many as it states: the questions on the page of answers or,
// for numbers of runs, the runs of those questions that match the address.
func TestNumbersLeadToWhatTheyCount(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	id := s.sliced(t)
	path := "/tasks/" + id
	for question, verdict := range map[string]string{"q1": "FAIL", "q3": "PASS", "q4": "UNSURE"} {
		s.entry(t, "PUT", "evaluation-tasks/"+id+"/items/"+question+"/review",
			object{"reviewer": "李雷", "verdict": verdict, "version": 0, "reasons": []string{"number"}}, 200)
	}
	seen := s.followNumbers(t, id, map[string]string{"list": "/tasks", "overview": path, "answers": path + "/results",
		"review": path + "/review", "report": path + "/report?by=category"})
	require.GreaterOrEqual(t, seen["list"], 4, seen)
	require.GreaterOrEqual(t, seen["overview"], 9, seen)
	require.GreaterOrEqual(t, seen["answers"], 2, seen)
	require.GreaterOrEqual(t, seen["review"], 4, seen)
	require.GreaterOrEqual(t, seen["report"], 15, seen)

	// Bars of runs over time and the numbers of a launch lead to the launch's runs.
	ended := 0
	s.get(t, path).page(t).Find("svg.plot a[href*='/launches/']").Each(func(_ int, bar *goquery.Selection) {
		title := bar.Find("title").Text()
		numbers := regexp.MustCompile(`(\d+) 次`).FindAllStringSubmatch(title, -1)
		require.Len(t, numbers, 2, title)
		runs := 0
		for _, number := range numbers {
			count, err := strconv.Atoi(number[1])
			require.NoError(t, err)
			runs += count
		}
		require.Equal(t, runs, s.launchRuns(t, bar.AttrOr("href", "")), title)
		ended += runs
	})
	require.Equal(t, 24, ended, "all runs of the launch")
	links := s.get(t, path+"/gallery").page(t).Find("td.number a[href*='/launches/']")
	require.Equal(t, 3, links.Length(), "its runs, and those that succeeded and failed")
	links.Each(func(_ int, link *goquery.Selection) {
		require.Equal(t, link.Text(), strconv.Itoa(s.launchRuns(t, link.AttrOr("href", ""))), link.AttrOr("href", ""))
	})
	launch := links.First().AttrOr("href", "")
	for _, bad := range []string{"?outcome=x", "?since=yesterday", "?until=99999-01-01T00:00:00Z"} {
		require.Equal(t, http.StatusSeeOther, s.get(t, launch+bad).StatusCode, bad)
	}
}

// launchRuns returns how many runs the page of a launch lists.
func (s *site) launchRuns(t *testing.T, address string) int {
	t.Helper()
	page := s.get(t, address)
	require.Equal(t, http.StatusOK, page.StatusCode, address)
	listed := page.page(t)
	total, err := strconv.Atoi(regexp.MustCompile(`\d+`).FindString(listed.Find(".pager > .quiet").Text()))
	require.NoError(t, err, address)
	return total
}

// followNumbers follows the numbers on pages of a task that lead to its answers, and returns how many it followed on
// each.
func (s *site) followNumbers(t *testing.T, id string, at map[string]string) (seen map[string]int) {
	t.Helper()
	seen = map[string]int{}
	for name, at := range at {
		s.get(t, at).page(t).Find("main a[href*='/results?']").Each(func(_ int, link *goquery.Selection) {
			address, err := url.Parse(link.AttrOr("href", ""))
			require.NoError(t, err)
			query := address.Query()
			if !strings.HasSuffix(address.Path, "/results") || link.Closest(".report-bar, .pager").Length() > 0 {
				return
			}
			shown := strings.Join(strings.Fields(link.Text()), " ")
			if link.AttrOr("tabindex", "") == "-1" { // a bar
				shown = strings.Join(strings.Fields(link.Find("title").Text()), " ")
			}
			match := counted.FindStringSubmatch(shown)
			if match == nil || query.Get("error_code") != "" && match[1] != shown || // the number in "HTTP 502" counts nothing
				strings.ContainsAny(shown, "%.") || strings.Contains(shown, "ms") && query.Get("min_latency_ms") == "" {
				return
			}
			number, err := strconv.Atoi(match[1])
			require.NoError(t, err)
			what := name + ": " + shown + " → " + address.RequestURI()
			isOfRuns := match[2] == "次" || match[2] == "" && (query.Get("error_code") != "" || query.Get("min_latency_ms") != "")
			if query.Get("sort") != "" && query.Get("min_latency_ms") == "" || match[2] == "次" && query.Get("filter") == "" &&
				query.Get("min_latency_ms") == "" {
				return // the number is about all runs
			}
			page := s.get(t, address.RequestURI())
			require.Equal(t, http.StatusOK, page.StatusCode, what)
			questions := page.page(t).Find("article.result").Length()
			switch {
			case query.Get("filter") == "failed" && match[2] == "": // questions with failures, or failed runs
				require.Contains(t, []int{questions, s.runsOf(t, id, query)}, number, what)
			case isOfRuns:
				require.Equal(t, number, s.runsOf(t, id, query), what)
			default:
				require.Equal(t, number, questions, what)
			}
			seen[name]++
		})
	}
	return seen
}

// A variant's numbers and its cells in the matrix link to that variant's answers.
func TestNumbersOfVariantsLeadToWhatTheyCount(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	id := s.twoVariants(t)
	path := "/tasks/" + id
	seen := s.followNumbers(t, id, map[string]string{"variants": path + "/variants", "report": path + "/report",
		"board": path + "?variant=2"})
	require.GreaterOrEqual(t, seen["variants"], 5, seen)
	require.GreaterOrEqual(t, seen["report"], 3, seen)
	require.GreaterOrEqual(t, seen["board"], 2, seen)
	cells := s.get(t, path+"/report").page(t).Find(".matrix td.figure a")
	require.Equal(t, 6, cells.Length(), "three questions on two variants")
	cells.Each(func(n int, cell *goquery.Selection) {
		opened := s.get(t, cell.AttrOr("href", "")).Header.Get("Location")
		require.Contains(t, opened, "variant=", cell.Text())
		require.Equal(t, http.StatusOK, s.get(t, opened).StatusCode)
	})

	// The board shows the levels of a variant, and its squares open that variant's answers.
	plain, first, second := s.get(t, path).page(t), s.get(t, path+"?variant=1").page(t),
		s.get(t, path+"?variant=2").page(t)
	require.Equal(t, 3, plain.Find("#board a.b-d").Length())
	require.Equal(t, []int{3, 0}, []int{first.Find("#board a.b-i").Length(), first.Find("#board-keys .is-facts").Length()})
	require.Equal(t, 1, second.Find("#board a.b-c").Length())
	require.Equal(t, "2", second.Find(".board-variants [aria-current] ").Text()[:1])
	require.Contains(t, second.Find("#board a").First().AttrOr("href", ""), "variant=2")
}

// twoVariants runs three questions on two agents: the first is steady, the second contradicts itself on q1 and fails on
// q3.
func (s *site) twoVariants(t *testing.T) (id string) {
	t.Helper()
	var calls atomic.Int64
	var agents []string
	for name, script := range map[string]func(http.ResponseWriter, agenttest.Call){
		"1 steady": func(w http.ResponseWriter, _ agenttest.Call) { agenttest.Stream(w, "应当在 14 日内付款。") },
		"2 unsteady": func(w http.ResponseWriter, call agenttest.Call) {
			switch call.Question {
			case "一":
				agenttest.Stream(w, fmt.Sprintf("应当在 %d 日内付款。", 14+5*(calls.Add(1)%2)))
			case "三":
				http.Error(w, "down", http.StatusBadGateway)
			default:
				agenttest.Stream(w, "应当在 14 日内付款。")
			}
		},
	} {
		agents = append(agents, name+"|"+s.entry(t, "POST", "agents",
			object{"name": name, "protocol": "default", "url": agenttest.New(t, script).URL, "rate_limit": "unlimited"},
			201)["id"].(string))
	}
	slices.Sort(agents)
	for n, agent := range agents {
		_, agents[n], _ = strings.Cut(agent, "|")
	}
	id = s.create(t, "", map[string]string{"agents": strings.Join(agents, ","), "runs_per_item": "4", "max_retries": "0",
		"file@q.csv": "question_id,question,standard_answer\nq1,一,a\nq2,二,b\nq3,三,c\n"})
	s.awaitDone(t, id)
	return id
}

// shownNumber matches the last number of a text.
var shownNumber = regexp.MustCompile(`(\d+)\D*$`)

// Every number in a comparison links to exactly as many questions: the parts, the four fields, the heads of groups,
// and the counts of a column's values.
func TestNumbersOfAComparisonLeadToWhatTheyCount(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	a, b := s.sliced(t), s.sliced(t)
	page := s.get(t, "/comparison?by=category&a="+a+"&b="+b).page(t)
	for selector, least := range map[string]int{".compared-bar .segments a": 2, ".fields td a": 4, ".group-head a": 1,
		"#slices td a": 3} {
		links := page.Find(selector)
		require.GreaterOrEqual(t, links.Length(), least, selector)
		links.Each(func(_ int, link *goquery.Selection) {
			shown := link
			if number := link.Find("b"); number.Length() > 0 {
				shown = number
			}
			if strings.ContainsAny(shown.Text(), "%.") || strings.Contains(shown.Text(), "ms") {
				return // a difference
			}
			what := selector + " " + shown.Text()
			count, err := strconv.Atoi(shownNumber.FindStringSubmatch(shown.Text())[1])
			require.NoError(t, err, what)
			target := s.get(t, link.AttrOr("href", ""))
			require.Equal(t, http.StatusOK, target.StatusCode, what)
			require.Equal(t, count, target.page(t).Find("article").Length(), what)
		})
	}
}

// runsOf counts the runs that match an address of the page of answers.
func (s *site) runsOf(t *testing.T, id string, query url.Values) (count int) {
	t.Helper()
	asked := url.Values{}
	for _, name := range []string{"error_code", "min_latency_ms", "max_latency_ms", "variant"} {
		if value := query.Get(name); value != "" {
			asked.Set(name, value)
		}
	}
	number := func(name string, otherwise int) int {
		if value, err := strconv.Atoi(query.Get(name)); err == nil {
			return value
		}
		return otherwise
	}
	for _, item := range s.entry(t, "GET", "evaluation-tasks/"+id+"/results?page_size=100&"+asked.Encode(), nil,
		200)["items"].([]any) {
		for _, one := range item.(object)["runs"].([]any) {
			run := one.(object)
			code, _ := run["error_code"].(string)
			latency, _ := run["latency_ms"].(float64)
			switch {
			case query.Has("variant") && run["variant"] != nil && int(run["variant"].(float64)) != number("variant", 0),
				query.Get("error_code") != "" && code != query.Get("error_code"),
				query.Get("filter") == "failed" && run["status"] == "SUCCEEDED",
				query.Has("min_latency_ms") && (run["status"] != "SUCCEEDED" || int(latency) < number("min_latency_ms", 0) ||
					int(latency) > number("max_latency_ms", 1<<30)):
			default:
				count++
			}
		}
	}
	return count
}

// The page of answers can be limited to answers that a judge could not rate, to questions that more runs may change,
// and to questions without a value in a column.
func TestAnswersAreNarrowedByWhatIsMissing(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	id := s.create(t, agenttest.New(t, unsteady()).URL, map[string]string{
		"file@q.csv": "question,standard_answer,category\nq1,a,law\nq2,b,\nq3,c,\n",
	})
	s.awaitDone(t, id)
	path := "/tasks/" + id
	blank := s.get(t, path+"/report?by=category").page(t).Find("#slices tbody a[href$='category=+']")
	require.NotZero(t, blank.Length())
	page := s.get(t, blank.First().AttrOr("href", "")).page(t)
	require.Equal(t, 2, page.Find("article.result").Length())
	require.Equal(t, 1, page.Find("[name='column.category'] option[value=' '][selected]").Length())
	require.Len(t, s.entry(t, "GET", "evaluation-tasks/"+id+"/results?column.category=%20", nil, 200)["items"], 2)
	unsettled := s.get(t, path+"/results?filter=unsettled").page(t)
	require.Contains(t, unsettled.Find("[name=filter] [selected]").Text(),
		strconv.Itoa(unsettled.Find("article.result").Length()))
	require.Equal(t, http.StatusSeeOther, s.get(t, path+"/results?filter=unrated").StatusCode, "there is no judge")
	require.Zero(t, s.get(t, path+"/results?filter=missing").page(t).Find("article.result").Length())
	s.tables.MustExec(`DELETE FROM evaluation_runs WHERE id = (SELECT min(id) FROM evaluation_runs WHERE task_id = $1)`, id)
	require.Equal(t, 1, s.get(t, path+"/results?filter=missing").page(t).Find("article.result").Length())
}
