package handlers_test

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/csv"
	"encoding/json"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/PuerkitoBio/goquery"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/xuri/excelize/v2"

	"wending/db/dbtest"
	"wending/jobs/agent/agenttest"
	"wending/jobs/tasks"
)

// namedCount matches a level's name with its number of questions.
var namedCount = regexp.MustCompile(`(逐字相同|仅格式不同|关键信息不同|少量不同|明显不同|空|无法判断)\s*(\d+)`)

// countsIn reads the levels that a text names.
func countsIn(t *testing.T, text string) map[string]int {
	t.Helper()
	counts := map[string]int{}
	for _, found := range namedCount.FindAllStringSubmatch(text, -1) {
		count, err := strconv.Atoi(found[2])
		require.NoError(t, err)
		if count > 0 {
			counts[found[1]] = count
		}
	}
	return counts
}

var levelWords = map[string]string{
	"identical": "逐字相同", "format_only": "仅格式不同", "facts": "关键信息不同", "wording": "少量不同", "different": "明显不同", "empty": "空",
	"unknown": "无法判断",
}

// inWords returns an object's counts of levels, keyed by the names shown on pages.
func inWords(levels any) map[string]int {
	counts := map[string]int{}
	for level, count := range levels.(object) {
		if number := int(count.(float64)); number > 0 {
			counts[levelWords[level]] = number
		}
	}
	return counts
}

// The words and counts for a task are the same everywhere: list, overview, report, statistics, results, files and
// messages. Failures are counted separately, and also the same everywhere.
func TestATaskHasOneSetOfCounts(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	hook := newReceiver(t, always(200))
	s.channel(t, "hook", hook.URL, object{"events": []string{"finished"}, "is_default": true})
	program := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"errcode":0}`))
	}))
	card := s.entry(t, "POST", "channels", object{"name": "card", "kind": "wecom", "url": program,
		"events": []string{"finished"}, "is_default": true}, 201)["id"].(string)
	id := s.sliced(t)
	path := "/tasks/" + id
	want := map[string]int{"逐字相同": 3, "关键信息不同": 2, "无法判断": 1}
	require.Equal(t, want, inWords(s.entry(t, "GET", "evaluation-tasks/"+id, nil, 200)["statistics"].(object)["levels"]),
		"the statistics")

	found := map[string]map[string]int{}
	variant := s.entry(t, "GET", "evaluation-tasks/"+id+"/statistics", nil, 200)["variants"].([]any)[0].(object)
	found["statistics of variants"] = inWords(variant["levels"])
	ofItems := map[string]int{}
	for _, one := range s.entry(t, "GET", "evaluation-tasks/"+id+"/results", nil, 200)["items"].([]any) {
		ofItems[levelWords[one.(object)["level"].(string)]]++
	}
	found["results"] = ofItems
	list, overview, report := s.get(t, "/tasks").page(t), s.get(t, path).page(t), s.get(t, path+"/report").page(t)
	found["list"] = countsIn(t, list.Find("#task-"+id+" svg.levels").AttrOr("aria-label", ""))
	found["overview"] = countsIn(t, overview.Find(".level-counts").Text())
	found["bar of the overview"] = countsIn(t, overview.Find("svg.levels").AttrOr("aria-label", ""))
	found["report"] = countsIn(t, report.Find(".decision .sentences li").First().Text())
	found["print"] = countsIn(t, s.get(t, path+"/results/print").page(t).Find(".decision .sentences li").First().Text())

	lines := map[string]int{}
	failedRuns := map[string]int{}
	for line := range bytes.Lines(s.get(t, api+"/"+id+"/export?format=jsonl").body) {
		var item struct {
			Level string
			Runs  []struct{ Status string }
		}
		require.NoError(t, json.Unmarshal(line, &item))
		lines[levelWords[item.Level]]++
		for _, run := range item.Runs {
			if run.Status != "SUCCEEDED" {
				failedRuns["JSONL"]++
			}
		}
	}
	found["JSONL"] = lines
	book, err := excelize.OpenReader(bytes.NewReader(s.get(t, api+"/"+id+"/export?format=xlsx").body))
	require.NoError(t, err)
	rows, err := book.GetRows("稳定性")
	require.NoError(t, err)
	sheet := map[string]int{}
	for _, row := range rows[1:] {
		for _, cell := range row {
			if word := levelWords[cell]; word != "" {
				sheet[word]++
			}
		}
	}
	found["XLSX"] = sheet
	information, err := book.GetRows("任务信息")
	require.NoError(t, err)
	for _, row := range information {
		if counts := countsIn(t, strings.Join(row, " ")); len(counts) > 0 {
			found["XLSX's information"] = counts
		}
	}
	require.Contains(t, found, "XLSX's information")
	message := hook.of(t, "task.finished")
	dbtest.Await(t, 20*time.Second, "the messages", func() bool {
		message = hook.of(t, "task.finished")
		return len(message) > 0
	})
	found["webhook"] = inWords(message[0]["stats"].(object)["levels"])
	var chat string
	dbtest.Await(t, 20*time.Second, "the chat's message", func() bool {
		return s.tables.Get(&chat, `SELECT convert_from(body, 'UTF8') FROM deliveries WHERE channel_id = $1`, card) == nil
	})
	found["chat"] = countsIn(t, chat)
	for where, counts := range found {
		require.Equal(t, want, counts, where)
	}

	// The numbers in the chat link to exactly as many questions as they claim.
	leading := regexp.MustCompile(`\[(\S+) (\d+) 题\]\(https://wending\.example([^)]+)\)`).FindAllStringSubmatch(chat, -1)
	require.Len(t, leading, len(want))
	for _, link := range leading {
		require.Equal(t, link[2], strconv.Itoa(s.get(t, link[3]).page(t).Find("article.result").Length()), link[0])
	}

	table, err := csv.NewReader(bytes.NewReader(bytes.TrimPrefix(s.get(t, api+"/"+id+"/export?format=csv").body,
		[]byte("\uFEFF")))).ReadAll()
	require.NoError(t, err)
	for n, title := range table[0] {
		for _, row := range table[1:] {
			if strings.HasSuffix(title, "_status") && row[n] != "SUCCEEDED" {
				failedRuns["CSV"]++
			}
		}
	}
	failedRuns["statistics"] = int(variant["failed"].(float64) + variant["timed_out"].(float64))
	failedRuns["webhook"] = int(message[0]["stats"].(object)["failed"].(float64) +
		message[0]["stats"].(object)["timed_out"].(float64))
	for where, text := range map[string]*goquery.Selection{
		"list": list.Find("#task-" + id + " .failures"), "overview": overview.Find("#live .tiles a[href*='filter=failed']"),
		"report": report.Find(".decision .sentences li").Eq(1),
	} {
		numbers := regexp.MustCompile(`\d+`).FindAllString(text.Text(), -1)
		require.NotEmpty(t, numbers, where)
		if where == "report" { // its first number is the number of all runs
			require.Equal(t, "24", numbers[0])
			numbers = numbers[1:]
		}
		count, err := strconv.Atoi(numbers[0])
		require.NoError(t, err, where)
		failedRuns[where] = count
	}
	require.ElementsMatch(t, []string{"JSONL", "CSV", "statistics", "webhook", "list", "overview", "report"},
		slices.Collect(maps.Keys(failedRuns)))
	for where, count := range failedRuns {
		require.Equal(t, 4, count, where)
	}
	require.Contains(t, overview.Find("#board-keys a[href*='filter=failed']").Text(), "1", "one question has failures")
	require.Equal(t, "1 题", report.Find(".decision a[href*='filter=failed']").Last().Text())
}

// People's verdicts and the questions whose facts differ also have the same counts everywhere.
func TestATaskHasOneSetOfVerdictsAndFacts(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	id := s.sliced(t)
	path := "/tasks/" + id
	for question, verdict := range map[string]string{"q1": "FAIL", "q2": "FAIL", "q3": "PASS", "q4": "UNSURE"} {
		s.entry(t, "PUT", "evaluation-tasks/"+id+"/items/"+question+"/review",
			object{"reviewer": "李雷", "verdict": verdict, "version": 0}, 200)
	}
	number := func(of *goquery.Selection) int {
		t.Helper()
		count, err := strconv.Atoi(regexp.MustCompile(`\d+`).FindString(of.Text()))
		require.NoError(t, err, of.Text())
		return count
	}
	verdicts, facts := map[string]map[string]int{}, map[string]int{}
	for where, links := range map[string]*goquery.Selection{
		"overview": s.get(t, path).page(t).Find("#details b a"), "review": s.get(t, path+"/review").page(t).Find(".tiles a"),
		"report": s.get(t, path+"/report").page(t).Find(".decision .sentences a"),
	} {
		verdicts[where] = map[string]int{}
		for _, verdict := range []string{"FAIL", "PASS", "UNSURE", "open"} {
			link := links.FilterFunction(func(_ int, link *goquery.Selection) bool {
				return strings.HasSuffix(link.AttrOr("href", ""), "review="+verdict)
			})
			require.Equal(t, 1, link.Length(), "%s: %s", where, verdict)
			verdicts[where][verdict] = number(link)
		}
	}
	list := s.get(t, "/tasks?columns=verdicts,facts").page(t).Find("#task-" + id)
	require.Equal(t, "4/6", list.Find("td.col-verdicts a").First().Text())
	require.Equal(t, 2, number(list.Find("td.col-verdicts a.failures")), "those that failed")
	answers := s.get(t, path+"/results").page(t)
	require.Contains(t, answers.Find(".counts a[href$='/review']").Text(), "4 / 6")
	require.Equal(t, "已评 4/6", answers.Find("[data-reviewed]").Text())

	inFile := map[string]int{"open": 6}
	for line := range bytes.Lines(s.get(t, api+"/"+id+"/export?format=jsonl").body) {
		var item struct {
			FactsDiffer string `json:"facts_differ"`
			Reviews     []struct{ Verdict string }
		}
		require.NoError(t, json.Unmarshal(line, &item))
		for _, one := range item.Reviews {
			inFile[one.Verdict]++
			inFile["open"]--
		}
		if item.FactsDiffer == "conflict" {
			facts["JSONL"]++
		}
	}
	verdicts["JSONL"] = inFile
	book, err := excelize.OpenReader(bytes.NewReader(s.get(t, api+"/"+id+"/export?format=xlsx").body))
	require.NoError(t, err)
	sheet := map[string]int{"open": 6}
	rows, err := book.GetRows("评审")
	require.NoError(t, err)
	for _, row := range rows[1:] {
		for _, cell := range row {
			if cell == "FAIL" || cell == "PASS" || cell == "UNSURE" {
				sheet[cell]++
				sheet["open"]--
			}
		}
	}
	verdicts["XLSX"] = sheet
	for where, counts := range verdicts {
		require.Equal(t, map[string]int{"FAIL": 2, "PASS": 1, "UNSURE": 1, "open": 2}, counts, where)
	}

	statistics := s.entry(t, "GET", "evaluation-tasks/"+id, nil, 200)["statistics"].(object)
	facts["statistics"] = int(statistics["facts_differ"].(object)["conflict"].(float64))
	facts["list"] = number(list.Find("td.col-facts a"))
	facts["overview"] = number(s.get(t, path).page(t).Find(".level-counts a[href$='filter=facts']"))
	report := s.get(t, path+"/report").page(t)
	facts["report"] = number(report.Find(".decision .sentences a[href$='filter=facts']"))
	facts["questions of the report"] = report.Find(".differing li").Length()
	rows, err = book.GetRows("稳定性")
	require.NoError(t, err)
	at := slices.Index(rows[0], "关键信息差异")
	require.GreaterOrEqual(t, at, 0)
	for _, row := range rows[1:] {
		if len(row) > at && row[at] != "" {
			facts["XLSX"]++
		}
	}
	for where, count := range facts {
		require.Equal(t, 2, count, where)
	}
}

// A question of several variants has the riskiest level of any of them, however much the others' answers differ: pages,
// the review and the API count the same questions.
func TestAConflictOfOneVariantIsNotHiddenByAnother(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	var agents []string
	for name, script := range map[string]func(run byte) string{
		"never alike": func(run byte) string { return strings.Repeat(string(rune('甲'+int(run)*97)), 30) },
		"contradicts": func(run byte) string {
			return map[bool]string{true: "应当在 14 日内付款。", false: "应当在 19 日内付款。"}[run < '4']
		},
	} {
		fake := agenttest.New(t, func(w http.ResponseWriter, call agenttest.Call) {
			agenttest.Stream(w, script(call.IdempotencyKey[len(call.IdempotencyKey)-1]))
		})
		agents = append(agents, s.entry(t, "POST", "agents",
			object{"name": name, "protocol": "default", "url": fake.URL, "rate_limit": "unlimited"}, 201)["id"].(string))
	}
	id := s.create(t, "", map[string]string{"agents": strings.Join(agents, ","), "runs_per_item": "4",
		"file@q.csv": "question_id,question,standard_answer\nq1,何时付款？,\n"})
	s.awaitDone(t, id)
	found := s.entry(t, "GET", "evaluation-tasks/"+id+"/results?level=facts", nil, 200)
	require.EqualValues(t, 1, found["pagination"].(object)["total"])
	for path, selector := range map[string]string{
		"/results":  ".counts a[href$='filter=facts']",
		"/report":   ".decision .sentences a[href$='filter=facts']",
		"/review/1": ".stage[aria-current] b",
	} {
		require.Contains(t, s.get(t, "/tasks/"+id+path).page(t).Find(selector).Text(), "1", path)
	}
	require.Contains(t, s.get(t, "/tasks/"+id+"/review/1").page(t).Find(".stage[aria-current]").Text(), "关键信息不同")
}

// maxFirstVisit is the maximum number of bytes that the first visit to a page may transfer, scripts and styles
// included.
const maxFirstVisit = 110_000

// The first visit to any page of a task with 1,000 questions transfers little data.
func TestAFirstVisitIsSmallAtAThousandQuestions(t *testing.T) {
	t.Parallel()
	s := newSite(t, false)
	dbtest.Seed(t, s.tables, 19, 4, 5)
	id := dbtest.Seed(t, s.tables, 1, 1000, 5)
	require.NoError(t, tasks.AssessTask(t.Context(), s.store, id))
	sizes := map[string]int{} // of the files that pages load, by address
	wire := func(path string) response {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+path, http.NoBody)
		require.NoError(t, err)
		request.Header.Set("Accept-Encoding", "gzip")
		answer := s.do(t, request)
		require.Equal(t, http.StatusOK, answer.StatusCode, path)
		return answer
	}
	task := "/tasks/" + id.String()
	for _, path := range []string{
		"/", "/tasks", task, task + "/results", task + "/review", task + "/review/1", task + "/report", task + "/gallery",
		task + "/settings", task + "/review/same",
		"/comparison?a=" + id.String() + "&b=" + id.String(), "/compare", "/library/datasets",
	} {
		packed := wire(path)
		require.Equal(t, "gzip", packed.Header.Get("Content-Encoding"), path)
		unpacked, err := gzip.NewReader(bytes.NewReader(packed.body))
		require.NoError(t, err)
		page, err := goquery.NewDocumentFromReader(unpacked)
		require.NoError(t, err)
		total := len(packed.body)
		page.Find("link[rel=stylesheet], script[src], link[rel=preload]").Each(func(_ int, file *goquery.Selection) {
			address := cmp.Or(file.AttrOr("href", ""), file.AttrOr("src", ""))
			if sizes[address] == 0 {
				sizes[address] = len(wire(address).body)
			}
			total += sizes[address]
		})
		t.Logf("%7d bytes, of which the page %7d: %s", total, len(packed.body), strings.ReplaceAll(path, id.String(), "ID"))
		assert.Less(t, total, maxFirstVisit, path)
	}
}
