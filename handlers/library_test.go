package handlers_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"wending/jobs/agent/agenttest"
)

const libraryAPI = "/api/v1/"

// object is a JSON object in a response.
type object = map[string]any

// entry sends JSON to the library, requires the expected status, and returns the response's object.
func (s *site) entry(t *testing.T, method, path string, body any, status int) object {
	t.Helper()
	answer := s.send(t, method, libraryAPI+path, body)
	require.Equal(t, status, answer.StatusCode, "%s %s: %s", method, path, answer.body)
	got := object{}
	if len(answer.body) > 0 {
		answer.into(t, &got)
	}
	return got
}

func TestProvidersAndModelsAreSaved(t *testing.T) {
	t.Parallel()
	s := newSite(t, false)
	chat := agenttest.New(t, openAIChat("Paris"))
	provider := s.entry(t, "POST", "providers", object{
		"name": "OpenAI", "protocol": "openai", "base_url": chat.URL + "/v1/", "api_key": "canary-key",
		"headers": object{"X-Org": "canary-header"},
	}, 201)
	require.Equal(t, chat.URL+"/v1", provider["base_url"])
	require.Equal(t, true, provider["has_api_key"])
	require.Equal(t, []any{"X-Org"}, provider["header_names"])
	require.Equal(t, []any{"timeout", "network", "429", "5xx"}, provider["retry_on"])
	require.Nil(t, provider["rate_limit"])
	require.Nil(t, provider["archived_at"])
	id := provider["id"].(string)

	model := s.entry(t, "POST", "models", object{
		"provider_id": id, "model_id": "gpt-4.1", "parameters": object{"temperature": 0.2}, "input_price": "2.50",
		"output_price": 10, "currency": "usd",
	}, 201)
	require.Equal(t, "gpt-4.1", model["name"], "the model's own name unless another is given")
	require.Equal(t, object{"temperature": 0.2}, model["parameters"])
	require.Equal(t, "2.5", model["input_price"])
	require.Equal(t, "10", model["output_price"])
	require.Equal(t, "USD", model["currency"])

	tested := s.entry(t, "POST", "models/"+model["id"].(string)+"/test", object{"question": "法国的首都？"}, 200)
	require.Equal(t, "SUCCEEDED", tested["status"])
	require.Equal(t, "Paris", tested["output"])
	require.Equal(t, "openai", tested["protocol"])
	require.EqualValues(t, 12, tested["total_tokens"])
	require.Nil(t, tested["error_code"])
	call := chat.Calls()[0]
	require.Equal(t, "Bearer canary-key", call.Header.Get("Authorization"))
	require.Equal(t, "canary-header", call.Header.Get("X-Org"))
	require.Equal(t, "gpt-4.1", call.Body["model"])
	require.EqualValues(t, 0.2, call.Body["temperature"])

	// A change keeps fields that are not sent; an empty key removes the stored one; secrets are not sent to another
	// origin.
	changed := s.entry(t, "PATCH", "providers/"+id, object{"name": "OpenAI 2", "retry_on": []string{"429"}}, 200)
	require.Equal(t, "OpenAI 2", changed["name"])
	require.Equal(t, true, changed["has_api_key"])
	require.Equal(t, []any{"429"}, changed["retry_on"])
	require.Equal(t, false, s.entry(t, "PATCH", "providers/"+id, object{"api_key": ""}, 200)["has_api_key"])
	s.entry(t, "PATCH", "providers/"+id, object{"api_key": "canary-key"}, 200)
	moved := s.entry(t, "PATCH", "providers/"+id, object{"base_url": "http://127.0.0.1:1/v1"}, 200)
	require.Equal(t, false, moved["has_api_key"])
	require.Empty(t, moved["header_names"])

	// A provider with a model is archived, because the model needs it. The unused model itself is removed.
	s.entry(t, "DELETE", "providers/"+id, nil, 204)
	require.NotNil(t, s.entry(t, "GET", "providers/"+id, nil, 200)["archived_at"])
	require.Empty(t, s.entry(t, "GET", "providers", nil, 200)["items"])
	require.Len(t, s.entry(t, "GET", "providers?archived=true", nil, 200)["items"], 1)
	s.entry(t, "DELETE", "models/"+model["id"].(string), nil, 204)
	s.entry(t, "GET", "models/"+model["id"].(string), nil, 404)
	var dump []string
	require.NoError(t, s.tables.Select(&dump, `SELECT p::text FROM providers p`))
	require.NotContains(t, strings.Join(dump, "\n"), "canary")
}

func TestWhatIsWrongWithAnEntryIsSaidOfItsFields(t *testing.T) {
	t.Parallel()
	s := newSite(t, false)
	provider := object{"name": "p", "protocol": "openai", "base_url": "http://127.0.0.1:1"}
	s.entry(t, "POST", "providers", provider, 201)
	for name, test := range map[string]struct {
		path   string
		body   object
		fields []string
	}{
		"everything": {"providers", object{}, []string{"name", "protocol", "base_url"}},
		"taken":      {"providers", provider, []string{"name"}},
		"not allowed": {"providers", object{"name": "q", "protocol": "openai", "base_url": "http://169.254.169.254/"},
			[]string{"base_url"}},
		"no model protocol": {"providers", object{"name": "q", "protocol": "dify-chat", "base_url": "http://127.0.0.1:1"},
			[]string{"protocol"}},
		"rate and retry": {"providers", object{"name": "q", "protocol": "openai", "base_url": "http://127.0.0.1:1",
			"rate_limit": "fast", "retry_on": []string{"404"}}, []string{"rate_limit", "retry_on"}},
		"no provider": {"models", object{"provider_id": "x", "model_id": "m"}, []string{"provider_id"}},
		"prices": {"models", object{"provider_id": "x", "model_id": "m", "input_price": "-1",
			"output_price": "1e3", "currency": "euro"}, []string{"provider_id", "input_price", "output_price", "currency"}},
		"agent": {"agents", object{"name": "a", "protocol": "smtp", "url": "ftp://x"},
			[]string{"protocol", "url"}},
		"headers": {"agents", object{"name": "a", "protocol": "default", "url": "http://127.0.0.1:1",
			"headers": object{"Host": "x"}}, []string{"headers"}},
		"objects": {"agents", object{"name": "a", "protocol": "default", "url": "http://127.0.0.1:1",
			"extra_payload": []int{1}, "body_template": "text"}, []string{"extra_payload", "body_template"}},
		"no objects": {"agents", object{"name": "a", "protocol": "default", "url": "http://127.0.0.1:1",
			"extra_payload": []int{}, "headers": []int{}}, []string{"extra_payload", "headers"}},
		"no template at all": {"prompts", object{"name": "a"}, []string{"user"}},
		"a long name":        {"prompts", object{"name": strings.Repeat("长", 65), "user": "x"}, []string{"name"}},
	} {
		refused := s.entry(t, "POST", test.path, test.body, 422)
		require.Equal(t, "PARAMETER_INVALID", refused["code"], name)
		var fields []string
		for _, detail := range refused["details"].([]any) {
			fields = append(fields, detail.(object)["column"].(string))
			require.NotEmpty(t, detail.(object)["message"])
		}
		require.ElementsMatch(t, test.fields, fields, name)
	}
	for _, path := range []string{"providers/x", "agents/6f0d3c1e-2b7a-4c55-9a60-0f4b8f6a1d21",
		"prompts/6f0d3c1e-2b7a-4c55-9a60-0f4b8f6a1d21/versions/1"} {
		require.Equal(t, "NOT_FOUND", s.entry(t, "GET", path, nil, 404)["code"])
	}
	require.Equal(t, "REQUEST_INVALID", s.entry(t, "POST", "agents", []int{1}, 422)["code"])
}

func TestAgentsAreSavedTestedAndRecognised(t *testing.T) {
	t.Parallel()
	s := newSite(t, false)
	fake := agenttest.New(t, func(w http.ResponseWriter, call agenttest.Call) {
		agenttest.Stream(w, "answer to "+call.Question)
	})
	saved := s.entry(t, "POST", "agents", object{
		"name": "客服", "protocol": "default", "url": fake.URL + "/run?key=canary", "headers": object{"X-Key": "canary"},
		"extra_payload": object{"bot_id": "b1"}, "body_template": object{"question": "{{question}}", "n": 1.5},
		"rate_limit": "5/s",
	}, 201)
	require.Equal(t, fake.URL+"/run", saved["url"])
	require.Equal(t, true, saved["has_query"])
	require.Equal(t, []any{"X-Key"}, saved["header_names"])
	require.Equal(t, object{"bot_id": "b1"}, saved["extra_payload"])
	require.Equal(t, object{"question": "{{question}}", "n": 1.5}, saved["body_template"])
	id := saved["id"].(string)
	tested := s.entry(t, "POST", "agents/"+id+"/test", object{"question": "问"}, 200)
	require.Equal(t, "answer to 问", tested["output"])
	require.NotNil(t, tested["first_token_ms"])
	call := fake.Calls()[0]
	require.Equal(t, "key=canary", call.Query)
	require.Equal(t, object{"question": "问", "n": 1.5, "bot_id": "b1"}, call.Body)
	require.NotNil(t, s.entry(t, "GET", "agents/"+id, nil, 200)["tested_at"])
	s.entry(t, "PATCH", "agents/"+id, object{"protocol": "openai"}, 200)
	wrong := s.entry(t, "POST", "agents/"+id+"/test", object{}, 200)
	require.Equal(t, "FAILED", wrong["status"])
	require.Equal(t, "PARSE_ERROR", wrong["error_code"])
	require.Contains(t, wrong["error_message"], "looks like Wending")
	require.Equal(t, "PARSE_ERROR", s.entry(t, "GET", "agents/"+id, nil, 200)["test_error_code"])

	require.Equal(t, "default", s.entry(t, "POST", "agents/detect", object{"url": fake.URL + "/v1/chat/completions"},
		200)["protocol"])
	chat := agenttest.New(t, openAIChat("Paris"))
	found := s.entry(t, "POST", "agents/detect", object{"url": chat.URL, "headers": object{"A": "b"}, "question": "q"},
		200)
	require.Equal(t, "openai", found["protocol"])
	require.Equal(t, "Paris", found["output"])
}

func TestPromptsHaveVersions(t *testing.T) {
	t.Parallel()
	s := newSite(t, false)
	saved := s.entry(t, "POST", "prompts", object{"name": "简短", "description": "d", "user": "请简短回答：{{question}}"}, 201)
	require.EqualValues(t, 1, saved["version"])
	path := "prompts/" + saved["id"].(string)
	require.EqualValues(t, 2, s.entry(t, "POST", path+"/versions",
		object{"system": "你是律师", "user": "{{question}}", "note": "律师"}, 201)["version"])
	require.EqualValues(t, 3, s.entry(t, "POST", path+"/versions", object{"note": "同上"}, 201)["version"])
	now := s.entry(t, "GET", path, nil, 200)
	require.EqualValues(t, 3, now["version"])
	require.Equal(t, "你是律师", now["system"])
	first := s.entry(t, "GET", path+"/versions/1", nil, 200)
	require.Equal(t, "请简短回答：{{question}}", first["user"])
	require.Len(t, s.entry(t, "GET", path+"/versions", nil, 200)["items"], 3)
	page := s.entry(t, "GET", path+"/versions?page_size=1&page=2", nil, 200)
	require.EqualValues(t, 2, page["items"].([]any)[0].(object)["version"])
	require.EqualValues(t, 3, page["pagination"].(object)["total"])
	for _, none := range []string{"4", "2147483648", "9999999999999999999999"} {
		s.entry(t, "GET", path+"/versions/"+none, nil, 404)
		require.Equal(t, http.StatusNotFound, s.get(t, "/library/"+path+"/versions/"+none).StatusCode)
		refused := s.do(t, s.form(t, api, map[string]string{
			"task_name": "x", "agent_api_url": "http://127.0.0.1:9/", "prompts": saved["id"].(string) + "@" + none,
			"file@q.csv": questions,
		}))
		require.Equal(t, http.StatusUnprocessableEntity, refused.StatusCode, "%s", refused.body)
	}
	require.EqualValues(t, 3, s.entry(t, "PATCH", path, object{"name": "简短回答"}, 200)["version"], "a name makes no version")
	preview := s.entry(t, "POST", "prompts/preview",
		object{"system": "{{role}}", "user": "{{question}} {{级别}} {{question}}",
			"variables": object{"question": "{{role}}", "级别": 3}}, 200)
	require.Equal(t, object{"system": "{{role}}", "user": "{{role}} 3 {{role}}", "missing": []any{"role"}}, preview)
	s.entry(t, "DELETE", path, nil, 204)
	s.entry(t, "GET", path, nil, 404)
}

func TestDatasetsHaveVersions(t *testing.T) {
	t.Parallel()
	s := newSite(t, false)
	answer := s.post(t, libraryAPI+"datasets",
		map[string]string{"name": "法律", "file@q.csv": "question,standard_answer,level\n问一,答一,1\n问二,,2\n"})
	require.Equal(t, http.StatusCreated, answer.StatusCode, string(answer.body))
	saved := object{}
	answer.into(t, &saved)
	require.EqualValues(t, 1, saved["version"])
	require.EqualValues(t, 2, saved["total_items"])
	require.Equal(t, []any{"question", "standard_answer", "level"}, saved["columns"])
	path := "datasets/" + saved["id"].(string)
	second := s.post(t, libraryAPI+path+"/versions", map[string]string{"file@q2.csv": "question,standard_answer\n问三,答三\n"})
	require.Equal(t, http.StatusCreated, second.StatusCode, string(second.body))
	first := s.entry(t, "GET", path+"/versions/1", nil, 200)
	require.Len(t, first["sha256"], 64)
	rows := s.entry(t, "GET", path+"/versions/1/rows?page_size=1&page=2", nil, 200)["items"].([]any)
	require.Len(t, rows, 1)
	require.Equal(t, "问二", rows[0].(object)["question"])
	require.Equal(t, object{"level": "2"}, rows[0].(object)["variables"])
	file := s.get(t, libraryAPI+path+"/versions/2/file")
	require.Equal(t, "question,standard_answer\n问三,答三\n", string(file.body))
	require.Contains(t, file.Header.Get("Content-Disposition"), "q2.csv")
	refused := s.post(t, libraryAPI+path+"/versions", map[string]string{"file@q2.csv": "question\n问三\n"})
	require.Equal(t, http.StatusUnprocessableEntity, refused.StatusCode)
	require.Contains(t, string(refused.body), "DATASET_SCHEMA_INVALID")
	require.Contains(t, string(s.post(t, libraryAPI+"datasets", map[string]string{"name": "x"}).body), "DATASET_REQUIRED")
	s.entry(t, "DELETE", path, nil, 204)
	s.entry(t, "GET", path+"/versions/1/file", nil, 404)
}

// openAIChat simulates a model that streams a text with its usage: 7 tokens in, 5 out.
func openAIChat(text string) func(http.ResponseWriter, agenttest.Call) {
	return func(w http.ResponseWriter, _ agenttest.Call) {
		w.Header().Set("Content-Type", "text/event-stream")
		for _, frame := range []string{
			`{"object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"` + text + `"}}]}`,
			`{"object":"chat.completion.chunk","choices":[],"usage":{"prompt_tokens":7,"completion_tokens":5,"total_tokens":12}}`, "[DONE]",
		} {
			_, _ = w.Write([]byte("data: " + frame + "\n\n"))
		}
	}
}
