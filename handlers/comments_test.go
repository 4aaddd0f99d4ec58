package handlers_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/PuerkitoBio/goquery"
	"github.com/stretchr/testify/require"

	"wending/db"
	"wending/db/people"
)

// linked creates a link to a task and returns its path.
func (s *site) linked(t *testing.T, id string, more object) (path string) {
	t.Helper()
	body := object{"task_id": id}
	for name, value := range more {
		body[name] = value
	}
	return strings.TrimPrefix(s.entry(t, "POST", "shares", body, 201)["url"].(string), s.URL)
}

// Readers of a link comment on a question or on the whole task, if the link allows it. The project's members see the
// comments at the question and in a list, where they mark them as done or delete them.
func TestReadersOfALinkComment(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	id := s.drawn(t)
	closed := s.linked(t, id, object{})
	require.Equal(t, http.StatusNotFound, s.get(t, closed+"/comments").StatusCode, "not allowed unless chosen")
	refused := s.sent(t, closed+"/comments", url.Values{"name": {"韩"}, "comment": {"x"}})
	require.Equal(t, http.StatusNotFound, refused.StatusCode)
	require.Equal(t, 0, s.get(t, closed).page(t).Find(".comment-link").Length())

	path := s.linked(t, id, object{"comments": "project"})
	links := s.get(t, path).page(t).Find(".comment-link a").Map(func(_ int, link *goquery.Selection) string {
		return link.AttrOr("href", "")
	})
	require.Equal(t, []string{path + "/comments", path + "/comments?number=1", path + "/comments?number=2"}, links)
	page := s.get(t, links[1])
	require.Contains(t, page.Header.Get("Content-Security-Policy"), "form-action 'self'")
	require.Contains(t, page.Header.Get("Content-Security-Policy"), "default-src 'none'")
	require.Equal(t, "no-store", page.Header.Get("Cache-Control"))
	require.Contains(t, page.page(t).Find("blockquote").Text(), "画")
	form := page.page(t).Find("form")
	const hostile = "<script>alert(1)</script> https://evil.example\njavascript:alert(2) \u202egnp.exe\x00"
	sent := hidden(form)
	sent.Set("name", "  韩\u200b梅梅<b>\n")
	sent.Set("comment", hostile)
	stored := s.sent(t, form.AttrOr("action", ""), sent)
	require.Equal(t, http.StatusSeeOther, stored.StatusCode, "%s", stored.body)
	thanked := s.get(t, stored.Header.Get("Location"))
	require.Contains(t, thanked.page(t).Text(), "已提交")
	require.NotContains(t, string(thanked.body), "alert(1)", "other readers do not see it")
	require.Equal(t, http.StatusSeeOther, s.sent(t, path+"/comments", url.Values{"name": {"韩梅梅"},
		"comment": {"整体不错"}}).StatusCode)

	for _, at := range []string{"/results", "/review/next", "/report", "/comments"} {
		shown := s.get(t, "/tasks/"+id+at)
		require.NotContains(t, string(shown.body), "<script>alert(1)", at)
		if at == "/results" {
			require.Contains(t, shown.page(t).Find(".reader-comments").Text(), "alert(1)")
			require.NotContains(t, string(shown.body), "\u202e")
			require.Contains(t, shown.page(t).Find(".task-head").Text(), "2 条读者评论")
			require.Equal(t, 0, shown.page(t).Find(`a[href*="evil"], .reader-comments b b`).Length())
		}
	}
	listed := s.listed(t, "evaluation-tasks/"+id+"/comments")
	require.Len(t, listed, 2)
	require.Equal(t, []any{nil, "韩梅梅", "整体不错", false}, []any{listed[0]["number"], listed[0]["name"],
		listed[0]["text"], listed[0]["is_done"]})
	require.Equal(t, []any{1.0, "韩梅梅<b>"}, []any{listed[1]["number"], listed[1]["name"]})
	require.NotContains(t, fmt.Sprint(listed), "127.0.0.1")
	require.Contains(t, s.get(t, "/tasks/"+id+"/shares").page(t).Find("table").Text(), "2 条读者评论")

	comment := fmt.Sprintf("/tasks/%s/comments/%.0f", id, listed[1]["id"])
	require.Equal(t, http.StatusSeeOther, s.sent(t, comment+"/done", url.Values{"is_done": {"true"}}).StatusCode)
	require.Equal(t, http.StatusSeeOther, s.sent(t, comment+"/done", url.Values{"is_done": {"true"}}).StatusCode)
	require.Equal(t, 0, s.get(t, "/tasks/"+id+"/results").page(t).Find(".reader-comments").Length())
	require.Contains(t, s.get(t, "/tasks/"+id+"/results").page(t).Find(".task-head").Text(), "1 条读者评论")
	s.entry(t, "PUT", fmt.Sprintf("evaluation-tasks/%s/comments/%.0f", id, listed[1]["id"]), object{"is_done": false}, 204)
	require.Equal(t, http.StatusSeeOther, s.sent(t, comment+"/delete", nil).StatusCode)
	require.Equal(t, http.StatusNotFound, s.sent(t, comment+"/delete", nil).StatusCode)
	s.entry(t, "DELETE", fmt.Sprintf("evaluation-tasks/%s/comments/%.0f", id, listed[0]["id"]), nil, 204)
	require.NotContains(t, s.get(t, "/tasks/"+id+"/results").page(t).Find(".task-head").Text(), "读者评论")
	var entries []string
	require.NoError(t, s.tables.Select(&entries, `SELECT after FROM audit_entries WHERE action = 'comment.delete'
		AND object_id = $1 AND status < 400 ORDER BY seq`, id))
	require.Len(t, entries, 2)
	require.Zero(t, s.reports.Load(), s.told.String())
}

// A comment needs a name and a text within their limits, at a place that the link shows. Links limit how many arrive,
// and how fast. A page of another site cannot send one.
func TestReadersCommentsAreLimited(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	id := s.drawn(t)
	refused := s.entry(t, "POST", "shares", object{"task_id": id, "comments": "everyone"}, 422)
	require.Equal(t, "PARAMETER_INVALID", refused["code"])
	path := s.linked(t, id, object{"comments": "readers", "filters": "search=画"})
	said := func(name, comment, number string) response {
		return s.sent(t, path+"/comments", url.Values{"name": {name}, "comment": {comment}, "number": {number}})
	}
	for _, wrong := range [][2]string{{"", "x"}, {" \u200b ", "x"}, {"韩", ""}, {"韩", " \u200b\n"},
		{"韩", strings.Repeat("长", 2001)}} {
		answer := said(wrong[0], wrong[1], "1")
		require.Equal(t, http.StatusUnprocessableEntity, answer.StatusCode, wrong)
		require.NotEmpty(t, strings.TrimSpace(answer.page(t).Find("[role=alert]").Text()), wrong)
		require.Contains(t, answer.page(t).Find("textarea").Text(), strings.TrimSpace(wrong[1]), "what was typed is kept")
	}
	for _, number := range []string{"2", "3", "-1", "x", "99999999999999999999"} {
		require.Equal(t, http.StatusNotFound, said("韩", "x", number).StatusCode, number)
		require.Equal(t, http.StatusNotFound, s.get(t, path+"/comments?number="+number).StatusCode, number)
	}
	foreign := s.form(t, path+"/comments", map[string]string{"name": "韩", "comment": "x"})
	foreign.Header.Set("Sec-Fetch-Site", "cross-site")
	require.Equal(t, http.StatusForbidden, s.do(t, foreign).StatusCode)
	for range 5 {
		require.Equal(t, http.StatusSeeOther, said("韩", "甲 <i>", "1").StatusCode)
	}
	fast := said("韩", "第六条", "1")
	require.Equal(t, http.StatusTooManyRequests, fast.StatusCode)
	require.Equal(t, "第六条", fast.page(t).Find("textarea").Text())
	require.Equal(t, 5, fast.page(t).Find("article.comment").Length(), "this link shows comments to its readers")
	require.Equal(t, 0, fast.page(t).Find("article i").Length())
	s.tables.MustExec(`INSERT INTO share_comments (share_id, task_id, author, body, address, created_at)
		SELECT share_id, task_id, 'x', 'x', '', now() - interval '1 day' FROM share_comments, generate_series(1, 59)`)
	s.tables.MustExec(`UPDATE share_comments SET created_at = now() - interval '1 day'`)
	require.Contains(t, said("韩", "x", "1").page(t).Text(), "已满")
	s.tables.MustExec(`DELETE FROM share_comments WHERE author = 'x'`)
	require.Equal(t, http.StatusSeeOther, said("韩", "x", "").StatusCode)
	replay := s.linked(t, id, object{"comments": "project", "kind": "replay", "question_id": "b"})
	require.Equal(t, replay+"/comments?number=2", s.get(t, replay).page(t).Find(".comment-link a").AttrOr("href", ""))
	require.Equal(t, http.StatusNotFound, s.get(t, replay+"/comments?number=1").StatusCode, "another question")
	s.tables.MustExec(`UPDATE shares SET revoked_at = now()`)
	require.Equal(t, http.StatusNotFound, said("韩", "x", "1").StatusCode)
	require.NotEmpty(t, s.listed(t, "evaluation-tasks/"+id+"/comments"), "they outlive their link")
	s.send(t, http.MethodDelete, api+"/"+id, nil)
	var left int
	require.NoError(t, s.tables.Get(&left, `SELECT count(*) FROM share_comments`))
	require.Zero(t, left, "they are deleted with the task")
	require.Zero(t, s.reports.Load(), s.told.String())
}

// Members of the project read comments; reviewers mark them as done, and editors delete them. Other people cannot even
// learn that there are any.
func TestRolesForReadersComments(t *testing.T) {
	t.Parallel()
	s := newGuardedSite(t)
	for name, role := range map[string]people.Role{"编辑": people.Editor, "评审": people.Reviewer, "查看": people.Viewer} {
		s.user(t, name, role, db.DefaultProject)
	}
	editor := s.signedIn(t, "编辑")
	id := s.draft(t, editor)
	editor.send(t, "/tasks/"+id+"/run", nil)
	s.awaitDone(t, id)
	made := editor.send(t, "/tasks/"+id+"/shares", url.Values{"days": {"7"}, "comments": {"project"}})
	path := strings.TrimPrefix(made.page(t).Find("#new-share").Text(), s.URL)
	stored := s.sent(t, path+"/comments", url.Values{"name": {"编辑"}, "comment": {"某条"}})
	require.Equal(t, http.StatusSeeOther, stored.StatusCode, "without an account")
	var comment int64
	require.NoError(t, s.tables.Get(&comment, `SELECT id FROM share_comments`))
	at := fmt.Sprintf("/tasks/%s/comments/%d", id, comment)
	reviewer, viewer := s.signedIn(t, "评审"), s.signedIn(t, "查看")
	for _, one := range []struct {
		who          *browser
		finish, drop int
	}{{viewer, 403, 403}, {reviewer, 303, 403}, {editor, 303, 303}} {
		page := one.who.get(t, "/tasks/"+id+"/comments")
		require.Contains(t, page.page(t).Text(), "某条")
		require.Contains(t, page.page(t).Text(), "名字由本人填写", "even if it is the name of an account")
		require.Equal(t, one.finish == 303, page.page(t).Find(`form[action$="/done"]`).Length() == 1)
		require.Equal(t, one.drop == 303, page.page(t).Find(`form[action$="/delete"]`).Length() == 1)
		require.Equal(t, one.finish, one.who.send(t, at+"/done", nil).StatusCode)
		require.Equal(t, one.drop, one.who.send(t, at+"/delete", nil).StatusCode)
	}
	stranger := s.newBrowser(t)
	require.NotContains(t, string(stranger.get(t, "/tasks/"+id+"/comments").body), "某条")
}
