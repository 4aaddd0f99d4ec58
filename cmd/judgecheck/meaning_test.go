package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A model that puts everything into one group is exposed, and answers without a group are counted.
func TestGroupingsAreMeasured(t *testing.T) {
	t.Parallel()
	questions, err := readGrouped(meaningsCSV)
	require.NoError(t, err)
	require.Len(t, questions, 200)
	perfect, lumped, texts := map[string]map[string]placed{}, map[string]map[string]placed{}, map[string]bool{}
	chinese, aside := 0, 0
	for _, one := range questions {
		require.Len(t, one.answers, 4, one.id)
		require.False(t, texts[one.question], "the agent knows a question by its text")
		texts[one.question] = true
		if strings.HasPrefix(one.part, "zh") {
			chinese++
		}
		if strings.HasSuffix(one.part, "aside") {
			aside++
		}
		perfect[one.id], lumped[one.id] = map[string]placed{}, map[string]placed{}
		for n, answer := range one.answers {
			perfect[one.id][answer], lumped[one.id][answer] = placed{group: one.labels[n]}, placed{isUnsure: n == 3}
		}
		require.Len(t, perfect[one.id], 4, "different answers")
	}
	require.Equal(t, 100, chinese)
	require.InDelta(t, 67, aside, 1)
	cost, currency := "0.5", "CNY"
	took := groupingStatistics{Calls: 220, Tokens: 9000, Cost: &cost, Currency: &currency}
	said := sum(questions, perfect, took)
	require.Contains(t, said, "all       200 questions, 200 exactly as labelled · pairs: F1 1.000")
	require.Contains(t, said, "220 calls for 200 questions (1.10 a question), 0 without groups, 9000 tokens, cost 0.5 CNY")
	delete(lumped, questions[0].id)
	said = sum(questions, lumped, groupingStatistics{})
	require.Contains(t, said, "199 questions,   0 exactly")
	require.Contains(t, said, "recall 1.000, unsure 597 of 1194")
	require.Contains(t, said, "1 without groups, 0 tokens, cost unknown")
}
