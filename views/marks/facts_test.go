package marks

import (
	"testing"

	"github.com/stretchr/testify/require"

	"wending/db/measure"
	"wending/db/measure/facts"
	"wending/db/report"
	"wending/views/text"
)

func chinese(t *testing.T) text.Locale {
	t.Helper()
	catalogue, err := text.NewCatalogue()
	require.NoError(t, err)
	return catalogue.Locale(text.Languages[0], "")
}

// Variants that state the same values share a line with the sums of their runs; the runs of a single variant are named.
func TestVariantsShareALine(t *testing.T) {
	t.Parallel()
	stated := func(value string, runs ...int) measure.Value {
		return measure.Value{Value: value, Text: value, Runs: runs}
	}
	conflict := func(values ...measure.Value) report.Facts {
		return report.Facts{{Kind: facts.Duration, Label: "炖", Values: values}}
	}
	against := func(value string, wrong ...measure.Value) report.ExpectedFacts {
		return report.ExpectedFacts{{Kind: facts.Duration, Label: "炖", Value: value, Text: value, Values: wrong}}
	}
	lines := LineTexts(chinese(t), []VariantFacts{
		{Variant: 2, Conflicts: conflict(stated("60 分钟", 1, 2), stated("90 分钟", 3)),
			Expected: against("60 分钟", stated("90 分钟", 3))},
		{Variant: 5, Conflicts: conflict(stated("90 分钟", 1, 3), stated("60 分钟", 2)),
			Expected: against("60 分钟", stated("90 分钟", 1, 3))},
		{Variant: 6, Conflicts: conflict(stated("90 分钟", 1, 2, 3), stated("60 分钟", 4)),
			Expected: against("60 分钟", stated("90 分钟", 1, 2, 3))},
		{Variant: 7, Expected: against("60 分钟", stated("90 分钟", 1, 2))},
		{Variant: 8, Conflicts: conflict(stated("1 小时", 1, 2), stated("2 小时", 3))},
	})
	require.Equal(t, []string{
		"与标准答案不符：炖 90 分钟 ×6 · 60 分钟 ×4 ✓ 同标准 · 方案 2、5、6",
		"炖 1 小时 ×2 · 2 小时 ×1 #3 · 方案 8",
		"与标准答案不符：炖 60 分钟 → 90 分钟 #1 #2 · 方案 7",
	}, lines)
}

// Bounds are written before values that have the same words, also those of the standard answer.
func TestBoundsTellEqualWordsApart(t *testing.T) {
	t.Parallel()
	lines := LineTexts(chinese(t), []VariantFacts{{Expected: report.ExpectedFacts{{
		Kind: facts.Duration, Label: "notice", Value: "≥ 60 day", Text: "60 days",
		Values: []measure.Value{{Value: "≤ 60 day", Text: "60 days", Runs: []int{2}}},
	}}}})
	require.Equal(t, []string{"与标准答案不符：notice ≥ 60 days → ≤ 60 days #2"}, lines)
}
