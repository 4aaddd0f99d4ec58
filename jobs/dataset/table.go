package dataset

import (
	"context"
	"errors"
	"runtime"
)

// Limits on a table. The limits on a dataset also apply, multiplied by tableFactor, because a table has a row for each
// run.
const (
	tableFactor   = 4
	maxTableRows  = 200_000
	maxTableCells = 2_000_000
)

// errOtherSheet is returned for the first row of a sheet if it is not the header of the wanted table, so that the next
// sheet is tried.
var errOtherSheet = errors.New("the sheet is not the table")

// Table calls yield with each row of a CSV file or workbook that is not blank, the header first. In a workbook, it
// reads the first visible sheet whose header isHeader accepts; if there is none, no row is yielded. A row of a CSV file
// may be longer or shorter than the header; a row of a sheet may be shorter. yield must not retain the slice. Every
// failure is an *Error or yield's own error, unless ctx has ended.
func Table(ctx context.Context, content []byte, encoding string, isHeader func(cells []string) bool,
	yield func(number int, cells []string) error) (err error) {
	isBook := Sniff(content) == "xlsx"
	extension := "csv"
	if isBook {
		extension = "xlsx"
	}
	defer func() { // as in Read
		if r := recover(); r != nil {
			err = problem(CodeUnreadable, "damaged", "Extension", extension)
		}
	}()
	runtime.LockOSThread() // CPU time is counted for this thread
	defer runtime.UnlockOSThread()
	budget := newBudget(ctx)
	budget.factor = tableFactor
	c := &collector{set: &Dataset{}, budget: budget, layout: Layout{Encoding: encoding}, table: yield}
	if !isBook {
		return readCSV(content, c)
	}
	return explainBook(readTable(content, c, isHeader), c)
}

func readTable(content []byte, c *collector, isHeader func(cells []string) bool) error {
	parts, err := openParts(content, c.budget)
	if err != nil {
		return err
	}
	book, err := parts.workbook()
	if err != nil {
		return err
	}
	yield := c.table
	for _, sheet := range book.sheets {
		hasHeader := false
		c.filled, c.table = 0, func(number int, cells []string) error {
			if !hasHeader && !isHeader(cells) {
				return errOtherSheet
			}
			hasHeader = true
			return yield(number, cells)
		}
		if err := book.read(sheet, c); err != nil && !errors.Is(err, errOtherSheet) {
			return err
		}
		if hasHeader {
			break
		}
	}
	return parts.drain()
}
