package report

import (
	"context"

	"wending/db"
	"wending/db/measure"
)

// Slice are the numbers of the questions with one value in a column.
type Slice struct {
	// Value is nil for all values but the SliceMost most frequent.
	Value *string
	// Items is how many questions have it.
	Items    int
	Variants []SliceVariant
}

// SliceVariant are the numbers of one variant over one slice.
type SliceVariant struct {
	VariantStatistics
	// Levels and FactsDiffer count the questions by how alike their answers are; those not assessed have neither.
	Levels, FactsDiffer map[string]int
	// Passes are what evaluators say; its zero value without any.
	Passes measure.Statistics
	// Answered is the interval of the success rate, with questions as clusters.
	Answered measure.Interval
}

// ComparedSlice is a comparison of the questions with one value in a column of the second task's dataset.
type ComparedSlice struct {
	// Value is nil for all values but the SliceMost most frequent.
	Value *string
	measure.Comparison
}

// CompareBy returns the comparison of each value of a column of the second task's dataset, which is named by its place, 1-based. Values
// of questions that the first task does not have are left out.
func (r Report) CompareBy(ctx context.Context, second db.Task, place int, c measure.Comparison) (compared []ComparedSlice, err error) {
	values, err := r.Slices(ctx, second.ID, place)
	if err != nil {
		return nil, err
	}
	for n, value := range values.Values {
		none := func(measure.ComparedQuestion) bool { return false }
		of := c.Only(none, func(q measure.ComparedQuestion) bool {
			at, isKnown := values.of[q.ID]
			return isKnown && at == n
		})
		if len(of.Pairs) > 0 {
			compared = append(compared, ComparedSlice{value, of})
		}
	}
	return compared, nil
}

// SlicesBy returns the numbers of each value of a column, which is named by its place, 1-based. Default ratings of judges
// count if withDefaults is true.
func (r Report) SlicesBy(ctx context.Context, task db.Task, place int, withDefaults bool) ([]Slice, error) {
	values, err := r.Slices(ctx, task.ID, place)
	if err != nil {
		return nil, err
	}
	numbers, err := r.SliceStatistics(ctx, task, values)
	if err != nil {
		return nil, err
	}
	levels, differ, err := r.SliceLevels(ctx, values)
	if err != nil {
		return nil, err
	}
	verdicts, err := r.SliceVerdicts(ctx, task, values, withDefaults)
	if err != nil {
		return nil, err
	}
	list := make([]Slice, len(values.Values))
	for n, value := range values.Values {
		list[n] = Slice{Value: value, Items: values.Items[n]}
	}
	for _, one := range numbers {
		n, number := one.Slice, one.Number
		list[n].Variants = append(list[n].Variants, SliceVariant{
			one.VariantStatistics, levels[n][number], differ[n][number], verdicts[n].Passes[number], verdicts[n].Answered[number],
		})
	}
	return list, nil
}
