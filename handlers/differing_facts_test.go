package handlers_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"wending/db/dbtest"
	"wending/jobs/agent/agenttest"
)

// A number that differs in one of five answers is prominent: it shows in the question's level, with its values, and
// in every order, filter, count and export that it affects.
func TestTheFactThatDiffersIsSeen(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	const letter = "公司应当在收到申请之日起 14 日内书面答复，并说明理由；逾期不答复的，视为同意。"
	other := strings.Replace(letter, "14 日", "19 日", 1)
	agent := agenttest.New(t, answering(map[string][]string{
		"甲": {letter}, "乙": {letter, letter, other, letter, letter}, "丙": {letter, strings.Replace(letter, "14 日", "十四天", 1)},
		"丁": {letter + "费用为 200 元。", letter},
	}))
	chat := newReceiver(t, always(200))
	s.entry(t, "POST", "channels", object{"name": "群", "kind": "feishu", "url": chat.URL, "events": []string{"finished"},
		"is_default": true}, 201)
	id := s.create(t, agent.URL, map[string]string{"concurrency": "1",
		"file@q.csv": "question_id,question,standard_answer\nq1,甲,a\nq2,乙,收到申请之日起 19 日内书面答复。\nq3,丙,收到申请之日起十五日内书面答复\nq4,丁,a\n"})
	s.awaitDone(t, id)

	items := func(query string) (ids []string, items []object) {
		for _, item := range s.get(t, api+"/"+id+"/results"+query).mustBe(t, http.StatusOK)["items"].([]any) {
			ids, items = append(ids, item.(object)["question_id"].(string)), append(items, item.(object))
		}
		return ids, items
	}
	_, all := items("")
	differ := []any{all[0]["facts_differ"], all[1]["facts_differ"], all[2]["facts_differ"], all[3]["facts_differ"]}
	require.Equal(t, []any{"none", "conflict", "none", "omission"}, differ)
	require.Equal(t, "facts", all[1]["level"])
	want := []any{object{
		"kind": "duration", "label": "公司应当在收到申请之日起", "missing": []any{}, "values": []any{
			object{"value": "≤ 14 day", "text": "14 日", "runs": []any{1.0, 2.0, 4.0, 5.0}},
			object{"value": "≤ 19 day", "text": "19 日", "runs": []any{3.0}},
		},
	}}
	require.Equal(t, want, all[1]["facts"])
	require.Equal(t, want, all[1]["variants"].([]any)[0].(object)["facts"])
	require.Equal(t, []any{}, all[0]["facts"])
	against := []any{object{"kind": "duration", "label": "收到申请之日起", "value": "≤ 19 day", "text": "19 日", "values": []any{
		object{"value": "≤ 14 day", "text": "14 日", "runs": []any{1.0, 2.0, 4.0, 5.0}},
	}}}
	require.Equal(t, against, all[1]["expected_facts"])
	require.Len(t, all[2]["expected_facts"], 1)
	require.Equal(t, []any{}, all[0]["expected_facts"])
	omitted := all[3]["facts"].([]any)[0].(object)
	require.Equal(t, []any{2.0, 4.0}, omitted["missing"])

	for query, ids := range map[string][]string{
		"?sort=risk": {"q2", "q4", "q3", "q1"}, "?facts=conflict": {"q2"}, "?facts=omission,conflict": {"q2", "q4"},
		"?level=facts":                 {"q2"},
		"?level=facts&level=identical": {"q1", "q2"}, "?facts=none&level=wording": {"q3"},
	} {
		found, _ := items(query)
		require.Equal(t, ids, found, query)
	}
	for _, wrong := range []string{"?facts=some", "?level=none"} {
		require.Equal(t, "PARAMETER_INVALID", s.get(t, api+"/"+id+"/results"+wrong).mustBe(t,
			http.StatusUnprocessableEntity)["code"], wrong)
	}

	counts := object{"conflict": 1.0, "omission": 1.0, "none": 2.0}
	require.Equal(t, counts, s.get(t, api+"/"+id).mustBe(t, http.StatusOK)["statistics"].(object)["facts_differ"])
	require.Equal(t, counts, s.get(t, api+"/"+id+"/statistics").mustBe(t,
		http.StatusOK)["variants"].([]any)[0].(object)["facts_differ"])
	compared := s.get(t, "/api/v1/comparison?a="+id+"&b="+id).mustBe(t,
		http.StatusOK)["items"].([]any)[1].(object)["b"].(object)
	require.Equal(t, want, compared["facts"])

	report := s.get(t, "/tasks/"+id+"/report").page(t)
	said := report.Find(".decision > .sentences > li")
	require.Equal(t, 3, said.Length(), "three sentences for who decides")
	require.Contains(t, strings.Join(strings.Fields(said.First().Text()), " "), "关键信息不同1 题")
	require.Equal(t, "/tasks/"+id+"/results?filter=facts", said.First().Find("a[href*=filter]").First().AttrOr("href", ""),
		"each figure leads to its questions")
	require.Equal(t, "每次运行都有回答。", strings.TrimSpace(said.Eq(1).Text()))
	require.Contains(t, said.Eq(2).Text(), "还没有人评审")
	headings := report.Find(".decision h2")
	require.Equal(t, 2, headings.Length())
	require.Equal(t, "关键信息不同的题 1 题", strings.Join(strings.Fields(headings.First().Text()), " "), "as many as on the other pages")
	require.Equal(t, "/tasks/"+id+"/results?filter=facts", headings.First().Find("a").AttrOr("href", ""))
	require.Equal(t, "其余与标准答案不符的题 1 题", strings.Join(strings.Fields(headings.Last().Text()), " "))
	require.Equal(t, 2, report.Find(".differing > li").Length(), "each question once")
	require.Contains(t, report.Find(".differing").Last().Text(), "丙")
	listed := report.Find(".differing > li").First()
	require.Equal(t, "与标准答案不符：公司应当在收到申请之日起 14 日 ×4 · 19 日 ×1 #3 ✓ 同标准",
		strings.Join(strings.Fields(listed.Find(".fact-line").First().Text()), " "))
	require.Equal(t, http.StatusOK, s.send(t, http.MethodPut, api+"/"+id+"/items/q2/review",
		object{"reviewer": "李雷", "verdict": "FAIL", "note": "期限错了", "version": 0}).StatusCode)
	report = s.get(t, "/tasks/"+id+"/report").page(t)
	require.Contains(t, strings.Join(strings.Fields(report.Find(".decision > .sentences > li").Eq(2).Text()), ""),
		"已评1题：不通过1。")
	require.Contains(t, report.Find(".differing > li").First().Text(), "期限错了")
	require.Equal(t, 1, s.get(t, api+"/"+id+"/export?format=html").page(t).Find(
		".decision .differing > li[data-opinion=FAIL]").Length(), "the document begins with it, too")

	printed := s.get(t, "/tasks/"+id+"/results/print?only=differing").page(t)
	require.Equal(t, 3, printed.Find("article").Length(), "what is the same is left out")
	require.Equal(t, "2", strings.TrimPrefix(printed.Find("article").First().AttrOr("id", ""), "q"),
		"in the order of risk")
	require.Contains(t, printed.Find(".cover").Text(), "另外 1 题内容相同，未列出")
	require.Equal(t, http.StatusSeeOther, s.get(t, "/tasks/"+id+"/results/print?only=some").StatusCode)

	page := s.get(t, "/tasks/"+id+"/results").page(t)
	require.Equal(t, "2 4 3 1", shownNumbers(page))
	first := page.Find(".result").First()
	require.Equal(t, "关键信息不同", strings.TrimSpace(first.Find(".level").Text()))
	require.Equal(t, "与标准答案不符：公司应当在收到申请之日起 14 日 ×4 19 日 ×1 #3 ✓ 同标准",
		strings.Join(strings.Fields(first.Find(".stated").Text()), " "))
	require.Zero(t, first.Find(".against").Length(), "what is both is named once")
	require.Contains(t, page.Find(".result").Eq(1).Find(".stated").Text(), "#2 #4")
	require.Zero(t, page.Find(".result").Eq(2).Find(".stated:not(.against)").Length())

	line := strings.Split(string(s.get(t, api+"/"+id+"/export?format=jsonl").body), "\n")[1]
	var exported object
	require.NoError(t, json.Unmarshal([]byte(line), &exported))
	require.Equal(t, want, exported["facts"])
	require.Equal(t, against, exported["expected_facts"])

	dbtest.Await(t, 20*time.Second, "a message that names how many questions it is about", func() (isTold bool) {
		require.NoError(t, s.tables.Get(&isTold,
			`SELECT EXISTS (SELECT FROM deliveries WHERE convert_from(body, 'UTF8') LIKE '%关键信息不同%1 题%')`))
		return isTold
	})

	// Questions that an earlier version assessed are assessed again.
	s.tables.MustExec(`UPDATE question_statistics SET level = 'wording', facts = NULL, facts_differ = NULL, revision = 0`)
	s.tables.MustExec(`UPDATE evaluation_tasks SET is_assessed = false`)
	dbtest.Await(t, time.Minute, "the questions to be assessed again", func() (isAssessed bool) {
		require.NoError(t, s.tables.Get(&isAssessed, `SELECT is_assessed FROM evaluation_tasks`))
		return isAssessed
	})
	_, all = items("")
	require.Equal(t, want, all[1]["facts"])
}
