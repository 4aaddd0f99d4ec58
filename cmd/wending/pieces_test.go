package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"wending/db/dbtest"
	"wending/jobs/agent/agenttest"
)

const (
	// pieces is how many pieces the beginning of a page is cut into, and pieceTags is how many tags each piece has.
	pieces, pieceTags = 45, 3
	// paintedPath is where a page reports that it has been painted.
	paintedPath = "/painted"
	// painting reports every frame of a page that is still loading.
	painting = `
		if (window === top) (async () => {
			const frame = () => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)));
			while (document.readyState === "loading") {
				await frame();
				await fetch("` + paintedPath + `", { method: "POST" });
			}
		})();`
)

// inPieces serves the responses of an address; it sends each piece of a page once the previous one has been painted.
func inPieces(t *testing.T, address string) string {
	t.Helper()
	behind, err := url.Parse(address)
	require.NoError(t, err)
	painted := make(chan struct{})
	proxy := httputil.NewSingleHostReverseProxy(behind)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == paintedPath {
			select {
			case painted <- struct{}{}:
			case <-time.After(50 * time.Millisecond): // the page has received all of its pieces
			}
			return
		}
		if !strings.Contains(r.Header.Get("Accept"), "text/html") {
			proxy.ServeHTTP(w, r)
			return
		}
		r.Header.Del("Accept-Encoding")
		recorded := httptest.NewRecorder()
		proxy.ServeHTTP(recorded, r)
		for name, values := range recorded.Header() {
			if name != "Content-Length" {
				w.Header()[name] = values
			}
		}
		w.WriteHeader(recorded.Code)
		for n, piece := range cut(recorded.Body.Bytes()) {
			for range 2 { // the first report may precede the piece; the head alone is never painted
				if n > 1 {
					select {
					case <-painted:
					case <-r.Context().Done():
						return
					}
				}
			}
			_, _ = w.Write(piece)
			_ = http.NewResponseController(w).Flush()
		}
		_, _ = io.Copy(io.Discard, r.Body)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// cut divides a page into pieces: its head, the first tags of its body a few at a time, and the rest.
func cut(whole []byte) (parts [][]byte) {
	from := 0
	at := bytes.Index(whole, []byte("<body"))
	for n := 0; at >= 0 && n < pieces*pieceTags; n++ {
		if n%pieceTags == 0 {
			parts = append(parts, whole[from:at])
			from = at
		}
		next := bytes.IndexByte(whole[at+1:], '<')
		if next < 0 {
			break
		}
		at += 1 + next
	}
	return append(parts, whole[from:])
}

// A page that is painted while its later parts are still loading does not move when they arrive.
func TestPagesArriveWithoutMoving(t *testing.T) {
	t.Parallel()
	fake := agenttest.New(t, func(w http.ResponseWriter, call agenttest.Call) {
		last := call.IdempotencyKey[len(call.IdempotencyKey)-1:]
		if last == "7" {
			http.Error(w, "busy", http.StatusInternalServerError)
			return
		}
		agenttest.Stream(w, "## 意见\n\n"+strings.Repeat("当事人一方不履行合同义务的，应当承担违约责任。", 20)+last+
			strings.Repeat("守约方负有防止损失扩大的义务。", 30))
	})
	program := start(t, "up", "--data-dir", startedFolder(t), "--listen-addr", "127.0.0.1:0", "--evaluation-concurrency",
		"8", "--rate-limit-per-agent", "unlimited")
	id := createTask(t, program.url, map[string]string{"task_name": "长回答", "agent_api_url": fake.URL}, twenty)
	other := createTask(t, program.url, map[string]string{"task_name": "另一版", "agent_api_url": fake.URL}, twenty)
	for _, one := range []string{id, other} {
		dbtest.Await(t, 30*time.Second, "the task's end", func() bool {
			return task(t, program.url, one).Status == "SUCCEEDED"
		})
	}
	b := openBrowser(t, inPieces(t, program.url))
	b.watches()
	b.do(chromedp.ActionFunc(func(ctx context.Context) error {
		_, err := page.AddScriptToEvaluateOnNewDocument(painting).Do(ctx)
		return err
	}))
	pages := []string{
		"/tasks", "/tasks/" + id, "/tasks/" + id + "/results", "/tasks/" + id + "/results?view=merged",
		"/tasks/" + id + "/review/next", "/tasks/" + id + "/review", "/tasks/" + id + "/settings",
		"/tasks/" + id + "/gallery",
		"/tasks/" + id + "/report", "/tasks/" + id + "/replay/1", "/comparison?a=" + id + "&b=" + other,
	}
	for _, path := range pages {
		t.Run(path, func(t *testing.T) {
			one := tab{b.ctx, t, b.base}
			one.open(path)
			one.requireSteady(path)
		})
	}
}
