package handlers_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/PuerkitoBio/goquery"
	"github.com/stretchr/testify/require"

	"wending/jobs/agent/agenttest"
)

// saved requires that a form was stored and returns the path of the entry's page.
func saved(t *testing.T, answer response) string {
	t.Helper()
	require.Equal(t, http.StatusSeeOther, answer.StatusCode, "%s", answer.body)
	path, _, _ := strings.Cut(answer.Header.Get("Location"), "?")
	return path
}

// formOf returns the fields of a page's form as a browser would send them.
func formOf(page *goquery.Document) map[string]string {
	fields := map[string]string{}
	page.Find("#entry input, #entry select, #entry textarea").Each(func(_ int, field *goquery.Selection) {
		name, value := field.AttrOr("name", ""), field.AttrOr("value", "")
		switch {
		case goquery.NodeName(field) == "textarea":
			value = field.Text()
		case goquery.NodeName(field) == "select":
			value = field.Find("option[selected]").AttrOr("value", "")
		case field.AttrOr("type", "") == "checkbox":
			if _, isChecked := field.Attr("checked"); !isChecked {
				return
			}
		}
		if before := fields[name]; before != "" && name == "retry_on" {
			value = before + "," + value
		}
		fields[name] = value
	})
	return fields
}

// Values typed into a form of the library survive errors in the form, and secrets survive them without being shown.
func TestNothingTypedIntoTheLibraryIsLost(t *testing.T) {
	t.Parallel()
	s := newSite(t, false)
	chat := agenttest.New(t, openAIChat("Paris"))
	require.Equal(t, 303, s.get(t, "/library").StatusCode)
	page := s.post(t, "/library/providers", map[string]string{
		"name": "", "protocol": "openai", "base_url": chat.URL, "api_key": "canary-key",
		"headers": `{"X-Org":"canary-header"}`, "rate_limit": "fast", "retry_on": "none,429",
	})
	require.Equal(t, 422, page.StatusCode)
	require.NotContains(t, string(page.body), "canary")
	form := formOf(page.page(t))
	require.Equal(t, chat.URL, form["base_url"])
	require.Equal(t, "fast", form["rate_limit"])
	require.Equal(t, "none,429", form["retry_on"])
	require.NotEmpty(t, page.page(t).Find("#name-error").Text())
	require.NotEmpty(t, page.page(t).Find("#rate_limit-error").Text())

	// Switching the language also keeps them.
	form["lang"] = "en"
	page = s.post(t, "/library/providers", form)
	require.Contains(t, string(page.body), "Add a provider")
	require.Empty(t, page.page(t).Find("#name-error").Text(), "a switch is no submission")
	form = formOf(page.page(t))
	form["name"], form["rate_limit"] = "Mine", "unlimited"
	path := saved(t, s.post(t, "/library/providers", form))
	require.NotContains(t, string(s.get(t, path).body), "canary")

	provider := strings.TrimPrefix(path, "/library/providers/")
	model := map[string]string{"provider_id": provider, "model_id": "m1", "parameters": "{", "question": "capital?"}
	require.Equal(t, 422, s.post(t, "/library/models", model).StatusCode)
	require.NotEmpty(t, s.post(t, "/library/models/test", model).page(t).Find("#probe .error").Text(),
		"nothing is asked with a field that is wrong")
	require.Empty(t, chat.Calls())
	model["parameters"] = `{"seed": 7}`
	tested := s.post(t, "/library/models/test", model).page(t)
	require.Contains(t, tested.Find("#probe").Text(), "Paris")
	require.Contains(t, tested.Find("#probe details").Text(), "chat.completion", "the raw answer")
	require.Equal(t, "m1", formOf(tested)["model_id"])
	call := chat.Calls()[0]
	require.Equal(t, "Bearer canary-key", call.Header.Get("Authorization"))
	require.Equal(t, "canary-header", call.Header.Get("X-Org"))
	require.EqualValues(t, 7, call.Body["seed"])

	path = saved(t, s.post(t, "/library/models", model))
	require.Contains(t, s.get(t, "/library/models").page(t).Find("td[data-label='Last test']").Text(), "Not tested",
		"what was tested was not saved yet")
	s.post(t, "/library/models/test", formOf(s.get(t, path).page(t)))
	require.Contains(t, s.get(t, "/library/models").page(t).Find("td[data-label='Last test']").Text(), "Passed")
	require.Contains(t, s.get(t, "/library/providers/"+provider).page(t).Find(".uses").Text(), "m1", "where it is used")

	require.Equal(t, 422, s.post(t, "/library/providers",
		map[string]string{"name": "Mine", "protocol": "openai", "base_url": chat.URL}).StatusCode, "the name is taken")
	require.Equal(t, "/library/providers/"+provider, saved(t, s.post(t, "/library/providers/"+provider+"/remove", nil)))
	require.Contains(t, string(s.get(t, "/library/providers?archived=true").body), "Mine")
	require.NotContains(t, s.get(t, "/library/providers").page(t).Find("tbody").Text(), "Mine")
	second := saved(t, s.post(t, "/library/providers", map[string]string{
		"name": "Mine", "protocol": "openai", "base_url": chat.URL,
	}))
	require.Equal(t, 422, s.post(t, "/library/providers/"+provider+"/restore", nil).StatusCode, "the name is taken by now")
	require.Equal(t, "/library/providers", saved(t, s.post(t, second+"/remove", nil)), "nothing used it")
	saved(t, s.post(t, "/library/providers/"+provider+"/restore", nil))
	require.Equal(t, 404, s.get(t, second).StatusCode)
	require.Equal(t, 404, s.get(t, "/library/providers/x").StatusCode)
}

// The protocol of the agent at an address is recognised, and the user confirms it.
func TestTheFormOfAnAgentRecognisesItsProtocol(t *testing.T) {
	t.Parallel()
	s := newSite(t, false)
	fake := agenttest.New(t, func(w http.ResponseWriter, call agenttest.Call) {
		if call.Header.Get("X-Key") != "canary" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		agenttest.Stream(w, "Paris")
	})
	form := map[string]string{"name": "", "url": fake.URL + "?key=canary-query", "headers": `{"X-Key": "canary"}`}
	page := s.post(t, "/library/agents/detect", form)
	require.Equal(t, 200, page.StatusCode)
	found := page.page(t)
	require.Equal(t, "default", found.Find("[data-set-field=protocol]").AttrOr("data-value", ""))
	require.NotContains(t, found.Find("#entry textarea").Text(), "canary")
	form = formOf(found)
	require.Equal(t, "default", form["protocol"])
	form["name"] = "客服"
	path := saved(t, s.post(t, "/library/agents", form))
	shown := s.get(t, path)
	require.NotContains(t, string(shown.body), "canary")
	kept := formOf(shown.page(t))
	require.Equal(t, "true", kept["keep_query"])
	require.Contains(t, s.post(t, "/library/agents/test", kept).page(t).Find("#probe").Text(), "Paris")
	calls := fake.Calls()
	require.Equal(t, "key=canary-query", calls[len(calls)-1].Query)

	kept["url"] = "http://169.254.169.254/"
	require.NotEmpty(t, s.post(t, "/library/agents/detect", kept).page(t).Find("#detected .error").Text())
	require.Equal(t, 422, s.post(t, path, kept).StatusCode)
}

func TestPromptsAndDatasetsHaveVersions(t *testing.T) {
	t.Parallel()
	s := newSite(t, false)
	s.get(t, "/library/prompts")
	form := formOf(s.get(t, "/library/prompts/new").page(t))
	require.Equal(t, "{{question}}", form["user"])
	form["name"], form["system"], form["note"] = "简短", "你是律师", "first"
	path := saved(t, s.post(t, "/library/prompts", form))
	form = formOf(s.get(t, path).page(t))
	form["system"], form["note"] = "你是资深律师 <b>{{tone}}", "second"
	saved(t, s.post(t, path, form))
	saved(t, s.post(t, path, form)) // nothing changed, so there is no third version
	page := s.get(t, path).page(t)
	require.Equal(t, 2, page.Find("ol.uses li").Length())
	require.Contains(t, page.Find("#rendered .error").Text(), "tone")
	difference := s.get(t, path+"/versions/2").page(t)
	require.Equal(t, "资深", difference.Find("ins").First().Text())
	require.Equal(t, 0, difference.Find("pre b").Length(), "a template is text")
	require.Contains(t, s.get(t, path+"/versions/1").page(t).Find(".variable").Text(), "{{question}}")
	require.Equal(t, 404, s.get(t, path+"/versions/3").StatusCode)
	require.Equal(t, "你是律师", formOf(s.get(t, path+"?version=1").page(t))["system"], "an earlier version can be edited")

	page = s.post(t, "/library/datasets", map[string]string{"name": "", "file@q.csv": "问题,答案\nq1,a1\nq2,a2\n"}).page(t)
	require.Equal(t, "问题", page.Find("select[name=column_question] option[selected]").AttrOr("value", ""),
		"the columns that probably are meant")
	dataset := formOf(page)
	dataset["name"] = "题目"
	delete(dataset, "dataset_file")
	path = saved(t, s.post(t, "/library/datasets", dataset))
	require.Contains(t, string(s.get(t, path).body), "q2")
	next := map[string]string{
		"note": "next", "column_question": "问题", "column_standard_answer": "答案",
		"file@q.csv": "问题,答案\nq1,a one\nq3,a3\n",
	}
	saved(t, s.post(t, path+"/versions", next))
	changed := s.get(t, path).page(t)
	require.Equal(t, []string{"altered", "added", "removed"},
		changed.Find(".changed > li").Map(func(_ int, row *goquery.Selection) string {
			return strings.TrimPrefix(row.AttrOr("class", ""), "is-")
		}))
	require.Equal(t, 422, s.post(t, path+"/versions", map[string]string{"file@q.csv": "x\ny\n"}).StatusCode)
	require.Contains(t, string(s.get(t, path+"/versions/1").body), "q2")
	file := s.get(t, path+"/versions/1/file")
	require.Equal(t, "问题,答案\nq1,a1\nq2,a2\n", string(file.body))
	require.Equal(t, "sandbox", file.Header.Get("Content-Security-Policy"))

	prompt := formOf(s.get(t, "/library/prompts/new").page(t))
	prompt["user"], prompt["preview_dataset"], prompt["preview_row"] = "{{question}} / {{答案}}",
		strings.TrimPrefix(path, "/library/datasets/"), "2"
	rendered := s.post(t, "/library/prompts/preview", prompt).page(t)
	require.Equal(t, "q3 / {{答案}}", rendered.Find("#rendered pre").Last().Text())
	require.Contains(t, rendered.Find("#rendered .error").Text(), "答案",
		"a column that was chosen for the answers is no variable")

	var kinds []string
	for _, kind := range []string{"prompts", "models", "providers", "agents", "datasets"} {
		list := s.get(t, "/library/"+kind+"?query=nothing")
		require.Equal(t, 200, list.StatusCode)
		kinds = append(kinds, list.page(t).Find("nav.subnav [aria-current]").AttrOr("href", ""))
	}
	text, err := json.Marshal(kinds)
	require.NoError(t, err)
	require.JSONEq(t, `["/library/prompts","/library/models","/library/providers","/library/agents","/library/datasets"]`,
		string(text))
}
