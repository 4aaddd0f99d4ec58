package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"image"
	"image/png"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"wending/db/dbtest"
)

// painter is an agent that works for a long time, in steps, and produces an image.
type painter struct {
	*httptest.Server
	calls atomic.Int64
	// hold blocks calls at their third step until release.
	hold    chan struct{}
	release func()
}

// newPainter starts a painter whose calls take the given number of steps.
func newPainter(t *testing.T, steps int, between time.Duration) *painter {
	t.Helper()
	var file bytes.Buffer
	require.NoError(t, png.Encode(&file, image.NewRGBA(image.Rect(0, 0, 64, 48))))
	p := &painter{hold: make(chan struct{})}
	p.release = sync.OnceFunc(func() { close(p.hold) })
	mux := http.NewServeMux()
	mux.HandleFunc("GET /picture.png", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(file.Bytes()) })
	mux.HandleFunc("POST /run", func(w http.ResponseWriter, r *http.Request) {
		p.calls.Add(1)
		w.Header().Set("Content-Type", "text/event-stream")
		tell := func(text string, values ...any) {
			_, _ = fmt.Fprintf(w, "data: "+text+"\n\n", values...)
			_ = http.NewResponseController(w).Flush()
		}
		tell(`{"event":"node_started","data":{"title":"构思"}}`)
		for n := range steps {
			select { // the first step waits, too
			case <-r.Context().Done():
				return
			case <-time.After(between):
			}
			tell(`{"event":"task_progress","data":{"percent":%d,"message":"第 %d 步"}}`, 100*n/steps, n+1)
			tell(`{"event":"llm_chunk","data":{"content":"%d "}}`, n+1)
			if n == 2 {
				<-p.hold
			}
		}
		tell(`{"event":"asset","data":{"type":"image","url":"http://%s/picture.png"}}`, r.Host)
		tell(`{"event":"node_finished","data":{"title":"构思","output":""}}`)
	})
	p.Server = httptest.NewServer(mux)
	t.Cleanup(p.Close)
	t.Cleanup(p.release) // runs before the server's own cleanup, which a blocked call would hold up
	return p
}

// A run is watched while it happens, and replayed as it happened, with the image that it produced.
func TestARunIsWatchedAndReplayed(t *testing.T) {
	t.Parallel()
	agent := newPainter(t, 30, 150*time.Millisecond)
	program := start(t, "up", "--data-dir", startedFolder(t), "--listen-addr", "127.0.0.1:0",
		"--evaluation-concurrency", "2")
	id := createTask(t, program.url, map[string]string{"task_name": "画室", "agent_api_url": agent.URL + "/run",
		"runs_per_item": "1", "rate_limit": "unlimited"}, "question,standard_answer\n画山,\n")
	b := openBrowser(t, program.url)
	b.open("/tasks/" + id)
	b.sees(".flights", "第 1 题")
	b.follows(".flights a")
	b.sees(".track .doing", "步")
	b.sees(".track .said", "1 2 3 ")
	b.requireAccessible("a call under way")
	agent.release()
	// the page is reloaded when the run ends
	dbtest.Await(t, time.Minute, "the page to become that of the run", func() bool {
		isThere := false
		err := chromedp.Run(b.ctx, chromedp.Evaluate(`document.querySelector(".track header")?.textContent.includes("成功")`,
			&isThere))
		return err == nil && isThere
	})
	b.awaits("the picture", `document.querySelector(".made img")?.naturalWidth > 0`)
	b.requireAccessible("a run to be replayed")

	// During a replay each frame shows what had happened by that time, and the replay's clock runs with the wall
	// clock.
	var shown struct {
		Frames, Wrong         int
		Elapsed, Longest, End float64
	}
	b.do(chromedp.Evaluate(`(async () => {
		const track = document.querySelector(".track");
		const events = (await (await fetch(track.dataset.events)).json()).items;
		const end = events.at(-1).at_ms, root = document.getElementById("player");
		const expected = (at) => events.filter((e) => e.type === "text" && e.at_ms <= at).map((e) => e.data.text).join("");
		const result = { Frames: 0, Wrong: 0, Elapsed: 0, Longest: 0, End: end };
		root.querySelector("[data-do=play]").click();
		let began = 0, last = 0;
		await new Promise((resolve) => requestAnimationFrame(function frame(now) {
			began = began || now;
			result.Longest = Math.max(result.Longest, now - (last || now));
			last = now;
			result.Frames++;
			const at = Number(root.dataset.position);
			const said = track.querySelector(".said").textContent;
			if (said !== expected(at + 0.5) && said !== expected(at - 0.5)) result.Wrong++;
			if (at >= end) { result.Elapsed = now - began; resolve(); } else requestAnimationFrame(frame);
		}));
		return result;
	})()`, &shown, awaitPromise))
	require.Zero(t, shown.Wrong, "%+v", shown)
	require.Greater(t, shown.Frames, 20)
	require.InDelta(t, shown.End, shown.Elapsed, 50+2*shown.Longest, "%+v", shown)

	// Keys: to the beginning, one event forward, to the end.
	said := func() (text string) {
		b.evaluate(`document.querySelector(".said").textContent`, &text)
		return text
	}
	key := func(name string) {
		b.do(
			chromedp.Evaluate(
				fmt.Sprintf(`document.body.dispatchEvent(new KeyboardEvent("keydown", { key: %q, bubbles: true }))`, name), nil))
	}
	key("Home")
	require.Empty(t, said())
	for range 40 {
		key("ArrowRight")
	}
	require.True(t, strings.HasPrefix(said(), "1 2 "), said())
	key("End")
	require.True(t, strings.HasSuffix(said(), " 30 "), said())
	b.open("/tasks/" + id + "/gallery")
	b.do(chromedp.Click(".exhibit.is-picture"), chromedp.WaitVisible("#lightbox[open] img"))
	b.requireAccessible("a picture in full")
}

// When the program is killed, all but the last second of a call's events are kept; the call is repeated but counts
// only once.
func TestAKilledProgramKeepsWhatItKnewOfACall(t *testing.T) {
	t.Parallel()
	agent := newPainter(t, 20, 200*time.Millisecond)
	agent.release()
	folder := dbtest.Folder(t)
	options := []string{"up", "--data-dir", folder, "--listen-addr", "127.0.0.1:0", "--evaluation-concurrency", "2"}
	program := start(t, options...)
	id := createTask(t, program.url, map[string]string{"task_name": "画室", "agent_api_url": agent.URL + "/run",
		"runs_per_item": "1", "rate_limit": "unlimited"}, "question,standard_answer\n画山,\n")
	var unit int64
	eventsOf := func() (epochs map[string]int) {
		epochs = map[string]int{}
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
			fmt.Sprintf("%s/api/v1/evaluation-tasks/%s/units/%d/events", program.url, id, unit), nil)
		require.NoError(t, err)
		answer, err := http.DefaultClient.Do(request)
		require.NoError(t, err)
		defer answer.Body.Close()
		content, err := io.ReadAll(answer.Body)
		require.NoError(t, err)
		for line := range strings.SplitSeq(string(content), "\n") {
			if id, isID := strings.CutPrefix(line, "id: "); isID && id != "end" {
				epoch, _, _ := strings.Cut(id, ".")
				epochs[epoch]++
			}
		}
		return epochs
	}
	dbtest.Await(t, time.Minute, "a call under way with progress", func() bool {
		answer, err := http.Get(program.url + "/tasks/" + id)
		require.NoError(t, err)
		defer answer.Body.Close()
		page, err := io.ReadAll(answer.Body)
		require.NoError(t, err)
		_, rest, isThere := strings.Cut(string(page), "/units/")
		if isThere {
			_, err = fmt.Sscanf(rest, "%d", &unit)
			require.NoError(t, err)
		}
		return isThere && strings.Contains(rest, "%</span>") && !strings.Contains(rest, ">0%</span>")
	})
	program.kill(t)
	program = start(t, options...)
	dbtest.Await(t, 40*time.Second, "the task's end", func() bool {
		return task(t, program.url, id).Status == "SUCCEEDED"
	})
	outcomes := outcomesOf(t, program.url, id)
	require.Len(t, outcomes, 1)
	require.True(t, strings.HasSuffix(outcomes[0], " 19 20 "), outcomes[0])
	require.EqualValues(t, 2, agent.calls.Load())
	epochs := eventsOf()
	require.Len(t, epochs, 2, "%v", epochs)
	for epoch, count := range epochs {
		require.Greater(t, count, 3, "epoch %s", epoch)
	}
	var list struct {
		Items []struct{ State string }
	}
	dbtest.Await(t, time.Minute, "the picture", func() bool {
		answer, err := http.Get(program.url + "/api/v1/evaluation-tasks/" + id + "/assets")
		require.NoError(t, err)
		defer answer.Body.Close()
		require.NoError(t, json.NewDecoder(answer.Body).Decode(&list))
		return len(list.Items) == 1 && list.Items[0].State == "STORED"
	})
}

// newOddPainter starts an agent that reports files incorrectly: one is missing, one is a web page, one cannot be
// reached. The previews of all steps have the same address. If it is asked for a failure, it breaks off in the
// middle.
func newOddPainter(t *testing.T) *httptest.Server {
	t.Helper()
	var step atomic.Int64
	mux := http.NewServeMux()
	picture := func(w http.ResponseWriter, _ *http.Request) {
		img := image.NewRGBA(image.Rect(0, 0, 64, 48))
		img.Pix[0], img.Pix[3] = byte(step.Add(1)), 255
		_ = png.Encode(w, img)
	}
	mux.HandleFunc("GET /preview.png", picture)
	mux.HandleFunc("GET /good.png", picture)
	mux.HandleFunc("GET /fake.png", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "<html>Sign in</html>")
	})
	mux.HandleFunc("POST /run", func(w http.ResponseWriter, r *http.Request) {
		question, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		tell := func(text string, values ...any) { _, _ = fmt.Fprintf(w, "data: "+text+"\n\n", values...) }
		tell(`{"event":"tool_started","data":{"tool":"画师","id":"c1","asset_type":"image"}}`)
		for _, percent := range []int{10, 50, 90} {
			tell(
				`{"event":"tool_progress","data":{"id":"c1","progress":%d,"message":"绘制中","preview_url":"http://%s/preview.png"}}`,
				percent, r.Host)
			_ = http.NewResponseController(w).Flush()
			select { // a pause, so that no two steps have the same time
			case <-r.Context().Done():
				return
			case <-time.After(50 * time.Millisecond):
			}
		}
		if strings.Contains(string(question), "坏") {
			tell(`{"event":"error","data":{"message":"显存不足"}}`)
			return
		}
		for _, name := range []string{"good.png", "fake.png", "gone.png"} {
			tell(`{"event":"asset","data":{"type":"image","url":"http://%s/%s"}}`, r.Host, name)
		}
		tell(`{"event":"asset","data":{"type":"image","url":"http://169.254.169.254/meta.png"}}`)
		tell(`{"event":"llm_chunk","data":{"content":"%s"}}`, strings.Repeat("画好了。", 2000))
		tell(`{"event":"node_finished","data":{"title":"画","output":""}}`)
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server
}

// The replay shows why a file is missing and a preview for each step, and does not show a failed tool as running.
func TestAReplayShowsWhatBecameOfFilesAndFailures(t *testing.T) {
	t.Parallel()
	agent := newOddPainter(t)
	program := start(t, "up", "--data-dir", startedFolder(t), "--listen-addr", "127.0.0.1:0",
		"--evaluation-concurrency", "2")
	id := createTask(t, program.url, map[string]string{"task_name": "画室", "agent_api_url": agent.URL + "/run",
		"runs_per_item": "1", "rate_limit": "unlimited", "max_retries": "0"},
		"question,standard_answer\n画山,\n坏画,\n")
	dbtest.Await(t, time.Minute, "the task's end", func() bool { return task(t, program.url, id).Status == "SUCCEEDED" })
	b := openBrowser(t, program.url)
	b.watches()
	b.open("/tasks/" + id + "/replay/1")
	b.awaits("the last events, with which the page is loaded again",
		`document.querySelectorAll(".log .lines > li.is-task_completed").length === 1`)
	b.awaits("the files, each with what became of it",
		`document.querySelectorAll(".made .is-lost").length === 3 && document.querySelectorAll(".made .is-picture img").length === 1`)
	b.sees(".made .is-lost", "未能复制")
	b.awaits("the picture", `document.querySelector(".made img").complete`)
	var broken, refused []string
	b.evaluate(
		`[...document.images].filter(i => i.complete && i.naturalWidth === 0 && i.checkVisibility()).map(i => i.src)`,
		&broken)
	require.Empty(t, broken)
	b.evaluate(`performance.getEntriesByType("resource").filter(e => e.responseStatus >= 400).map(e => e.name)`, &refused)
	require.Empty(t, refused)
	b.requireAccessible("a replay with a long answer")

	var made string // the file, which replaces the preview once it is reported, perhaps before the last step
	b.evaluate(`document.querySelector(".made img").getAttribute("src")`, &made)
	previews := map[string]bool{}
	key := func(name string) {
		b.do(
			chromedp.Evaluate(
				fmt.Sprintf(`document.body.dispatchEvent(new KeyboardEvent("keydown", { key: %q, bubbles: true }))`, name), nil))
	}
	for key("Home"); ; key("ArrowRight") {
		b.awaits("the copy of a preview", `document.querySelector(".preview:not(.is-unfilled) .is-waiting") === null`)
		var shown, position, end string
		b.evaluate(`document.querySelector(".preview:not(.is-unfilled) img")?.getAttribute("src") || ""`, &shown)
		b.evaluate(`document.getElementById("player").dataset.position`, &position)
		b.evaluate(`document.querySelector("#player input[type=range]").max`, &end)
		previews[shown] = true
		if position == end {
			break
		}
	}
	delete(previews, "")
	delete(previews, made)
	require.Len(t, previews, 3, "one at each step")
	var named []string
	b.evaluate(`[...document.querySelectorAll(".stage.is-tool .name")].map(e => e.textContent)`, &named)
	require.Equal(t, []string{"画师"}, named, "one call, by its name")

	b.open("/tasks/" + id + "/replay/2")
	b.sees(".track .failed", "显存不足")
	var state struct {
		Message, Tools string
		Running        int
	}
	b.evaluate(
		`({ message: document.querySelector(".track .message").textContent, tools: document.querySelector("#logs .table").textContent,
		running: document.querySelectorAll(".stage.is-open, .track progress:not(.is-unknown)").length })`, &state)
	require.Equal(t, "失败", state.Message)
	require.Zero(t, state.Running)
	require.NotContains(t, state.Tools, "进行中")
}
