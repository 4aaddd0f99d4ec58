package dataset

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding/simplifiedchinese"
)

// readCSV reads text with commas and double quotes (RFC 4180), in UTF-8 unless the layout names another encoding.
// Cells are returned verbatim, including their line ends, which encoding/csv would change. A CR alone ends a row only
// if the file has no LF.
func readCSV(content []byte, c *collector) error {
	content, err := decode(content, c.layout.Encoding)
	if err != nil {
		return err
	}
	content = bytes.TrimPrefix(content, []byte("\uFEFF"))
	c.isStrict = true
	p := csvParser{budget: c.budget, text: string(content), line: 1, crEndsRow: bytes.IndexByte(content, '\n') < 0}
	for number := 1; p.pos < len(p.text); number++ {
		cells, err := p.row(number)
		if err != nil {
			return err
		}
		if err := c.add(number, cells); err != nil {
			return err
		}
	}
	return nil
}

type csvParser struct {
	budget    *budget
	cells     []string // of the current row
	text      string
	pos       int
	line      int
	crEndsRow bool
}

// row reads one row; the next call overwrites it. An empty line is a row of one empty cell.
func (p *csvParser) row(number int) ([]string, error) {
	p.cells = p.cells[:0]
	for {
		if err := p.budget.spend(); err != nil {
			return nil, err
		}
		if len(p.cells) == maxRowCells {
			return nil, tooComplex("complex_row_cells", maxRowCells)
		}
		cell, err := p.cell(number)
		if err != nil {
			return nil, err
		}
		p.cells = append(p.cells, cell)
		if p.pos >= len(p.text) {
			return p.cells, nil
		}
		if p.text[p.pos] == ',' {
			p.pos++
			if p.pos == len(p.text) {
				return append(p.cells, ""), nil
			}
			continue
		}
		p.pos += p.lineEnd()
		p.line++
		return p.cells, nil
	}
}

// lineEnd returns the length in bytes of the line ending at pos; 0 means that there is none.
func (p *csvParser) lineEnd() int {
	switch {
	case p.pos >= len(p.text):
		return 0
	case p.text[p.pos] == '\n':
		return 1
	case p.text[p.pos] == '\r' && strings.HasPrefix(p.text[p.pos+1:], "\n"):
		return 2
	case p.text[p.pos] == '\r' && p.crEndsRow:
		return 1
	}
	return 0
}

func (p *csvParser) cell(number int) (string, error) {
	if p.pos < len(p.text) && p.text[p.pos] == '"' {
		return p.quoted(number)
	}
	start := p.pos
	for p.pos < len(p.text) {
		next := strings.IndexAny(p.text[p.pos:], ",\r\n")
		if next < 0 {
			p.pos = len(p.text)
			break
		}
		p.pos += next
		if p.text[p.pos] == ',' || p.lineEnd() > 0 {
			break
		}
		p.pos++ // a CR within the cell
	}
	return p.text[start:p.pos], nil
}

func (p *csvParser) quoted(number int) (string, error) {
	opened := p.line
	p.pos++
	var cell strings.Builder
	for {
		closing := strings.IndexByte(p.text[p.pos:], '"')
		if closing < 0 {
			return "", problem(CodeUnreadable, "open_quote", "Row", number, "Line", opened)
		}
		part := p.text[p.pos : p.pos+closing]
		p.line += strings.Count(part, "\n")
		if p.crEndsRow {
			p.line += strings.Count(part, "\r")
		}
		cell.WriteString(part)
		p.pos += closing + 1
		if strings.HasPrefix(p.text[p.pos:], `"`) {
			cell.WriteByte('"')
			p.pos++
			continue
		}
		if p.pos < len(p.text) && p.text[p.pos] != ',' && p.lineEnd() == 0 {
			return "", problem(CodeUnreadable, "text_after_quote", "Row", number, "Line", p.line)
		}
		return cell.String(), nil
	}
}

// decode returns a file as UTF-8. It decodes GB18030 only if the content looks like it, because nearly any bytes
// can be decoded as GB18030.
func decode(content []byte, encoding string) ([]byte, error) {
	if encoding != GB18030 || utf8.Valid(content) {
		return content, CheckEncoding(content)
	}
	if bytes.IndexByte(content, 0) >= 0 || !isGB18030(content) {
		return nil, problem(CodeEncodingInvalid, "no_gb18030")
	}
	return simplifiedchinese.GB18030.NewDecoder().Bytes(content)
}

// CheckEncoding refuses text that is not UTF-8 and names the likely encoding. Its error is an *Error.
func CheckEncoding(content []byte) error {
	switch {
	case bytes.HasPrefix(content, []byte{0xFF, 0xFE}), bytes.HasPrefix(content, []byte{0xFE, 0xFF}), isUTF16(content):
		return problem(CodeEncodingInvalid, "encoding", "Found", "UTF-16")
	case bytes.IndexByte(content, 0) >= 0:
		line := 1 + bytes.Count(content[:bytes.IndexByte(content, 0)], []byte("\n"))
		return problem(CodeEncodingInvalid, "nul", "Line", line)
	case utf8.Valid(content):
		return nil
	case isGB18030(content):
		return problem(CodeEncodingInvalid, "encoding", "Found", "GB18030 (GBK)")
	}
	return problem(CodeEncodingInvalid, "invalid_utf8", "Line", invalidLine(content))
}

// isUTF16 recognises UTF-16 without a byte order mark by its NUL bytes: in ASCII text, every other byte is NUL.
func isUTF16(content []byte) bool {
	var even, odd int
	sample := content[:min(len(content), 4096)]
	for n, c := range sample {
		if c == 0 && n%2 == 0 {
			even++
		} else if c == 0 {
			odd++
		}
	}
	return even+odd > len(sample)/16 && (even == 0 || odd == 0)
}

// isGB18030 reports whether all of the content decodes as GB18030, and mostly to common Chinese characters: nearly
// any bytes decode to some characters, but rarely to common ones.
func isGB18030(content []byte) bool {
	decoded, err := simplifiedchinese.GB18030.NewDecoder().Bytes(content)
	if err != nil {
		return false
	}
	var common, other int
	for _, r := range string(decoded) {
		switch {
		case r == utf8.RuneError:
			return false
		case r < 0x80:
		case (r >= 0x4E00 && r <= 0x9FFF) || (r >= 0x3000 && r <= 0x303F) || (r >= 0xFF00 && r <= 0xFFEF) ||
			(r >= 0x2010 && r <= 0x2027) || r >= 0x20000:
			common++
		default:
			other++
		}
	}
	if other > common {
		return false
	}
	// Text with some valid UTF-8 beyond ASCII is a mixture of encodings, not GB18030.
	for rest := content; len(rest) > 0; {
		r, size := utf8.DecodeRune(rest)
		if size >= 3 && r >= 0x4E00 && r <= 0x9FFF {
			return looksLikeOneEncoding(content)
		}
		rest = rest[size:]
	}
	return true
}

// looksLikeOneEncoding reports whether hardly any line with bytes beyond ASCII is valid UTF-8. In real GB18030, a short
// line may be valid by chance, but most lines are not.
func looksLikeOneEncoding(content []byte) bool {
	valid, invalid := 0, 0
	for line := range bytes.SplitSeq(content, []byte("\n")) {
		switch {
		case !bytes.ContainsFunc(line, func(r rune) bool { return r >= 0x80 }):
		case utf8.Valid(line):
			valid++
		default:
			invalid++
		}
	}
	return valid*10 < invalid
}

func invalidLine(content []byte) int {
	line := 1
	for rest := content; len(rest) > 0; {
		r, size := utf8.DecodeRune(rest)
		if r == utf8.RuneError && size == 1 {
			return line
		}
		if r == '\n' {
			line++
		}
		rest = rest[size:]
	}
	return line
}
