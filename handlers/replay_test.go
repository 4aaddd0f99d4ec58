package handlers_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/PuerkitoBio/goquery"
	"github.com/stretchr/testify/require"

	"wending/db/dbtest"
	"wending/jobs/agent/agenttest"
)

// happened is an event as the API returns it.
type happened struct {
	ID   string `json:"-"` // the id of a stream's event
	Seq  int
	AtMS int `json:"at_ms"`
	Type string
	Data map[string]any
}

// events returns the events of a run, and its tool calls.
func (s *site) events(t *testing.T, task string, run int64) (items []happened, tools []map[string]any) {
	t.Helper()
	var answer struct {
		Items          []happened
		ToolExecutions []map[string]any `json:"tool_executions"`
	}
	s.get(t, fmt.Sprintf("%s/%s/runs/%d/events", api, task, run)).into(t, &answer)
	return answer.Items, answer.ToolExecutions
}

// followUnit reads a unit's stream until take returns false, or to its end.
func (s *site) followUnit(t *testing.T, task string, unit int64, lastID string, take func(happened) bool) (end string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
		fmt.Sprintf("%s%s/%s/units/%d/events", s.URL, api, task, unit), nil)
	require.NoError(t, err)
	if lastID != "" {
		request.Header.Set("Last-Event-ID", lastID)
	}
	answer, err := s.client.Do(request)
	require.NoError(t, err)
	defer answer.Body.Close()
	require.Equal(t, http.StatusOK, answer.StatusCode)
	require.Equal(t, "text/event-stream; charset=utf-8", answer.Header.Get("Content-Type"))
	lines := bufio.NewScanner(answer.Body)
	name, one := "", happened{}
	for lines.Scan() {
		field, value, _ := strings.Cut(lines.Text(), ": ")
		switch field {
		case "event":
			name = value
		case "id":
			one = happened{ID: value}
		case "data":
			if name == "end" {
				return value
			}
			require.NoError(t, json.Unmarshal([]byte(value), &one))
			require.Equal(t, name, one.Type)
			if !take(one) {
				return ""
			}
		}
	}
	return ""
}

// awaitUnit waits until a unit of the task is running, and returns its id.
func (s *site) awaitUnit(t *testing.T, task string) (unit int64) {
	t.Helper()
	dbtest.Await(t, 20*time.Second, "a call in flight", func() bool {
		return s.tables.Get(&unit, `SELECT e.unit_id FROM run_events e WHERE e.task_id = $1 ORDER BY e.unit_id LIMIT 1`,
			task) == nil
	})
	return unit
}

func types(items []happened) (names []string) {
	for _, one := range items {
		names = append(names, one.Type)
	}
	return names
}

func say(w http.ResponseWriter, lines ...string) {
	for _, line := range lines {
		_, _ = fmt.Fprintf(w, "data: %s\n\n", line)
	}
	w.(http.Flusher).Flush()
}

// A call can be followed while it runs; a client that reconnects continues where it stopped; afterwards, the run has
// the same events.
func TestACallIsFollowedWhileItRunsAndReplayedAfterwards(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	goOn := make(chan struct{})
	fake := agenttest.New(t, func(w http.ResponseWriter, _ agenttest.Call) {
		w.Header().Set("Content-Type", "text/event-stream")
		say(w, `{"event":"node_started","data":{"title":"画","node_id":"n1"}}`,
			`{"event":"tool_started","data":{"tool":"midjourney","id":"j1","provider":"huiyan","asset_type":"image","input":{"prompt":"猫"}}}`,
			`{"event":"task_progress","data":{"percent":1,"message":"排队中"}}`, `{"event":"reasoning_chunk","data":{"text":"想"}}`)
		<-goOn
		say(w, `{"event":"task_progress","data":{"percent":40}}`, `{"event":"llm_chunk","data":{"text":"一只"}}`)
		time.Sleep(30 * time.Millisecond) // two frames, because pieces that arrive within one frame become one event
		say(w, `{"event":"llm_chunk","data":{"text":"猫"}}`, `{"event":"strange","data":{"a":1}}`,
			`{"event":"tool_finished","data":{"tool":"midjourney","id":"j1","percent":100,"output":{"ok":true}}}`,
			`{"event":"node_finished","data":{"title":"画","node_id":"n1","output":"一只猫"}}`)
	})
	id := s.create(t, fake.URL, map[string]string{"runs_per_item": "1",
		"file@q.csv": "question_id,question,standard_answer\nq1,画猫,\n"})
	unit := s.awaitUnit(t, id)

	var seen []happened
	s.followUnit(t, id, unit, "", func(one happened) bool {
		seen = append(seen, one)
		return one.Type != "reasoning" // the last event before the agent waits
	})
	require.Equal(t, []string{"task_started", "node", "tool", "progress_update", "reasoning"}, types(seen))
	require.Equal(t, "排队中", seen[3].Data["message"])
	close(goOn)
	end := s.followUnit(t, id, unit, seen[len(seen)-1].ID, func(one happened) bool {
		require.Equal(t, seen[len(seen)-1].Seq+1, one.Seq)
		seen = append(seen, one)
		return true
	})
	require.Equal(t, []string{"progress_update", "text", "text", "other", "tool", "node", "task_completed"},
		types(seen[5:]))
	var ended struct {
		RunIDs []int64 `json:"run_ids"`
	}
	require.NoError(t, json.Unmarshal([]byte(end), &ended))
	require.Len(t, ended.RunIDs, 1)
	items, tools := s.events(t, id, ended.RunIDs[0])
	require.Equal(t, types(seen), types(items))
	for n := range items {
		require.Equal(t, seen[n].AtMS, items[n].AtMS)
	}
	require.Len(t, tools, 1)
	require.Equal(t, "completed", tools[0]["status"])
	require.Equal(t, "huiyan", tools[0]["provider"])
	require.InDelta(t, 100, tools[0]["progress"], 0)
	require.Equal(t, map[string]any{"prompt": "猫"}, tools[0]["input"])

	again := 0 // a call that has ended is streamed from the beginning, too
	s.followUnit(t, id, unit, "", func(happened) bool { again++; return true })
	require.Equal(t, len(seen), again)
	request, err := http.NewRequest(http.MethodGet, fmt.Sprintf("%s%s/%s/units/%d/events", s.URL, api, id, unit), nil)
	require.NoError(t, err)
	request.Header.Set("Last-Event-ID", "end")
	require.Equal(t, http.StatusNoContent, s.do(t, request).StatusCode)
	var code struct{ Code string }
	s.get(t, fmt.Sprintf("%s/%s/units/%d/events", api, id, unit+1000)).into(t, &code)
	require.Equal(t, "RUN_NOT_FOUND", code.Code)
	other := s.create(t, fake.URL, map[string]string{"start": "false"})
	require.Equal(t, http.StatusNotFound, s.get(t,
		fmt.Sprintf("%s/%s/runs/%d/events", api, other, ended.RunIDs[0])).StatusCode)
}

// Events of a run that failed, timed out or was retried are kept, with the reason; a tool that did not reach 100 %
// has failed.
func TestTheLastStateOfARunThatDiedIsKept(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	hang := make(chan struct{})
	fake := agenttest.New(t, func(w http.ResponseWriter, call agenttest.Call) {
		w.Header().Set("Content-Type", "text/event-stream")
		say(w, `{"event":"tool_started","data":{"tool":"draw"}}`, `{"event":"task_progress","data":{"percent":60}}`,
			`{"event":"llm_chunk","data":{"text":"半"}}`)
		switch call.Question {
		case "慢":
			<-hang
		case "错":
			say(w, `{"event":"llm_error","data":{"error_message":"out of paint"}}`)
		case "未满":
			say(w, `{"event":"node_finished","data":{"output":"半"}}`)
		}
	})
	t.Cleanup(func() { close(hang) })
	id := s.create(t, fake.URL, map[string]string{
		"runs_per_item": "1", "timeout_seconds": "1", "max_retries": "1",
		"file@q.csv": "question_id,question,standard_answer\na,慢,\nb,错,\nc,未满,\n",
	})
	s.awaitDone(t, id)
	var runs []struct {
		ID      int64  `db:"id"`
		Status  string `db:"status"`
		Silence int    `db:"longest_silence_ms"`
	}
	require.NoError(t, s.tables.Select(&runs,
		`SELECT r.id, r.status, r.longest_silence_ms FROM evaluation_runs r JOIN evaluation_items i ON i.id = r.item_id WHERE r.task_id = $1 ORDER BY i.question_id`, id))
	require.Len(t, runs, 3)
	var items []happened
	var tools []map[string]any
	dbtest.Await(t, time.Minute, "the last events", func() bool {
		items, tools = s.events(t, id, runs[0].ID)
		return len(items) > 0 && items[len(items)-1].Type == "error_occurred" && len(items) > 8
	})
	require.Equal(t, "TIMEOUT", runs[0].Status)
	require.InDelta(t, 1000, runs[0].Silence, 400)
	require.Equal(t, []string{"task_started", "tool", "progress_update", "text", "error_occurred", "retry", "tool",
		"progress_update", "text", "error_occurred"}, types(items))
	require.Equal(t, "TIMEOUT", items[9].Data["code"])
	require.InDelta(t, 1, items[4].Data["attempt"], 0, "the first attempt is the one that failed")
	require.InDelta(t, 2, items[5].Data["attempt"], 0)
	require.GreaterOrEqual(t, items[6].AtMS, 2000)
	require.Len(t, tools, 2)
	require.Equal(t, "failed", tools[0]["status"])

	items, tools = s.events(t, id, runs[1].ID)
	require.Equal(t, "error_occurred", items[len(items)-1].Type)
	require.Equal(t, "out of paint", items[len(items)-1].Data["message"])
	require.Equal(t, "out of paint", tools[0]["error"])

	items, tools = s.events(t, id, runs[2].ID)
	require.Equal(t, "task_completed", items[len(items)-1].Type)
	require.Equal(t, "failed", tools[0]["status"])
	require.Equal(t, "Progress did not reach 100%", tools[0]["error"])
	require.NotNil(t, tools[0]["ended_ms"])
}

// A call is listed from its beginning, and opening a part of a call's page directly redirects to the whole page.
func TestACallIsListedAtOnce(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	hang := make(chan struct{})
	fake := agenttest.New(t, func(w http.ResponseWriter, _ agenttest.Call) { <-hang; agenttest.Stream(w, "x") })
	t.Cleanup(sync.OnceFunc(func() { close(hang) }))
	id := s.create(t, fake.URL, map[string]string{"runs_per_item": "1", "file@q.csv": "question,standard_answer\n慢,\n"})
	dbtest.Await(t, 20*time.Second, "the call", func() bool { return len(fake.Calls()) == 1 })
	listed := s.fragment(t, "/tasks/"+id+"/flights").page(t).Find(".flights li")
	require.Equal(t, 1, listed.Length())
	require.Contains(t, listed.Text(), "慢")
	unit := listed.Find("a").AttrOr("href", "")
	for _, part := range []string{"/log", "/files"} {
		alone := s.get(t, unit+part)
		require.Equal(t, http.StatusSeeOther, alone.StatusCode, part)
		require.Equal(t, unit, alone.Header.Get("Location"), part)
		require.Equal(t, http.StatusOK, s.fragment(t, unit+part).StatusCode, part)
	}
}

// logLines returns the lines of a log, or the rows of its tools, as the page shows them.
func logLines(log *goquery.Selection, of string) (lines []string) {
	log.Find(of).Each(func(_ int, line *goquery.Selection) {
		lines = append(lines, strings.Join(strings.Fields(line.Text()), " "))
	})
	return lines
}

// takePiece adds a piece to a log as htmx does.
func takePiece(t *testing.T, log *goquery.Selection, piece string) {
	t.Helper()
	tables := strings.NewReplacer("<template>", "<table>", "</template>", "</table>")
	fragment, err := goquery.NewDocumentFromReader(strings.NewReader("<body>" + tables.Replace(piece)))
	require.NoError(t, err)
	fragment.Find("[hx-swap-oob]").Each(func(_ int, part *goquery.Selection) {
		how := part.AttrOr("hx-swap-oob", "")
		where, isAppended := strings.CutPrefix(how, "beforeend:")
		switch {
		case isAppended:
			require.Equal(t, 1, log.Find(where).Length(), where)
			log.Find(where).AppendSelection(part.Contents())
		default:
			id := "#" + part.AttrOr("id", "")
			require.Equal(t, 1, log.Find(id).Length(), id)
			log.Find(id).ReplaceWithSelection(part.Clone())
		}
	})
	log.Find(".lines").AppendSelection(fragment.Find("body > li"))
}

// The log of a running call arrives in pieces: new lines follow the shown ones, each exactly once, even if the
// connection breaks repeatedly; together they are the log of the run.
func TestALogComesInPieces(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	steps := make(chan int)
	fake := agenttest.New(t, func(w http.ResponseWriter, _ agenttest.Call) {
		w.Header().Set("Content-Type", "text/event-stream")
		say(w, `{"event":"tool_started","data":{"tool":"draw","id":"t0"}}`)
		for n := range steps {
			for line := range 150 {
				say(w, fmt.Sprintf(`{"event":"strange","data":{"line":"%d.%d"}}`, n, line))
			}
			say(w, fmt.Sprintf(`{"event":"tool_finished","data":{"tool":"draw","id":"t%d"}}`, n),
				fmt.Sprintf(`{"event":"tool_started","data":{"tool":"draw","id":"t%d"}}`, n+1))
			say(w, fmt.Sprintf(`{"event":"llm_chunk","data":{"text":"%s"}}`, strings.Repeat("长", 150)))
		}
		say(w, `{"event":"node_finished","data":{"output":"完"}}`)
	})
	id := s.create(t, fake.URL, map[string]string{"runs_per_item": "1", "file@q.csv": "question,standard_answer\n画,\n"})
	unit := s.awaitUnit(t, id)
	t.Cleanup(sync.OnceFunc(func() { close(steps) }))
	path := fmt.Sprintf("/tasks/%s/units/%d", id, unit)
	stored := func() (count int) {
		require.NoError(t, s.tables.Get(&count, `SELECT coalesce(max(first_seq), 0) FROM run_events WHERE unit_id = $1`,
			unit))
		return count
	}
	grow := func(n int) {
		before := stored()
		steps <- n
		dbtest.Await(t, 20*time.Second, "the events", func() bool { return stored() > before })
	}
	grow(0)
	log := s.get(t, path).page(t).Find(".log")
	next := func() string { return log.Find("#log-tail").AttrOr("hx-get", "") }
	require.NotEmpty(t, next())
	var largest int
	for n := range 3 {
		grow(n + 1)
		for { // until nothing new arrives
			at := next()
			piece := s.fragment(t, at)
			require.Equal(t, http.StatusOK, piece.StatusCode)
			takePiece(t, log, string(piece.body))
			if next() == at {
				break
			}
			largest = max(largest, len(piece.body))
		}
	}
	shown, tools := logLines(log, ".lines li"), logLines(log, "tbody tr")
	whole := s.get(t, path).page(t).Find(".log")
	require.Equal(t, logLines(whole, ".lines li"), shown)
	require.Equal(t, logLines(whole, "tbody tr"), tools)
	require.Equal(t, whole.Find("#log-tail").Text(), log.Find("#log-tail").Text())
	require.Equal(t, whole.Find("#log-tail").AttrOr("hx-get", ""), next())
	require.Greater(t, len(shown), 600)
	require.Less(t, 2*largest, len(s.get(t, path).body), "a piece is not the whole")

	// A call that another worker repeats has a new log, so the page is reloaded.
	_, err := s.tables.Exec(`UPDATE run_events SET epoch = epoch + 1 WHERE unit_id = $1`, unit)
	require.NoError(t, err)
	require.Equal(t, "true", s.fragment(t, next()).Header.Get("HX-Refresh"))
}

// The last events of a run are stored up to a few seconds after the run. Until then, the replay is loaded again.
func TestAReplayIsLoadedAgainUntilItsEventsAreStored(t *testing.T) {
	t.Parallel()
	site := newSite(t, true)
	id := site.create(t, agenttest.New(t, unsteady()).URL, map[string]string{"runs_per_item": "1"})
	site.awaitDone(t, id)
	open := func() response { return site.get(t, "/tasks/"+id+"/replay/1") }
	dbtest.Await(t, 10*time.Second, "all events are stored", func() bool { return open().Header.Get("Refresh") == "" })
	require.NotEmpty(t, open().page(t).Find(".log .lines .is-text").Text())
	const mark = "正在保存最后的事件"
	require.NotContains(t, string(open().body), mark)
	_, err := site.tables.Exec(`DELETE FROM run_events`)
	require.NoError(t, err)
	_, err = site.tables.Exec(`UPDATE evaluation_runs SET created_at = now() + interval '1 hour'`)
	require.NoError(t, err)
	require.Equal(t, "1", open().Header.Get("Refresh"))
	require.Contains(t, string(open().body), mark)
	_, err = site.tables.Exec(`UPDATE evaluation_runs SET created_at = now() - interval '4 seconds'`)
	require.NoError(t, err)
	require.Empty(t, open().Header.Get("Refresh"), "these events are no longer kept")
}
