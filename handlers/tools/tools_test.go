package tools_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"wending/handlers/request"
	"wending/handlers/tools"
)

// answer sends a message to tools whose API is handle.
func answer(t *testing.T, handle http.HandlerFunc, message string) (*httptest.ResponseRecorder, error) {
	t.Helper()
	answer := tools.New(tools.Config{API: handle, Version: "1"})
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://127.0.0.1/mcp", strings.NewReader(message))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	recorder := httptest.NewRecorder()
	err := answer(recorder, r)
	return recorder, err
}

const getTask = `{"jsonrpc": "2.0", "id": 1, "method": "tools/call",
	"params": {"name": "get_task", "arguments": {"task_id": "x"}}}`

// A response that its handler breaks off is an error of the tool, and the server keeps running.
func TestAResponseThatBreaksOffEndsNothingElse(t *testing.T) {
	t.Parallel()
	for said, written := range map[string]int{"the response broke off": 10, request.CodeRequestTooLarge: 33 << 20} {
		recorder, err := answer(t, func(w http.ResponseWriter, _ *http.Request) {
			if _, err := w.Write(make([]byte, written)); err == nil && written > 32<<20 {
				t.Error("more was written than a tool takes")
			}
			panic(http.ErrAbortHandler)
		}, getTask)
		require.NoError(t, err)
		require.Equal(t, http.StatusOK, recorder.Code)
		require.Contains(t, recorder.Body.String(), said)
		require.Contains(t, recorder.Body.String(), `"isError":true`)
	}
}

// One message is one call of a tool: a batch could make thousands of requests at once.
func TestBatchesAreRefused(t *testing.T) {
	t.Parallel()
	_, err := answer(t, func(http.ResponseWriter, *http.Request) { t.Error("nothing is asked") },
		" \n["+strings.Repeat(getTask+",", 100)+getTask+"]")
	require.Equal(t, request.CodeRequestInvalid, request.FaultOf(err).Code())
}
