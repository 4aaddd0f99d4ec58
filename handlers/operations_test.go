package handlers_test

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"wending/db"
	"wending/db/dbtest"
	"wending/jobs/agent/agenttest"
)

// walk calls every operation successfully, so that the site's witness sees the responses.
type walk struct {
	*site
	t     *testing.T
	hook  *receiver
	agent string
	// ids maps each kind to the id of the created object.
	ids map[string]string
}

// do sends JSON, requires the given status, and returns the response's object.
func (w *walk) do(method, path string, body any, status int) object {
	w.t.Helper()
	return w.entry(w.t, method, path, body, status)
}

// read requests a path whose response need not be JSON.
func (w *walk) read(path string, header ...string) response {
	w.t.Helper()
	request, err := http.NewRequest(http.MethodGet, w.URL+libraryAPI+path, nil)
	require.NoError(w.t, err)
	for n := 0; n+1 < len(header); n += 2 {
		request.Header.Set(header[n], header[n+1])
	}
	return w.site.do(w.t, request)
}

// file posts a form with a dataset.
func (w *walk) file(path string, fields map[string]string, status int) object {
	w.t.Helper()
	made := object{}
	answer := w.post(w.t, libraryAPI+path, fields)
	require.Equal(w.t, status, answer.StatusCode, "%s: %s", path, answer.body)
	answer.into(w.t, &made)
	return made
}

// Every operation returns the responses that the document describes: for success, missing objects, invalid or too large
// requests, and conflicts. The witness compares them; this test makes sure that all of them occur.
func TestEveryOperationAnswersAsItIsDescribed(t *testing.T) {
	t.Parallel()
	w := &walk{site: newSite(t, true), t: t, hook: newReceiver(t, always(200)), ids: map[string]string{}}
	picture := pngOf(t, 60, 40, 7)
	files := http.NewServeMux()
	files.HandleFunc("GET /p.png", func(out http.ResponseWriter, _ *http.Request) { _, _ = out.Write(picture) })
	files.HandleFunc("POST /run", func(out http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if bytes.Contains(body, []byte("坏")) {
			http.Error(out, "down", http.StatusBadGateway)
			return
		}
		out.Header().Set("Content-Type", "text/event-stream")
		say(out, `{"event":"tool_started","data":{"tool":"painter","id":"t1","asset_type":"image"}}`,
			fmt.Sprintf(`{"event":"asset","data":{"type":"image","url":%q}}`, w.agent+"/p.png"),
			`{"event":"asset","data":{"type":"image","url":"http://127.0.0.1:1/none.png"}}`,
			`{"event":"node_finished","data":{"output":"42"}}`)
	})
	w.agent = serve(t, files)
	w.library()
	w.tasks()
	w.people()
	w.missing()
	w.wrong()
	w.inTheWay()
	w.usedUp()
	w.removals()
	for _, one := range w.witness.document.operations {
		for _, status := range slices.Sorted(maps.Keys(one.responses)) {
			isSuccess := strings.HasPrefix(status, "2")
			isPromised := slices.Contains([]string{"404", "409", "413", "416", "422", "429"}, status)
			if isSuccess || isPromised && w.canAnswer(one, status) {
				require.True(t, w.witness.has(one.id, status), "%s never answered %s", one.id, status)
			}
		}
	}
}

// canAnswer reports whether this test can make an operation return a response with a status.
func (w *walk) canAnswer(one *operation, status string) bool {
	switch status {
	case "404": // impossible if the path names only the project
		return strings.Contains(one.path, "{") || one.id == "compare-tasks" || one.id == "list-shares"
	case "413": // an archive may be as large as a gigabyte
		return one.id != "import-task"
	case "429": // usedUp provokes no 429 from the operations below; TestAProjectHasSoManyOfEach covers project limits
		return !slices.Contains([]string{"evaluate-task", "group-answers", "import-task", "change-dataset", "create-token",
			"create-share", "create-view", "create-schedule", "change-schedule"}, one.id)
	}
	return true
}

func (w *walk) library() {
	chat := agenttest.New(w.t, openAIChat("42"))
	judging := agenttest.New(w.t, chatting(func(string) string { return `{"overall": 90, "reason": "right"}` }))
	id := func(kind string, body object) string {
		made := w.do("POST", kind, body, 201)["id"].(string)
		w.ids[kind] = made
		w.do("GET", kind, nil, 200)
		w.do("GET", kind+"?archived=true", nil, 200)
		w.do("GET", kind+"/"+made, nil, 200)
		w.do("PATCH", kind+"/"+made, object{"name": "renamed " + kind}, 200)
		return made
	}
	provider := id("providers", object{"name": "p", "protocol": "openai", "base_url": chat.URL, "rate_limit": "unlimited"})
	model := id("models", object{"name": "m", "provider_id": provider, "model_id": "m1", "parameters": object{"top_p": 1}})
	w.do("POST", "models/"+model+"/test", object{"question": "?"}, 200)
	w.do("GET", "models/"+model, nil, 200)
	agent := id("agents", object{"name": "a", "protocol": "default", "url": w.agent + "/run"})
	w.do("POST", "agents/"+agent+"/test", nil, 200)
	w.do("POST", "agents/detect", object{"url": w.agent + "/run"}, 200)
	polled := w.do("POST", "agents", object{"name": "polled", "protocol": "default", "url": w.agent, "poll": object{
		"url_path": "url", "interval_seconds": 1, "done_path": "status", "done_values": []string{"done"},
		"result_path": "result",
	}}, 201)
	require.NotNil(w.t, polled["poll"])
	w.do("PATCH", "agents/"+polled["id"].(string), object{"poll": nil}, 200)
	prompt := id("prompts", object{"name": "w", "user": "{{question}}"})
	w.do("POST", "prompts/"+prompt+"/versions", object{"user": "2 {{question}}", "note": "n"}, 201)
	w.do("GET", "prompts/"+prompt+"/versions", nil, 200)
	w.do("GET", "prompts/"+prompt+"/versions/1", nil, 200)
	w.do("POST", "prompts/preview", object{"user": "{{x}}", "variables": object{"x": "1"}}, 200)
	dataset := w.file("datasets", map[string]string{"name": "d", "file@q.csv": questions}, 201)["id"].(string)
	w.ids["datasets"] = dataset
	w.file("datasets/"+dataset+"/versions", map[string]string{"note": "n", "file@q.csv": questions + "q3,x,y,z\n"}, 201)
	w.do("PATCH", "datasets/"+dataset, object{"description": "x"}, 200)
	for _, path := range []string{"", "/" + dataset, "/" + dataset + "/versions", "/" + dataset + "/versions/2",
		"/" + dataset + "/versions/2/rows"} {
		w.do("GET", "datasets"+path, nil, 200)
	}
	require.Equal(w.t, 200, w.read("datasets/"+dataset+"/versions/1/file").StatusCode)
	w.do("POST", "datasets/"+dataset+"/answers", object{"question_id": "q1", "standard_answer": "x"}, 201)
	evaluator := id("evaluators", object{"name": "e", "kind": "contains", "config": object{"values": []string{"4"}}})
	judgeModel, _ := w.chatTarget(w.t, "judge", judging.URL)
	w.ids["judges"] = w.evaluator(w.t, "j", "judge", object{"model_id": judgeModel})
	w.do("GET", "evaluators/"+w.ids["judges"], nil, 200)
	w.do("POST", "evaluators/test", object{"kind": "exact", "answer": "1", "standard_answer": "2"}, 200)
	w.do("POST", "evaluators/test", object{"kind": "judge", "config": object{"model_id": judgeModel}, "answer": "1",
		"history": "h"}, 200)
	w.do("GET", "evaluators/"+evaluator+"/versions", nil, 200)
	w.do("GET", "evaluators/"+evaluator+"/people", nil, 200)
	w.do("POST", "evaluators/"+evaluator+"/tune", object{"answers": 1}, 200)
	w.do("POST", "evaluators/"+evaluator+"/tune", object{"answers": 201}, 422)
	w.do("GET", "evaluators/"+evaluator+"/versions/1", nil, 200)
	channel := id("channels", object{"name": "c", "kind": "webhook", "url": w.hook.URL, "secret": hookSecret})
	w.do("POST", "channels/"+channel+"/test", nil, 200)
	w.do("POST", "channels", object{"name": "mail", "kind": "email", "to": []string{"a@example.com"}}, 201)
	w.do("GET", "channels", nil, 200)
}

func (w *walk) tasks() {
	t := w.t
	draft := w.do("POST", "evaluation-tasks", object{
		"task_name": "比较", "dataset": w.ids["datasets"], "models": []string{w.ids["models"]},
		"prompts": []string{w.ids["prompts"]},
		"agents":  []string{w.ids["agents"]}, "evaluators": []string{w.ids["evaluators"]},
		"channels":      []string{w.ids["channels"]},
		"runs_per_item": 2, "start": false,
	}, 201)["task_id"].(string)
	path := "evaluation-tasks/" + draft
	w.do("GET", path, nil, 200)
	w.do("GET", path+"/statistics", nil, 200)
	w.do("GET", path+"/items", nil, 200)
	w.do("GET", path+"/tools", nil, 200)
	w.do("PATCH", path, object{"max_cost": "5"}, 200)
	w.do("PATCH", path, object{"max_cost": nil}, 200)
	w.do("POST", path+"/run", nil, 202)
	w.awaitDone(t, draft)
	w.do("GET", path+"/statistics?by=level", nil, 200)
	w.do("POST", path+"/extend", object{"runs_per_item": 3}, 202)
	w.awaitDone(t, draft)
	w.do("POST", path+"/evaluate", object{"evaluators": []string{w.ids["judges"]}}, 202)
	w.awaitDone(t, draft)
	w.do("POST", path+"/meanings", object{"model_id": w.ids["models"]}, 202)
	w.awaitDone(t, draft)
	w.group(path)
	w.file(path+"/items", map[string]string{"file@q.csv": "question_id,question,standard_answer,level\nnew,新,1,2\n"}, 202)
	w.awaitDone(t, draft)
	w.readTask(draft)
	w.talk()

	plain := w.create(t, w.agent+"/run", map[string]string{"runs_per_item": "2",
		"file@q.csv": "question_id,question,standard_answer\ngood,画,42\nbad,坏,42\n"})
	w.ids["evaluation-tasks"] = plain
	w.awaitDone(t, plain)
	w.awaitAssets(t, plain)
	path = "evaluation-tasks/" + plain
	w.do("POST", path+"/retry", object{"question_id": "bad"}, 202)
	w.awaitDone(t, plain)
	w.readTask(plain)
	w.review(path)
	judged := string(w.read(path + "/export?format=xlsx&review=1").body)
	w.file(path+"/reviews/import", map[string]string{"reviewer": "x", "answers@a.xlsx": judged}, 200)
	w.carry()
	w.do("GET", "evaluation-tasks", nil, 200)
	w.do("GET", "comparison?a="+draft+":1&b="+draft+":2", nil, 200)
	w.do("POST", "facts", object{"answers": []string{"30 日内答复。", "35 日内答复。"}}, 200)
	w.do("GET", "comparison?a="+draft+"&b="+plain, nil, 200)
	w.pairs("evaluation-tasks/" + draft)
	w.do("POST", "evaluation-tasks/"+draft+"/confirm",
		object{"against": draft + ":1", "variant": 2, "runs": 1, "question_ids": []string{"new"}}, 202)
	w.awaitDone(t, draft)
	w.read("comparison/export?a=" + draft + "&b=" + plain)
	w.read("comparison/export?a=" + draft + "&b=" + plain + "&format=xlsx")
	w.do("POST", "evaluation-tasks/estimate", object{"dataset": w.ids["datasets"], "models": []string{w.ids["models"]}},
		200)
	copied := w.file(path+"/clone", map[string]string{"task_name": "again", "start": "false"}, 201)["task_id"].(string)
	w.ids["drafts"] = copied
	imported := w.importArchive(t, w.read(path+"/archive").body)
	w.ids["imported"] = imported.mustBe(t, 201)["task_id"].(string)
	w.file("evaluation-tasks/answers", map[string]string{"task_name": "a", "answers@a.csv": "question,answer\n1,2\n"}, 201)

	blocked, open := gate(t)
	stopped := w.create(t, blocked.URL, map[string]string{"runs_per_item": "1", "concurrency": "1"})
	w.do("POST", "evaluation-tasks/"+stopped+"/stop", nil, 202)
	open()
	w.awaitDone(t, stopped)
	w.ids["stopped"] = stopped
	w.do("POST", "evaluation-tasks/"+stopped+"/resume", nil, 202)
	w.awaitDone(t, stopped)
	w.readTask(stopped)

	schedule := w.schedule(t, "s", plain, object{"alert": object{"metric": "success_rate", "below": 0.9}})
	w.ids["schedules"] = schedule
	w.do("PATCH", "schedules/"+schedule, object{"channels": nil}, 200)
	w.due(t, schedule, 0)
	dbtest.Await(t, 20*time.Second, "a firing", func() bool {
		return len(w.listed(t, "schedules/"+schedule+"/tasks")) == 1
	})
	fired := w.listed(t, "schedules/"+schedule+"/tasks")[0]["task_id"].(string)
	w.awaitDone(t, fired)
	require.Equal(t, "schedule", w.listed(t, "evaluation-tasks/"+fired+"/launches")[0]["requested_via"])
	for _, path := range []string{"schedules", "schedules/" + schedule, "schedules/" + schedule + "/firings",
		"schedules/" + schedule + "/tasks", "schedules/" + schedule + "/changes"} {
		w.do("GET", path, nil, 200)
	}
	dbtest.Await(t, 20*time.Second, "a delivery of a task", func() bool {
		found := w.deliveries(t, w.ids["channels"])
		return slices.ContainsFunc(found, func(d object) bool { return d["event"] == "finished" && d["status"] == "SENT" })
	})
	for _, one := range w.deliveries(t, w.ids["channels"]) {
		if one["event"] == "finished" && one["status"] == "SENT" {
			w.do("POST", fmt.Sprintf("channels/%s/deliveries/%v/send", w.ids["channels"], one["id"]), nil, 202)
			break
		}
	}
	w.do("GET", "channels/"+w.ids["channels"]+"/deliveries", nil, 200)
}

// talk creates a conversation in which each question is a turn.
func (w *walk) talk() {
	id := w.create(w.t, w.agent+"/run", map[string]string{
		"runs_per_item": "2", "file@q.csv": "series,turn,question_id,question,standard_answer\ns,1,t1,你好,42\ns,2,t2,坏,42\n",
	})
	w.awaitDone(w.t, id)
	w.readTask(id)
	items := w.listed(w.t, "evaluation-tasks/"+id+"/results")
	require.Equal(w.t, "s", items[0]["series"])
	require.NotNil(w.t, items[0]["runs"].([]any)[0].(object)["session_id"])
}

// readTask requests all data that can be read about a task that has ended.
func (w *walk) readTask(id string) {
	w.t.Helper()
	path := "evaluation-tasks/" + id
	for _, part := range []string{"", "/statistics", "/statistics?include_defaults=true", "/items?state=done", "/results",
		"/results?sort=-agreement&page_size=1", "/launches", "/assets", "/reviews"} {
		w.do("GET", path+part, nil, 200)
	}
	for _, format := range []string{"csv", "xlsx", "jsonl", "html"} {
		require.Equal(w.t, 200, w.read(path+"/export?format="+format).StatusCode)
	}
	require.Equal(w.t, 200, w.read(path+"/archive").StatusCode)
	require.Equal(w.t, 200, w.read(path+"/progress").StatusCode)
	_, events := w.follow(w.t, id, "", nil)
	require.Equal(w.t, 204, w.read(path+"/progress", "Last-Event-ID", events[len(events)-1].id).StatusCode)
	for _, launch := range w.listed(w.t, path+"/launches") {
		w.do("GET", path+"/launches/"+launch["launch_id"].(string), nil, 200)
		w.do("GET", path+"/launches/"+launch["launch_id"].(string)+"/runs", nil, 200)
	}
	for _, item := range w.listed(w.t, path+"/results") {
		for _, one := range item["runs"].([]any) {
			run := one.(object)
			if run["run_id"] == nil {
				continue
			}
			at := fmt.Sprintf("%s/runs/%.0f", path, run["run_id"])
			require.Equal(w.t, 200, w.read(at).StatusCode)
			w.do("GET", at+"/events", nil, 200)
			w.do("GET", at+"/input", nil, 200)
			unit := fmt.Sprintf("%s/units/%.0f/events", path, run["unit_id"])
			require.Equal(w.t, 204, w.read(unit, "Last-Event-ID", "end").StatusCode)
			require.Equal(w.t, 200, w.read(unit).StatusCode)
		}
	}
	for _, one := range w.listed(w.t, path+"/assets?page_size=4") {
		file := strings.TrimPrefix(one["url"].(string), libraryAPI)
		if one["state"] != "STORED" {
			require.Equal(w.t, 404, w.read(file).StatusCode)
			continue
		}
		for _, file := range []string{file, file + "/thumbnail"} {
			whole := w.read(file)
			require.Equal(w.t, 200, whole.StatusCode)
			require.Equal(w.t, 206, w.read(file, "Range", "bytes=0-3").StatusCode)
			require.Equal(w.t, 304, w.read(file, "If-None-Match", whole.Header.Get("ETag")).StatusCode)
			beyond := w.read(file, "Range", "bytes=9000000-")
			require.Equal(w.t, "REQUEST_INVALID", beyond.mustBe(w.t, 416)["code"])
		}
	}
}

// carry carries the verdicts on one task over to another, and withdraws them.
func (w *walk) carry() {
	fake := agenttest.New(w.t, func(out http.ResponseWriter, _ agenttest.Call) { agenttest.Stream(out, "42") })
	var sides [2]string
	for n := range sides {
		sides[n] = w.create(w.t, fake.URL, map[string]string{"runs_per_item": "2",
			"file@q.csv": "question_id,question,standard_answer\nq1,问,42\n"})
		w.awaitDone(w.t, sides[n])
	}
	w.do("PUT", "evaluation-tasks/"+sides[0]+"/items/q1/review", object{"reviewer": "李雷", "verdict": "PASS"}, 200)
	later := "evaluation-tasks/" + sides[1]
	w.do("GET", later+"/carriable-reviews?from="+sides[0], nil, 200)
	batch := w.do("POST", later+"/carried-reviews", object{"from": sides[0], "reviewer": "x"}, 201)["batch_id"].(string)
	w.do("GET", later+"/carried-reviews", nil, 200)
	w.do("DELETE", later+"/carried-reviews/"+batch+"?reviewer=x", nil, 204)
}

// pairs compares two variants' answers.
func (w *walk) pairs(path string) {
	drawn := w.do("POST", path+"/pairs", object{"a": 1, "b": 2}, 200)["items"].([]any)
	require.NotEmpty(w.t, drawn)
	w.do("GET", path+"/pairs", nil, 200)
	pair := path + "/items/" + drawn[0].(object)["question_id"].(string) + "/pair"
	verdict := object{"reviewer": "x", "verdict": "A"}
	w.do("PUT", pair, verdict, 200)
	w.do("PUT", pair, verdict, 409)
	w.do("GET", path+"/pairs", nil, 200)
	w.do("GET", path+"/statistics", nil, 200)
	w.do("DELETE", pair+"?reviewer=x&version=7", nil, 409)
	w.do("DELETE", pair+"?reviewer=x&version=1", nil, 204)
}

func (w *walk) review(path string) {
	verdict := object{"reviewer": "李雷", "verdict": "FAIL", "version": 0}
	w.do("PUT", path+"/items/good/review", verdict, 200)
	w.do("PUT", path+"/items/good/review", verdict, 409)
	w.do("PUT", path+"/items/bad/review", object{"reviewer": "李雷", "verdict": "PASS", "run_index": 1}, 200)
	w.do("GET", path+"/reviews?verdict=FAIL", nil, 200)
	w.do("DELETE", path+"/items/good/review?reviewer="+"%E6%9D%8E%E9%9B%B7&version=7", nil, 409)
	w.do("DELETE", path+"/items/good/review?reviewer="+"%E6%9D%8E%E9%9B%B7&version=1", nil, 204)
	drawn := w.do("POST", path+"/samples", object{"size": 9, "seed": 7, "is_stratified": true}, 201)["items"].([]any)
	require.Len(w.t, drawn, 1, "the other question has no answer")
	w.do("POST", path+"/samples", object{"size": 1}, 409)
	w.do("GET", path+"/samples", nil, 200)
	w.do("PUT", path+"/review-assignments", object{"reviewers": []string{"李雷"}}, 200)
	w.do("PUT", path+"/review-assignments", object{"reviewers": []string{"李雷"}, "question_ids": []string{"none"}}, 404)
	w.do("GET", path+"/review-assignments", nil, 200)
	w.do("PUT", path+"/review-settings", object{"is_blind_review": true, "reviewers_per_item": 2}, 200)
	w.do("PUT", path+"/review-settings", object{"is_blind_review": true, "reviewers_per_item": 11}, 422)
	w.do("POST", path+"/sign-off", object{"reviewer": "李雷"}, 201)
	w.do("GET", path+"/sign-offs", nil, 200)
}

// group puts all answers of the first variant to the first question into one group.
func (w *walk) group(path string) {
	item := w.do("GET", path+"/results", nil, 200)["items"].([]any)[0].(object)
	var runs []any
	for _, run := range item["runs"].([]any) {
		if one := run.(object); one["variant"] == 1.0 && one["status"] == "SUCCEEDED" {
			runs = append(runs, one["run_index"])
		}
	}
	at, said := path+"/items/"+item["question_id"].(string)+"/meaning", object{"groups": []any{runs}, "reviewer": "李雷"}
	w.do("PUT", at, said, 200)
	w.do("PUT", at, said, 409)
	w.do("DELETE", at+"?reviewer=%E6%9D%8E%E9%9B%B7&version=7", nil, 409)
	w.do("DELETE", at+"?reviewer=%E6%9D%8E%E9%9B%B7&version=1", nil, 204)
}

func (w *walk) people() {
	made := w.do("POST", "users", object{"name": "李雷", "password": goodPassword, "role": "editor"}, 201)
	user := made["id"].(string)
	w.ids["users"] = user
	w.do("GET", "users", nil, 200)
	w.do("GET", "users/"+user, nil, 200)
	w.do("PATCH", "users/"+user, object{"is_admin": true}, 200)
	place := w.do("POST", "projects", object{"name": "法务"}, 201)["id"].(string)
	w.ids["projects"] = place
	w.do("GET", "projects", nil, 200)
	w.do("GET", "projects/"+place, nil, 200)
	w.do("PATCH", "projects/"+place, object{"lanes": 3, "disk_bytes": nil}, 200)
	w.do("PUT", "projects/"+place+"/settings", object{"review_reasons": []string{"语气不当"}}, 200)
	w.do("GET", "projects/"+place+"/settings", nil, 200)
	w.do("POST", "projects/"+place+"/members", object{"user_id": user, "role": "viewer"}, 201)
	w.do("GET", "projects/"+place+"/members", nil, 200)
	w.do("PUT", "projects/"+place+"/members/"+user, object{"role": "admin"}, 200)
	w.ids["tokens"] = w.do("POST", "tokens", object{"name": "t", "expires_in_days": 0}, 201)["id"].(string)
	w.do("GET", "tokens", nil, 200)
	w.ids["shares"] = w.do("POST", "shares", object{"task_id": w.ids["evaluation-tasks"]}, 201)["id"].(string)
	w.do("GET", "shares?task_id="+w.ids["evaluation-tasks"], nil, 200)
	w.comments()
	w.ids["views"] = w.do("POST", "views", object{"name": "失败的题", "kind": "questions",
		"query": "filter=failed&column.category=%E5%90%88%E5%90%8C"}, 201)["id"].(string)
	w.do("GET", "views", nil, 200)
	w.do("GET", "views/"+w.ids["views"], nil, 200)
	w.do("PATCH", "views/"+w.ids["views"], object{"name": "失败"}, 200)
	w.do("GET", "audit", nil, 200)
}

// bodies are the bodies that operations need before they notice a missing object.
var bodies = map[string]any{
	"put-review": object{"reviewer": "x", "verdict": "PASS"}, "sign-off": object{"reviewer": "x"},
	"read-facts": object{"answers": []string{"1", "2"}}, "assign-reviews": object{"reviewers": []string{}},
	"carry-reviews":           object{"from": uuid.NewString(), "reviewer": "x"},
	"confirm-changes":         object{"against": uuid.NewString()},
	"group-answers":           object{"model_id": uuid.NewString()},
	"draw-sample":             object{"size": 1},
	"correct-standard-answer": object{"standard_answer": "x"},
	"put-review-settings":     object{"is_blind_review": false},
	"draw-pairs":              object{"a": 1, "b": 2},
	"put-pair-verdict":        object{"reviewer": "x", "verdict": "A"},
	"put-meaning":             object{"groups": [][]int{{1}}, "reviewer": "x"},
	"put-project-settings":    object{"review_reasons": []string{}},
	"finish-comment":          object{"is_done": true},
}

// comments has a reader of a link comment on the task, which is marked as done and deleted.
func (w *walk) comments() {
	made := w.do("POST", "shares", object{"task_id": w.ids["evaluation-tasks"], "comments": "project"}, 201)
	path := strings.TrimPrefix(made["url"].(string), w.URL)
	w.sent(w.t, path+"/comments", url.Values{"name": {"x"}, "comment": {"y"}})
	list := "evaluation-tasks/" + w.ids["evaluation-tasks"] + "/comments"
	found := w.do("GET", list, nil, 200)["items"].([]any)
	at := fmt.Sprintf("%s/%.0f", list, found[0].(object)["id"])
	w.do("PUT", at, object{"is_done": true}, 204)
	w.do("DELETE", at, nil, 204)
}

// filled returns an operation's path with the ids of nonexistent objects, and the query that it requires.
func filled(one *operation) string {
	path := strings.TrimPrefix(regexp.MustCompile(`\{\w+\}`).ReplaceAllStringFunc(one.path, func(name string) string {
		if name == "{number}" || name == "{delivery_id}" {
			return "1"
		}
		return uuid.NewString()
	}), libraryAPI)
	return path + map[string]string{
		"withdraw-review": "?reviewer=x&version=1", "withdraw-meaning": "?reviewer=x&version=1",
		"withdraw-pair-verdict":  "?reviewer=x&version=1",
		"compare-tasks":          "?a=" + uuid.NewString() + "&b=" + uuid.NewString(),
		"list-shares":            "?task_id=" + uuid.NewString(),
		"list-carriable-reviews": "?from=" + uuid.NewString(), "withdraw-carried-reviews": "?reviewer=x",
	}[one.id]
}

// missing requests objects that do not exist.
func (w *walk) missing() {
	for _, one := range w.witness.document.operations {
		if w.canAnswer(one, "404") {
			w.do(strings.ToUpper(one.method), filled(one), bodies[one.id], 404)
		}
	}
}

// wrong sends fields that no operation accepts, and bodies that are too large.
func (w *walk) wrong() {
	large := object{"name": strings.Repeat("x", 5<<20)}
	for _, one := range w.witness.document.operations {
		path, method := filled(one), strings.ToUpper(one.method)
		address, query, _ := strings.Cut(path, "?")
		refused := w.do(method, address+"?pagesize=5&"+query, bodies[one.id], 422)
		require.Equal(w.t, "PARAMETER_INVALID", refused["code"], one.id)
		require.Regexp(w.t, `未知参数 pagesize，是否想写 \w+？`, refused["message"], one.id)
		if one.id == "import-task" || method == http.MethodGet {
			continue
		}
		refused = w.do(method, path, object{"run_per_item": 1}, 422)
		require.Contains(w.t, refused["message"], "未知字段 run_per_item，", one.id)
		if len(one.requestBody.Content) > 0 {
			require.Regexp(w.t, `，是否想写 \w+？`, refused["message"], one.id)
			require.Equal(w.t, "REQUEST_TOO_LARGE", w.do(method, path, large, 413)["code"], one.id)
		}
	}
}

// inTheWay requests actions that conflict with the current state.
func (w *walk) inTheWay() {
	finished, draft := "evaluation-tasks/"+w.ids["evaluation-tasks"], "evaluation-tasks/"+w.ids["drafts"]
	w.do("POST", finished+"/run", nil, 409)
	w.do("POST", finished+"/resume", nil, 409)
	w.do("POST", finished+"/stop", nil, 409)
	w.do("POST", draft+"/retry", nil, 409)
	w.do("POST", draft+"/evaluate", nil, 409)
	w.do("POST", draft+"/meanings", object{"model_id": w.ids["models"]}, 409)
	w.file(draft+"/items", map[string]string{"file@q.csv": "question_id,question,standard_answer\nnew,新,1\n"}, 409)
	for _, path := range []string{"/results", "/export", "/archive"} {
		w.do("GET", draft+path, nil, 409)
	}
	w.do("POST", draft+"/sign-off", object{"reviewer": "x"}, 409)
	w.do("POST", draft+"/samples", object{"size": 1}, 409)
	w.do("POST", draft+"/pairs", object{"a": 1, "b": 2}, 409)
	w.do("POST", draft+"/confirm", object{"against": w.ids["evaluation-tasks"]}, 409)
	w.do("GET", draft+"/carriable-reviews?from="+w.ids["evaluation-tasks"], nil, 409)
	w.do("POST", draft+"/carried-reviews", object{"from": w.ids["evaluation-tasks"], "reviewer": "x"}, 409)
	w.do("GET", "comparison?a="+w.ids["drafts"]+"&b="+w.ids["evaluation-tasks"], nil, 409)
	w.do("GET", "comparison/export?a="+w.ids["drafts"]+"&b="+w.ids["evaluation-tasks"], nil, 409)
	w.do("POST", "shares", object{"task_id": w.ids["drafts"]}, 409)
	refused := w.file("evaluation-tasks/import", map[string]string{"archiv": "x"}, 422)
	require.Equal(w.t, "未知字段 archiv，是否想写 archive？", refused["message"])
	blocked, open := gate(w.t)
	defer open()
	active := w.create(w.t, blocked.URL, nil)
	w.do("POST", "evaluation-tasks/"+active+"/extend", object{"runs_per_item": 9}, 409)
	w.do("DELETE", "evaluation-tasks/"+active, nil, 409)
	w.do("POST", "evaluation-tasks/"+active+"/stop", nil, 202)
	for _, one := range w.deliveries(w.t, w.ids["channels"]) {
		if one["event"] == "test" {
			w.do("POST", fmt.Sprintf("channels/%s/deliveries/%v/send", w.ids["channels"], one["id"]), nil, 409)
		}
	}
	w.do("PATCH", "users/"+w.ids["users"], object{"is_disabled": true}, 409)
}

// usedUp makes requests when the project's quotas are used up.
func (w *walk) usedUp() {
	t, path := w.t, "evaluation-tasks/"+w.ids["evaluation-tasks"]
	blocked, open := gate(t)
	stopped := w.create(t, blocked.URL, map[string]string{"concurrency": "1"})
	w.do("POST", "evaluation-tasks/"+stopped+"/stop", nil, 202)
	open()
	w.awaitDone(t, stopped)
	w.do("PATCH", "projects/"+db.DefaultProject.String(), object{"calls_per_day": 1}, 200)
	w.do("POST", "evaluation-tasks/"+stopped+"/resume", nil, 429)
	w.do("POST", path+"/retry", nil, 429)
	w.do("POST", path+"/extend", object{"runs_per_item": 3}, 429)
	w.do("POST", path+"/confirm", object{"against": w.ids["imported"], "question_ids": []string{"good"}}, 429)
	w.file(path+"/items", map[string]string{"file@q.csv": "question_id,question,standard_answer\nnew,新,1\n"}, 429)
	w.do("POST", "evaluation-tasks/"+w.ids["drafts"]+"/run", nil, 429)
	w.do("PATCH", "projects/"+db.DefaultProject.String(), object{"uploads_per_day": 1}, 200)
	task := map[string]string{"task_name": "t", "agent_api_url": w.agent, "file@q.csv": questions}
	w.file("evaluation-tasks", task, 429)
	w.file("evaluation-tasks/estimate", task, 429)
	w.file(path+"/clone", task, 429)
	w.file("evaluation-tasks/answers", map[string]string{"task_name": "t", "answers@a.csv": "question,answer\n1,2\n"}, 429)
	w.file(path+"/reviews/import", map[string]string{"reviewer": "x", "answers@a.xlsx": "x"}, 429)
	w.file("datasets", map[string]string{"name": "t", "file@q.csv": questions}, 429)
	w.file("datasets/"+w.ids["datasets"]+"/versions", map[string]string{"file@q.csv": questions}, 429)
	w.do("PATCH", "projects/"+db.DefaultProject.String(), object{"calls_per_day": nil, "uploads_per_day": nil}, 200)
}

func (w *walk) removals() {
	w.do("DELETE", "projects/"+w.ids["projects"]+"/members/"+w.ids["users"], nil, 204)
	for _, kind := range []string{"tokens", "shares", "views", "schedules", "channels", "evaluators", "prompts",
		"datasets", "agents", "models", "providers"} {
		w.do("DELETE", kind+"/"+w.ids[kind], nil, 204)
	}
	for _, kind := range []string{"schedules", "channels", "evaluators", "prompts", "datasets", "agents", "models",
		"providers"} {
		w.do("GET", kind+"?archived=true", nil, 200)
	}
	w.do("GET", "shares?task_id="+w.ids["evaluation-tasks"], nil, 200)
	w.do("GET", "tokens", nil, 200)
	w.do("DELETE", "evaluation-tasks/"+w.ids["drafts"], nil, 204)
}

// A misspelt name is refused wherever it occurs, with the nearest known name: otherwise it would be ignored, and
// the request would not do what was intended.
func TestUnknownNamesAreRefusedWithTheNearestKnownOne(t *testing.T) {
	t.Parallel()
	s := newSite(t, false)
	id := s.create(t, "http://127.0.0.1:1/", map[string]string{"start": "false"})
	task := object{"task_name": "t", "agent_api_url": "http://127.0.0.1:1/"}
	with := func(body object, name string, value any) object {
		body = maps.Clone(body)
		body[name] = value
		return body
	}
	for _, one := range []struct {
		method, path string
		body         object
		message      string
	}{
		{"POST", "evaluation-tasks", with(task, "run_per_item", 1), "未知字段 run_per_item，是否想写 runs_per_item？"},
		{"POST", "evaluation-tasks/estimate", with(task, "timeout", 1), "未知字段 timeout，是否想写 timeout_seconds？"},
		{"POST", "shares", object{"task_id": id, "days": 3}, "未知字段 days，是否想写 expires_in_days？"},
		{"POST", "agents", object{"name": "a", "protocol": "default", "url": "http://127.0.0.1:1/",
			"poll": object{"url_paht": "x"}}, "未知字段 poll.url_paht，是否想写 poll.url_path？"},
		{"POST", "schedules", object{"name": "s", "task_id": id, "cron": "0 2 * * *",
			"alert": object{"metric": "cost", "ifworse": true}}, "未知字段 alert.ifworse，是否想写 alert.if_worse？"},
		{"PUT", "evaluation-tasks/" + id + "/items/q1/review", object{"verdict": "PASS", "reviewers": "x"},
			"未知字段 reviewers，是否想写 reviewer？"},
		{"POST", "evaluation-tasks/" + id + "/run", object{"runs": 3}, "未知字段 runs，此接口不接受任何字段"},
		{"GET", "evaluation-tasks?pagesize=5", nil, "未知参数 pagesize，是否想写 page_size？"},
		{"DELETE", "prompts/" + id + "?forced=1", nil, "未知参数 forced，是否想写 "},
		{"GET", "evaluation-tasks?page=%zz", nil, "提交的内容无法识别"},
	} {
		refused := s.entry(t, one.method, one.path, one.body, 422)
		require.Contains(t, refused["message"], one.message, one.path)
	}
	form := s.post(t, api, map[string]string{
		"task_name": "t", "agent_api_url": "http://127.0.0.1:1/", "agents_model": "x", "file@q.csv": questions,
	})
	require.Contains(t, form.mustBe(t, 422)["message"], "是否想写 agent_model？")
	require.Equal(t, "agents_model", form.mustBe(t, 422)["details"].([]any)[0].(object)["column"])
	require.Contains(t, s.post(t, api+"/"+id+"/run", map[string]string{"run": "1"}).mustBe(t, 422)["message"], "未知字段 run，")
	request, err := http.NewRequest(http.MethodGet, s.URL+api+"?staus=FAILED", nil)
	require.NoError(t, err)
	request.AddCookie(&http.Cookie{Name: "lang", Value: "en"})
	require.Equal(t, "Unknown parameter staus: did you mean status?", s.do(t, request).mustBe(t, 422)["message"])
	var tasks int
	require.NoError(t, s.tables.Get(&tasks, `SELECT count(*) FROM evaluation_tasks`))
	require.Equal(t, 1, tasks, "nothing was made")

	// Free-form members accept any name, and parameters that every operation accepts stay valid.
	s.entry(t, "POST", "evaluation-tasks", object{
		"task_name": "t", "agent_api_url": "http://127.0.0.1:1/", "dataset": s.savedDataset(t), "start": false,
		"agent_api_headers": object{"X-Any": "1"}, "extra_payload": object{"any": object{"thing": 1}},
	}, 201)
	s.entry(t, "GET", "evaluation-tasks?project="+db.DefaultProject.String()+"&lang=en", nil, 200)
}

// savedDataset saves a dataset and returns its id.
func (s *site) savedDataset(t *testing.T) string {
	t.Helper()
	return s.post(t, libraryAPI+"datasets", map[string]string{"name": "d", "file@q.csv": questions}).mustBe(t,
		201)["id"].(string)
}
