package dataset

import (
	"bytes"
	"encoding/csv"
	"slices"
	"strings"
)

// Corrected returns the rows of a dataset as a CSV file in UTF-8, with a new standard answer to one question. layout is
// the layout with which the dataset was read. The row is found by its id if the file has ids, and otherwise by its
// question; if several rows have the question, the first one is changed. isFound is false if there is no such row. It
// returns an Error if the file would be too large.
func (d *Dataset) Corrected(layout Layout, id, question, answer string) (content []byte, isFound bool, err error) {
	at := slices.IndexFunc(d.Rows, func(row Row) bool {
		return d.HasIDs && row.QuestionID == id || !d.HasIDs && row.Question == question
	})
	if at < 0 {
		return nil, false, nil
	}
	c := collector{layout: layout}
	var file bytes.Buffer
	writer := csv.NewWriter(&file)
	if err := writer.Write(d.Columns); err != nil {
		return nil, true, err
	}
	for n, row := range d.Rows {
		if n == at {
			row.StandardAnswer = answer
		}
		if err := writer.Write(d.cells(c, row)); err != nil {
			return nil, true, err
		}
	}
	writer.Flush()
	if file.Len() > MaxBytes {
		return nil, true, problem(CodeTooComplex, "complex_text_mib", "Max", MaxBytes>>20)
	}
	return file.Bytes(), true, writer.Error()
}

func orEmpty(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}

// cells returns the values of a row in the order of the dataset's columns.
func (d *Dataset) cells(c collector, row Row) []string {
	cells := make([]string, len(d.Columns))
	for n, column := range d.Columns {
		switch c.role(strings.ToLower(column)) {
		case ColumnID:
			cells[n] = row.QuestionID
		case ColumnQuestion:
			cells[n] = row.Question
		case ColumnAnswer:
			cells[n] = row.StandardAnswer
		case ColumnSystem:
			cells[n] = orEmpty(row.SystemPrompt)
		case ColumnContext:
			cells[n] = orEmpty(row.UserContext)
		default:
			cells[n] = row.Variables[slices.Index(d.VariableNames, column)]
		}
	}
	return cells
}
