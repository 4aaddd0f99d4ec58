package export

import (
	"bufio"
	"io"
	"strings"
)

// CSV writes a report as a Table.
type CSV struct {
	report Report
	table  *Table
}

// NewCSV writes the header row.
func NewCSV(w io.Writer, report Report) (*CSV, error) {
	table, err := NewTable(w, report.columns())
	return &CSV{report, table}, err
}

// Write adds an item.
func (c *CSV) Write(item Item) error { return c.table.Row(c.report.cells(item)) }

// Close ends the report.
func (c *CSV) Close() error { return c.table.Close() }

// Table writes CSV as UTF-8 with a byte order mark, commas and CRLF, so that Excel opens it correctly. No cell can
// run as a formula.
type Table struct{ w *bufio.Writer }

// NewTable writes the header row.
func NewTable(w io.Writer, columns []string) (*Table, error) {
	t := &Table{bufio.NewWriterSize(w, 32<<10)}
	if _, err := t.w.WriteString("\uFEFF"); err != nil {
		return nil, err
	}
	if err := t.Row(columns); err != nil {
		return nil, err
	}
	return t, t.w.Flush() // so that the download begins immediately
}

// Close ends the table.
func (t *Table) Close() error { return t.w.Flush() }

// Row writes cells. It does not use encoding/csv, which changes line ends inside cells.
func (t *Table) Row(cells []string) error {
	for n, cell := range cells {
		if n > 0 {
			_ = t.w.WriteByte(',') // a failed write is remembered by the writer and returned below
		}
		t.cell(cell)
	}
	_, err := t.w.WriteString("\r\n")
	return err
}

func (t *Table) cell(cell string) {
	guarded := startsFormula(cell)
	if !guarded && !strings.ContainsAny(cell, ",\"\r\n") && !strings.HasPrefix(cell, " ") &&
		!strings.HasSuffix(cell, " ") {
		_, _ = t.w.WriteString(cell)
		return
	}
	_ = t.w.WriteByte('"')
	if guarded {
		_ = t.w.WriteByte('\'')
	}
	for {
		before, after, found := strings.Cut(cell, `"`)
		_, _ = t.w.WriteString(before)
		if !found {
			break
		}
		_, _ = t.w.WriteString(`""`)
		cell = after
	}
	_ = t.w.WriteByte('"')
}

// startsFormula reports whether a spreadsheet might run the cell as a formula. Such a cell is prefixed with one '.
// A cell that begins with ' itself is prefixed too, so that stripping exactly one ' restores every cell.
func startsFormula(cell string) bool {
	return cell != "" && strings.ContainsRune("=+-@\t\r\n'", rune(cell[0]))
}
