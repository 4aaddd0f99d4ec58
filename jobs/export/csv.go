package export

import (
	"bufio"
	"io"
	"strings"
)

// CSV writes a report as UTF-8 with a byte order mark, commas and CRLF, so that Excel opens it as it is.
type CSV struct {
	report Report
	w      *bufio.Writer
}

// NewCSV writes the header row.
func NewCSV(w io.Writer, report Report) (*CSV, error) {
	c := &CSV{report: report, w: bufio.NewWriterSize(w, 32<<10)}
	if _, err := c.w.WriteString("\uFEFF"); err != nil {
		return nil, err
	}
	if err := c.row(report.columns()); err != nil {
		return nil, err
	}
	return c, c.w.Flush() // the download begins at once
}

// Write adds an item.
func (c *CSV) Write(item Item) error { return c.row(c.report.cells(item)) }

// Close ends the report.
func (c *CSV) Close() error { return c.w.Flush() }

// row writes cells. encoding/csv is not used: it changes line ends inside cells.
func (c *CSV) row(cells []string) error {
	for n, cell := range cells {
		if n > 0 {
			_ = c.w.WriteByte(',') // a failed write stays with the writer and returns below
		}
		c.cell(cell)
	}
	_, err := c.w.WriteString("\r\n")
	return err
}

func (c *CSV) cell(cell string) {
	guarded := startsFormula(cell)
	if !guarded && !strings.ContainsAny(cell, ",\"\r\n") && !strings.HasPrefix(cell, " ") && !strings.HasSuffix(cell, " ") {
		_, _ = c.w.WriteString(cell)
		return
	}
	_ = c.w.WriteByte('"')
	if guarded {
		_ = c.w.WriteByte('\'')
	}
	for {
		before, after, found := strings.Cut(cell, `"`)
		_, _ = c.w.WriteString(before)
		if !found {
			break
		}
		_, _ = c.w.WriteString(`""`)
		cell = after
	}
	_ = c.w.WriteByte('"')
}

// startsFormula reports whether a spreadsheet might run the cell. Such a cell gets one ' in front; a cell
// that begins with ' itself too, so that stripping exactly one restores every cell.
func startsFormula(cell string) bool {
	return cell != "" && strings.ContainsRune("=+-@\t\r\n'", rune(cell[0]))
}
