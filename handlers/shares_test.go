package handlers_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/PuerkitoBio/goquery"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"wending/db/dbtest"
	"wending/jobs/agent/agenttest"
)

// drawn creates a task whose first question has a picture and a preview, and whose second one has another picture.
func (s *site) drawn(t *testing.T) (id string) {
	t.Helper()
	file := func(shade uint8) string { return base64.StdEncoding.EncodeToString(pngOf(t, 40, 30, shade)) }
	pictures := map[string]string{"画": file(70), "密": file(90)}
	fake := agenttest.New(t, func(w http.ResponseWriter, call agenttest.Call) {
		w.Header().Set("Content-Type", "text/event-stream")
		say(w, `{"event":"tool_started","data":{"tool":"draw","id":"t1","input":{"of":"`+call.Question+`"}}}`,
			`{"event":"task_progress","data":{"percent":50,"preview_url":"data:image/png;base64,`+file(11)+`"}}`,
			`{"event":"asset","data":{"type":"image","path":"图.png","url":"data:image/png;base64,`+
				pictures[call.Question]+`"}}`,
			`{"event":"node_finished","data":{"output":"<script>answer to `+call.Question+`"}}`)
	})
	id = s.create(t, fake.URL, map[string]string{"runs_per_item": "2", "agent_api_headers": `{"X-Key": "headersecret"}`,
		"file@q.csv": "question_id,question,standard_answer\na,画,标准甲\nb,密,标准乙\n"})
	s.awaitDone(t, id)
	s.awaitSettled(t, id)
	return id
}

// A link shows what it was created for and the files of the shown runs, until it expires or is withdrawn. It shows
// nothing of other questions, the agent or the settings.
func TestLinksShowWhatTheyAreForAndNothingElse(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	id := s.drawn(t)
	of := map[string][]produced{"a": s.assetsOf(t, id, "question_id=a"), "b": s.assetsOf(t, id, "question_id=b")}
	var unit int64
	require.NoError(t, s.tables.Get(&unit, `SELECT unit_id FROM evaluation_runs WHERE id = $1`, of["a"][1].RunID))
	var preview string
	require.NoError(t, s.tables.Get(&preview, `SELECT id FROM assets WHERE unit_id = $1 AND is_preview`, unit))
	share := func(more object) (path string, made object) {
		body := object{"task_id": id}
		for name, value := range more {
			body[name] = value
		}
		made = s.entry(t, "POST", "shares", body, 201)
		return strings.TrimPrefix(made["url"].(string), s.URL), made
	}
	for name, one := range map[string]struct {
		body           object
		shows, hides   []string
		files, refused []string
	}{
		"report": {object{}, []string{"answer to 画", "answer to 密", "标准甲"}, nil,
			[]string{of["a"][0].ID, of["b"][1].ID}, []string{preview}},
		"results": {object{"kind": "results"}, []string{"answer to 画", "answer to 密", "标准甲"}, []string{`class="synopsis"`},
			[]string{of["a"][0].ID, of["b"][1].ID}, []string{preview}},
		"question": {object{"kind": "replay", "question_id": "a"}, []string{"answer to 画", "draw", "第 1 次", "第 2 次"},
			[]string{"密", "标准"}, []string{of["a"][0].ID, of["a"][1].ID, preview}, []string{of["b"][0].ID}},
		"unit": {object{"kind": "replay", "unit_id": unit}, []string{"answer to 画", "draw"}, []string{"密", "标准"},
			[]string{of["a"][1].ID, preview}, []string{of["a"][0].ID, of["b"][0].ID}},
	} {
		path, made := share(one.body)
		page := s.get(t, path)
		require.Equal(t, http.StatusOK, page.StatusCode, name)
		for _, text := range one.shows {
			require.Contains(t, string(page.body), text, name)
		}
		for _, text := range append(one.hides, "headersecret", "127.0.0.1", "<script>answer", "/api/") {
			require.NotContains(t, string(page.body), text, name)
		}
		policy := page.Header.Get("Content-Security-Policy")
		require.Contains(t, policy, "default-src 'none'", name)
		require.Contains(t, policy, "img-src 'self'", name)
		require.Equal(t, "nosniff", page.Header.Get("X-Content-Type-Options"), name)
		require.Equal(t, "no-store", page.Header.Get("Cache-Control"), name)
		page.page(t).Find("img").Each(func(_ int, picture *goquery.Selection) {
			source, _ := picture.Attr("src")
			require.True(t, strings.HasPrefix(source, path+"/files/"), source)
			require.Equal(t, "image/jpeg", s.get(t, source).Header.Get("Content-Type"), name)
		})
		require.Positive(t, page.page(t).Find("img").Length(), name)
		page.page(t).Find("a").Each(func(_ int, link *goquery.Selection) {
			to, _ := link.Attr("href")
			require.True(t, strings.HasPrefix(to, path+"/files/") || strings.HasPrefix(to, "#"), "%s: %s", name, to)
		})
		for _, asset := range one.files {
			file := s.get(t, path+"/files/"+asset)
			require.Equal(t, http.StatusOK, file.StatusCode, name)
			require.Equal(t, "nosniff", file.Header.Get("X-Content-Type-Options"), name)
			require.Contains(t, file.Header.Get("Content-Security-Policy"), "sandbox", name)
		}
		for _, asset := range append(one.refused, uuid.NewString(), "x") {
			require.Equal(t, http.StatusNotFound, s.get(t, path+"/files/"+asset).StatusCode, "%s: %s", name, asset)
			require.Equal(t, http.StatusNotFound, s.get(t, path+"/files/"+asset+"/thumbnail").StatusCode, name)
		}
		require.Equal(t, http.StatusNotFound, s.get(t, "/shared/"+uuid.NewString()+"/files/"+one.files[0]).StatusCode)
		s.entry(t, "DELETE", fmt.Sprint("shares/", made["id"]), nil, 204)
		require.Equal(t, http.StatusNotFound, s.get(t, path).StatusCode, name)
		require.Equal(t, http.StatusNotFound, s.get(t, path+"/files/"+one.files[0]).StatusCode, name)
	}
	path, _ := share(object{"kind": "replay", "question_id": "a"})
	s.tables.MustExec(`UPDATE shares SET expires_at = now()`)
	require.Equal(t, http.StatusNotFound, s.get(t, path+"/files/"+of["a"][0].ID).StatusCode)
	list := s.entry(t, "GET", "shares?task_id="+id, nil, 200)["items"].([]any)
	require.Len(t, list, 5)
	require.Equal(t, []any{"replay", 1.0}, []any{list[0].(object)["kind"], list[0].(object)["number"]})
	require.Zero(t, s.reports.Load(), s.told.String())
}

// A link must have a known kind. A link to a replay must also name exactly one question or unit of the task, which must
// have runs.
func TestLinksNeedWhatTheyShow(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	id, other := s.drawn(t), s.drawn(t)
	var unit, foreign int64
	const first = `SELECT min(unit_id) FROM evaluation_runs WHERE task_id = $1`
	require.NoError(t, s.tables.Get(&unit, first, id))
	require.NoError(t, s.tables.Get(&foreign, first, other))
	for field, bodies := range map[string][]object{
		"kind":        {{"kind": "everything"}},
		"question_id": {{"kind": "replay"}, {"kind": "replay", "question_id": "c"}, {"kind": "report", "question_id": "a"}},
		"unit_id": {{"kind": "replay", "unit_id": foreign}, {"kind": "replay", "unit_id": -3},
			{"kind": "results", "unit_id": unit}, {"kind": "replay", "unit_id": unit, "question_id": "a"}},
	} {
		for _, body := range bodies {
			body["task_id"] = id
			refused := s.entry(t, "POST", "shares", body, 422)
			require.Equal(t, "PARAMETER_INVALID", refused["code"], body)
			require.Equal(t, field, refused["details"].([]any)[0].(object)["column"], body)
		}
	}
	page := s.do(t, s.form(t, "/tasks/"+id+"/shares", map[string]string{"kind": "replay", "number": "2", "days": "7"}))
	require.Equal(t, http.StatusCreated, page.StatusCode)
	path := strings.TrimPrefix(page.page(t).Find("#new-share").Text(), s.URL)
	require.Contains(t, string(s.get(t, path).body), "answer to 密")
	for _, number := range []string{"", "0", "3", "x"} {
		fields := map[string]string{"kind": "replay", "number": number, "days": "7"}
		refused := s.do(t, s.form(t, "/tasks/"+id+"/shares", fields))
		require.Equal(t, http.StatusUnprocessableEntity, refused.StatusCode, number)
		require.Contains(t, refused.page(t).Find(".error").Text(), "回放", number)
	}
	require.Zero(t, s.reports.Load(), s.told.String())
}

// To a reader with a link, a call that failed does not reveal where the agent is.
func TestALinkDoesNotNameTheAgentsAddress(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	id := s.create(t, "http://127.0.0.1:1/agent", map[string]string{"runs_per_item": "2", "max_retries": "0",
		"file@q.csv": "question_id,question,standard_answer\na,问,答\n"})
	s.awaitDone(t, id)
	for _, more := range []object{{"kind": "report"}, {"kind": "results"}, {"kind": "replay", "question_id": "a"}} {
		more["task_id"] = id
		path := strings.TrimPrefix(s.entry(t, "POST", "shares", more, 201)["url"].(string), s.URL)
		var page response
		dbtest.Await(t, 20*time.Second, "the failure is shown", func() bool { // events are stored a little later
			page = s.get(t, path)
			return page.StatusCode == http.StatusOK && strings.Contains(string(page.body), "NETWORK_ERROR")
		})
		require.NotContains(t, string(page.body), "127.0.0.1", more["kind"])
	}
}
