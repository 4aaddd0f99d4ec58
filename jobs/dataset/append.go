package dataset

import (
	"slices"
	"strings"
)

// Arrange reorders the rows' values to match the variables of the task that the rows will be added to. The file
// must have the same columns; otherwise the error is an *Error that names the difference.
func (d *Dataset) Arrange(variables []string) error {
	var missing, unknown []string
	for _, name := range variables {
		if !slices.Contains(d.VariableNames, name) {
			missing = append(missing, name)
		}
	}
	for _, name := range d.VariableNames {
		if !slices.Contains(variables, name) {
			unknown = append(unknown, name)
		}
	}
	switch {
	case len(missing) > 0:
		return problem(CodeSchemaInvalid, "append_missing", "Columns", shorten(strings.Join(missing, ", "), 200))
	case len(unknown) > 0:
		return problem(CodeSchemaInvalid, "append_unknown", "Columns", shorten(strings.Join(unknown, ", "), 200))
	}
	for n, row := range d.Rows {
		values := make([]string, len(variables))
		for place, name := range variables {
			values[place] = row.Variables[slices.Index(d.VariableNames, name)]
		}
		d.Rows[n].Variables = values
	}
	d.VariableNames = variables
	return nil
}

// RefuseKnown returns an *Error for the rows whose question_id or conversation the task already has.
func (d *Dataset) RefuseKnown(ids, series []string) error {
	e := problem(CodeDuplicateID, "append_known", "Count", 0)
	count := 0
	for _, row := range d.Rows {
		var wrong RowError
		switch {
		case slices.Contains(ids, row.QuestionID):
			wrong = RowError{Row: row.Number, Column: ColumnID, Problem: "known_id",
				Args: map[string]any{"ID": shorten(row.QuestionID, 80)}}
		case row.Series != "" && slices.Contains(series, row.Series):
			wrong = RowError{Row: row.Number, Column: columnsSeries[0], Problem: "known_series",
				Args: map[string]any{"Series": shorten(row.Series, 80)}}
		default:
			continue
		}
		if count++; count <= maxRowErrors {
			e.Details = append(e.Details, wrong)
		}
	}
	e.Args["Count"] = count
	return e
}

// TooMuch returns the error for rows that would bring a task above MaxRows or, if isTooLong is set, above MaxBytes.
func TooMuch(has int, isTooLong bool) error {
	if isTooLong {
		return problem(CodeTooManyRows, "append_too_long", "Has", has, "Max", MaxBytes>>20)
	}
	return problem(CodeTooManyRows, "append_too_many", "Has", has, "Max", MaxRows)
}
