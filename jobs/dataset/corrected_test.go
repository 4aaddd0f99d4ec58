package dataset_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"wending/jobs/dataset"
)

func TestAStandardAnswerIsCorrected(t *testing.T) {
	t.Parallel()
	for name, one := range map[string]struct {
		file, id, question string
		layout             dataset.Layout
		want               string
	}{
		"by id": {"question_id,question,standard_answer,level,system_prompt\nq1,一,a,高,s\nq2,一,b,低,\n", "q2", "x",
			dataset.Layout{}, "question_id,question,standard_answer,level,system_prompt\nq1,一,a,高,s\nq2,一,\"新\n行\",低,\n"},
		"by question": {"standard_answer,question\na,一\nb,二\nc,二\n", "q2", "二", dataset.Layout{},
			"standard_answer,question\na,一\n\"新\n行\",二\nc,二\n"},
		"other names": {"题目,答案,question\n一,a,v\n", "q1", "一", dataset.Layout{Question: "题目", Answer: "答案"},
			"题目,答案,question\n一,\"新\n行\",v\n"},
	} {
		set, err := dataset.Read(t.Context(), "q.csv", []byte(one.file), one.layout)
		require.NoError(t, err, name)
		content, isFound, err := set.Corrected(one.layout, one.id, one.question, "新\n行")
		require.NoError(t, err, name)
		require.True(t, isFound, name)
		require.Equal(t, one.want, string(content), name)
		again, err := dataset.Read(t.Context(), "q.csv", content, one.layout)
		require.NoError(t, err, name)
		require.Len(t, dataset.Changes(set, again), 1, name)
		_, isFound, err = set.Corrected(one.layout, "none", "none", "x")
		require.NoError(t, err, name)
		require.False(t, isFound, name)
	}
}
