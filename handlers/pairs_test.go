package handlers_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/xuri/excelize/v2"

	"wending/jobs/agent/agenttest"
)

// pairedTask creates a task with three questions that two variants answer differently, and waits for its end.
func (s *site) pairedTask(t *testing.T) string {
	t.Helper()
	var agents []string
	for _, answer := range []string{"应当在 14 日内付款。", "一个月之内付清即可。"} {
		fake := agenttest.New(t, func(w http.ResponseWriter, _ agenttest.Call) { agenttest.Stream(w, answer) })
		agents = append(agents, s.entry(t, "POST", "agents",
			object{"name": answer, "protocol": "default", "url": fake.URL, "rate_limit": "unlimited"}, 201)["id"].(string))
	}
	id := s.create(t, "", map[string]string{"agents": strings.Join(agents, ","), "runs_per_item": "2",
		"file@q.csv": "question_id,question,standard_answer\nq1,一,a\nq2,二,b\nq3,三,c\n"})
	s.awaitDone(t, id)
	return id
}

// compare gives a verdict on a pair as 李雷.
func (s *site) compare(t testing.TB, at, verdict, version string) response {
	t.Helper()
	return s.post(t, at, map[string]string{"reviewer": "李雷", "verdict": verdict, "version": version})
}

// Two variants' answers are shown without names, in a stable order; verdicts lead to the next pair, and the result
// appears when all pairs are compared.
func TestPairsAreComparedOnPages(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	id := s.pairedTask(t)
	hub := "/tasks/" + id + "/pairs"
	require.Equal(t, 1, s.get(t, "/tasks/"+id+"/variants").page(t).Find(`a[href="`+hub+`"]`).Length())
	require.Equal(t, 1, s.get(t, "/tasks/"+id+"/review").page(t).Find(`a[href="`+hub+`"]`).Length())
	require.Contains(t, s.get(t, hub+"?a=1&b=1").Header.Get("Location"), "left_out=b")
	require.Contains(t, s.get(t, hub+"?a=1&b=9").Header.Get("Location"), "left_out=b")

	drawn := s.post(t, hub, map[string]string{"a": "2", "b": "1"})
	require.Equal(t, http.StatusSeeOther, drawn.StatusCode)
	next := drawn.Header.Get("Location")
	all := 0
	for ; ; all++ {
		at := s.as(t, "李雷", next).Header.Get("Location")
		if !strings.Contains(at, "/pairs/") {
			break
		}
		answer := s.as(t, "李雷", at)
		page := answer.page(t)
		require.Equal(t, 2, page.Find(".blind-side").Length())
		require.Zero(t, page.Find(".blind-side .quiet").Length(), "no names")
		require.Equal(t, page.Find(".blind-sides").Text(), s.as(t, "李雷", at).page(t).Find(".blind-sides").Text())
		require.NotEmpty(t, page.Find(".blind-text").First().Text())
		if all == 0 {
			refused := s.compare(t, at, "C", "0")
			require.Equal(t, http.StatusUnprocessableEntity, refused.StatusCode)
			require.NotEmpty(t, refused.page(t).Find(".judging-bar .error").Text())
			require.Equal(t, http.StatusConflict, s.compare(t, at, "A", "3").StatusCode)
			require.Zero(t, s.as(t, "李雷", hub).page(t).Find(".pairs-result").Length())
		}
		given := s.compare(t, at, "A", "0")
		require.Equal(t, http.StatusSeeOther, given.StatusCode)
		next = given.Header.Get("Location")
		again := s.as(t, "李雷", at).page(t)
		require.Equal(t, "A", again.Find(`.verdict-button[aria-pressed="true"]`).AttrOr("value", ""))
		require.Equal(t, "1", again.Find("[name=version]").AttrOr("value", ""))
	}
	require.Equal(t, 3, all)

	first := s.as(t, "李雷", hub+"?a=1&b=2").page(t).Find(".pairs-result .links a").First().AttrOr("href", "")
	require.Equal(t, 1, s.as(t, "李雷", first).page(t).Find("[name=withdraw]").Length())
	undo := map[string]string{"reviewer": "李雷", "withdraw": "true", "version": "7"}
	require.Equal(t, http.StatusConflict, s.post(t, first, undo).StatusCode)
	undo["version"] = "1"
	undone := s.post(t, first, undo)
	require.Equal(t, http.StatusSeeOther, undone.StatusCode)
	require.Equal(t, first, undone.Header.Get("Location"))
	reopened := s.as(t, "李雷", first).page(t)
	require.Zero(t, reopened.Find(`[name=withdraw], .verdict-button[aria-pressed="true"], .blind-side .quiet`).Length())
	require.Zero(t, s.as(t, "李雷", hub).page(t).Find(".pairs-result").Length(), "a pair is open again")
	version := reopened.Find("[name=version]").AttrOr("value", "")
	require.Equal(t, "1", version, "the version still counts")
	require.Equal(t, http.StatusSeeOther, s.compare(t, first, "A", version).StatusCode)

	result := s.as(t, "李雷", hub+"?a=1&b=2").page(t)
	require.Equal(t, 3, result.Find(".pairs-result tbody tr").Length())
	require.Contains(t, result.Find(".pairs-result").Parent().Parent().Text(), "偏好")
	at, has := result.Find(".pairs-result .links a").First().Attr("href")
	require.True(t, has)
	require.Equal(t, 2, s.as(t, "李雷", at).page(t).Find(".blind-side h2 .quiet").Length(), "named in the end")
	parsed, err := url.Parse(at)
	require.NoError(t, err)
	require.Equal(t, http.StatusNotFound, s.get(t, parsed.Path+"0?a=1&b=2").StatusCode)
}

// The API draws pairs, lists them with the verdicts, stores and withdraws verdicts, and sums them up in the statistics.
func TestPairsAreComparedByTheAPI(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	id := s.pairedTask(t)
	pairs := "evaluation-tasks/" + id + "/pairs"
	read := func() (open, done int, items []any) {
		got := s.entry(t, "GET", pairs+"?a=2&b=1", nil, 200)
		require.InDelta(t, 1, got["a"], 0, "the lower number comes first")
		return int(got["open"].(float64)), int(got["done"].(float64)), got["items"].([]any)
	}
	_, _, none := read()
	require.Empty(t, none)
	require.Empty(t, s.entry(t, "GET", "evaluation-tasks/"+id+"/statistics", nil, 200)["preferences"])
	s.entry(t, "POST", pairs, object{"a": 1, "b": 1}, 422)
	s.entry(t, "POST", pairs, object{"a": 1, "b": 3}, 422)
	require.Len(t, s.entry(t, "POST", pairs, object{"a": 1, "b": 2}, 200)["items"], 3)
	open, done, drawn := read()
	require.Equal(t, []int{3, 0}, []int{open, done})

	pair := "evaluation-tasks/" + id + "/items/q1/pair"
	said := object{"reviewer": "李雷", "verdict": "B", "a": 1, "b": 2}
	s.entry(t, "PUT", pair, object{"reviewer": "李雷", "verdict": "C"}, 422)
	s.entry(t, "PUT", pair, object{"reviewer": " ", "verdict": "A"}, 422)
	s.entry(t, "PUT", "evaluation-tasks/"+id+"/items/q9/pair", said, 404)
	stored := s.entry(t, "PUT", pair, said, 200)
	require.Equal(t, "B", stored["verdict"], "of the variants, regardless of the order shown: %v", drawn[0])
	conflict := s.entry(t, "PUT", pair, said, 409)
	require.Equal(t, "REVIEW_CONFLICT", conflict["code"])
	require.Equal(t, "B", conflict["current"].(object)["verdict"])
	said["version"] = 1
	require.InDelta(t, 2, s.entry(t, "PUT", pair, said, 200)["version"], 0)
	s.entry(t, "PUT", "evaluation-tasks/"+id+"/items/q2/pair", object{"reviewer": "韩梅", "verdict": "SAME"}, 200)
	open, done, items := read()
	require.Equal(t, []int{1, 2}, []int{open, done})
	require.Equal(t, "李雷", items[0].(object)["verdicts"].([]any)[0].(object)["reviewer"])

	standing := s.entry(t, "GET", "evaluation-tasks/"+id+"/statistics", nil, 200)["preferences"].([]any)[0].(object)
	preferred := standing["preferred"].(object)
	require.Equal(t, []any{0.0, 1.0, 1.0, 2.0, 0.0},
		[]any{preferred["a"], preferred["b"], preferred["ties"], preferred["verdicts"], preferred["share"]})

	s.entry(t, "DELETE", pair+"?reviewer=李雷&version=1", nil, 409)
	s.entry(t, "DELETE", pair+"?reviewer=李雷&version=2", nil, 204)
	s.entry(t, "DELETE", pair+"?reviewer=李雷&version=2", nil, 404)
	open, done, _ = read()
	require.Equal(t, []int{2, 1}, []int{open, done})
	said = object{"reviewer": "李雷", "verdict": "A", "version": 2}
	require.InDelta(t, 3, s.entry(t, "PUT", pair, said, 200)["version"], 0)

	// Exports contain the verdicts.
	export := libraryAPI + "evaluation-tasks/" + id + "/export?format="
	book, err := excelize.OpenReader(bytes.NewReader(s.get(t, export+"xlsx").body))
	require.NoError(t, err)
	defer book.Close()
	rows, err := book.GetRows("盲评")
	require.NoError(t, err)
	require.Len(t, rows, 3)
	require.Equal(t, []string{"李雷", "A", "false"}, rows[1][9:12])
	require.Equal(t, []string{"2", "q2", "1"}, rows[2][:3])
	require.Equal(t, []string{"韩梅", "SAME", "false"}, rows[2][9:12])
	lines := strings.Split(strings.TrimSpace(string(s.get(t, export+"jsonl").body)), "\n")
	require.Len(t, lines, 3)
	require.Contains(t, lines[0], `"pairs":[{"variant_a":1,"variant_b":2,"run_a":`)
	require.Contains(t, lines[0], `"verdicts":[{"reviewer":"李雷","verdict":"A","version":3,"is_outdated":false,`)
	require.NotContains(t, lines[2], `"pairs"`)
}

// An archive carries the pairs and the verdicts on them, checks every value when it is read, and a copy of a task
// begins without them.
func TestPairsTravelInArchives(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	id := s.pairedTask(t)
	task := "evaluation-tasks/" + id
	s.entry(t, "POST", task+"/pairs", object{"a": 1, "b": 2}, 200)
	s.entry(t, "PUT", task+"/items/q1/pair", object{"reviewer": "李雷", "verdict": "B"}, 200)
	s.entry(t, "PUT", task+"/items/q1/pair", object{"reviewer": "韩梅", "verdict": "SAME"}, 200)
	s.entry(t, "PUT", task+"/items/q2/pair", object{"reviewer": "李雷", "verdict": "A"}, 200)
	s.entry(t, "DELETE", task+"/items/q2/pair?reviewer=李雷&version=1", nil, 204)
	parts := s.partsOf(t, id)
	maps.DeleteFunc(parts, func(name, _ string) bool { return strings.HasPrefix(name, "report.") })
	require.Equal(t, 3, strings.Count(parts["pairs.jsonl"], "\n"))
	require.Equal(t, 2, strings.Count(parts["pairs.jsonl"], `"reviewer"`), "withdrawn verdicts stay behind")

	imported := s.importArchive(t, packed(t, parts))
	require.Equal(t, http.StatusCreated, imported.StatusCode, "%s", imported.body)
	created := object{}
	imported.into(t, &created)
	other := "evaluation-tasks/" + created["task_id"].(string)
	require.Equal(t, timeless(parts["pairs.jsonl"]), timeless(s.partsOf(t, created["task_id"].(string))["pairs.jsonl"]))
	require.Equal(t, s.entry(t, "GET", task+"/statistics", nil, 200)["preferences"],
		s.entry(t, "GET", other+"/statistics", nil, 200)["preferences"])

	compact := &bytes.Buffer{}
	first, rest, _ := strings.Cut(parts["pairs.jsonl"], "\n")
	require.NoError(t, json.Compact(compact, []byte(first)))
	for _, change := range [][2]string{
		{`"q1"`, `"q9"`}, {`"variant_a":1`, `"variant_a":0`}, {`"variant_a":1`, `"variant_a":2`},
		{`"variant_b":2`, `"variant_b":3`}, {`"run_a":`, `"run_a":7`}, {`"run_b":`, `"run_b":-`}, {`"李雷"`, `" "`},
		{`"李雷"`, `"韩梅"`}, {`"李雷"`, `"` + strings.Repeat("长", 300) + `"`}, {`"SAME"`, `"C"`}, {`"version":1`, `"version":0`},
		{`"created_at":`, `"created_at":null,"made":`}, {`"is_swapped"`, `"swapped"`}, {`"verdicts":[`, `"verdicts":[7,`},
		{`}]}`, `}]}` + "\n" + compact.String()},
	} {
		wrong := strings.Replace(compact.String(), change[0], change[1], 1)
		require.NotEqual(t, compact.String(), wrong, change)
		changed := maps.Clone(parts)
		changed["pairs.jsonl"] = wrong + "\n" + rest
		refused := s.importArchive(t, packed(t, changed))
		require.Equal(t, http.StatusUnprocessableEntity, refused.StatusCode, "%v: %s", change, refused.body)
		require.Contains(t, string(refused.body), "pairs.jsonl", change)
	}
	copied := s.entry(t, "POST", task+"/clone", object{}, 201)["task_id"].(string)
	require.Empty(t, s.entry(t, "GET", "evaluation-tasks/"+copied+"/pairs", nil, 200)["items"])
}
