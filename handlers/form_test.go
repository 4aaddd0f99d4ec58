package handlers_test

import (
	"encoding/base64"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/PuerkitoBio/goquery"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"golang.org/x/text/encoding/simplifiedchinese"

	"wending/db"
	"wending/db/dbtest"
	"wending/jobs/agent/agenttest"
	"wending/jobs/secret"
	"wending/jobs/tasks"
)

// After an internal error the form is shown again with the file and the settings, and an alert explains what
// happened.
func TestAFaultOfTheServerKeepsTheFormAndItsFile(t *testing.T) {
	t.Parallel()
	s := newSite(t, false)
	_, err := s.tables.Exec(`ALTER TABLE evaluation_items RENAME TO away`)
	require.NoError(t, err)
	fields := map[string]string{
		"task_name": "稳定性", "agent_api_url": "http://127.0.0.1:1/", "runs_per_item": "7", "start": "false",
		"file@q.csv": questions,
	}
	answer := s.post(t, "/tasks", fields)
	require.Equal(t, http.StatusInternalServerError, answer.StatusCode)
	page := answer.page(t)
	require.Equal(t, "稳定性", page.Find("#task_name").AttrOr("value", ""))
	require.Equal(t, "7", page.Find("#runs_per_item").AttrOr("value", ""))
	require.Contains(t, page.Find(`[role=alert]`).First().Text(), "创建失败")
	require.Contains(t, page.Find(`[role=alert]`).First().Text(), "内容已保留")
	require.NotContains(t, string(answer.body), "<h1>加载任务列表失败")
	token := page.Find("input[name=dataset_token]").AttrOr("value", "")
	require.NotEmpty(t, token)

	_, err = s.tables.Exec(`ALTER TABLE away RENAME TO evaluation_items`)
	require.NoError(t, err)
	delete(fields, "file@q.csv")
	fields["dataset_token"] = token
	require.Equal(t, http.StatusSeeOther, s.post(t, "/tasks", fields).StatusCode)
}

// If files cannot be stored, all typed values stay, and the page asks the user to choose the file again.
func TestWithoutRoomForFilesEverythingTypedStays(t *testing.T) {
	t.Parallel()
	s := newSite(t, false)
	require.NoError(t, os.RemoveAll(s.uploads))
	require.NoError(t, os.WriteFile(s.uploads, nil, 0o600)) // a file in place of the folder
	answer := s.post(t, "/tasks", map[string]string{
		"task_name": "稳定性", "agent_api_url": "http://127.0.0.1:1/", "file@q.csv": questions,
	})
	require.GreaterOrEqual(t, answer.StatusCode, 500)
	page := answer.page(t)
	require.Equal(t, "稳定性", page.Find("#task_name").AttrOr("value", ""))
	require.Contains(t, page.Find(`[role=alert]`).First().Text(), "请重新选择文件")
	require.Zero(t, page.Find("input[name=dataset_token]").Length())
	var tasks int
	require.NoError(t, s.tables.Get(&tasks, `SELECT count(*) FROM evaluation_tasks`))
	require.Zero(t, tasks, "nothing is left half done")
}

// Headers that cannot be parsed stay in their field to be corrected, even if the form carries headers that were typed
// earlier.
func TestHeadersWithATypoStayInTheirField(t *testing.T) {
	t.Parallel()
	s := newSite(t, false)
	page := s.post(t, "/tasks", map[string]string{"agent_api_headers": `{"A":"first"}`}).page(t)
	sealed := page.Find("input[name=agent_api_headers_sealed]").AttrOr("value", "")
	require.NotEmpty(t, sealed)
	page = s.post(t, "/tasks", map[string]string{"agent_api_headers": `{"A":"second"`,
		"agent_api_headers_sealed": sealed}).page(t)
	//nolint:testifylint // the typed text is not JSON
	require.Equal(t, `{"A":"second"`, page.Find("#agent_api_headers").Text())
	require.NotEmpty(t, page.Find("#agent_api_headers-error").Text())
}

func TestTheQueryOfACopiedURLIsKeptApart(t *testing.T) {
	t.Parallel()
	s := newSite(t, false)
	id := s.create(t, "http://127.0.0.1:1/ask?key=tops3cret", nil)
	shown := s.get(t, "/?from="+id)
	require.NotContains(t, string(shown.body), "tops3cret")
	page := shown.page(t)
	require.Equal(t, "http://127.0.0.1:1/ask", page.Find("#agent_api_url").AttrOr("value", ""))
	_, keeps := page.Find("input[name=keep_query]").Attr("checked")
	require.True(t, keeps)
	token := page.Find("input[name=dataset_token]").AttrOr("value", "")
	sealer, err := secret.NewSealer(secret.Keys{Current: dbtest.SecretKey})
	require.NoError(t, err)
	for _, test := range []struct{ url, keep, want string }{
		{"http://127.0.0.1:1/ask", "true", "http://127.0.0.1:1/ask?key=tops3cret"},
		{"http://127.0.0.1:1/ask/v2", "true", "http://127.0.0.1:1/ask/v2?key=tops3cret"},
		{"http://127.0.0.1:1/ask", "", "http://127.0.0.1:1/ask"},
		{"http://127.0.0.1:1/ask?key=new", "true", "http://127.0.0.1:1/ask?key=new"},
		{"http://127.0.0.1:2/ask", "true", "http://127.0.0.1:2/ask"}, // another agent
	} {
		fields := map[string]string{
			"from": id, "task_name": "copy", "agent_api_url": test.url, "dataset_token": token, "start": "false",
		}
		if test.keep != "" {
			fields["keep_query"] = test.keep
		}
		require.Equal(t, http.StatusSeeOther, s.post(t, "/tasks", fields).StatusCode)
		var saved uuid.UUID
		require.NoError(t, s.tables.Get(&saved, `SELECT id FROM evaluation_tasks ORDER BY created_at DESC LIMIT 1`))
		task, err := s.store.Task(t.Context(), db.AllProjects(), saved)
		require.NoError(t, err)
		require.NotContains(t, task.Targets[0].URL, "?", "the query is sealed")
		target, err := tasks.Open(sealer, task.Targets[0])
		require.NoError(t, err)
		require.Equal(t, test.want, target.URL)
		token = s.get(t, "/?from="+id).page(t).Find("input[name=dataset_token]").AttrOr("value", "")
	}
}

func TestADraftShowsItsQuestionsAndCanBeEdited(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	fake := agenttest.New(t, func(w http.ResponseWriter, _ agenttest.Call) { agenttest.Stream(w, "x") })
	id := s.create(t, fake.URL, map[string]string{
		"start": "false", "rate_limit": "1/s", "agent_api_headers": `{"X-Secret":"kept"}`,
	})
	page := s.get(t, "/tasks/"+id).page(t)
	require.Contains(t, page.Find("main").Text(), "中国的首都是哪里？")
	require.Contains(t, page.Find("main .summary").Text(), "10 次", "the expected calls")

	form := s.get(t, "/?draft="+id).page(t)
	require.Equal(t, "编辑草稿", form.Find("h1").Text())
	require.Equal(t, "稳定性测试", form.Find("#task_name").AttrOr("value", ""))
	saved := s.post(t, "/tasks", map[string]string{"draft": id, "task_name": "改名", "agent_api_url": fake.URL,
		"runs_per_item": "2", "rate_limit": "unlimited", "start": "false",
		"file@r.csv": "question,standard_answer\n只有一题,a\n"})
	require.Equal(t, http.StatusSeeOther, saved.StatusCode, "%s", saved.body)
	require.Contains(t, saved.Header.Get("Location"), "/tasks/"+id)
	var list struct{ Pagination struct{ Total int } }
	s.get(t, api).into(t, &list)
	require.Equal(t, 1, list.Pagination.Total, "the same task")

	started := s.post(t, "/tasks/"+id+"/run", nil)
	require.Equal(t, http.StatusSeeOther, started.StatusCode)
	s.awaitDone(t, id)
	require.Equal(t, 2, s.state(t, id).Statistics.Succeeded)
	require.Equal(t, "只有一题", fake.Calls()[0].Question)
	require.Equal(t, "kept", fake.Calls()[0].Header.Get("X-Secret"))
	gone := s.get(t, "/?draft="+id)
	require.Equal(t, http.StatusConflict, gone.StatusCode)
	require.Contains(t, gone.page(t).Find("main").Text(), "不能再编辑")
	late := s.post(t, "/tasks", map[string]string{
		"draft": id, "task_name": "zu spät", "agent_api_url": fake.URL, "file@r.csv": questions,
	})
	require.Equal(t, http.StatusConflict, late.StatusCode)
	require.Equal(t, "zu spät", late.page(t).Find("#task_name").AttrOr("value", ""), "and yet nothing typed is lost")
	require.Equal(t, "question,standard_answer\n只有一题,a\n", string(s.get(t, "/tasks/"+id+"/dataset").body),
		"a refused edit leaves the file alone")
	require.Equal(t, http.StatusNoContent, s.delete(t, id).StatusCode)
	deleted := s.post(t, "/tasks", map[string]string{
		"draft": id, "task_name": "x", "agent_api_url": fake.URL, "file@r.csv": questions,
	})
	require.Equal(t, http.StatusConflict, deleted.StatusCode, "a deleted draft is not created again without its secrets")
}

func TestASwitchOfLanguageCarriesTheForm(t *testing.T) {
	t.Parallel()
	s := newSite(t, false)
	page := s.get(t, "/").page(t)
	button := page.Find(`button[name=lang]`)
	require.Equal(t, "create", button.AttrOr("form", ""))
	answer := s.post(t, button.AttrOr("formaction", ""), map[string]string{
		"lang": "en", "task_name": "稳定性", "runs_per_item": "7", "agent_api_headers": `{"X":"tops3cret"}`,
		"file@q.csv": questions,
	})
	require.Equal(t, http.StatusOK, answer.StatusCode)
	page = answer.page(t)
	require.Equal(t, "en", page.Find("html").AttrOr("lang", ""))
	require.Equal(t, "稳定性", page.Find("#task_name").AttrOr("value", ""))
	require.Equal(t, "7", page.Find("#runs_per_item").AttrOr("value", ""))
	require.NotEmpty(t, page.Find("input[name=dataset_token]").AttrOr("value", ""))
	require.Empty(t, page.Find("#agent_api_url-error").Text(), "an empty field is not an error yet")
	require.NotContains(t, string(answer.body), "tops3cret")
	require.Equal(t, "en", s.get(t, "/tasks").page(t).Find("html").AttrOr("lang", ""), "and is kept")
}

// The form's first submit button creates the task: Enter in a field presses it.
func TestEnterCreatesTheTask(t *testing.T) {
	t.Parallel()
	s := newSite(t, false)
	first := s.get(t, "/").page(t).Find(`button[form=create], #create button[type=submit], #create button:not([type])`).
		First()
	_, hasAction := first.Attr("formaction")
	require.False(t, hasAction, "it goes where the form goes")
	_, hasName := first.Attr("name")
	require.False(t, hasName)
}

func TestTheFormOffersTheDemoAndSaysWhatAnAgentSpeaks(t *testing.T) {
	t.Parallel()
	s := newSite(t, false)
	s.create(t, "http://127.0.0.1:1/", nil) // even once there is a task
	page := s.get(t, "/").page(t)
	require.Equal(t, 1, page.Find(`form[action="/demo"] button`).Length())
	require.Equal(t, 3, page.Find(".steps li").Length())
	require.Contains(t, page.Find("#curl").Text(), "curl -N -X POST")
	require.Equal(t, 1, page.Find(`[data-copy="#curl"]`).Length())
}

// A 5 MB file that the server already has is not sent again: the form contains its token instead.
func TestThePreviewOfAFileStandsForTheFile(t *testing.T) {
	t.Parallel()
	s := newSite(t, false)
	page := s.post(t, "/tasks/preview", map[string]string{
		"runs_per_item": "3", "rate_limit": "1/s", "file@题目.csv": questions,
	}).page(t)
	require.Equal(t, "题目.csv", page.Find("#preview .file-name").Text())
	require.Contains(t, page.Find("#preview").Text(), "6 次", "expected calls")
	require.Equal(t, 1, page.Find("#drop.has-file").Length(), "the drop zone invites no more")
	token := page.Find("input[name=dataset_token]").AttrOr("value", "")
	require.NotEmpty(t, token)
	created := s.post(t, "/tasks", map[string]string{
		"task_name": "t", "agent_api_url": "http://127.0.0.1:1/", "dataset_token": token, "runs_per_item": "3",
	})
	require.Equal(t, http.StatusSeeOther, created.StatusCode, "without the file itself")
}

// Headers that a form carries are sealed for its browser and its agent, for an hour: a copy of the page is of no
// use to anyone else.
func TestKeptHeadersGoToTheirAgentAlone(t *testing.T) {
	t.Parallel()
	s := newSite(t, false)
	var sent []string
	record := func(w http.ResponseWriter, call agenttest.Call) {
		sent = append(sent, call.Header.Get("X-Key"))
		agenttest.Stream(w, "x")
	}
	own, foreign := agenttest.New(t, record), agenttest.New(t, record)
	page := s.post(t, "/tasks", map[string]string{"agent_api_url": own.URL, "agent_api_headers": `{"X-Key": "k"}`}).page(t)
	sealed := page.Find("input[name=agent_api_headers_sealed]").AttrOr("value", "")
	require.NotEmpty(t, sealed)
	probe := func(client *http.Client, url, sealed string) string {
		s.client, sent = client, nil
		s.post(t, "/tasks/probe", map[string]string{"agent_api_url": url, "agent_api_headers_sealed": sealed})
		require.Len(t, sent, 1)
		return sent[0]
	}
	mine := s.client
	other, err := cookiejar.New(nil)
	require.NoError(t, err)
	require.Equal(t, "k", probe(mine, own.URL+"/another/path", sealed))
	require.Empty(t, probe(mine, foreign.URL, sealed), "another agent")
	require.Empty(t, probe(&http.Client{Jar: other}, own.URL, sealed), "another browser")

	at, err := url.Parse(s.URL)
	require.NoError(t, err)
	var browser string
	for _, cookie := range mine.Jar.Cookies(at) {
		if cookie.Name == "browser" {
			browser = cookie.Value
		}
	}
	sealer, err := secret.NewSealer(secret.Keys{Current: dbtest.SecretKey})
	require.NoError(t, err)
	for until, key := range map[time.Duration]string{time.Minute: "k", -time.Minute: ""} {
		old, err := sealer.Seal(map[string]any{"value": map[string]string{"X-Key": "k"}, "until": time.Now().Add(until)},
			"form "+browser+" "+own.URL)
		require.NoError(t, err)
		require.Equal(t, key, probe(mine, own.URL, base64.StdEncoding.EncodeToString(old)), until)
	}
}

// A file whose columns have other names is read once the user has assigned the columns. The page suggests the likely
// ones; the API has fields for them.
func TestColumnsMayHaveOtherNames(t *testing.T) {
	t.Parallel()
	s := newSite(t, false)
	const named = "编号,题目,参考答案,难度\n1,中国的首都是哪里？,北京,易\n"
	page := s.post(t, "/tasks/preview", map[string]string{"file@q.csv": named}).page(t)
	require.Equal(t, "题目", page.Find("[name=column_question] [selected]").AttrOr("value", ""))
	require.Equal(t, "参考答案", page.Find("[name=column_standard_answer] [selected]").AttrOr("value", ""))
	require.Empty(t, strings.TrimSpace(page.Find("#preview .error").Text()))
	require.Contains(t, page.Find("#preview").Text(), "中国的首都是哪里？")
	token := page.Find("[name=dataset_token]").AttrOr("value", "")
	require.NotEmpty(t, token)

	fields := map[string]string{"task_name": "列名", "agent_api_url": "http://127.0.0.1:9/x", "start": "false"}
	answer := s.post(t, "/tasks", with(with(with(fields, "dataset_token", token), "column_question", "题目"),
		"column_standard_answer", "参考答案"))
	require.Equal(t, http.StatusSeeOther, answer.StatusCode)
	id := strings.TrimPrefix(strings.Split(answer.Header.Get("Location"), "?")[0], "/tasks/")
	draft := s.get(t, "/tasks/"+id).page(t).Find("table").First().Text()
	require.Contains(t, draft, "中国的首都是哪里？")
	require.Contains(t, draft, "北京")

	// No column has a known name: the user chooses, and the file need not be sent again.
	page = s.post(t, "/tasks/preview", map[string]string{"file@q.csv": "x,y\n一,二\n"}).page(t)
	require.Equal(t, 3, page.Find(".column-choice select").Length())
	require.Contains(t, page.Find("#preview .error").Text(), "question")
	require.NotEmpty(t, page.Find("[name=dataset_token]").AttrOr("value", ""))
	page = s.post(t, "/tasks/preview", map[string]string{
		"file@q.csv": "x,y\n一,二\n", "column_question": "y", "column_standard_answer": "x",
	}).page(t)
	require.Empty(t, strings.TrimSpace(page.Find("#preview .error").Text()))
	require.Equal(t, "y", page.Find("[name=column_question] [selected]").AttrOr("value", ""))

	refused := s.post(t, api, map[string]string{"task_name": "x", "agent_api_url": "http://127.0.0.1:9/x",
		"file@q.csv": named})
	require.Equal(t, http.StatusUnprocessableEntity, refused.StatusCode)
	require.Contains(t, string(refused.body), "DATASET_SCHEMA_INVALID")
	made := s.create(t, "http://127.0.0.1:9/x", map[string]string{
		"file@q.csv": named, "start": "false", "column_question": "题目", "column_standard_answer": "参考答案",
	})
	cloned := s.post(t, api+"/"+made+"/clone", map[string]string{"start": "false"})
	require.Equal(t, http.StatusCreated, cloned.StatusCode, "%s", cloned.body)
	refused = s.post(t, api+"/"+made+"/clone", map[string]string{"start": "false", "file@q.csv": named})
	require.Equal(t, http.StatusUnprocessableEntity, refused.StatusCode, "another file says its own columns")
}

// A CSV file that Excel saved in China is previewed as it will be read, with the ids from its own column, and stays
// readable.
func TestAFileInGB18030WithIDsOfItsOwn(t *testing.T) {
	t.Parallel()
	s := newSite(t, false)
	gbk, err := simplifiedchinese.GB18030.NewEncoder().String("编号,题目,参考答案\nQ001,逾期几日内答复？,三十日\nQ002,可以停止支付吗？,可以\n")
	require.NoError(t, err)
	page := s.post(t, "/tasks/preview", map[string]string{"file@q.csv": gbk}).page(t)
	require.Equal(t, "gb18030", page.Find("[name=dataset_encoding]").AttrOr("value", ""))
	require.Equal(t, "编号", page.Find("[name=column_question_id] [selected]").AttrOr("value", ""))
	require.Equal(t, []string{"2", "Q001", "逾期几日内答复？", "三十日"},
		page.Find("#preview tbody tr").First().Find("td").Map(func(_ int, cell *goquery.Selection) string {
			return cell.Text()
		}))
	fields := map[string]string{
		"task_name": "GBK", "agent_api_url": "http://127.0.0.1:9/x", "start": "false",
		"dataset_token": page.Find("[name=dataset_token]").AttrOr("value", ""),
	}
	for _, name := range []string{"dataset_encoding", "column_question_id", "column_question", "column_standard_answer"} {
		fields[name] = page.Find("input[name="+name+"], [name="+name+"] [selected]").AttrOr("value", "")
	}
	none := s.post(t, "/tasks/preview", with(fields, "column_question_id", "")).page(t)
	require.Empty(t, none.Find("[name=column_question_id] [selected]").AttrOr("value", ""), "somebody has chosen none")
	require.Equal(t, 3, none.Find("#preview tbody tr").First().Find("td").Length(),
		"ids that nobody has seen are not shown")

	answer := s.post(t, "/tasks", fields)
	require.Equal(t, http.StatusSeeOther, answer.StatusCode, "%s", answer.body)
	id := strings.TrimPrefix(strings.Split(answer.Header.Get("Location"), "?")[0], "/tasks/")
	require.Equal(t, gbk, string(s.get(t, "/tasks/"+id+"/dataset").body), "the file stays as it came")
	clone := s.post(t, api+"/"+id+"/clone", map[string]string{"task_name": "again", "start": "false"})
	require.Equal(t, http.StatusCreated, clone.StatusCode, "%s", clone.body)

	columns := map[string]string{
		"file@q.csv": gbk, "column_question_id": "编号", "column_question": "题目",
		"column_standard_answer": "参考答案", "start": "false",
	}
	for encoding, code := range map[string]string{"": "DATASET_ENCODING_INVALID", "big5": "PARAMETER_INVALID"} {
		refused := s.post(t, api, with(with(with(columns, "dataset_encoding", encoding), "task_name", "x"), "agent_api_url",
			"http://127.0.0.1:9/x"))
		require.Equal(t, http.StatusUnprocessableEntity, refused.StatusCode)
		require.Contains(t, string(refused.body), code)
	}
	made := s.create(t, "http://127.0.0.1:9/x", with(columns, "dataset_encoding", "gb18030"))
	var items []string
	require.NoError(t, s.tables.Select(&items,
		`SELECT question_id FROM evaluation_items WHERE task_id = $1 ORDER BY sort_key`, made))
	require.Equal(t, []string{"Q001", "Q002"}, items)

	saved := s.post(t, "/api/v1/datasets", map[string]string{
		"name": "GBK", "file@q.csv": gbk, "dataset_encoding": "gb18030", "column_question_id": "编号",
		"column_question": "题目", "column_standard_answer": "参考答案",
	})
	require.Equal(t, http.StatusCreated, saved.StatusCode, "%s", saved.body)
	var kept struct{ ID string }
	saved.into(t, &kept)
	of := s.post(t, api, map[string]string{
		"task_name": "of it", "agent_api_url": "http://127.0.0.1:9/x", "dataset": kept.ID, "start": "false",
	})
	require.Equal(t, http.StatusCreated, of.StatusCode, "%s", of.body)
	items = nil
	require.NoError(t, s.tables.Select(&items,
		`SELECT question_id FROM evaluation_items WHERE task_id = (SELECT id FROM evaluation_tasks WHERE task_name = 'of it') ORDER BY sort_key`))
	require.Equal(t, []string{"Q001", "Q002"}, items)
}

// The field for concurrency shows the effective number: it is limited by the lanes of all workers.
func TestTheFormSaysHowManyCallsThereAreAtOnce(t *testing.T) {
	t.Parallel()
	s := newSite(t, false)
	hint := func(path string) string {
		return s.get(t, path).page(t).Find(".field-row:has(#concurrency) .hint").Text()
	}
	require.Contains(t, hint("/"), "没有执行节点")
	_, err := s.tables.Exec(`INSERT INTO workers (id, host, process_id, lanes) VALUES (gen_random_uuid(), 'a', 1, 1)`)
	require.NoError(t, err)
	require.Contains(t, hint("/"), "现有的执行节点最多同时发出 1 次调用")
	require.Contains(t, hint("/compare"), "最多同时发出 1 次调用")
	_, err = s.tables.Exec(
		`INSERT INTO workers (id, host, process_id, lanes, beat_at) VALUES (gen_random_uuid(), 'b', 1, 8, now()), (gen_random_uuid(), 'c', 1, 8, now() - interval '1 hour')`)
	require.NoError(t, err)
	require.Contains(t, hint("/"), "最多同时发出 9 次调用", "those that are gone do not count")
	require.Contains(t, hint("/"), "EVALUATION_CONCURRENCY=18", "the remedy is more than there is")
}

// Screen readers read a hint together with its field, and every page has exactly one main heading that names it.
func TestHintsBelongToTheirFields(t *testing.T) {
	t.Parallel()
	s := newSite(t, false)
	for _, path := range []string{
		"/", "/compare", "/library/agents/new", "/library/providers/new", "/library/models/new", "/library/prompts/new",
		"/library/datasets/new",
		"/library/channels/new", "/library/evaluators/new?kind=judge", "/library/evaluators/new?kind=number",
	} {
		page := s.get(t, path).page(t)
		require.Equal(t, 1, page.Find("h1").Length(), path)
		described := map[string]bool{}
		page.Find("[aria-describedby]").Each(func(_ int, field *goquery.Selection) {
			for _, id := range strings.Fields(field.AttrOr("aria-describedby", "")) {
				described[id] = true
				require.Equal(t, 1, page.Find(`[id="`+id+`"]`).Length(), "%s: %s", path, id)
			}
		})
		page.Find(".field-row > .hint").Each(func(_ int, hint *goquery.Selection) {
			if hint.Find("a").Length() == 0 || hint.AttrOr("id", "") != "" { // a hint with just a link describes no field
				require.True(t, described[hint.AttrOr("id", "")], "%s: %s", path, hint.Text())
			}
		})
	}
}
