// Package revision says how two versions of a dataset differ.
package revision

import (
	"slices"
	"strconv"

	"wending/jobs/dataset"
)

// Change is a row in which two datasets differ.
type Change struct {
	// Before is nil for a row that was added, After for one that was removed.
	Before, After *dataset.Row
	// Fields are the columns with other values, of a row that both have.
	Fields []ChangedField
}

// ChangedField is a column whose value changed.
type ChangedField struct{ Column, Before, After string }

// Changes returns what differs between two datasets: first what the later one added or altered, in its order, then what it
// no longer has. Rows are recognised by their ids where both files have ids, and otherwise by their questions.
func Changes(before, after *dataset.Dataset) (changes []Change) {
	hasIDs := slices.Contains(before.Columns, dataset.ColumnID) && slices.Contains(after.Columns, dataset.ColumnID)
	earlier, keys := map[string]*dataset.Row{}, rowKeys(before, hasIDs)
	for n, key := range keys {
		earlier[key] = &before.Rows[n]
	}
	for n, key := range rowKeys(after, hasIDs) {
		row := &after.Rows[n]
		old, isKnown := earlier[key]
		if !isKnown {
			changes = append(changes, Change{After: row})
			continue
		}
		delete(earlier, key)
		if fields := changedFields(before, after, *old, *row); len(fields) > 0 {
			changes = append(changes, Change{Before: old, After: row, Fields: fields})
		}
	}
	for n, key := range keys {
		if _, isLeft := earlier[key]; isLeft {
			changes = append(changes, Change{Before: &before.Rows[n]})
		}
	}
	return changes
}

// rowKeys name the rows of a dataset; equal questions are counted.
func rowKeys(d *dataset.Dataset, hasIDs bool) []string {
	keys, seen := make([]string, len(d.Rows)), map[string]int{}
	for n, row := range d.Rows {
		if hasIDs {
			keys[n] = row.QuestionID
			continue
		}
		seen[row.Question]++
		keys[n] = strconv.Itoa(seen[row.Question]) + " " + row.Question
	}
	return keys
}

func changedFields(before, after *dataset.Dataset, a, b dataset.Row) (fields []ChangedField) {
	compare := func(column, x, y string) {
		if x != y {
			fields = append(fields, ChangedField{column, x, y})
		}
	}
	compare(dataset.ColumnQuestion, a.Question, b.Question)
	compare(dataset.ColumnAnswer, a.StandardAnswer, b.StandardAnswer)
	compare(dataset.ColumnSystem, valueOf(a.SystemPrompt), valueOf(b.SystemPrompt))
	compare(dataset.ColumnContext, valueOf(a.UserContext), valueOf(b.UserContext))
	names := slices.Clone(after.VariableNames)
	for _, name := range before.VariableNames {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for _, name := range names {
		compare(name, variableOf(before, a, name), variableOf(after, b, name))
	}
	return fields
}

func valueOf(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}

func variableOf(d *dataset.Dataset, row dataset.Row, name string) string {
	if n := slices.Index(d.VariableNames, name); n >= 0 {
		return row.Variables[n]
	}
	return ""
}
