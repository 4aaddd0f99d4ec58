package review_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"wending/db/review"
)

func TestDimensionsAreReadAsPeopleWriteThem(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"语气：得体 | 一般｜ 生硬": "语气: 得体 | 一般 | 生硬", "准确性:1-5": "准确性: 1-5", "偏差：-2 至 2": "偏差: -2-2", "a: 0–100": "a: 0-100",
		"范围: 1-5 | 6-10": "范围: 1-5 | 6-10",
	} {
		one, err := review.ParseDimension(line)
		require.NoError(t, err, line)
		require.NoError(t, review.Dimensions{one}.Validate(), line)
		require.Equal(t, want, one.String())
		again, err := review.ParseDimension(one.String())
		require.NoError(t, err, line)
		require.Equal(t, one, again)
	}
	for _, line := range []string{"", "语气", "语气：", "语气：|"} {
		_, err := review.ParseDimension(line)
		require.ErrorIs(t, err, review.ErrDimension, line)
	}
}

func TestTheLimitsOfDimensions(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("长", review.MaxDimensionLength)
	for line, isValid := range map[string]bool{
		"a: 1-2": true, "a: 2-2": false, "a: 3-2": false, "a: -1000-1000": true, "a: 0-1001": false,
		"a: x | y": true, "a: x": false, "a: x | x": false, ": x | y": false,
		long + ": x | y": true, long + "长: x | y": false,
		"a: x | " + long: true, "a: x | 长" + long: false,
		"a: " + strings.Join(strings.Split("0123456789", ""), "|"):  true,
		"a: " + strings.Join(strings.Split("0123456789x", ""), "|"): false,
	} {
		one, err := review.ParseDimension(line)
		require.NoError(t, err, line)
		require.Equal(t, isValid, review.Dimensions{one}.Validate() == nil, line)
	}
	one, err := review.ParseDimension("a: 1-5")
	require.NoError(t, err)
	require.ErrorIs(t, review.Dimensions{one, one}.Validate(), review.ErrDimension, "the name twice")
	for value, isAllowed := range map[any]bool{
		1.0: true, 5.0: true, 0.0: false, 6.0: false, 2.5: false, "1": false, true: false,
	} {
		require.Equal(t, isAllowed, one.Allows(value), "%v", value)
	}
}

func TestRatingsAreSummarised(t *testing.T) {
	t.Parallel()
	tone, err := review.ParseDimension("语气: 得体 | 生硬")
	require.NoError(t, err)
	run := 2
	said := func(question, reviewer string, ratings review.Ratings) review.Review {
		return review.Review{Place: review.Place{QuestionID: question, Variant: 1, Reviewer: reviewer},
			Opinion: review.Opinion{Ratings: ratings}}
	}
	ofAnswer := said("q1", "丙", review.Ratings{"语气": "生硬"})
	ofAnswer.RunIndex = &run
	rated := review.RatedBy(review.Dimensions{tone}, []review.Review{
		said("q1", "甲", review.Ratings{"语气": "生硬", "旧": 1.0}), said("q1", "乙", review.Ratings{"语气": "得体", "旧": 3.0}),
		said("q2", "甲", review.Ratings{"语气": "得体", "旧": 5.0}), said("q2", "乙", review.Ratings{"语气": "得体", "旧": 5.0}),
		said("q3", "甲", nil), ofAnswer,
	})
	require.Len(t, rated, 2)
	require.Equal(t, "语气", rated[0].Dimension)
	require.Equal(t, 4, rated[0].N)
	require.Nil(t, rated[0].Mean)
	require.Equal(t, []review.RatingCount{{Value: "得体", Count: 3}, {Value: "生硬", Count: 1}}, rated[0].Counts)
	require.Equal(t, 2, rated[0].Units)
	require.InDelta(t, 0, *rated[0].Alpha, 1e-12, "one pair of two agrees, as by chance") // 1 − 3·2/(2·3·1)
	require.Equal(t, "旧", rated[1].Dimension)
	require.InDelta(t, 3.5, *rated[1].Mean, 1e-12)
	require.InDelta(t, 1-3.0*8/88, *rated[1].Alpha, 1e-12)
}
