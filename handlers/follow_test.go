package handlers_test

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/PuerkitoBio/goquery"
	"github.com/stretchr/testify/require"

	"wending/db/dbtest"
	"wending/db/entries"
	"wending/jobs/agent/agenttest"
)

// followed is a task made of entries of the library, whose agent accepts one key only.
type followed struct {
	*site
	agent *agenttest.Agent
	// key is the only key that the agent accepts.
	key                                    atomic.Value
	task                                   string
	agentID, prompt, evaluator, dataset    string
	promptPath, evaluatorPath, datasetPath string
}

const twoQuestions = "question_id,question,standard_answer\nid1,q1,a\nid2,q2,b\n"

func newFollowed(t *testing.T, withWorker bool) *followed {
	t.Helper()
	f := &followed{site: newSite(t, withWorker)}
	f.key.Store("old-key")
	f.agent = agenttest.New(t, func(w http.ResponseWriter, call agenttest.Call) {
		if call.Header.Get("X-Key") != f.key.Load() {
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		agenttest.Stream(w, "a")
	})
	f.agentID = f.entry(t, "POST", "agents", object{"name": "问答", "protocol": "default", "url": f.agent.URL,
		"headers": object{"X-Key": "old-key"}, "rate_limit": "unlimited"}, 201)["id"].(string)
	f.prompt = f.entry(t, "POST", "prompts", object{"name": "简短", "user": "one {{question}}"}, 201)["id"].(string)
	f.evaluator = f.site.evaluator(t, "包含", "contains", object{"values": []string{"a"}})
	f.dataset = f.post(t, libraryAPI+"datasets", map[string]string{"name": "题库", "file@q.csv": twoQuestions}).
		mustBe(t, 201)["id"].(string)
	f.promptPath, f.evaluatorPath, f.datasetPath = "prompts/"+f.prompt, "evaluators/"+f.evaluator, "datasets/"+f.dataset
	f.task = f.entry(t, "POST", "evaluation-tasks", object{"task_name": "回归", "agents": []string{f.agentID},
		"prompts": []string{f.prompt + "@1"}, "evaluators": []string{f.evaluator}, "dataset": f.dataset,
		"runs_per_item": 1, "max_retries": 0, "start": false}, 201)["task_id"].(string)
	return f
}

// renew changes every entry of the library that the task uses.
func (f *followed) renew(t *testing.T) {
	t.Helper()
	f.key.Store("new-key")
	f.entry(t, "PATCH", "agents/"+f.agentID, object{"headers": object{"X-Key": "new-key"}}, 200)
	f.entry(t, "POST", f.promptPath+"/versions", object{"user": "two {{question}}"}, 201)
	f.entry(t, "PATCH", f.evaluatorPath, object{"config": object{"values": []string{"z"}}}, 200)
	f.post(t, libraryAPI+f.datasetPath+"/versions", map[string]string{"file@q.csv": twoQuestions + "id3,q3,c\n"}).
		mustBe(t, 201)
}

// fires makes a schedule fire, waits for the new task's summary, and returns the task and its point in the trend.
func (f *followed) fires(t *testing.T, id string, ago int) (task, point object) {
	t.Helper()
	before := len(f.listed(t, "schedules/"+id+"/tasks"))
	f.due(t, id, ago)
	dbtest.Await(t, 30*time.Second, "it fires", func() bool {
		listed := f.listed(t, "schedules/"+id+"/tasks")
		if len(listed) == before+1 {
			point = listed[0]
		}
		return len(listed) == before+1 && len(point["variants"].([]any)) > 0
	})
	return f.entry(t, "GET", "evaluation-tasks/"+point["task_id"].(string), nil, 200), point
}

// datasetVersion returns the version of its dataset that a task uses.
func (f *followed) datasetVersion(t *testing.T, task object) (version int) {
	t.Helper()
	require.NoError(t, f.tables.Get(&version, `SELECT dataset_version FROM evaluation_tasks WHERE id = $1`, task["task_id"]))
	return version
}

// A new schedule takes credentials and newest versions from the library at each firing, and its trend shows what
// changed; a frozen one copies the task as it was, and its page explains why its calls are refused.
func TestAScheduleFollowsTheLibraryOrStaysFrozen(t *testing.T) {
	t.Parallel()
	f := newFollowed(t, true)
	following := f.schedule(t, "跟随", f.task, nil)
	frozen := f.schedule(t, "不变", f.task, object{"follow": "frozen"})
	require.Equal(t, "latest", f.entry(t, "GET", "schedules/"+following, nil, 200)["follow"])
	require.Equal(t, "frozen", f.entry(t, "GET", "schedules/"+frozen, nil, 200)["follow"])
	require.Equal(t, "frozen", f.entry(t, "PATCH", "schedules/"+frozen, object{"name": "不变的"}, 200)["follow"])
	refused := f.entry(t, "PATCH", "schedules/"+frozen, object{"follow": "sometimes"}, 422)
	require.Equal(t, "follow", refused["details"].([]any)[0].(object)["column"])

	task, point := f.fires(t, following, 2)
	require.EqualValues(t, 2, task["statistics"].(object)["succeeded"])
	require.Empty(t, point["configuration_changes"])
	f.fires(t, frozen, 2)

	f.renew(t)
	task, point = f.fires(t, following, 1)
	require.EqualValues(t, 3, task["statistics"].(object)["succeeded"], "the new key, and the new question")
	require.Equal(t, 2, f.datasetVersion(t, task))
	require.EqualValues(t, 2, task["variants"].([]any)[0].(object)["prompt_version"])
	require.EqualValues(t, 2, task["evaluators"].([]any)[0].(object)["version"])
	require.EqualValues(t, 0, task["statistics"].(object)["pass_rate"])
	last := f.agent.Calls()[len(f.agent.Calls())-1]
	require.True(t, strings.HasPrefix(last.Question, "two q"), last.Question)
	kinds := map[string]object{}
	for _, change := range point["configuration_changes"].([]any) {
		kinds[change.(object)["kind"].(string)] = change.(object)
	}
	require.Len(t, kinds, 4)
	require.Equal(t, "简短 v1", kinds["prompt"]["before"])
	require.Equal(t, "简短 v2", kinds["prompt"]["now"])
	require.Equal(t, "包含 v2", kinds["evaluator"]["now"])
	require.Equal(t, "q.csv v2", kinds["dataset"]["now"])
	require.Equal(t, "问答", kinds["credentials"]["now"])
	page := f.get(t, "/library/schedules/"+following).page(t)
	require.Contains(t, page.Text(), "跟随最新：每次执行都从资源库取当时的密钥和最新版本")
	require.Contains(t, page.Find(".follows").Text(), "题库")
	require.Contains(t, page.Find("tbody").Text(), "提示词：简短 v1 → 简短 v2")
	require.Contains(t, page.Find("line.restart title").First().Text(), "提示词：简短 v1 → 简短 v2")
	require.NotContains(t, string(f.get(t, "/library/schedules/"+following).body), "new-key")

	task, _ = f.fires(t, frozen, 1)
	require.EqualValues(t, 2, task["statistics"].(object)["error_codes"].(object)["HTTP_401"])
	require.Equal(t, 1, f.datasetVersion(t, task))
	require.EqualValues(t, 1, task["variants"].([]any)[0].(object)["prompt_version"])
	page = f.get(t, "/library/schedules/"+frozen).page(t)
	require.Contains(t, page.Text(), "2 次调用返回 401（密钥无效），而问答在任务创建之后改过")
	link, _ := page.Find(".error-text a").Attr("href")
	settings := f.get(t, strings.TrimSuffix(link, "#follow")).page(t)
	require.Equal(t, 1, settings.Find("details.edit[open] #follow input[value=latest][checked]").Length())
	f.entry(t, "PATCH", "schedules/"+frozen, object{"follow": "latest"}, 200)
	require.NotContains(t, f.get(t, "/library/schedules/"+frozen).page(t).Text(), "401")
	task, _ = f.fires(t, frozen, 0)
	require.EqualValues(t, 3, task["statistics"].(object)["succeeded"])
}

// A schedule keeps a version that was not the newest when its task was created, because a person chose it. If an entry
// is archived, the schedule uses its last state. The page shows both.
func TestAChosenVersionStaysAndAnArchivedEntryKeepsItsLast(t *testing.T) {
	t.Parallel()
	f := newFollowed(t, true)
	f.entry(t, "POST", f.promptPath+"/versions", object{"user": "two {{question}}"}, 201)
	f.post(t, libraryAPI+f.datasetPath+"/versions", map[string]string{"file@q.csv": twoQuestions + "id3,q3,c\n"}).
		mustBe(t, 201)
	task := f.entry(t, "POST", "evaluation-tasks", object{"task_name": "较早", "agents": []string{f.agentID},
		"prompts": []string{f.prompt + "@1"}, "evaluators": []string{f.evaluator}, "dataset": f.dataset + "@1",
		"runs_per_item": 1, "start": false}, 201)["task_id"].(string)
	f.renew(t)
	f.entry(t, "DELETE", f.evaluatorPath, nil, 204)
	id := f.schedule(t, "较早的", task, nil)
	copied, _ := f.fires(t, id, 1)
	require.EqualValues(t, 1, copied["variants"].([]any)[0].(object)["prompt_version"])
	require.Equal(t, 1, f.datasetVersion(t, copied))
	require.EqualValues(t, 2, copied["evaluators"].([]any)[0].(object)["version"])
	require.EqualValues(t, 2, copied["statistics"].(object)["succeeded"], "with the new key")
	said := f.get(t, "/library/schedules/"+id).page(t).Find(".follows li").Map(func(_ int, one *goquery.Selection) string {
		return strings.Join(strings.Fields(one.Text()), " ")
	})
	require.Equal(t, []string{"智能体 问答 · 跟随最新", "提示词 简短 v1 · 创建任务时选了较早的版本，一直沿用",
		"评估器 包含 v2 · 已归档，沿用最后的内容", "数据集 题库 v1 · 创建任务时选了较早的版本，一直沿用"}, said)
}

// A firing does not start if a new task with the same settings would be refused, and the page shows the reason.
func TestAFiringPassesTheChecksOfANewTask(t *testing.T) {
	t.Parallel()
	f := newFollowed(t, true)
	rows := func(column string) string {
		return "question_id,question,standard_answer," + column + "\nid1,q1,a,x\nid2,q2,b,y\n"
	}
	saved := f.post(t, libraryAPI+"datasets", map[string]string{"name": "分组", "file@q.csv": rows("topic")}).
		mustBe(t, 201)["id"].(string)
	task := f.entry(t, "POST", "evaluation-tasks", object{"task_name": "分组", "agents": []string{f.agentID},
		"dataset": saved, "cluster_by": "topic", "runs_per_item": 1, "start": false}, 201)["task_id"].(string)
	f.post(t, libraryAPI+"datasets/"+saved+"/versions", map[string]string{"file@q.csv": rows("area")}).mustBe(t, 201)
	typed := f.create(t, f.agent.URL, map[string]string{"start": "false"})
	f.tables.MustExec(`UPDATE task_targets SET url = 'http://10.1.2.3/' WHERE task_id = $1`, typed)
	outgrown := f.create(t, f.agent.URL, map[string]string{"start": "false"})
	f.tables.MustExec(`UPDATE task_targets SET model = repeat('x', 201) WHERE task_id = $1`, outgrown)
	for task, reason := range map[string]string{task: entries.ReasonColumn, typed: entries.ReasonAddress,
		outgrown: entries.ReasonInvalid} {
		said := map[string]string{entries.ReasonColumn: "缺少任务用到的列", entries.ReasonAddress: "已不在允许访问的范围内",
			entries.ReasonInvalid: "不再符合要求"}[reason]
		id := f.schedule(t, reason, task, nil)
		f.due(t, id, 1)
		dbtest.Await(t, 20*time.Second, reason, func() bool { return len(f.listed(t, "schedules/"+id+"/firings")) == 1 })
		firing := f.listed(t, "schedules/"+id+"/firings")[0]
		require.Equal(t, "FAILED", firing["outcome"])
		require.Equal(t, reason, firing["reason"])
		require.Contains(t, f.get(t, "/library/schedules/"+id).page(t).Text(), said)
	}
}

// A process without datasets does not fire a schedule that needs a new version of a dataset. A process with datasets
// fires it instead, after waiting for a while.
func TestAScheduleThatNeedsAFileWaitsForIt(t *testing.T) {
	t.Parallel()
	f := newFollowed(t, false)
	id := f.schedule(t, "等文件", f.task, nil)
	f.renew(t)
	without, late := *f.scheduler, *f.scheduler
	bare := *f.scheduler.Library
	bare.Files = nil
	without.Library, late.Late = &bare, time.Hour
	f.due(t, id, 1)
	require.NoError(t, without.Fire(t.Context()))
	require.NoError(t, late.Fire(t.Context()))
	require.Empty(t, f.listed(t, "schedules/"+id+"/firings"))
	require.NoError(t, f.scheduler.Fire(t.Context()))
	require.Equal(t, "STARTED", f.listed(t, "schedules/"+id+"/firings")[0]["outcome"])
}
