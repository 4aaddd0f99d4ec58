package rest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"
)

// StreamWriter writes a response part by part, and remembers the first error.
type StreamWriter struct {
	to         http.ResponseWriter
	connection *http.ResponseController
	err        error
}

// NewStreamWriter returns a writer of the response w.
func NewStreamWriter(w http.ResponseWriter) *StreamWriter {
	return &StreamWriter{to: w, connection: http.NewResponseController(w)}
}

// Err returns the first error; nil means that there has been none so far. After an error, the client is considered
// gone, and nothing more is written.
func (s *StreamWriter) Err() error { return s.err }

// Write implements io.Writer.
func (s *StreamWriter) Write(b []byte) (int, error) {
	if s.err != nil {
		return 0, s.err
	}
	var n int
	n, s.err = s.to.Write(b)
	return n, s.err
}

// Text writes a text as it is.
func (s *StreamWriter) Text(text string) { _, _ = s.Write([]byte(text)) }

// Value writes a value as JSON.
func (s *StreamWriter) Value(value any) { s.Text(string(s.marshal(value))) }

// Open writes an object as JSON without its closing brace, so that more members can follow.
func (s *StreamWriter) Open(value any) {
	if text := s.marshal(value); len(text) > 0 {
		s.Text(string(text[:len(text)-1]))
	}
}

func (s *StreamWriter) marshal(value any) []byte {
	text, err := json.Marshal(value)
	if err != nil && s.err == nil {
		s.err = err
	}
	return text
}

// Flush sends everything that has been written so far.
func (s *StreamWriter) Flush() {
	if s.err == nil {
		s.err = s.connection.Flush()
	}
}

const (
	// HeartbeatEvery is the interval between two heartbeats in an idle stream.
	HeartbeatEvery = 15 * time.Second
	// reconnectAfter is how long a browser waits before it reconnects.
	reconnectAfter = 2 * time.Second
)

// EventWriter writes server-sent events, and sends each immediately.
type EventWriter struct{ *StreamWriter }

// NewEventWriter begins a response with server-sent events.
func NewEventWriter(w http.ResponseWriter) EventWriter {
	header := w.Header()
	header.Set("Content-Type", "text/event-stream; charset=utf-8")
	header.Set("Cache-Control", "no-cache, no-transform")
	header.Set("X-Accel-Buffering", "no") // a proxy must not buffer events
	w.WriteHeader(http.StatusOK)
	e := EventWriter{NewStreamWriter(w)}
	e.Text(fmt.Sprintf("retry: %d\n\n", reconnectAfter.Milliseconds()))
	e.Flush()
	return e
}

// Send sends an event; data are encoded as JSON.
func (e EventWriter) Send(name, id string, data any) {
	e.Text(fmt.Sprintf("event: %s\nid: %s\ndata: %s\n\n", name, id, e.marshal(data))) // JSON has no line breaks
	e.Flush()
}

// Heartbeat sends a comment, so that an idle stream is not closed on the way.
func (e EventWriter) Heartbeat() {
	e.Text(": heartbeat\n\n")
	e.Flush()
}
