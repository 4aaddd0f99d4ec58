package handlers_test

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"wending/db/dbtest"
	"wending/jobs/agent/agenttest"
)

// launchesOf waits for the end of the n-th launch of a channel's only task, and returns the runs that each launch
// pushed, in the order in which they were pushed.
func (r *receiver) launchesOf(t *testing.T, n int) (launches [][]object) {
	t.Helper()
	dbtest.Await(t, 40*time.Second, "the end of the launch", func() bool { return len(r.of(t, "task.finished")) == n })
	var runs []object
	for _, call := range r.all() {
		data := call.body["data"].(object)
		if call.body["type"] == "task.finished" {
			launches, runs = append(launches, runs), nil
			continue
		}
		for _, one := range data["runs"].([]any) {
			runs = append(runs, one.(object))
		}
	}
	require.Empty(t, runs, "the end comes last")
	return launches
}

// A launch that evaluates answers, or repeats failed calls to a judge, pushes the runs whose verdicts changed, and then
// its end.
func TestALaunchPushesTheVerdictsThatItChanged(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	hook := newReceiver(t, always(200))
	channel := s.channel(t, "results", hook.URL, object{"events": []string{"result", "finished"}})
	fake := agenttest.New(t, func(w http.ResponseWriter, call agenttest.Call) { agenttest.Stream(w, "答 "+call.Question) })
	var isMute atomic.Bool
	isMute.Store(true)
	judging := agenttest.New(t, chatting(func(prompt string) string {
		if isMute.Load() && strings.Contains(prompt, "答 q2") {
			return "no comment"
		}
		return `{"overall": 90, "reason": "right"}`
	}))
	model, _ := s.chatTarget(t, "judge", judging.URL)
	judge := s.evaluator(t, "打分", "judge", object{"model_id": model, "dimensions": []string{"overall"}})
	rule := s.evaluator(t, "规则", "contains", object{"values": []string{"答"}})
	task := s.create(t, fake.URL, map[string]string{"channels": channel, "runs_per_item": "2",
		"file@q.csv": "question,standard_answer\nq1,a\nq2,b\nq3,c\n"})
	path := "evaluation-tasks/" + task
	first := hook.launchesOf(t, 1)[0]
	require.Len(t, first, 6)
	require.Empty(t, first[0]["evaluations"])
	s.awaitDone(t, task)

	s.entry(t, "POST", path+"/evaluate", object{"evaluators": []string{rule}}, 202)
	second := hook.launchesOf(t, 2)[1]
	require.Len(t, second, 6)
	for _, run := range second {
		require.Len(t, run["evaluations"], 1)
		require.Equal(t, true, run["passed"])
	}
	s.awaitDone(t, task)

	s.entry(t, "POST", path+"/evaluate", object{"evaluators": []string{judge}}, 202)
	third := hook.launchesOf(t, 3)[2]
	require.Len(t, third, 6)
	for _, run := range third {
		require.Len(t, run["evaluations"], 2, "no run is pushed before its verdict")
		require.Equal(t, run["question"] == "q2", run["passed"] == nil)
	}
	s.awaitDone(t, task)

	isMute.Store(false)
	s.entry(t, "POST", path+"/retry", nil, 202)
	fourth := hook.launchesOf(t, 4)[3]
	require.Len(t, fourth, 2, "only the verdicts that changed")
	for _, run := range fourth {
		require.Equal(t, "q2", run["question"])
		require.Equal(t, true, run["passed"])
	}
	require.Len(t, fake.Calls(), 6)
}

// The results of a task whose answers are grouped by meaning come with their groups, and a launch that groups them
// pushes them again.
func TestResultsComeWithTheirMeaning(t *testing.T) {
	t.Parallel()
	s := newSite(t, true)
	hook := newReceiver(t, always(200))
	channel := s.channel(t, "results", hook.URL, object{"events": []string{"result", "finished"}})
	grouper := agenttest.New(t, chatting(grouping))
	model, _ := s.chatTarget(t, "grouper", grouper.URL)
	var asked atomic.Int32
	fake := agenttest.New(t, func(w http.ResponseWriter, call agenttest.Call) {
		if call.Question == "二" {
			agenttest.Stream(w, "always")
			return
		}
		n := int(asked.Add(1))
		agenttest.Stream(w, strings.Repeat("word ", n)+[]string{"x", "x", "y"}[n%3])
	})
	for _, grouped := range []bool{true, false} {
		before := len(hook.of(t, "task.finished"))
		fields := map[string]string{"channels": channel, "runs_per_item": "3",
			"file@q.csv": "question_id,question,standard_answer\nq1,一,a\nq2,二,b\n"}
		if grouped {
			fields["meaning_model"] = model
		}
		task := s.create(t, fake.URL, fields)
		runs := hook.launchesOf(t, before+1)[before]
		s.awaitDone(t, task)
		if !grouped {
			require.Len(t, runs, 6)
			require.Nil(t, runs[0]["meaning_group"])
			s.entry(t, "POST", "evaluation-tasks/"+task+"/meanings", object{"model_id": model}, 202)
			runs = hook.launchesOf(t, before+2)[before+1]
			s.awaitDone(t, task)
		}
		groups := map[any]int{}
		for _, run := range runs {
			if run["question_id"] == "q1" {
				groups[run["meaning_group"]]++
			} else {
				require.Equal(t, "A", run["meaning_group"])
			}
		}
		require.Equal(t, map[any]int{"A": 2, "B": 1}, map[any]int{"A": max(groups["A"], groups["B"]),
			"B": min(groups["A"], groups["B"])}, groups)
	}
}
