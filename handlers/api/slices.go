package api

import (
	"context"
	"net/url"

	"github.com/danielgtaylor/huma/v2"
	"golang.org/x/sync/errgroup"

	"wending/db"
	"wending/db/measure"
	"wending/db/report"
	"wending/handlers/request"
)

// ColumnsQuery narrows questions by the columns of their dataset.
type ColumnsQuery struct {
	// values is the whole query, which has the columns.
	values url.Values
}

// Resolve implements huma.Resolver: the names of columns are not known before the task is.
func (q *ColumnsQuery) Resolve(ctx huma.Context) []error {
	address := ctx.URL()
	q.values = address.Query()
	return nil
}

// SlicingQuery narrows questions by the columns of their dataset, and by the numbers of their runs.
type SlicingQuery struct {
	ColumnsQuery
	MinLatency string `query:"min_latency_ms" doc:"Only questions of which a run took at least this long" example:"1000"`
	MaxLatency string `query:"max_latency_ms" doc:"Only questions of which a run took at most this long"`
	MinTokens  string `query:"min_total_tokens" doc:"Only questions of which a run has at least this many tokens" example:"500"`
	MaxTokens  string `query:"max_total_tokens" doc:"Only questions of which a run has at most this many tokens"`
	MinCost    string `query:"min_cost" doc:"Only questions of which a run cost at least this much" example:"0.01"`
	MaxCost    string `query:"max_cost" doc:"Only questions of which a run cost at most this much"`
}

// slicing returns what the query asks for.
func (q *SlicingQuery) slicing(task db.Task) (report.Slicing, error) {
	return request.Slicing(q.values, task)
}

// slice are the numbers of the questions with one value in a column.
type slice struct {
	Value    *string           `json:"value" doc:"null: all values but the 50 most frequent" example:"合同"`
	Items    int               `json:"items" doc:"Questions with this value" example:"42"`
	Variants []sliceStatistics `json:"variants"`
}

// sliceStatistics are the numbers of one variant over one slice.
type sliceStatistics struct {
	variantStatistics
	Answered measure.Interval `json:"success_rate_interval" doc:"95 %, of success_rate, with questions as clusters" example:"[0.95,1]"`
}

// newSlices describes the numbers of each value of a column.
func newSlices(found []report.Slice) []slice {
	list := make([]slice, len(found))
	for n, of := range found {
		list[n] = slice{Value: of.Value, Items: of.Items, Variants: []sliceStatistics{}}
		for _, one := range of.Variants {
			described := newVariantStatistics(one.VariantStatistics, one.Levels, one.FactsDiffer, one.Passes)
			list[n].Variants = append(list[n].Variants, sliceStatistics{described, one.Answered})
		}
	}
	return list
}

// numbersOf returns the numbers of a task, and those of each value of a column if by names one.
func (h *handler) numbersOf(ctx context.Context, task db.Task, by string, withDefaults bool) (numbers report.Numbers, err error) {
	results := report.New(h.Store)
	if by != "" {
		place, err := request.ColumnPlace(task, by)
		if err != nil {
			return numbers, err
		}
		return results.NumbersBy(ctx, task, place, withDefaults)
	}
	group, reading := errgroup.WithContext(ctx)
	group.Go(func() (err error) { numbers.Variants, err = results.VariantStatistics(reading, task.ID); return err })
	group.Go(func() (err error) {
		numbers.Levels, numbers.FactsDiffer, err = results.Levels(reading, task.ID)
		return err
	})
	if len(task.Evaluators) > 0 {
		group.Go(func() (err error) {
			numbers.Passes, err = results.PassStatistics(reading, task, withDefaults)
			return err
		})
	}
	return numbers, group.Wait()
}
