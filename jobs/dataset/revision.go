package dataset

import (
	"slices"
	"strconv"
)

// RowChange is a row in which two datasets differ.
type RowChange struct {
	// Before is nil for an added row, and After is nil for a removed one.
	Before, After *Row
	// Fields are the columns that changed, in a row that both datasets have.
	Fields []ChangedField
}

// ChangedField is a column whose value changed.
type ChangedField struct{ Column, Before, After string }

// Changes returns the differences between two datasets: first the rows that the later one added or altered, in its
// order, then the removed rows. Rows are matched by their ids if both files have ids, and otherwise by their
// questions.
func Changes(before, after *Dataset) (changes []RowChange) {
	hasIDs := slices.Contains(before.Columns, ColumnID) && slices.Contains(after.Columns, ColumnID)
	earlier, keys := map[string]*Row{}, rowKeys(before, hasIDs)
	for n, key := range keys {
		earlier[key] = &before.Rows[n]
	}
	for n, key := range rowKeys(after, hasIDs) {
		row := &after.Rows[n]
		old, isKnown := earlier[key]
		if !isKnown {
			changes = append(changes, RowChange{After: row})
			continue
		}
		delete(earlier, key)
		if fields := changedFields(before, after, *old, *row); len(fields) > 0 {
			changes = append(changes, RowChange{Before: old, After: row, Fields: fields})
		}
	}
	for n, key := range keys {
		if _, isLeft := earlier[key]; isLeft {
			changes = append(changes, RowChange{Before: &before.Rows[n]})
		}
	}
	return changes
}

// rowKeys returns keys that identify the rows of a dataset; equal questions are numbered.
func rowKeys(d *Dataset, hasIDs bool) []string {
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

func changedFields(before, after *Dataset, a, b Row) (fields []ChangedField) {
	compare := func(column, x, y string) {
		if x != y {
			fields = append(fields, ChangedField{column, x, y})
		}
	}
	compare(ColumnQuestion, a.Question, b.Question)
	compare(ColumnAnswer, a.StandardAnswer, b.StandardAnswer)
	compare(ColumnSystem, valueOf(a.SystemPrompt), valueOf(b.SystemPrompt))
	compare(ColumnContext, valueOf(a.UserContext), valueOf(b.UserContext))
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

func variableOf(d *Dataset, row Row, name string) string {
	if n := slices.Index(d.VariableNames, name); n >= 0 {
		return row.Variables[n]
	}
	return ""
}
