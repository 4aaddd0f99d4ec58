package handlers_test

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/lib/pq"
	"github.com/stretchr/testify/require"

	"wending/jobs/agent/agenttest"
)

// Keys, headers and queries of a target are sent only in requests to it, and stay secret even if the target repeats
// them in its answers.
func TestSecretsAreNowhere(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	const key, header, query, typed = "canary-key-1f7a", "canary-header-93bc", "canary-query-5d20", "canary-typed-e481"
	// This agent's error repeats the headers and the query that it received, as some servers do for a wrong key.
	tells := agenttest.New(t, func(w http.ResponseWriter, call agenttest.Call) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusUnauthorized)
		told, _ := json.Marshal(call.Header)
		_, _ = io.WriteString(w, `{"error":{"message":"Incorrect API key: `+strings.ReplaceAll(string(told), `"`, `'`)+
			call.Query+`"}}`)
	})
	answers := agenttest.New(t, openAIChat("Paris"))
	var models []string
	for n, address := range []string{tells.URL, answers.URL} {
		name := []string{"tells", "answers"}[n]
		provider := s.entry(t, "POST", "providers",
			object{"name": name, "protocol": "openai", "base_url": address, "api_key": key, "headers": object{"X-Org": header}},
			201)
		model := s.entry(t, "POST", "models", object{"provider_id": provider["id"], "model_id": name}, 201)["id"].(string)
		s.entry(t, "POST", "models/"+model+"/test", object{"question": "?"}, 200)
		models = append(models, model)
	}
	saved := s.entry(t, "POST", "agents", object{"name": "tells", "protocol": "openai",
		"url": tells.URL + "/v1?key=" + query, "headers": object{"X-Token": header},
		"extra_payload": object{"model": "m"}}, 201)["id"].(string)
	s.entry(t, "POST", "agents/"+saved+"/test", object{"question": "?"}, 200)
	s.entry(t, "POST", "agents/detect", object{"url": tells.URL + "?key=" + query, "headers": object{"X-Token": header}},
		200)
	id := s.create(t, tells.URL+"/typed?key="+query, map[string]string{
		"agent_api_headers": `{"X-Typed":"` + typed + `"}`, "models": strings.Join(models, ","), "agents": saved,
		"runs_per_item": "1", "max_retries": "0", "rate_limit": "unlimited",
	})
	s.awaitDone(t, id)
	require.NotEmpty(t, answers.Calls())
	require.Equal(t, "Bearer "+key, answers.Calls()[0].Header.Get("Authorization"))
	require.Equal(t, header, answers.Calls()[0].Header.Get("X-Org"))
	requireAbsent := func(where, text string) {
		t.Helper()
		for _, secret := range []string{key, header, query, typed} {
			for _, form := range []string{secret, hex.EncodeToString([]byte(secret)),
				strings.TrimRight(base64.StdEncoding.EncodeToString([]byte(secret)), "=")} {
				require.NotContains(t, text, form, where)
			}
		}
	}

	var tables []string
	require.NoError(t, s.tables.Select(&tables, `SELECT tablename FROM pg_tables WHERE schemaname = current_schema()`))
	rows := 0
	for _, table := range tables {
		var dump []string
		require.NoError(t, s.tables.Select(&dump, `SELECT x::text FROM `+pq.QuoteIdentifier(table)+` x`))
		requireAbsent("the table "+table, strings.Join(dump, "\n"))
		rows += len(dump)
	}
	require.Greater(t, rows, 20)
	require.NotEmpty(t, s.told.String())
	requireAbsent("the log", s.told.String())

	var runs struct {
		Items []struct {
			Runs []struct {
				RunID any `json:"run_id"`
			}
		}
	}
	s.get(t, api+"/"+id+"/results").into(t, &runs)
	paths := []string{"/metrics", "/tasks", "/workers", "/tasks/" + id, "/tasks/" + id + "/results",
		"/tasks/" + id + "/results/print", "/tasks/" + id + "/report", "/compare?from=" + id,
		"/library/providers", "/library/models", "/library/agents", "/library/agents/" + saved,
		"/library/models/" + models[0], api + "?page_size=100", api + "/" + id, api + "/" + id + "/launches",
		api + "/" + id + "/statistics",
		libraryAPI + "providers", libraryAPI + "models", libraryAPI + "agents", libraryAPI + "agents/" + saved}
	for _, format := range []string{"csv", "xlsx", "jsonl", "html"} {
		paths = append(paths, api+"/"+id+"/export?format="+format)
	}
	for _, item := range runs.Items {
		for _, run := range item.Runs {
			number, err := json.Marshal(run.RunID)
			require.NoError(t, err)
			run := strings.Trim(string(number), `"`)
			paths = append(paths, api+"/"+id+"/runs/"+run, api+"/"+id+"/runs/"+run+"/input", "/tasks/"+id+"/runs/"+run)
		}
	}
	for _, path := range paths {
		answer := s.get(t, path)
		require.Equal(t, http.StatusOK, answer.StatusCode, path)
		requireAbsent(path, string(answer.body))
	}
}
