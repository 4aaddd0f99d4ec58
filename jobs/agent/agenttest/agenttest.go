// Package agenttest simulates agents for tests, over real HTTP.
package agenttest

import (
	"bytes"
	"compress/gzip"
	"embed"
	"encoding/json"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"
)

// Call is one request that an Agent received.
type Call struct {
	Question       string
	IdempotencyKey string
	Query          string
	// Abandoned is closed when the caller disconnects.
	Abandoned <-chan struct{}
	Header    http.Header
	Body      map[string]any
}

// Agent is a scripted agent that records its calls.
type Agent struct {
	*httptest.Server
	mu    sync.Mutex
	calls []Call
}

// New starts an agent on loopback that answers with script, and stops when the test ends.
func New(t testing.TB, script func(w http.ResponseWriter, call Call)) *Agent {
	t.Helper()
	a := &Agent{}
	a.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		call := Call{Query: r.URL.RawQuery, IdempotencyKey: r.Header.Get("Idempotency-Key"), Header: maps.Clone(r.Header),
			Abandoned: r.Context().Done()}
		body, _ := io.ReadAll(r.Body)
		_ = json.Unmarshal(body, &call.Body)
		call.Question, _ = call.Body["question"].(string)
		a.mu.Lock()
		a.calls = append(a.calls, call)
		a.mu.Unlock()
		script(w, call)
	}))
	t.Cleanup(func() {
		a.CloseClientConnections()
		a.Close()
	})
	return a
}

// Calls returns the calls received so far.
func (a *Agent) Calls() []Call {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.calls)
}

// Stream answers in the default protocol: the text in two chunks, then the final event.
func Stream(w http.ResponseWriter, text string) {
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	runes := []rune(text)
	for _, chunk := range []string{string(runes[:len(runes)/2]), string(runes[len(runes)/2:])} {
		writeEvent(w, map[string]any{"event": "llm_chunk", "data": map[string]any{
			"choices": []any{map[string]any{"delta": map[string]any{"content": chunk}}}}})
	}
	writeEvent(w, map[string]any{"event": "node_finished", "data": map[string]any{"output": text}})
}

func writeEvent(w http.ResponseWriter, event any) {
	line, _ := json.Marshal(event)
	_, _ = w.Write([]byte("data: " + string(line) + "\n\n"))
	if flusher, ok := w.(http.Flusher); ok {
		flusher.Flush()
	}
}

// wire holds recorded answers; the README there states the source of each.
//
//go:embed testdata/wire
var wire embed.FS

// Recording is an entry in index.json, the index of recorded answers.
type Recording struct {
	File        string            `json:"file"`
	Protocol    string            `json:"protocol"`
	Status      int               `json:"status"`
	ContentType string            `json:"content_type"`
	Headers     map[string]string `json:"headers"`
	Close       string            `json:"close"`
	Note        string            `json:"note"`
	Expect      struct {
		Answer    *string `json:"answer"`
		Reasoning *string `json:"reasoning"`
		Usage     *struct {
			Input, Output, Total *int
		} `json:"usage"`
		Error    *string `json:"error"`
		Complete bool    `json:"complete"`
	} `json:"expect"`
}

// Recordings reads the index of recorded answers.
func Recordings(t testing.TB) []Recording {
	t.Helper()
	index := read(t, "index.json")
	var recordings []Recording
	if err := json.Unmarshal(index, &recordings); err != nil {
		t.Fatal(err)
	}
	return recordings
}

func read(t testing.TB, name string) []byte {
	t.Helper()
	content, err := wire.ReadFile("testdata/wire/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// Body returns the recorded bytes.
func (r Recording) Body(t testing.TB) []byte {
	t.Helper()
	return read(t, r.File)
}

// Chunks returns the body split as it was when it was recorded; in one piece if the boundaries were not recorded.
func (r Recording) Chunks(t testing.TB) [][]byte {
	t.Helper()
	body := r.Body(t)
	boundaries, err := wire.ReadFile("testdata/wire/" + r.File + ".chunks.json")
	if err != nil {
		return [][]byte{body}
	}
	var recorded struct {
		Chunks []int `json:"chunks"`
	}
	if err := json.Unmarshal(boundaries, &recorded); err != nil {
		t.Fatal(err)
	}
	var chunks [][]byte
	for _, length := range recorded.Chunks {
		chunks = append(chunks, body[:length])
		body = body[length:]
	}
	return chunks
}

// Plain returns the body with its Content-Encoding decoded.
func (r Recording) Plain(t testing.TB) []byte {
	t.Helper()
	body := r.Body(t)
	if r.Headers["Content-Encoding"] != "gzip" {
		return body
	}
	reader, err := gzip.NewReader(bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	plain, err := io.ReadAll(reader)
	if err != nil {
		t.Fatal(err)
	}
	return plain
}

// Serve starts a server that plays the recording to every client, and returns its URL.
func (r Recording) Serve(t testing.TB) string {
	t.Helper()
	if filepath.Ext(r.File) == ".http" {
		return serveRaw(t, r.Body(t))
	}
	chunks := r.Chunks(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		_, _ = io.Copy(io.Discard, request.Body)
		w.Header().Set("Content-Type", r.ContentType)
		for name, text := range r.Headers {
			w.Header().Set(name, text)
		}
		w.WriteHeader(r.Status)
		for _, chunk := range chunks {
			_, _ = w.Write(chunk)
			w.(http.Flusher).Flush()
		}
		if r.Close != "normal" {
			panic(http.ErrAbortHandler)
		}
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// serveRaw answers every connection with the same bytes, once it has received a whole request.
func serveRaw(t testing.TB, answer []byte) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer connection.Close()
				_ = connection.SetDeadline(time.Now().Add(10 * time.Second))
				buffer := make([]byte, 64<<10)
				if _, err := connection.Read(buffer); err == nil {
					_, _ = connection.Write(answer)
				}
			}()
		}
	}()
	return "http://" + listener.Addr().String()
}
