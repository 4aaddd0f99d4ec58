package handlers_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"wending/jobs/agent/agenttest"
)

// Questions about one document count as one observation: the statistics report that, and their intervals become
// wider.
func TestIntervalsAreComputedOverClusters(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	asked := map[string]int{}
	fake := agenttest.New(t, func(w http.ResponseWriter, call agenttest.Call) {
		asked[call.Question]++
		answer := "same"
		if call.Question < "q5" && asked[call.Question]%2 == 0 { // answers about the first document are unstable
			answer = "other"
		}
		agenttest.Stream(w, answer)
	})
	file := "question,standard_answer,document\n"
	for n := range 10 {
		file += fmt.Sprintf("q%d,a,d%d\n", n, n/5+1)
	}
	create := func(clusterBy string) response {
		return s.post(t, api, map[string]string{
			"task_name": "t", "agent_api_url": fake.URL, "runs_per_item": "2", "concurrency": "1", "rate_limit": "unlimited",
			"file@q.csv": file,
			"cluster_by": clusterBy,
		})
	}
	refused := create("chapter")
	require.Equal(t, 422, refused.StatusCode)
	require.Contains(t, string(refused.body), "cluster_by")
	require.Contains(t, string(refused.body), "document", "what there is to choose from")
	statistics := func(clusterBy string) (task string, variant object) {
		created := create(clusterBy)
		require.Equal(t, 201, created.StatusCode, string(created.body))
		var made struct {
			TaskID string `json:"task_id"`
		}
		created.into(t, &made)
		s.awaitDone(t, made.TaskID)
		path := "evaluation-tasks/" + made.TaskID
		if clusterBy == "" {
			require.Nil(t, s.entry(t, "GET", path, nil, 200)["cluster_by"])
		} else {
			require.Equal(t, clusterBy, s.entry(t, "GET", path, nil, 200)["cluster_by"])
		}
		return made.TaskID, s.entry(t, "GET", path+"/statistics", nil, 200)["variants"].([]any)[0].(object)
	}
	alone, own := statistics("")
	clustered, grouped := statistics("document")
	require.EqualValues(t, 10, own["clusters"])
	require.EqualValues(t, 2, grouped["clusters"])
	require.InDelta(t, 0.5, grouped["agreement"], 1e-9)
	require.InDelta(t, 0.1667, own["agreement_se"], 1e-4, "sd/√n")
	require.InDelta(t, 0.5, grouped["agreement_se"], 1e-9, "√(2/1 · (2.5² + 2.5²)) / 10")

	compared := s.entry(t, "GET", "comparison?a="+alone+"&b="+clustered, nil, 200)["differences"].(object)
	success := compared["success_rate"].(object)
	require.EqualValues(t, 2, success["clusters"], "the newer task groups its questions")
	require.InDelta(t, 1, success["p"], 1e-9)
	require.InDelta(t, 1, success["p_adjusted"], 1e-9)
	require.Nil(t, success["detectable"], "nothing varied")
	require.Equal(t, "not_worse", success["verdict"])
	agreed := compared["agreement"].(object)
	require.Equal(t, "not_worse", agreed["verdict"], "the same on each question")
	require.Nil(t, compared["score"].(object)["difference"])
	require.Equal(t, "undecided", compared["score"].(object)["verdict"], "nothing is known")
	margin := s.entry(t, "GET", "comparison?a="+alone+"&b="+clustered+"&margin=agreement:0.05&margin=latency_ms:1e9", nil,
		200)["differences"].(object)
	require.EqualValues(t, 0.05, margin["agreement"].(object)["margin"])
	require.Equal(t, "not_worse", margin["latency_ms"].(object)["verdict"])
	for _, wrong := range []string{"agreement:-1", "beauty:1", "agreement", "agreement:NaN"} {
		s.entry(t, "GET", "comparison?a="+alone+"&b="+clustered+"&margin="+wrong, nil, 422)
	}
	require.Contains(t, s.get(t, "/tasks/"+clustered+"/report").page(t).Text(), "置信区间按“document”列的 2 组计算")
	require.Contains(t, s.get(t, "/tasks/"+clustered+"/settings").page(t).Text(), "document")
}

// A number or interval that cannot be computed is null in the API, with its reason, and pages show the reason.
func TestUnknownNumbersSayWhy(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	fake := agenttest.New(t, func(w http.ResponseWriter, call agenttest.Call) {
		if call.Question == "q1" {
			agenttest.Stream(w, call.IdempotencyKey)
			return
		}
		agenttest.Stream(w, "same")
	})
	create := func(fields map[string]string) string {
		fields["file@q.csv"] = "question,standard_answer,document\nq1,a,d\nq2,a,d\n"
		id := s.create(t, fake.URL, fields)
		s.awaitDone(t, id)
		return id
	}
	grouped := create(map[string]string{"runs_per_item": "2", "cluster_by": "document",
		"adaptive": `{"max_runs": 4, "confidence": 0.95}`})
	once := create(map[string]string{"runs_per_item": "1"})
	for id, want := range map[string]struct{ reason, text string }{
		grouped: {"one_cluster", "所有题都在同一组，所以一致率没有置信区间"},
		once:    {"one_run", "每题只问了一次，所以没有一致率"},
	} {
		variants := s.entry(t, "GET", "evaluation-tasks/"+id+"/statistics", nil, 200)["variants"].([]any)
		require.Equal(t, want.reason, variants[0].(object)["agreement_reason"])
		require.Contains(t, s.get(t, "/tasks/"+id+"/report").page(t).Text(), want.text)
	}
	report := s.get(t, "/tasks/"+grouped+"/report").page(t).Text()
	require.Contains(t, report, "所有题的“document”列取值相同，只成一组")
	require.Contains(t, report, "最常见的回答已确定的：问 4 次后 1 题", "by column, too")

	differences := s.entry(t, "GET", "comparison?a="+once+"&b="+grouped, nil, 200)["differences"].(object)
	require.Equal(t, "no_question", differences["agreement"].(object)["reason"])
	require.Equal(t, "one_cluster", differences["latency_ms"].(object)["reason"])
	compared := s.get(t, "/comparison?a="+once+"&b="+grouped).page(t).Text()
	require.Contains(t, compared, "没有一题两边都有一致率，它需要每题至少问两次")
	require.Contains(t, compared, "所有题都在同一组，看不出差距是不是偶然")
	require.Contains(t, compared, "没有置信区间，所以判定不了")
}

// A margin that is out of range is ignored: the comparison is shown without it, and explains the valid range.
func TestAWrongMarginIsExplained(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	fake := agenttest.New(t, func(w http.ResponseWriter, _ agenttest.Call) { agenttest.Stream(w, "same") })
	id := s.create(t, fake.URL, nil)
	s.awaitDone(t, id)
	led := s.get(t, "/comparison?a="+id+"&b="+id+"&margin.agreement=-5%25&margin.latency_ms=")
	require.Equal(t, http.StatusSeeOther, led.StatusCode)
	page := s.get(t, led.Header.Get("Location")).page(t)
	require.Contains(t, page.Text(), "容许变差“-5%”无效，已忽略：比率须在 0 与 1 之间")
}
