package report

import (
	"context"

	"github.com/google/uuid"
	"github.com/lib/pq"

	"wending/db"
	"wending/db/pg"
)

// Chosen selects items by their values in a column of the dataset: those that have one of Values.
type Chosen struct {
	// Place is the column's position in Task.VariableNames, from 1 as in the database's arrays.
	Place  int
	Values []string
}

// Bounds is a range for one of a run's figures, such as its latency; a nil Min or Max means no limit. If there is a
// limit, a run without the figure is out of bounds.
type Bounds struct{ Min, Max *float64 }

// isSet reports whether there is a limit.
func (b Bounds) isSet() bool { return b.Min != nil || b.Max != nil }

// Slicing is the part of Filter that concerns an item's columns and the figures of its runs.
type Slicing struct {
	// Columns must all match.
	Columns []Chosen
	// A single run must meet LatencyMS, TotalTokens and Cost, together with the filter's other conditions on runs.
	LatencyMS, TotalTokens, Cost Bounds
}

// boundsRuns reports whether any of a run's figures is limited.
func (s Slicing) boundsRuns() bool {
	return s.LatencyMS.isSet() || s.TotalTokens.isSet() || s.Cost.isSet()
}

// Conditions of a Filter on items i and their runs r. Column names are user data, so a column is identified by its
// position.
const (
	hasChosenValues = `
		  AND NOT EXISTS (
				SELECT FROM unnest(CAST(:places AS int[]), CAST(:values AS text[])) AS chosen (place, value)
				GROUP BY chosen.place
				HAVING NOT bool_or(coalesce(i.variable_values[chosen.place], '') = chosen.value))`
	isWithinBounds = `
				  AND (CAST(:min_latency AS float8) IS NULL OR r.latency_ms >= CAST(:min_latency AS float8))
				  AND (CAST(:max_latency AS float8) IS NULL OR r.latency_ms <= CAST(:max_latency AS float8))
				  AND (CAST(:min_tokens AS float8) IS NULL OR r.total_tokens >= CAST(:min_tokens AS float8))
				  AND (CAST(:max_tokens AS float8) IS NULL OR r.total_tokens <= CAST(:max_tokens AS float8))
				  AND (CAST(:min_cost AS float8) IS NULL OR r.cost >= CAST(:min_cost AS numeric))
				  AND (CAST(:max_cost AS float8) IS NULL OR r.cost <= CAST(:max_cost AS numeric))`
)

// bind adds the parameters of hasChosenValues and isWithinBounds.
func (s Slicing) bind(arguments map[string]any) {
	var places pq.Int64Array
	var values pq.StringArray
	for _, column := range s.Columns {
		for _, value := range column.Values {
			places, values = append(places, int64(column.Place)), append(values, value)
		}
	}
	arguments["places"], arguments["values"] = places, values
	arguments["min_latency"], arguments["max_latency"] = s.LatencyMS.Min, s.LatencyMS.Max
	arguments["min_tokens"], arguments["max_tokens"] = s.TotalTokens.Min, s.TotalTokens.Max
	arguments["min_cost"], arguments["max_cost"] = s.Cost.Min, s.Cost.Max
}

// Matching returns the ids of the items of a task that match a filter, as a set; it ignores the filter's order.
func (r Report) Matching(ctx context.Context, taskID uuid.UUID, filter Filter) (map[int64]bool, error) {
	var ids []int64
	if err := pg.SelectNamed(ctx, r.db, &ids, `SELECT i.id FROM evaluation_items i`+filter.where(),
		filter.arguments(taskID)); err != nil {
		return nil, pg.Classify("find the questions", err)
	}
	matching := make(map[int64]bool, len(ids))
	for _, id := range ids {
		matching[id] = true
	}
	return matching, nil
}

// SliceMost is the maximum number of values of a column that are shown separately, and sliceText is the maximum length
// of its values, in characters.
const (
	SliceMost = 50
	sliceText = 100
)

// Column is a column of a dataset with its SliceMost most frequent values, the most frequent first.
type Column struct {
	Name string
	// Place is the column's position, from 1.
	Place  int
	Values []ColumnValue
}

// ColumnValue is a value of a column, and how many questions have it.
type ColumnValue struct {
	Value string
	Items int
}

// Columns returns the columns by which a task's questions can be grouped. Their values are short and either few or
// often shared: there are at most SliceMost distinct values, and no more than ten or half the number of questions,
// whichever is greater; or at least a third of the questions share their value with another one.
func (r Report) Columns(ctx context.Context, task db.Task) (columns []Column, err error) {
	const count = `
		SELECT place, value, items
		FROM (
			SELECT own.place, own.value, count(*) AS items,
				count(*) OVER (PARTITION BY own.place) AS distinct_values,
				max(char_length(own.value)) OVER (PARTITION BY own.place) AS longest,
				sum(count(*)) OVER (PARTITION BY own.place) AS all_items,
				sum(CASE WHEN count(*) > 1 THEN count(*) END) OVER (PARTITION BY own.place) AS shared_items,
				row_number() OVER (PARTITION BY own.place ORDER BY count(*) DESC, own.value) AS rank
			FROM evaluation_items i
			CROSS JOIN LATERAL unnest(i.variable_values) WITH ORDINALITY AS own (value, place)
			WHERE i.task_id = $1
			GROUP BY own.place, own.value) counted
		WHERE rank <= $2 AND longest <= $3
		  AND (distinct_values <= least($2, greatest(10, all_items / 2)) OR 3 * shared_items >= all_items)
		ORDER BY place, items DESC, value`
	var rows []struct {
		Place, Items int
		Value        string
	}
	if err := r.db.SelectContext(ctx, &rows, count, task.ID, SliceMost, sliceText); err != nil {
		return nil, pg.Classify("count the values of columns", err)
	}
	for _, row := range rows {
		if row.Place > len(task.VariableNames) {
			continue // questions with a new column are being added
		}
		if len(columns) == 0 || columns[len(columns)-1].Place != row.Place {
			columns = append(columns, Column{Name: task.VariableNames[row.Place-1], Place: row.Place})
		}
		last := &columns[len(columns)-1]
		last.Values = append(last.Values, ColumnValue{row.Value, row.Items})
	}
	return columns, nil
}

// Slices groups the items of a task by their values in a column.
type Slices struct {
	// Values are ordered by frequency; a nil at the end represents all remaining values.
	Values []*string
	// Items holds the number of questions that have each of the values, in the same order.
	Items []int
	// of maps each item to the index of its value in Values.
	of map[int64]int
}

// Of returns the index of an item's value in Values; false if the item is not one of the task's.
func (s Slices) Of(item int64) (place int, isKnown bool) {
	place, isKnown = s.of[item]
	return place, isKnown
}

// arrays returns the ids of the items and, in the same order, the index of each item's value.
func (s Slices) arrays() (items, places pq.Int64Array) {
	for item, place := range s.of {
		items, places = append(items, item), append(places, int64(place))
	}
	return items, places
}

// Slices groups the items of a task by their values in a column, which is given by its position, from 1.
func (r Report) Slices(ctx context.Context, taskID uuid.UUID, place int) (slices Slices, err error) {
	const read = `
		SELECT i.id, v.value, v.rank
		FROM evaluation_items i
		JOIN (
			SELECT value, row_number() OVER (ORDER BY count(*) DESC, value) AS rank
			FROM (SELECT coalesce(variable_values[$2], '') AS value FROM evaluation_items WHERE task_id = $1) own
			GROUP BY value) v ON v.value = coalesce(i.variable_values[$2], '')
		WHERE i.task_id = $1
		ORDER BY v.rank`
	var rows []struct {
		ID    int64
		Value string
		Rank  int
	}
	if err := r.db.SelectContext(ctx, &rows, read, taskID, place); err != nil {
		return slices, pg.Classify("read the values of a column", err)
	}
	slices.of = make(map[int64]int, len(rows))
	for _, row := range rows {
		at := min(row.Rank, SliceMost+1) - 1
		if at == len(slices.Values) {
			value := &row.Value
			if at == SliceMost {
				value = nil
			}
			slices.Values, slices.Items = append(slices.Values, value), append(slices.Items, 0)
		}
		slices.Items[at]++
		slices.of[row.ID] = at
	}
	return slices, nil
}
