package handlers_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
)

// A view saved on one page is offered on the other pages of its kind, opens the questions it was saved with, and can
// be renamed and removed.
func TestSavedViewsKeepFiltersAndOrder(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	id := s.sliced(t)
	query := url.Values{"column.category": {"合同"}, "sort": {"number"}}
	here := "/tasks/" + id + "/results?" + query.Encode()
	form := s.get(t, here).page(t).Find(".views form").First()
	require.Equal(t, query.Encode(), form.Find("[name=query]").AttrOr("value", ""))
	saved := s.post(t, "/views", map[string]string{
		"kind": "questions", "name": "合同的题", "query": query.Encode(), "back": here,
	})
	require.Equal(t, http.StatusSeeOther, saved.StatusCode, "%s", saved.body)
	require.Equal(t, here, saved.Header.Get("Location"))

	require.Contains(t, s.get(t, here).page(t).Find(".views > summary").Text(), "合同的题", "the page shows the view")
	link := s.get(t, "/tasks/"+id+"/results").page(t).Find(".views .view a")
	require.Equal(t, "合同的题", link.Text())
	opened := s.get(t, link.AttrOr("href", ""))
	require.Equal(t, here, opened.Header.Get("Location"))
	require.Equal(t, 2, s.get(t, here).page(t).Find("article.result").Length())

	view := s.entry(t, "GET", "views?kind=questions", nil, 200)["items"].([]any)[0].(object)
	require.Equal(t, query.Encode(), view["query"])
	one := view["id"].(string)
	require.Empty(t, s.entry(t, "GET", "views?kind=tasks", nil, 200)["items"])
	renamed := s.post(t, "/views/"+one, map[string]string{"name": " 合同 ", "back": here})
	require.Equal(t, http.StatusSeeOther, renamed.StatusCode, "%s", renamed.body)
	require.Equal(t, "合同", s.entry(t, "GET", "views/"+one, nil, 200)["name"])
	s.entry(t, "PATCH", "views/"+one, object{"query": "filter=failed"}, 200)
	require.Equal(t, http.StatusSeeOther, s.post(t, "/views/"+one+"/remove",
		map[string]string{"back": "//elsewhere"}).StatusCode)
	s.entry(t, "GET", "views/"+one, nil, 404)
}

// A view narrows the queue of a review: the next question is the next one in the view.
func TestAReviewFollowsAView(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	id := s.sliced(t)
	view := s.entry(t, "POST", "views", object{"name": "劳动", "kind": "questions", "query": "column.category=劳动"},
		201)["id"].(string)
	at := "/tasks/" + id + "/review/next?saved=" + view
	for range 2 { // two redirects: to the address without the view's name, then to the first question
		at = s.get(t, at).Header.Get("Location")
	}
	numbers := map[string]bool{}
	for range 2 {
		require.Contains(t, at, "column.category="+url.QueryEscape("劳动"))
		page := s.get(t, at).page(t)
		numbers[page.Find("article.judging").AttrOr("data-number", "")] = true
		require.Contains(t, page.Find(".judging-top").Text(), "2 题")
		at = s.get(t, page.Find(".review-mode").AttrOr("data-next", "")).Header.Get("Location")
	}
	require.Equal(t, map[string]bool{"3": true, "4": true}, numbers)
	s.entry(t, "PUT", "evaluation-tasks/"+id+"/items/q3/review", object{"reviewer": "李雷", "verdict": "PASS", "version": 0},
		200)
}

// If a view does not exist, or names a column that the task does not have, the page is shown without it, with a
// notice.
func TestAViewThatDoesNotExistLeadsToThePageWithoutIt(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	id := s.sliced(t)
	strange := s.entry(t, "POST", "views", object{"name": "别的列", "kind": "questions",
		"query": "column.none=x&filter=failed"}, 201)["id"].(string)
	for _, one := range []struct{ path, saved, said string }{
		{"/tasks/" + id + "/results", uuid.NewString(), "视图不存在"},
		{"/tasks/" + id + "/results", "x", "视图不存在"},
		{"/tasks", strange, "视图不存在"},
		{"/tasks/" + id + "/review/next", uuid.NewString(), "视图不存在"},
		{"/tasks/" + id + "/results", strange, "column.none"},
		{"/tasks/" + id + "/review/next", strange, "column.none"},
	} {
		answer := s.get(t, one.path+"?saved="+one.saved)
		for hops := 0; answer.StatusCode == http.StatusSeeOther && hops < 4; hops++ {
			answer = s.get(t, answer.Header.Get("Location"))
		}
		require.Equal(t, http.StatusOK, answer.StatusCode, one.path)
		require.Contains(t, answer.page(t).Find("#left-out").Text(), one.said, one.path)
	}
}

// An invalid view is refused, with the reason, on the page and in the API.
func TestViewsAreChecked(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	good := object{"name": "a", "kind": "tasks", "query": "status=FAILED"}
	s.entry(t, "POST", "views", good, 201)
	for name, change := range map[string]object{
		"taken": {"name": "A"}, "blank": {"name": " "}, "invisible": {"name": "a\u200b"},
		"long": {"name": strings.Repeat("长", 65)},
		"kind": {"kind": "runs"}, "empty": {"query": "status="}, "parameter": {"query": "filter=failed"},
		"column": {"query": "column.x=y"},
		"page":   {"query": "page=2&status=FAILED"}, "size": {"query": "query=" + strings.Repeat("x", 4001)},
		"broken": {"query": "query=%zz"}, "zero": {"query": "query=%00"},
	} {
		body := object{"name": "b", "kind": "tasks", "query": "status=FAILED"}
		for field, value := range change {
			body[field] = value
		}
		refused := s.send(t, "POST", libraryAPI+"views", body)
		require.Equal(t, http.StatusUnprocessableEntity, refused.StatusCode, "%s: %s", name, refused.body)
		fields := map[string]string{}
		for field, value := range body {
			fields[field] = value.(string)
		}
		require.Equal(t, http.StatusUnprocessableEntity, s.post(t, "/views", fields).StatusCode, name)
	}
	// names are unique within a kind
	s.entry(t, "POST", "views", object{"name": "a", "kind": "questions", "query": "sort=number"}, 201)
}
