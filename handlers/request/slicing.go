package request

import (
	"maps"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"wending/db"
	"wending/db/report"
	"wending/views/paths"
)

// ColumnPrefix is the prefix of the parameters that filter questions by a column of their dataset.
const ColumnPrefix = paths.ColumnPrefix

// sliceNumbers are the parameters that filter questions by the latency, tokens and cost of their runs.
var sliceNumbers = []string{"min_latency_ms", "max_latency_ms", "min_total_tokens", "max_total_tokens", "min_cost",
	"max_cost"}

// isSliceParameter reports whether Slicing uses a parameter.
func isSliceParameter(name string) bool {
	return strings.HasPrefix(name, ColumnPrefix) || slices.Contains(sliceNumbers, name)
}

// HasSlice reports whether a query has a parameter that Slicing uses.
func HasSlice(query url.Values) bool {
	return slices.ContainsFunc(slices.Collect(maps.Keys(query)), isSliceParameter)
}

// SliceValues returns the parameters of a query that Slicing uses, without empty values: a form sends one for each
// field that was left empty.
func SliceValues(query url.Values) url.Values {
	values := url.Values{}
	for name, given := range query {
		if !isSliceParameter(name) {
			continue
		}
		for _, value := range given {
			if value != "" {
				values.Add(name, StorableText(value))
			}
		}
	}
	return values
}

// ColumnValues returns those of SliceValues that filter by a column.
func ColumnValues(query url.Values) url.Values {
	values := SliceValues(query)
	maps.DeleteFunc(values, func(name string, _ []string) bool { return !strings.HasPrefix(name, ColumnPrefix) })
	return values
}

// ColumnPlace returns the position, from 1, of the dataset's column by which a request groups questions; 0 if by is
// empty.
func ColumnPlace(task db.Task, by string) (int, error) {
	place := slices.Index(task.VariableNames, by)
	if by != "" && place < 0 {
		return 0, ParameterFault("by", OneOf(task.VariableNames...))
	}
	return place + 1, nil
}

// Slicing returns the part of a query that selects questions by the columns of the task's dataset and by the latency,
// tokens and cost of their runs. It leaves out invalid parameters; the error names one of them.
func Slicing(query url.Values, task db.Task) (slicing report.Slicing, err error) {
	for _, name := range slices.Sorted(maps.Keys(query)) {
		column, isColumn := strings.CutPrefix(name, ColumnPrefix)
		if !isColumn {
			continue
		}
		place := slices.Index(task.VariableNames, column)
		if place < 0 {
			err = unknownColumn(name, task)
			continue
		}
		chosen := report.Chosen{Place: place + 1}
		for _, value := range query[name] {
			chosen.Values = append(chosen.Values, StorableText(value))
			if strings.TrimSpace(value) == "" { // also selects questions whose value is empty
				chosen.Values = append(chosen.Values, "")
			}
		}
		slicing.Columns = append(slicing.Columns, chosen)
	}
	for name, to := range map[string]**float64{
		"min_latency_ms": &slicing.LatencyMS.Min, "max_latency_ms": &slicing.LatencyMS.Max,
		"min_total_tokens": &slicing.TotalTokens.Min, "max_total_tokens": &slicing.TotalTokens.Max,
		"min_cost": &slicing.Cost.Min, "max_cost": &slicing.Cost.Max,
	} {
		text := strings.TrimSpace(query.Get(name))
		if text == "" {
			continue
		}
		number, failed := strconv.ParseFloat(text, 64)
		if failed != nil || !(number >= 0 && number <= math.MaxInt32) {
			err = ParameterFault(name, Between(0, math.MaxInt32))
			continue
		}
		*to = &number
	}
	return slicing, err
}

// unknownColumn returns the fault of a column that the task's dataset does not have, which suggests the most similar
// one.
func unknownColumn(name string, task db.Task) error {
	known := make([]string, len(task.VariableNames))
	for n, column := range task.VariableNames {
		known[n] = ColumnPrefix + column
	}
	if len(known) == 0 {
		return ParameterFault(name, OneOf())
	}
	return UnknownParameterFault(name, known)
}
