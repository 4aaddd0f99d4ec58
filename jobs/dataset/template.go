package dataset

import (
	"encoding/csv"
	"io"

	"github.com/xuri/excelize/v2"
)

// KnownColumns lists the columns that the product recognises; all others are variables. For conversations, it has only
// the preferred names.
var KnownColumns = []string{ColumnID, ColumnQuestion, ColumnAnswer, ColumnSystem, ColumnContext, columnsSeries[0],
	columnsTurn[0]}

// Template is an example of a file of questions, for people to fill in.
type Template struct {
	// Sheet is the name of a workbook's sheet.
	Sheet   string
	Columns []TemplateColumn
	// Rows have a cell for each column.
	Rows [][]string
}

// TemplateColumn is a column of a template. In a workbook, Comment explains the column.
type TemplateColumn struct{ Name, Comment string }

// WriteTemplate writes a template as xlsx or, with any other extension, as csv.
func WriteTemplate(w io.Writer, extension string, t Template) error {
	var head []string
	for _, column := range t.Columns {
		head = append(head, column.Name)
	}
	if extension == "xlsx" {
		return t.writeWorkbook(w, head)
	}
	if _, err := io.WriteString(w, "\uFEFF"); err != nil { // Excel recognises UTF-8 by this byte order mark
		return err
	}
	table := csv.NewWriter(w)
	table.UseCRLF = true
	return table.WriteAll(append([][]string{head}, t.Rows...))
}

const (
	// The widths of columns, in characters.
	narrow, wide = 16.0, 40.0
	// asText is the id of the built-in number format for text.
	asText = 49
)

// writeWorkbook writes a workbook whose cells are texts: a spreadsheet would change numbers and dates.
func (t Template) writeWorkbook(w io.Writer, head []string) error {
	book := excelize.NewFile()
	defer book.Close() //nolint:errcheck // in memory
	if err := book.SetSheetName("Sheet1", t.Sheet); err != nil {
		return err
	}
	if err := t.writeColumns(book); err != nil {
		return err
	}
	for n, row := range append([][]string{head}, t.Rows...) {
		at, err := excelize.CoordinatesToCellName(1, n+1)
		if err != nil {
			return err
		}
		if err := book.SetSheetRow(t.Sheet, at, &row); err != nil {
			return err
		}
	}
	bold, err := book.NewStyle(&excelize.Style{NumFmt: asText, Font: &excelize.Font{Bold: true}})
	if err != nil {
		return err
	}
	last, err := excelize.CoordinatesToCellName(len(head), 1)
	if err != nil {
		return err
	}
	if err := book.SetCellStyle(t.Sheet, "A1", last, bold); err != nil {
		return err
	}
	frozen := &excelize.Panes{Freeze: true, YSplit: 1, TopLeftCell: "A2", ActivePane: "bottomLeft"}
	if err := book.SetPanes(t.Sheet, frozen); err != nil {
		return err
	}
	return book.Write(w)
}

// writeColumns sets the columns' widths and formats, and adds their comments.
func (t Template) writeColumns(book *excelize.File) error {
	plain, err := book.NewStyle(&excelize.Style{NumFmt: asText,
		Alignment: &excelize.Alignment{WrapText: true, Vertical: "top"}})
	if err != nil {
		return err
	}
	for n, column := range t.Columns {
		name, err := excelize.ColumnNumberToName(n + 1)
		if err != nil {
			return err
		}
		width := narrow
		if column.Name == ColumnQuestion || column.Name == ColumnAnswer {
			width = wide
		}
		if err := book.SetColWidth(t.Sheet, name, name, width); err != nil {
			return err
		}
		if err := book.SetColStyle(t.Sheet, name, plain); err != nil {
			return err
		}
		comment := excelize.Comment{Cell: name + "1", Author: "Wending",
			Paragraph: []excelize.RichTextRun{{Text: column.Comment}}, Width: 260, Height: 110}
		if err := book.AddComment(t.Sheet, comment); err != nil {
			return err
		}
	}
	return nil
}
