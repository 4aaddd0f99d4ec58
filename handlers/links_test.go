package handlers_test

import (
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/PuerkitoBio/goquery"
	"github.com/stretchr/testify/require"
)

// counted matches a number with its unit: questions (题) or runs (次).
var counted = regexp.MustCompile(`^(?:.*\D)?(\d+)(?: (题|次).*)?$`)

// Every number that leads to answers leads to as many as it says: the questions that the page of answers then has or, of
// numbers of runs, the runs of those questions that meet what the address asks for.
func TestNumbersLeadToWhatTheyCount(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	id := s.sliced(t)
	path := "/tasks/" + id
	for question, verdict := range map[string]string{"q1": "FAIL", "q3": "PASS", "q4": "UNSURE"} {
		s.entry(t, "PUT", "evaluation-tasks/"+id+"/items/"+question+"/review", object{"reviewer": "李雷", "verdict": verdict, "version": 0, "reasons": []string{"number"}}, 200)
	}
	seen := map[string]int{}
	for name, at := range map[string]string{"list": "/tasks", "overview": path, "answers": path + "/results", "review": path + "/review", "report": path + "/report?by=category"} {
		s.get(t, at).page(t).Find("main a[href*='/results?']").Each(func(_ int, link *goquery.Selection) {
			address, err := url.Parse(link.AttrOr("href", ""))
			require.NoError(t, err)
			query := address.Query()
			if !strings.HasSuffix(address.Path, "/results") || link.Closest(".report-bar, .pager").Length() > 0 {
				return
			}
			shown := strings.Join(strings.Fields(link.Text()), " ")
			if link.AttrOr("tabindex", "") == "-1" { // a bar of latencies
				shown = strings.Join(strings.Fields(link.Find("title").Text()), " ")
			}
			match := counted.FindStringSubmatch(shown)
			if match == nil || query.Get("error_code") != "" && match[1] != shown || // HTTP 502 is a name
				strings.Contains(shown, "%") || strings.Contains(shown, "ms") && query.Get("min_latency_ms") == "" {
				return
			}
			number, err := strconv.Atoi(match[1])
			require.NoError(t, err)
			what := name + ": " + shown + " → " + address.RequestURI()
			isOfRuns := match[2] == "次" || match[2] == "" && (query.Get("error_code") != "" || query.Get("min_latency_ms") != "")
			if query.Get("sort") != "" && query.Get("min_latency_ms") == "" || match[2] == "次" && query.Get("filter") == "" && query.Get("min_latency_ms") == "" {
				return // the number describes all runs
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
	require.GreaterOrEqual(t, seen["list"], 1, seen)
	require.GreaterOrEqual(t, seen["overview"], 6, seen)
	require.GreaterOrEqual(t, seen["answers"], 2, seen)
	require.GreaterOrEqual(t, seen["review"], 4, seen)
	require.GreaterOrEqual(t, seen["report"], 12, seen)
}

// runsOf counts the runs that an address of the page of answers asks for.
func (s *site) runsOf(t *testing.T, id string, query url.Values) (count int) {
	t.Helper()
	asked := url.Values{}
	for _, name := range []string{"error_code", "min_latency_ms", "max_latency_ms"} {
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
	for _, item := range s.entry(t, "GET", "evaluation-tasks/"+id+"/results?page_size=100&"+asked.Encode(), nil, 200)["items"].([]any) {
		for _, one := range item.(object)["runs"].([]any) {
			run := one.(object)
			code, _ := run["error_code"].(string)
			latency, _ := run["latency_ms"].(float64)
			switch {
			case query.Get("error_code") != "" && code != query.Get("error_code"),
				query.Get("filter") == "failed" && run["status"] == "SUCCEEDED",
				query.Has("min_latency_ms") && (run["status"] != "SUCCEEDED" || int(latency) < number("min_latency_ms", 0) || int(latency) > number("max_latency_ms", 1<<30)):
			default:
				count++
			}
		}
	}
	return count
}
