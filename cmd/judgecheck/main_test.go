package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A judge that passes every answer containing the expected text is exposed by answers that only pretend to be
// right.
func TestAJudgeIsMeasured(t *testing.T) {
	t.Parallel()
	examples, err := read(labelled)
	require.NoError(t, err)
	require.Len(t, examples, 50)
	injected, right := 0, 0
	for _, one := range examples {
		if one.kind == "injected" {
			injected++
			require.False(t, one.passes)
		}
		if one.passes {
			right++
		}
	}
	require.GreaterOrEqual(t, injected, 8)
	require.InDelta(t, 25, right, 7, "labels of both kinds")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			_, _ = w.Write([]byte(`{"name":"naive","kind":"judge","config":{"model_id":"m"}}`))
			return
		}
		var asked struct {
			StandardAnswer string `json:"standard_answer"`
			Answer         string `json:"answer"`
		}
		_ = json.NewDecoder(r.Body).Decode(&asked)
		score := 0.0
		passed := strings.Contains(asked.Answer, asked.StandardAnswer)
		if passed {
			score = 1
		}
		_ = json.NewEncoder(w).Encode(verdict{Passed: &passed, Score: &score})
	}))
	defer server.Close()
	var out strings.Builder
	require.NoError(t, run(server.URL, "id", &out))
	require.Contains(t, out.String(), "naive: 50 answers, ")
	require.Contains(t, out.String(), "differs: injected")
	require.Error(t, run(server.URL, "", &out))
}

func TestKappaIsAgreementBeyondChance(t *testing.T) {
	t.Parallel()
	require.InDelta(t, 1, (&tally{passes: 20, fails: 30}).kappa(), 1e-9)
	require.InDelta(t, 0, (&tally{passes: 20, tooKind: 30}).kappa(), 1e-9, "one that passes everything")
	require.InDelta(t, 0.4, (&tally{passes: 20, fails: 15, tooKind: 10, tooStrict: 5}).kappa(), 1e-9)
}
