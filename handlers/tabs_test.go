package handlers_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"wending/db"
	"wending/db/dbtest"
	"wending/db/people"
	"wending/jobs/agent/agenttest"
)

// tabsOfTask are the addresses of a task's tabs, relative to the task's own address, with their names.
var tabsOfTask = []struct{ path, name string }{
	{"", "概览"}, {"/results", "回答"}, {"/review", "评审"}, {"/report", "报告"}, {"/gallery", "过程与文件"}, {"/settings", "设置"},
}

// Each page of a task has the same head: its name and state, one primary button, the export with one click, and all
// tabs, with the current one marked.
func TestEveryTabOfATaskHasTheSameHead(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	fake := agenttest.New(t, unsteady())
	id := s.create(t, fake.URL, nil)
	s.awaitDone(t, id)
	for n, tab := range tabsOfTask {
		page := s.get(t, "/tasks/"+id+tab.path).page(t)
		head := page.Find(".task-head")
		require.Equal(t, 1, head.Length(), tab.name)
		require.Contains(t, head.Find("h1").Text(), "稳定性测试", tab.name)
		require.Equal(t, tab.path == "/results", strings.HasPrefix(strings.TrimSpace(head.Find("h1").Text()), "评测报告: "),
			tab.name)
		require.Equal(t, "已完成", strings.TrimSpace(head.Find(".tag").Text()), tab.name)
		require.Equal(t, 1, head.Find(`a[href="/tasks"]`).Length(), "the way back to the list")
		require.Equal(t, "开始评审", strings.TrimSpace(head.Find(`.btn:not([data-variant])`).Text()),
			"one primary button on "+tab.name)
		require.Equal(t, 1, head.Find(`.split > a[data-export][href$="format=csv"]`).Length(), tab.name)
		require.Equal(t, 3, head.Find(".split .menu a[data-export]").Length(), tab.name)
		links := head.Find(".task-tabs a")
		require.Equal(t, len(tabsOfTask), links.Length(), tab.name)
		for at, other := range tabsOfTask {
			require.Equal(t, other.name, strings.Fields(links.Eq(at).Text())[0], "the name, and how many there are")
			require.Equal(t, "/tasks/"+id+other.path, links.Eq(at).AttrOr("href", ""))
			require.Equal(t, at == n, links.Eq(at).AttrOr("aria-current", "") == "page", other.name)
		}
	}
	kept := s.get(t, "/tasks/"+id+"/results?variant=1").page(t)
	require.Equal(t, "/tasks/"+id+"/gallery?variant=1", kept.Find(".task-tabs a").Eq(4).AttrOr("href", ""),
		"the variant is kept")
}

// Addresses of older versions redirect to the current place of their content.
func TestOldAddressesOfATaskStillLead(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	id := s.create(t, agenttest.New(t, unsteady()).URL, nil)
	s.awaitDone(t, id)
	base := "/tasks/" + id
	for from, to := range map[string]string{
		"/launches": "/gallery#launches", "/launches?page=2": "/gallery?launches=2#launches", "/sign-off": "/review",
		"/review?after=1": "/review/next?after=1",
	} {
		answer := s.get(t, base+from)
		require.Equal(t, http.StatusMovedPermanently, answer.StatusCode, from)
		require.Equal(t, base+to, answer.Header.Get("Location"), from)
	}
	require.Equal(t, base+"/gallery?left_out=launches%3D2", s.get(t, base+"/gallery?launches=2").Header.Get("Location"),
		"past the last page of launches")
}

// Actions that a user may not perform are not shown.
func TestTheHeadOfATaskFollowsRights(t *testing.T) {
	t.Parallel()
	s := newGuardedSite(t)
	s.user(t, "编", people.Editor, db.DefaultProject)
	s.user(t, "看", people.Viewer, db.DefaultProject)
	editor, viewer := s.signedIn(t, "编"), s.signedIn(t, "看")
	id := s.draft(t, editor)
	editor.send(t, "/tasks/"+id+"/run", nil)
	s.awaitDone(t, id)
	head := viewer.get(t, "/tasks/"+id).page(t).Find(".task-head").Text()
	for _, action := range []string{"开始评审", "复制为新任务", "定时运行", "分享", "删除任务"} {
		require.NotContains(t, head, action)
		require.Contains(t, editor.get(t, "/tasks/"+id).page(t).Find(".task-head").Text(), action)
	}
	bar := viewer.get(t, "/tasks").page(t).Find("header.bar")
	require.Zero(t, bar.Find(`a[href="/compare"]`).Length(), "a viewer makes nothing")
	require.Zero(t, viewer.get(t, "/workers").page(t).Find(`.subnav a[href="/admin/users"]`).Length())
}

// The overview of a running task has a square for each question, which links to its answers if it is done, and
// otherwise to its progress.
func TestABoardShowsEveryQuestionWhileTheTaskRuns(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	release := make(chan struct{})
	fake := agenttest.New(t, func(w http.ResponseWriter, call agenttest.Call) {
		if call.Question != "一" {
			<-release
		}
		agenttest.Stream(w, "答 "+call.Question)
	})
	var file strings.Builder
	file.WriteString("question,standard_answer\n一,\n二,标准答案在此\n")
	for n := range 30 {
		fmt.Fprintf(&file, "第 %d 题,\n", n+3)
	}
	id := s.create(t, fake.URL, map[string]string{"file@q.csv": file.String(), "concurrency": "2", "runs_per_item": "2"})
	base := "/tasks/" + id
	dbtest.Await(t, time.Minute, "the first question", func() bool {
		page := s.get(t, base).page(t)
		return page.Find("#board a").Eq(0).Is(".b-i") && page.Find("#board a.b-r").Length() > 0
	})
	page := s.get(t, base).page(t)
	require.Equal(t, 32, page.Find("#board a").Length())
	require.Positive(t, page.Find("#board a.b-w").Length())
	require.Len(t, page.Find("#live").AttrOr("data-board", ""), 32, "the script paints with these")
	live := s.fragment(t, base+"/live").page(t)
	require.Zero(t, live.Find("#board").Length(), "what changes is sent without the squares")
	require.Equal(t, 1, live.Find("#live[data-board]").Length())

	require.Equal(t, http.StatusSeeOther, s.get(t, base+"/results/1").StatusCode, "its answers")
	running := s.get(t, base+"/results/2").page(t)
	require.Contains(t, running.Find("main").Text(), "标准答案在此")
	require.Contains(t, running.Find("main .summary").Text(), "已运行 0/2 次")
	require.Contains(t, s.get(t, base+"/results/32").page(t).Find("main .summary").Text(), "等待")
	require.Equal(t, base+"/results?partial=1", page.Find(".task-tabs a").Eq(1).AttrOr("href", ""))
	require.Equal(t, 2, page.Find(".task-tabs [aria-disabled]").Length(), "there is nothing to review or report yet")
	list := s.get(t, "/tasks").page(t)
	require.Equal(t, base, list.Find("a.name").AttrOr("href", ""), "the name leads to what is under way")
	close(release)
	s.awaitDone(t, id)
	require.Equal(t, base+"/results", s.get(t, "/tasks").page(t).Find("a.name").AttrOr("href", ""),
		"and to the answers afterwards")
	ended := s.get(t, base).page(t)
	require.Equal(t, base+"/results?filter=identical", ended.Find(".level-counts a").AttrOr("href", ""),
		"a count leads to its questions")
	require.Equal(t, base+"/results?review=open", ended.Find(`.causes a[href*="review="]`).AttrOr("href", ""))
}
