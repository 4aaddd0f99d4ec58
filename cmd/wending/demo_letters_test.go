package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"wending/db/measure/facts"
	"wending/jobs/dataset"
	"wending/static"
)

// Each of the demo's two long answers gets a wrong number in one run of five, and only that number is reported.
func TestTheDemoHasAWrongNumberInALongAnswer(t *testing.T) {
	t.Parallel()
	set, err := dataset.Read(t.Context(), "demo.csv", static.Content("demo.csv"), dataset.Layout{})
	require.NoError(t, err)
	require.Len(t, set.Rows, 20)
	var found []string
	for _, row := range set.Rows {
		letter := letterTo(row.Question)
		if letter == nil {
			continue
		}
		require.InDelta(t, 900, utf8.RuneCountInString(row.StandardAnswer), 100)
		require.Contains(t, row.StandardAnswer, letter.right)
		body, err := json.Marshal(map[string]string{"question": row.Question, "standard_answer": row.StandardAnswer})
		require.NoError(t, err)
		answers := make([]string, 5)
		for n := range answers {
			recorder := httptest.NewRecorder()
			answerDemo(recorder, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/agent/run",
				bytes.NewReader(body)))
			var said struct{ Data struct{ Output string } }
			require.NoError(t, json.Unmarshal(recorder.Body.Bytes(), &said))
			answers[n] = said.Data.Output
		}
		reading, err := facts.Question(t.Context(), answers)
		require.NoError(t, err)
		require.Equal(t, facts.Conflict, reading.Differ)
		require.Len(t, reading.Statements, 1)
		values := reading.Statements[0].Values
		require.Len(t, values, 2)
		require.Len(t, values[0].Runs, 4)
		found = append(found, values[0].Text+" → "+values[1].Text)
		expected, err := new(facts.Reader).Expected(t.Context(), row.StandardAnswer, answers[values[1].Runs[0]:][:1])
		require.NoError(t, err)
		require.Len(t, expected[0], 1)
	}
	require.Equal(t, []string{"30 日 → 35 日", "8 小时 → 6 小时"}, found)
}
