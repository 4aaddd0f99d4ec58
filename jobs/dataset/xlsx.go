package dataset

import (
	"archive/zip"
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"path"
	"strconv"
	"strings"

	"golang.org/x/net/html/charset"
)

// readXLSX reads the first visible sheet with data (ECMA-376). It reads every part of the file to its end, which
// verifies the checksum: a file that was damaged in transfer or storage is refused instead of being read in part.
func readXLSX(content []byte, c *collector) error {
	return explainBook(readBook(content, c), c)
}

// explainBook returns the error from reading a workbook as an *Error, unless the context has ended.
func explainBook(err error, c *collector) error {
	if err == nil {
		return nil
	}
	if _, isKnown := asError(err); isKnown || c.budget.ctx.Err() != nil {
		return err
	}
	var damage *damageError
	if errors.As(err, &damage) {
		return problem(CodeUnreadable, "damaged_part", "Extension", "xlsx", "Part", damage.part)
	}
	return problem(CodeUnreadable, "damaged", "Extension", "xlsx")
}

// damageError names the part of a workbook that cannot be read.
type damageError struct {
	part string
	err  error
}

func (e *damageError) Error() string { return e.part + ": " + e.err.Error() }
func (e *damageError) Unwrap() error { return e.err }

func readBook(content []byte, c *collector) error {
	parts, err := openParts(content, c.budget)
	if err != nil {
		return err
	}
	book, err := parts.workbook()
	if err != nil {
		return err
	}
	for _, sheet := range book.sheets {
		if c.names != nil { // an earlier sheet had data, so this one is only listed as ignored
			hasData, err := book.hasData(sheet)
			if err != nil {
				return err
			}
			if hasData {
				c.set.IgnoredSheets = append(c.set.IgnoredSheets, sheet.name)
			}
			continue
		}
		if err := book.read(sheet, c); err != nil {
			return err
		}
	}
	return parts.drain()
}

// zipParts are the parts of an Office file, keyed by path in lower case, because the format ignores the case of
// paths.
type zipParts struct {
	budget *budget
	files  map[string]*zip.File
	// isRead holds the parts that were read to the end.
	isRead map[string]bool
}

func openParts(content []byte, b *budget) (*zipParts, error) {
	archive, err := zip.NewReader(bytes.NewReader(content), int64(len(content)))
	if err != nil {
		return nil, err
	}
	parts := &zipParts{budget: b, files: map[string]*zip.File{}, isRead: map[string]bool{}}
	var unzipped uint64
	for _, file := range archive.File {
		if err := b.spend(); err != nil {
			return nil, err
		}
		unzipped += file.UncompressedSize64
		if most := uint64(maxUnzipped * b.factor); file.UncompressedSize64 > most || unzipped > most {
			return nil, tooComplex("complex_unzipped_mib", int(most>>20))
		}
		name := partName(file.Name)
		if parts.files[name] != nil {
			return nil, &damageError{file.Name, errors.New("two parts have this name")}
		}
		parts.files[name] = file
	}
	return parts, nil
}

// partName returns a part's path in the form used by references: some programs write backslashes or a leading
// slash.
func partName(name string) string {
	return strings.ToLower(strings.TrimPrefix(strings.ReplaceAll(name, `\`, "/"), "/"))
}

// drain reads the remaining parts only to verify their checksums.
func (p *zipParts) drain() error {
	for name, file := range p.files {
		if p.isRead[name] || file.FileInfo().IsDir() {
			continue
		}
		if err := p.scan(name, func(part *xmlPart) error { return part.skipRest() }); err != nil {
			return err
		}
	}
	return nil
}

// scan opens a part, lets read consume as much of it as it needs, and then reads the rest.
func (p *zipParts) scan(name string, read func(*xmlPart) error) error {
	file := p.files[name]
	if file == nil {
		return &damageError{name, errors.New("the part is missing")}
	}
	content, err := file.Open()
	if err != nil {
		return &damageError{name, err}
	}
	defer content.Close() //nolint:errcheck // it was read to its end
	reader := &meteredReader{Reader: content, budget: p.budget}
	decoder := xml.NewDecoder(reader)
	decoder.CharsetReader = charset.NewReaderLabel
	part := &xmlPart{decoder: decoder, reader: reader, budget: p.budget}
	if err = read(part); err == nil {
		err = part.skipRest()
	}
	if _, isKnown := asError(err); err != nil && !isKnown {
		return &damageError{name, err}
	}
	p.isRead[name] = err == nil
	return err
}

// xmlPart reads the tokens of a part.
type xmlPart struct {
	decoder *xml.Decoder
	reader  *meteredReader
	budget  *budget
	depth   int
}

// next returns the next start element, end element or text, and io.EOF after the last one. Malformed XML never results
// in io.EOF.
func (p *xmlPart) next() (xml.Token, error) {
	for {
		if err := p.budget.spend(); err != nil {
			return nil, err
		}
		p.reader.sinceToken = 0
		token, err := p.decoder.Token()
		if err != nil {
			return nil, err
		}
		switch token.(type) {
		case xml.StartElement:
			if p.depth++; p.depth > maxDepth {
				return nil, tooComplex("complex_depth", maxDepth)
			}
			return token, nil
		case xml.EndElement:
			p.depth--
			return token, nil
		case xml.CharData:
			return token, nil
		}
	}
}

// elements calls yield with the start of every element of the part.
func (p *xmlPart) elements(yield func(xml.StartElement) error) error {
	for {
		token, err := p.next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if start, isStart := token.(xml.StartElement); isStart {
			if err := yield(start); err != nil {
				return err
			}
		}
	}
}

// skipRest reads the rest of the part without parsing it, to verify the checksum. Data in the decoder's buffer
// has already been read from the part.
func (p *xmlPart) skipRest() error {
	for buffer := make([]byte, 32<<10); ; {
		p.reader.sinceToken = 0
		if _, err := p.reader.Read(buffer); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
	}
}

// attribute returns the value of an attribute, given its name without a prefix; empty if the element does not have it.
func attribute(start xml.StartElement, name string) string {
	for _, attr := range start.Attr {
		if attr.Name.Local == name {
			return attr.Value
		}
	}
	return ""
}

// relation is a target that a part refers to.
type relation struct {
	// kind is the last segment of the relation's type: worksheet, styles, sharedStrings, …
	kind, target string
}

// relations returns the relations of a part, keyed by id; the map is empty if the part has none.
func (p *zipParts) relations(name string) (map[string]relation, error) {
	relations := map[string]relation{}
	list := partName(path.Join(path.Dir(name), "_rels", path.Base(name)+".rels"))
	if p.files[list] == nil {
		return relations, nil
	}
	err := p.scan(list, func(part *xmlPart) error {
		return part.elements(func(start xml.StartElement) error {
			if start.Name.Local != "Relationship" || attribute(start, "TargetMode") == "External" {
				return nil
			}
			target := strings.ReplaceAll(attribute(start, "Target"), `\`, "/")
			if !strings.HasPrefix(target, "/") {
				target = path.Join(path.Dir(name), target)
			}
			relations[attribute(start, "Id")] = relation{kind: path.Base(attribute(start, "Type")),
				target: partName(path.Clean(target))}
			return nil
		})
	})
	return relations, err
}

// xlsxBook is a workbook.
type xlsxBook struct {
	parts *zipParts
	// sheets are the visible worksheets in order.
	sheets        []xlsxSheet
	sharedStrings string // the name of the part
	numbers       *numberFormats
}

type xlsxSheet struct{ name, part string }

// workbook reads the data that all sheets share, except the texts.
func (p *zipParts) workbook() (*xlsxBook, error) {
	book := &xlsxBook{parts: p, sharedStrings: "xl/sharedstrings.xml", numbers: &numberFormats{codes: map[int]string{}}}
	name := "xl/workbook.xml"
	roots, err := p.relations("/")
	if err != nil {
		return nil, err
	}
	for _, root := range roots {
		if root.kind == "officeDocument" {
			name = root.target
		}
	}
	relations, err := p.relations(name)
	if err != nil {
		return nil, err
	}
	if err := p.readSheets(name, relations, book); err != nil {
		return nil, err
	}
	for _, found := range relations {
		switch found.kind {
		case "sharedStrings":
			book.sharedStrings = found.target
		case "styles":
			if p.files[found.target] == nil {
				continue // without styles, numbers stay plain
			}
			if err := p.scan(found.target, book.numbers.readStyles); err != nil {
				return nil, err
			}
		}
	}
	return book, nil
}

// readSheets reads the list of sheets from the named part into book.
func (p *zipParts) readSheets(name string, relations map[string]relation, book *xlsxBook) error {
	parts, count := map[string]bool{}, 0
	return p.scan(name, func(part *xmlPart) error {
		return part.elements(func(start xml.StartElement) error {
			switch name := start.Name.Local; { // the depth counts, because extensions may use these names elsewhere
			case part.depth == 2 && name == "workbookPr":
				book.numbers.is1904 = isTrue(attribute(start, "date1904"))
			case part.depth == 3 && name == "sheet":
				if count++; count > maxSheets {
					return tooComplex("complex_sheets", maxSheets)
				}
				found, isThere := relations[relationID(start)]
				if !isThere { // a module or dialog sheet of an old version
					return nil
				}
				if parts[found.target] {
					return errors.New("two sheets share a part")
				}
				parts[found.target] = true
				if state := attribute(start, "state"); found.kind == "worksheet" && (state == "" || state == "visible") {
					book.sheets = append(book.sheets, xlsxSheet{attribute(start, "name"), found.target})
				}
			}
			return nil
		})
	})
}

// relationID returns the id in the namespace of relations, because a sheet also has another attribute named id.
func relationID(start xml.StartElement) string {
	for _, attr := range start.Attr {
		if attr.Name.Local == "id" && attr.Name.Space != "" {
			return attr.Value
		}
	}
	return ""
}

func isTrue(text string) bool {
	is, err := strconv.ParseBool(text)
	return err == nil && is
}
