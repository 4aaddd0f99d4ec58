package export

import (
	"archive/zip"
	"fmt"
	"io"
)

// WriteTables writes a workbook of three tables; content that does not fit into a cell ends with cutMark.
func WriteTables(w io.Writer, cutMark string, sheets [3]Sheet) error {
	x := &XLSX{zip: newZip(w), cutMark: cutMark}
	names := make([]any, len(sheets))
	for n, sheet := range sheets {
		names[n] = xmlText(sheet.Name)
	}
	parts := [][2]string{
		{"[Content_Types].xml", fmt.Sprintf(contentTypes, "")}, {"_rels/.rels", packageRels},
		{"xl/_rels/workbook.xml.rels", fmt.Sprintf(workbookRels, "")},
		{"xl/workbook.xml", fmt.Sprintf(workbook, names[0], names[1], "", names[2], "")}, {"xl/styles.xml", styles},
	}
	if err := x.parts(parts); err != nil {
		return err
	}
	for n, sheet := range sheets {
		if err := x.sheet(fmt.Sprintf("xl/worksheets/sheet%d.xml", n+1), sheet); err != nil {
			return err
		}
	}
	if err := x.w.Flush(); err != nil {
		return err
	}
	return x.zip.Close()
}

// sheet writes a table: first sheet.Rows, then the rows from sheet.Read.
func (x *XLSX) sheet(part string, sheet Sheet) error {
	titles := make([]string, len(sheet.Columns))
	for n, column := range sheet.Columns {
		titles[n] = column.Title
	}
	if err := x.beginTable(part, titles); err != nil {
		return err
	}
	write := func(row []string) error { return x.typed(row, sheet.Columns) }
	for _, row := range sheet.Rows {
		if err := write(row); err != nil {
			return err
		}
	}
	if sheet.Read != nil {
		if err := sheet.Read(write); err != nil {
			return err
		}
	}
	_, err := x.w.WriteString(`</sheetData></worksheet>`)
	return err
}

// parts writes complete parts of the workbook.
func (x *XLSX) parts(all [][2]string) error {
	for _, part := range all {
		if err := x.begin(part[0]); err != nil {
			return err
		}
		_, _ = x.w.WriteString(part[1])
	}
	return nil
}

func newZip(w io.Writer) *zip.Writer {
	z := zip.NewWriter(w)
	z.RegisterCompressor(zip.Deflate, compressor)
	return z
}
