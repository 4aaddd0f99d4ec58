package handlers_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/PuerkitoBio/goquery"
	"github.com/stretchr/testify/require"

	"wending/db/dbtest"
	"wending/jobs/agent/agenttest"
)

// fragment requests a part of a page, as htmx does.
func (s *site) fragment(t *testing.T, path string) response {
	t.Helper()
	request, err := http.NewRequest(http.MethodGet, s.URL+path, nil)
	require.NoError(t, err)
	request.Header.Set("HX-Request", "true")
	return s.do(t, request)
}

// One request updates all rows, new ones included; its response is empty while nothing has changed.
func TestOneRequestKeepsAllRowsUpToDate(t *testing.T) {
	t.Parallel()
	s := newSite(t, false)
	s.create(t, "http://127.0.0.1:1/", nil)
	page := s.get(t, "/tasks").page(t)
	require.Equal(t, 1, page.Find("[hx-get]").Length(), "one part of the page asks")
	path := page.Find("#rows").AttrOr("hx-get", "")
	require.Equal(t, http.StatusNoContent, s.fragment(t, path).StatusCode)
	s.create(t, "http://127.0.0.1:1/", map[string]string{"task_name": "another"})
	changed := s.fragment(t, path)
	require.Equal(t, http.StatusOK, changed.StatusCode)
	rows := changed.page(t)
	require.Equal(t, 2, rows.Find("tbody tr").Length())
	require.Equal(t, http.StatusNoContent, s.fragment(t, rows.Find("#rows").AttrOr("hx-get", "")).StatusCode)
	require.Equal(t, http.StatusSeeOther, s.get(t, path).StatusCode, "a person who opens the address sees the list")
}

func TestPagesHaveNumbersAndAWayBackFromPastTheEnd(t *testing.T) {
	t.Parallel()
	s := newSite(t, false)
	for n := range 7 {
		s.create(t, "http://127.0.0.1:1/", map[string]string{"task_name": fmt.Sprint("task ", n), "start": "false"})
	}
	page := s.get(t, "/tasks?page=2&page_size=2").page(t)
	require.Equal(t, "2", strings.TrimSpace(page.Find(".pager [aria-current=page]").Text()))
	var links []string
	page.Find(".pager a, .pager [aria-current=page]").Each(func(_ int, link *goquery.Selection) {
		links = append(links, strings.TrimSpace(link.Text()))
	})
	require.Equal(t, []string{"上一页", "1", "2", "3", "4", "下一页"}, links)
	past := s.get(t, "/tasks?page=99&page_size=2")
	require.Equal(t, http.StatusSeeOther, past.StatusCode)
	require.Contains(t, past.Header.Get("Location"), "page=4")
	require.Equal(t, 1, s.get(t, past.Header.Get("Location")).page(t).Find("tbody tr").Length())
}

func TestDraftsHaveAChipAndAnEmptyResultOffersToClearTheFilter(t *testing.T) {
	t.Parallel()
	s := newSite(t, false)
	s.create(t, "http://127.0.0.1:1/", map[string]string{"task_name": "waiting"})
	s.create(t, "http://127.0.0.1:1/", map[string]string{"task_name": "draft", "start": "false"})
	require.Equal(t, "draft", s.get(t, "/tasks?status=DRAFT").page(t).Find("tbody .name").Text())
	require.Equal(t, "waiting", s.get(t, "/tasks?status=PENDING").page(t).Find("tbody .name").Text())
	require.Equal(t, 2, s.get(t, "/tasks?status=DRAFT&status=PENDING").page(t).Find("tbody tr").Length())
	none := s.get(t, "/tasks?query=nothing").page(t)
	require.Contains(t, none.Find("#rows").Text(), "没有符合条件的任务")
	require.Equal(t, "/tasks", none.Find("#rows a").AttrOr("href", ""))
}

// A task whose calls have all failed does not look healthy, neither in the list nor on its page.
func TestATaskWhoseEveryCallFailedSaysSo(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	fake := agenttest.New(t, func(w http.ResponseWriter, _ agenttest.Call) {
		http.Error(w, "down", http.StatusBadGateway)
	})
	id := s.create(t, fake.URL, nil)
	s.awaitDone(t, id)
	row := s.get(t, "/tasks").page(t).Find("tbody tr")
	require.Equal(t, "10 次失败", strings.TrimSpace(row.Find(".failures").Text()))
	require.Equal(t, 1, row.Find("td:not(.col-chosen) .bad").Length(), "the bar is stacked")
	page := s.get(t, "/tasks/"+id).page(t)
	require.NotContains(t, page.Find("main").Text(), "还没有数据")
	require.Contains(t, page.Find("main").Text(), "没有成功的运行，无法统计耗时")
	require.Contains(t, page.Find(".causes").Text(), "HTTP_502")
	require.Equal(t, "智能体返回 HTTP 502",
		page.Find(`.causes a[href="/tasks/`+id+`/results?error_code=HTTP_502"]`).First().Text(),
		"a cause leads to its questions")
	require.Contains(t, strings.Join(strings.Fields(page.Find("#do-retry").Text()), ""), "重试（10）")
	report := s.get(t, "/tasks/"+id+"/results").page(t)
	require.Equal(t, "智能体返回 HTTP 502", strings.TrimSpace(report.Find(".run .message").First().Text()))
	require.Equal(t, "问题出在智能体一侧：请稍后重试，或查看它的日志", report.Find(".run .remedy").First().Text())
	require.Equal(t, "HTTP_502 The agent answered HTTP 502 Bad Gateway: down", report.Find(".run .detail").First().Text())
	order := report.Find(".run.is-failed").First().Children().Slice(1,
		goquery.ToEnd).Map(func(_ int, p *goquery.Selection) string {
		return p.AttrOr("class", "")
	})
	require.Equal(t, []string{"message", "remedy", "detail"}, order, "the reader's words come first")
}

// The page of a task shows which limit slows it down, and which task set that limit.
func TestAPageSaysWhatHoldsTheTaskBack(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	release := make(chan struct{})
	fake := agenttest.New(t, func(w http.ResponseWriter, _ agenttest.Call) {
		<-release
		agenttest.Stream(w, "x")
	})
	t.Cleanup(func() { close(release) })
	s.create(t, fake.URL, map[string]string{"task_name": "慢的", "rate_limit": "30/m"})
	dbtest.Await(t, time.Minute, "a call", func() bool { return len(fake.Calls()) > 0 })
	id := s.create(t, fake.URL, map[string]string{"task_name": "快的", "rate_limit": "unlimited"})
	dbtest.Await(t, time.Minute, "the note", func() bool {
		return strings.Contains(s.get(t, "/tasks/"+id).page(t).Find(".note").Text(), "按 30/m 限速（同一智能体的任务“慢的”所设）")
	})
	s.act(t, id, "stop")
}

// Long questions and standard answers are folded, so that the answers stay on the screen.
func TestLongQuestionsAndStandardAnswersFold(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	fake := agenttest.New(t, func(w http.ResponseWriter, _ agenttest.Call) { agenttest.Stream(w, "x") })
	id := s.create(t, fake.URL, map[string]string{"file@q.csv": "question,standard_answer\n" + strings.Repeat("问", 3000) +
		"," + strings.Repeat("答", 3000) + "\n短,短\n"})
	s.awaitDone(t, id)
	cards := s.get(t, "/tasks/"+id+"/results").page(t).Find(".result")
	require.Equal(t, 1, cards.First().Find("h2 details.fold").Length())
	require.Equal(t, 1, cards.First().Find(".standard details.fold").Length())
	require.Less(t, len([]rune(cards.First().Find("h2 summary .text").Text())), 500)
	require.Contains(t, cards.First().Find("h2 details.fold > .text").Text(), strings.Repeat("问", 3000),
		"the whole text is there")
	require.Zero(t, cards.Last().Find("h2 details, .standard details").Length())
	live := s.get(t, "/tasks/"+id).page(t).Find("#live")
	require.Contains(t, live.AttrOr("data-ended", ""), "稳定性测试",
		"what the window's title and the notification say at the end")
}

// For every failure, pages show the text that spec/004 1.6 requires.
func TestFailuresOfPagesHaveTheirTexts(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	fake := agenttest.New(t, func(w http.ResponseWriter, _ agenttest.Call) { agenttest.Stream(w, "x") })
	id := s.create(t, fake.URL, nil)
	s.awaitDone(t, id)
	list := s.get(t, "/tasks").page(t)
	require.Equal(t, "网络连接失败，请检查网络后重试", list.Find("body").AttrOr("data-network-error", ""))
	require.Equal(t, "加载任务列表失败，请刷新重试", list.Find("#rows").AttrOr("data-failed", ""))
	report := s.get(t, "/tasks/"+id+"/results").page(t)
	export := report.Find(`[data-export][href*="format=csv"]`)
	require.Equal(t, "导出CSV失败，请重试", export.AttrOr("data-failed", ""))
	require.Equal(t, "任务尚未完成，无法导出", export.AttrOr("data-unfinished", ""))
	form := s.get(t, "/").page(t).Find("#create")
	for name, want := range map[string]string{
		"data-name-missing": "请输入任务名称", "data-name-long": "任务名称不能超过64个字符", "data-url-missing": "请输入智能体API URL",
		"data-url-invalid": "请输入有效的HTTP或HTTPS地址", "data-file-missing": "请上传测试数据集文件", "data-too-large": "文件大小不能超过5MB，请压缩后重试",
		"data-unsupported": "仅支持CSV或Excel格式文件",
	} {
		require.Equal(t, want, form.AttrOr(name, ""), name)
	}
	s.create(t, fake.URL, map[string]string{"task_name": "失败的", "start": "false"})
	_, err := s.tables.Exec(`UPDATE evaluation_tasks SET status = 'FAILED' WHERE task_name = '失败的'`)
	require.NoError(t, err)
	_, err = s.tables.Exec(`UPDATE evaluation_tasks SET status = 'RUNNING' WHERE id = $1`, id)
	require.NoError(t, err)
	rows := strings.Join(strings.Fields(s.get(t, "/tasks").page(t).Find("tbody .tag").Text()), "")
	require.Equal(t, "失败运行中", rows)

	require.NoError(t, s.store.Close())
	for path, want := range map[string]string{
		"/tasks":                    "加载任务列表失败，请刷新重试",
		"/tasks/" + id + "/results": "加载评测结果失败，请刷新重试",
	} {
		answer := s.get(t, path)
		require.GreaterOrEqual(t, answer.StatusCode, 500, path)
		require.Equal(t, want, answer.page(t).Find("h1").Text(), path)
	}
}

// Refreshing the list shows recent changes: every recorded run updates its task.
func TestATaskIsUpdatedByEachOfItsRuns(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	open := make(chan struct{})
	fake := agenttest.New(t, func(w http.ResponseWriter, call agenttest.Call) {
		if strings.HasPrefix(call.Question, "中国") {
			<-open
		}
		agenttest.Stream(w, "x")
	})
	id := s.create(t, fake.URL, map[string]string{"runs_per_item": "1"})
	var task struct {
		CreatedAt   time.Time  `json:"created_at"`
		UpdatedAt   time.Time  `json:"updated_at"`
		StartedAt   time.Time  `json:"started_at"`
		CompletedAt *time.Time `json:"completed_at"`
	}
	var recorded time.Time
	dbtest.Await(t, time.Minute, "the first of two runs", func() bool {
		return s.tables.Get(&recorded, `SELECT created_at FROM evaluation_runs WHERE task_id = $1`, id) == nil
	})
	_, err := s.tables.Exec(`UPDATE evaluation_tasks SET updated_at = updated_at - interval '1 hour' WHERE id = $1`, id)
	require.NoError(t, err, "the start was long ago")
	s.get(t, api+"/"+id).into(t, &task)
	require.Equal(t, recorded.Unix(), task.UpdatedAt.Unix())
	require.False(t, task.UpdatedAt.Before(task.StartedAt))
	var list struct {
		Items []struct {
			UpdatedAt time.Time `json:"updated_at"`
		}
	}
	s.get(t, api).into(t, &list)
	require.Equal(t, task.UpdatedAt, list.Items[0].UpdatedAt)
	close(open)
	s.awaitDone(t, id)
	s.get(t, api+"/"+id).into(t, &task)
	require.False(t, task.UpdatedAt.Before(*task.CompletedAt))
}

// People choose the list's columns: their browser remembers the choice, and the address contains it.
func TestPeopleChooseTheColumnsOfTheList(t *testing.T) {
	t.Parallel()
	s := newSite(t, false)
	id := dbtest.Seed(t, s.tables, 1, 3, 2)
	several := dbtest.SeedVariants(t, s.tables, 1, 4, 2, 2)
	s.tables.MustExec(
		`UPDATE evaluation_tasks SET statistics = CAST(CAST(statistics AS jsonb) || '{"agreement": 0.8, "levels": {"facts": 2}, "facts_differ": {}, "pass_rate": 0.5, "cost": "0.123456", "currency": "CNY"}' AS json) WHERE id = $1`, id)
	s.tables.MustExec(
		`UPDATE evaluation_tasks SET statistics = CAST(CAST(statistics AS jsonb) || '{"agreement_range": [0.5, 0.9], "facts_range": [1, 3], "pass_rate_range": [0.25, 0.75], "levels": {}, "facts_differ": {}}' AS json) WHERE id = $1`, several)
	s.tables.MustExec(`
		INSERT INTO reviews (item_id, reviewer, verdict, note, version, is_withdrawn)
		SELECT id, 'Li', CASE WHEN question_id = 'q0001' THEN 'FAIL' ELSE 'PASS' END, '', 1, question_id = 'q0003'
		FROM evaluation_items WHERE task_id = $1`, id)
	cells := func(page *goquery.Document, task string) (texts []string) {
		page.Find("#task-" + task + " .col-chosen").Each(func(_ int, cell *goquery.Selection) {
			texts = append(texts, strings.Join(strings.Fields(cell.Clone().Find("svg").Remove().End().Text()), ""))
		})
		return texts
	}
	all := s.get(t, "/tasks?columns=agent,agreement,pass_rate,facts,verdicts,cost,dataset").page(t)
	require.Equal(t, []string{"80.0%", "50.0%", "2", "2/31题不通过", "0.1235CNY", "q.csv", "127.0.0.1:9/"},
		cells(all, id.String()), "in the order of the list")
	require.Equal(t, []string{"50.0%–90.0%", "25.0%–75.0%", "1–3", "0/4", "–", "q.csv", "2个方案"},
		cells(all, several.String()), "a comparison shows the range of its variants")

	chosen := s.post(t, "/tasks/columns", map[string]string{"columns": "cost", "back": "/tasks?status=SUCCEEDED&page=3"})
	require.Equal(t, http.StatusSeeOther, chosen.StatusCode)
	require.Equal(t, "/tasks?columns=cost&page=3&status=SUCCEEDED", chosen.Header.Get("Location"))
	request, err := http.NewRequest(http.MethodGet, s.URL+"/tasks", nil)
	require.NoError(t, err)
	for _, cookie := range chosen.Cookies() {
		request.AddCookie(cookie)
	}
	require.Equal(t, []string{"0.1235CNY"}, cells(s.do(t, request).page(t), id.String()), "the browser keeps them")
	require.Empty(t, cells(s.get(t, "/tasks?columns=none").page(t), id.String()))
	for query, parameter := range map[string]string{"columns=price": "columns", "group=colour": "group",
		"older=x": "older"} {
		require.Contains(t, s.get(t, "/tasks?"+query).Header.Get("Location"), "left_out="+parameter)
	}
	require.Equal(t, http.StatusSeeOther, s.post(t, "/tasks/columns",
		map[string]string{"back": "//elsewhere.example/"}).StatusCode)
	refused := s.post(t, "/tasks/columns", map[string]string{"columns": "price"})
	require.Equal(t, http.StatusUnprocessableEntity, refused.StatusCode)
}

// A list is grouped by agent or by questions, or shows only the newest task on each set of questions, with a summary
// of the earlier ones.
func TestTheListIsArranged(t *testing.T) {
	t.Parallel()
	s := newSite(t, false)
	dbtest.Seed(t, s.tables, 12, 1, 1) // task 1 is the newest
	s.tables.MustExec(`UPDATE evaluation_tasks SET dataset_name = 'other.csv' WHERE task_name IN ('task 2', 'task 5')`)
	s.tables.MustExec(
		`UPDATE task_targets g SET url = 'https://agent.example/run' FROM evaluation_tasks t WHERE t.id = g.task_id AND t.task_name IN ('task 1', 'task 4')`)
	s.tables.MustExec(
		`UPDATE evaluation_tasks SET statistics = CAST(CAST(statistics AS jsonb) || '{"agreement": 0.75}' AS json) WHERE task_name = 'task 3'`)
	read := func(query string) (shelves, names []string, page *goquery.Document) {
		page = s.get(t, "/tasks?"+query).page(t)
		page.Find(".shelf th").Each(func(_ int, head *goquery.Selection) {
			shelves = append(shelves, strings.Join(strings.Fields(head.Text()), " "))
		})
		page.Find("tbody .name").Each(func(_ int, name *goquery.Selection) {
			names = append(names, strings.TrimPrefix(name.Text(), "task "))
		})
		return shelves, names, page
	}
	shelves, names, _ := read("group=dataset")
	require.Equal(t, []string{"q.csv 10 个任务", "other.csv 2 个任务"}, shelves, "the group with the newest task first")
	require.Equal(t, "1,3,4,6,7,8,9,10,11,12,2,5", strings.Join(names, ","))
	shelves, names, page := read("group=agent&page_size=3")
	require.Equal(t, []string{"agent.example/run 2 个任务", "127.0.0.1:9/ 10 个任务"}, shelves)
	require.Equal(t, "1,4,2", strings.Join(names, ","))
	require.Contains(t, page.Find(".pager a").Last().AttrOr("href", ""), "group=agent", "the next page is grouped as well")
	shelves, names, page = read("older=fold")
	require.Empty(t, shelves)
	require.Equal(t, "1,2", strings.Join(names, ","))
	require.Equal(t, "较早 9 次： 75.0% 已完成 已完成 已完成 已完成 已完成 …",
		strings.Join(strings.Fields(page.Find(".earlier").First().Text()), " "))
	require.Equal(t, "较早 1 次： 已完成", strings.Join(strings.Fields(page.Find(".earlier").Last().Text()), " "))
	_, names, _ = read("older=fold&query=task+5")
	require.Equal(t, "5", strings.Join(names, ","), "the newest of those that match")
	require.Equal(t, http.StatusSeeOther, s.get(t, "/tasks?group=agent&page=9").StatusCode)
	path := page.Find("#rows").AttrOr("hx-get", "")
	require.Equal(t, http.StatusNoContent, s.fragment(t, path).StatusCode,
		"the rows are asked for in the same arrangement")
}

// All tasks on a dataset, on a file, of an agent or at an address have a common page, with their numbers over time.
func TestDatasetsAndAgentsHaveAHistory(t *testing.T) {
	t.Parallel()
	s := newSite(t, false)
	dbtest.Seed(t, s.tables, 5, 1, 1)
	dbtest.SeedVariants(t, s.tables, 1, 2, 2, 1)
	agent := s.entry(t, "POST", "agents", object{"name": "助手", "protocol": "default", "url": "http://127.0.0.1:9/"},
		201)["id"].(string)
	s.tables.MustExec(
		`UPDATE evaluation_tasks SET statistics = CAST(CAST(statistics AS jsonb) || '{"agreement": 0.75, "cost": "0.5"}' AS json) WHERE task_name <> 'task 5'`)
	s.tables.MustExec(
		`UPDATE task_targets g SET library_id = $1, name = '助手', kind = 'agent' FROM evaluation_tasks t WHERE t.id = g.task_id AND t.task_name = 'task 2'`, agent)
	file := s.get(t, "/tasks/history?file=q.csv").page(t)
	require.Equal(t, 6, file.Find("tbody tr").Length())
	require.Equal(t, 4, file.Find(".trend").First().Find("circle").Length(), "those with one variant and a number")
	require.Equal(t, 2, file.Find(".trend").First().Find(".key li").Length(), "a curve for each agent")
	require.Equal(t, 2, s.get(t, "/tasks/history?file=q.csv&page=3&page_size=2").page(t).Find("tbody tr").Length())
	require.Equal(t, http.StatusSeeOther, s.get(t, "/tasks/history?file=q.csv&page=9").StatusCode)
	s.tables.MustExec(`
		UPDATE evaluation_tasks
		SET statistics = CAST(CAST(statistics AS jsonb) || '{"agreement_range": [0.5, 0.9]}' AS json)
		WHERE id IN (SELECT task_id FROM task_variants GROUP BY task_id HAVING count(*) > 1)`)
	file = s.get(t, "/tasks/history?file=q.csv").page(t)
	require.Equal(t, 6, file.Find(".trend").First().Find("circle").Length(), "and the best and the worst variant")
	require.Contains(t, file.Find(".trend").First().Find(".key").Text(), "最高的方案")
	s.entry(t, "PATCH", "agents/"+agent, object{"name": "新名字"}, 200)
	require.Contains(t, s.get(t, "/tasks?columns=agent").page(t).Find("td.col-agent").Text(), "新名字")
	require.Contains(t, s.get(t, "/tasks/history?file=q.csv").page(t).Find("tbody").Text(), "新名字")
	s.entry(t, "PATCH", "agents/"+agent, object{"name": "助手"}, 200)
	of := s.get(t, "/tasks/history?agent="+agent).page(t)
	require.Equal(t, "助手", of.Find("h1").Text())
	require.Equal(t, "task 2", of.Find("tbody tr a").First().Text())
	require.Equal(t, 1, of.Find(`a[href="/library/agents/`+agent+`"]`).Length())
	require.Contains(t, s.get(t, "/library/agents/"+agent).page(t).Find("aside a").Map(
		func(_ int, a *goquery.Selection) string {
			return a.AttrOr("href", "")
		}), "/tasks/history?agent="+agent)
	require.Equal(t, 4, s.get(t, "/tasks/history?url=http%3A%2F%2F127.0.0.1%3A9%2F").page(t).Find("tbody tr").Length())
	require.Contains(t, s.get(t, "/tasks/history?file=none.csv").page(t).Find(".blank").Text(), "还没有用到它的任务")
	for _, query := range []string{"", "?agent=" + strings.Repeat("a", 36), "?dataset=x", "?dataset=" + agent} {
		require.Equal(t, http.StatusNotFound, s.get(t, "/tasks/history"+query).StatusCode, query)
	}
	list := s.get(t, "/tasks?columns=dataset,agent").page(t)
	require.Equal(t, "/tasks/history?file=q.csv", list.Find("td.col-dataset a").First().AttrOr("href", ""))
	require.Equal(t, 1, list.Find(`td.col-agent a[href="/tasks/history?agent=`+agent+`"]`).Length())
}
