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

// ColumnsQuery holds the query parameters that filter questions by the columns of their dataset.
type ColumnsQuery struct {
	// values are all parameters of the query, including those that are not for columns.
	values url.Values
}

// Resolve implements huma.Resolver. Columns cannot be declared as parameters, because their names depend on the task.
func (q *ColumnsQuery) Resolve(ctx huma.Context) []error {
	address := ctx.URL()
	q.values = address.Query()
	return nil
}

// SlicingQuery holds the query parameters that filter questions by the columns of their dataset, and by the latency,
// tokens and cost of their runs.
type SlicingQuery struct {
	ColumnsQuery
	MinLatency string `query:"min_latency_ms" doc:"Only questions with a run that took at least this long, in milliseconds" example:"1000"`
	MaxLatency string `query:"max_latency_ms" doc:"Only questions with a run that took at most this long, in milliseconds"`
	MinTokens  string `query:"min_total_tokens" doc:"Only questions with a run that used at least this many tokens in total" example:"500"`
	MaxTokens  string `query:"max_total_tokens" doc:"Only questions with a run that used at most this many tokens in total"`
	MinCost    string `query:"min_cost" doc:"Only questions with a run that cost at least this much, a decimal number in the variant's currency" example:"0.01"`
	MaxCost    string `query:"max_cost" doc:"Only questions with a run that cost at most this much, a decimal number in the variant's currency"`
}

// slicing returns the filter that the query describes, or the fault of an invalid parameter.
func (q *SlicingQuery) slicing(task db.Task) (report.Slicing, error) {
	return request.Slicing(q.values, task)
}

// slice holds the statistics of the questions with one value in a column.
type slice struct {
	Value    *string           `json:"value" doc:"Value of the column; null for all values other than the 50 most frequent" example:"合同"`
	Items    int               `json:"items" doc:"Number of questions with this value" example:"42"`
	Variants []sliceStatistics `json:"variants"`
}

// sliceStatistics are the statistics of one variant over one slice.
type sliceStatistics struct {
	variantStatistics
	Answered measure.Interval `json:"success_rate_interval" doc:"95 % interval of success_rate, with questions as clusters: [low, high]" example:"[0.95,1]"`
}

// newSlices returns the statistics for each value of a column.
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

// numbersOf returns the statistics of a task and, if by is the name of a column, also those for each of its values.
func (h *handler) numbersOf(ctx context.Context, task db.Task, by string,
	withDefaults bool) (numbers report.Numbers, err error) {
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
