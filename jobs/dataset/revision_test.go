package dataset_test

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"wending/jobs/dataset"
)

func TestChangesOfADataset(t *testing.T) {
	t.Parallel()
	read := func(content string) *dataset.Dataset {
		set, err := dataset.Read(t.Context(), "q.csv", []byte(content), dataset.Layout{})
		require.NoError(t, err)
		return set
	}
	for name, test := range map[string]struct {
		before, after string
		want          []string
	}{
		"ids tell rows apart": {
			"question_id,question,standard_answer,topic\n1,a,x,law\n2,b,y,law\n3,c,z,law\n",
			"question_id,question,standard_answer,topic\n3,c,z,law\n2,bb,y,tax\n4,d,w,law\n",
			[]string{"altered 3 question topic", "added 4", "removed 2"},
		},
		"questions do where there are no ids, each as often as it stands there": {
			"question,standard_answer\na,x\na,x\nb,y\n", "question,standard_answer\na,x\nb,new\n",
			[]string{"altered 3 standard_answer", "removed 3"},
		},
		"a column that is new, or gone": {
			"question,standard_answer,old\na,x,1\n", "question,standard_answer,new\na,x,1\n", []string{"altered 2 new old"},
		},
		"nothing": {"question,standard_answer\na,x\n", "question,standard_answer\na,x\n", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got []string
			for _, change := range dataset.Changes(read(test.before), read(test.after)) {
				got = append(got, describe(change))
			}
			require.Equal(t, test.want, got)
		})
	}
}

func describe(change dataset.RowChange) string {
	switch {
	case change.Before == nil:
		return "added " + strconv.Itoa(change.After.Number)
	case change.After == nil:
		return "removed " + strconv.Itoa(change.Before.Number)
	}
	text := "altered " + strconv.Itoa(change.After.Number)
	for _, field := range change.Fields {
		text += " " + field.Column
	}
	return text
}
