package tasks_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"wending/db"
	"wending/jobs/dataset"
	"wending/jobs/tasks"
)

func valid() tasks.New {
	return tasks.New{
		Name: strings.Repeat("题", tasks.MaxNameLength), AgentURL: "https://agent.example/run",
		Dataset: &dataset.Dataset{Rows: make([]dataset.Row, 1000)},
		Settings: tasks.Settings{
			RunsPerItem: tasks.MaxRuns, TimeoutSeconds: tasks.MaxTimeout, Concurrency: 1, RateLimit: "unlimited", MaxCost: "0.5",
		},
	}
}

func outside(field string, least, most int) tasks.InvalidError {
	return tasks.InvalidError{Field: field, Problem: tasks.OutOfRange, Min: least, Max: most}
}

// A value beyond a limit is refused with the field's name in the API, by page, API and use case.
func TestEveryLimitOfATaskIsChecked(t *testing.T) {
	t.Parallel()
	require.Empty(t, valid().Validate())
	object := json.RawMessage(`{"a":"` + strings.Repeat("x", tasks.MaxPayload) + `"}`)
	type wrong = tasks.InvalidError
	for name, test := range map[string]struct {
		change func(n *tasks.New)
		wrong  wrong
	}{
		"a name of blanks": {func(n *tasks.New) { n.Name = " \u3000" }, wrong{Field: "task_name", Problem: tasks.Missing}},
		"a long name": {func(n *tasks.New) {
			n.Name += "长"
		}, wrong{Field: "task_name", Problem: tasks.TooLong, Max: 64}},
		"a name on two lines": {func(n *tasks.New) {
			n.Name = "a\nb"
		}, wrong{Field: "task_name", Problem: tasks.TooLong, Max: 64}},
		"nobody to call": {func(n *tasks.New) {
			n.AgentURL = ""
		}, wrong{Field: "agent_api_url", Problem: tasks.Missing}},
		"another scheme": {
			func(n *tasks.New) { n.AgentURL = "ftp://a.example" }, wrong{Field: "agent_api_url", Problem: tasks.NotAnAddress},
		},
		"a long model": {
			func(n *tasks.New) { n.AgentModel = strings.Repeat("m", 201) },
			wrong{Field: "agent_model", Problem: tasks.TooLong, Max: 200},
		},
		"a large payload": {func(n *tasks.New) {
			n.Payload = &object
		}, wrong{Field: "extra_payload", Problem: tasks.NotAnObject}},
		"no runs":            {func(n *tasks.New) { n.RunsPerItem = 0 }, outside("runs_per_item", 1, 20)},
		"a long call":        {func(n *tasks.New) { n.TimeoutSeconds = 3601 }, outside("timeout_seconds", 1, 3600)},
		"a negative number":  {func(n *tasks.New) { n.MaxRetries = -1 }, outside("max_retries", 0, 5)},
		"many calls at once": {func(n *tasks.New) { n.Concurrency = 65 }, outside("concurrency", 1, 64)},
		"a rate": {func(n *tasks.New) {
			n.RateLimit = "10/h"
		}, wrong{Field: "rate_limit", Problem: tasks.NotARate}},
		"a cost of nothing": {func(n *tasks.New) { n.MaxCost = "0" }, wrong{Field: "max_cost", Problem: tasks.NotACost}},
		"another turn failure": {func(n *tasks.New) { n.OnTurnFailure = "retry" }, wrong{
			Field: "on_turn_failure", Problem: tasks.NotAChoice, Choices: []string{"stop", "continue"},
		}},
		"eleven evaluators": {
			func(n *tasks.New) {
				n.Evaluators = make([]tasks.NewEvaluator, 11)
			}, wrong{Field: "evaluators", Problem: tasks.TooLarge},
		},
		"many calls": {func(n *tasks.New) { n.Prompts = make([]tasks.NewPrompt, 11) }, wrong{Problem: tasks.TooLarge}},
	} {
		n := valid()
		test.change(&n)
		all := n.Validate()
		require.Len(t, all, 1, name)
		require.Equal(t, test.wrong, *all[0], name)
		_, err := new(tasks.Service).Create(t.Context(), db.AllProjects(), db.Actor{}, n)
		refused := (*tasks.InvalidError)(nil)
		require.ErrorAs(t, err, &refused, "%s: the use case itself refuses it", name)
	}
}

func TestATaskIsExtendedWithinItsLimits(t *testing.T) {
	t.Parallel()
	task := db.Task{RunsPerItem: 5, TotalItems: 1000, TotalVariants: 20}
	require.Nil(t, tasks.CheckRuns(task, 15))
	require.Equal(t, tasks.InvalidError{Problem: tasks.TooLarge}, *tasks.CheckRuns(task, 16))
	for _, runs := range []int{0, 5, 21} {
		require.Equal(t, outside("runs_per_item", 6, 20), *tasks.CheckRuns(task, runs))
	}
	_, err := new(tasks.Service).Extend(t.Context(), db.Actor{}, task, nil, 21)
	require.Error(t, err)
}
