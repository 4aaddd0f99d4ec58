package dataset

import (
	"archive/zip"
	"bytes"
	"strings"

	"github.com/xuri/excelize/v2"
)

// maxUnzipped bounds what a workbook inflates to, in bytes; 5 MB of honest text stay far below.
const maxUnzipped = 64 << 20

// readXLSX reads the first sheet that holds anything.
func readXLSX(content []byte, c *collector) error {
	archive, err := zip.NewReader(bytes.NewReader(content), int64(len(content)))
	if err != nil {
		return problem(CodeUnreadable, "damaged", "Extension", "xlsx")
	}
	var unzipped uint64
	for _, entry := range archive.File {
		unzipped += entry.UncompressedSize64
		if entry.UncompressedSize64 > maxUnzipped || unzipped > maxUnzipped {
			return problem(CodeUnreadable, "bomb", "MiB", maxUnzipped>>20)
		}
	}
	book, err := excelize.OpenReader(bytes.NewReader(content), excelize.Options{UnzipSizeLimit: maxUnzipped, UnzipXMLSizeLimit: maxUnzipped,
		ShortDatePattern: "yyyy-mm-dd"})
	if err != nil {
		return problem(CodeUnreadable, "damaged", "Extension", "xlsx")
	}
	defer book.Close() //nolint:errcheck // nothing was written
	for _, sheet := range book.GetSheetList() {
		if visible, err := book.GetSheetVisible(sheet); err == nil && !visible {
			continue
		}
		if c.names != nil { // the sheet before had data: this one is only named
			if hasData, err := sheetHasData(book, sheet); err == nil && hasData {
				c.set.IgnoredSheets = append(c.set.IgnoredSheets, sheet)
			}
			continue
		}
		if err := readSheet(book, sheet, c); err != nil {
			return err
		}
	}
	return nil
}

func readSheet(book *excelize.File, sheet string, c *collector) error {
	rows, err := book.Rows(sheet)
	if err != nil {
		return problem(CodeUnreadable, "damaged", "Extension", "xlsx")
	}
	defer rows.Close() //nolint:errcheck // nothing was written
	for number := 1; rows.Next(); number++ {
		cells, err := rows.Columns()
		if err != nil {
			return problem(CodeUnreadable, "damaged", "Extension", "xlsx")
		}
		if err := c.add(number, cells); err != nil {
			return err
		}
	}
	if err := rows.Error(); err != nil {
		return problem(CodeUnreadable, "damaged", "Extension", "xlsx")
	}
	return nil
}

// sheetHasData looks at the first rows of a sheet.
func sheetHasData(book *excelize.File, sheet string) (bool, error) {
	rows, err := book.Rows(sheet)
	if err != nil {
		return false, err
	}
	defer rows.Close() //nolint:errcheck // nothing was written
	for number := 0; number < 20 && rows.Next(); number++ {
		cells, err := rows.Columns()
		if err != nil {
			return false, err
		}
		if strings.TrimSpace(strings.Join(cells, "")) != "" {
			return true, nil
		}
	}
	return false, nil
}
