package archive

import (
	"archive/zip"
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"wending/jobs/dataset"
)

// Limits on reading an archive, in addition to the limits on forms and datasets. Bytes are counted after unpacking.
const (
	// maxDirectory is the maximum size in bytes of the ZIP file's list of files.
	maxDirectory = 8 << 20
	// maxParts is the maximum number of parts of an archive, and maxManifest is the maximum size of the manifest, which
	// lists their hashes.
	maxParts    = 50_000
	maxManifest = 24 << 20
	maxHeader   = 32 << 20
	// maxItems and maxRuns are the maximum total sizes of questions and of runs, and maxItem and maxRun are the maximum
	// sizes of one line: an answer and its reasoning may be 8 MiB long each.
	maxItems = 128 << 20
	maxRuns  = 2 << 30
	maxItem  = 16 << 20
	maxRun   = 24 << 20
	// maxLists is the maximum size of each of the lists of tool calls, files, samples and pairs, and maxLine that of a
	// line.
	maxLists = 512 << 20
	maxLine  = 4 << 20
	// maxFiles is the maximum total size of the files that agents produced: the same as for a whole archive, so that
	// nothing is gained by compressing them.
	maxFiles = 1 << 30
	// maxTime is the CPU time that reading may take; for every bytesPerSecond bytes that are read, a second is added.
	maxTime        = pace * 2 * time.Second
	bytesPerSecond = 16 << 20 / pace
)

// reader reads the files of an archive. It is bound to one thread, whose CPU time is counted.
type reader struct {
	ctx   context.Context
	zip   *zip.Reader
	files map[string][]*zip.File
	began time.Duration
	read  int64
}

func newReader(ctx context.Context, file io.ReaderAt, size int64) (*reader, error) {
	directory := &boundedReader{file, maxDirectory}
	files, err := zip.NewReader(directory, size)
	if err != nil {
		return nil, &Error{Problem: ProblemDamaged, Args: map[string]any{"Detail": err.Error()}}
	}
	directory.left = math.MaxInt64 // from here on, bytes are counted after unpacking
	if len(files.File) > maxParts+1 {
		return nil, &Error{File: "ZIP", Problem: ProblemParts, Args: map[string]any{"Max": maxParts}}
	}
	byName := map[string][]*zip.File{}
	for _, one := range files.File {
		byName[one.Name] = append(byName[one.Name], one)
	}
	return &reader{ctx: ctx, zip: files, files: byName, began: dataset.ProcessorTime()}, nil
}

// boundedReader fails once it is asked for more bytes than allowed; left is how many may still be read.
type boundedReader struct {
	io.ReaderAt
	left int64
}

var errDirectory = errors.New("the archive's list of files is too long")

// ReadAt implements io.ReaderAt.
func (r *boundedReader) ReadAt(into []byte, at int64) (int, error) {
	if r.left -= int64(len(into)); r.left < 0 {
		return 0, errDirectory
	}
	return r.ReaderAt.ReadAt(into, at)
}

// open opens a file of at most the given unpacked size. Its errors are *Error, unless the context has ended.
func (r *reader) open(name string, most int64) (io.ReadCloser, error) {
	found := r.files[name]
	if len(found) > 1 {
		return nil, &Error{File: shorten(name), Problem: ProblemTwice}
	}
	if len(found) == 0 {
		return nil, &Error{File: shorten(name), Problem: ProblemMissing}
	}
	file, err := found[0].Open()
	if err != nil {
		return nil, damaged(name, err)
	}
	return &meteredFile{file, r, shorten(name), most, most}, nil
}

func damaged(name string, err error) *Error {
	return &Error{File: shorten(name), Problem: ProblemDamaged, Args: map[string]any{"Detail": err.Error()}}
}

// check returns an error if reading has used too much CPU time or the context has ended.
func (r *reader) check(name string) error {
	if dataset.ProcessorTime()-r.began > maxTime+time.Duration(r.read)*(time.Second/bytesPerSecond) {
		return &Error{File: name, Problem: ProblemSlow}
	}
	return r.ctx.Err()
}

// meteredFile counts the bytes that it unpacks.
type meteredFile struct {
	io.ReadCloser
	reader *reader
	name   string
	most   int64
	left   int64
}

// Read implements io.Reader.
func (f *meteredFile) Read(into []byte) (int, error) {
	if err := f.reader.check(f.name); err != nil {
		return 0, err
	}
	n, err := f.ReadCloser.Read(into)
	f.reader.read += int64(n)
	if f.left -= int64(n); f.left < 0 {
		return 0, &Error{File: f.name, Problem: ProblemLarge, Args: map[string]any{"Max": f.most >> 20}}
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return n, damaged(f.name, err)
	}
	return n, err
}

// object reads a file that is one JSON object.
func (r *reader) object(name string, most int64, into any) (content []byte, err error) {
	file, err := r.open(name, most)
	if err != nil {
		return nil, err
	}
	defer file.Close() //nolint:errcheck // only read
	var all bytes.Buffer
	all.Grow(int(min(r.files[name][0].UncompressedSize64, uint64(most))) + bytes.MinRead) // the declared size may be wrong
	if _, err := all.ReadFrom(file); err != nil {
		return nil, err
	}
	content = all.Bytes()
	return content, in(name, content, decode(content, into))
}

// in completes an *Error about a file that is a single JSON object: it adds the file's name and the line of the faulty
// member.
func in(name string, content []byte, err error) error {
	wrong := (*Error)(nil)
	if errors.As(err, &wrong) {
		wrong.File, wrong.Line = name, lineOf(content, wrong.Member)
	}
	return err
}

// lineOf returns the line of a member, such as targets[2].url, or of its parent if the member is missing.
func lineOf(content []byte, member string) int {
	decoder := json.NewDecoder(bytes.NewReader(content))
	path := strings.FieldsFunc(member, func(r rune) bool { return strings.ContainsRune(".[]", r) })
	offset := int64(0)
	for _, step := range path {
		opening, err := decoder.Token()
		if err != nil || !isAt(decoder, opening, step) {
			break
		}
		offset = decoder.InputOffset()
	}
	at := min(int(offset), len(content))
	at += len(content[at:]) - len(bytes.TrimLeft(content[at:], " \t\r\n,:"))
	return 1 + bytes.Count(content[:at], []byte("\n"))
}

// isAt moves a decoder within an object or a list to the value that step names, and reports whether there is one.
func isAt(decoder *json.Decoder, opening json.Token, step string) bool {
	for place := 1; decoder.More(); place++ {
		name := strconv.Itoa(place)
		if opening == json.Delim('{') {
			token, err := decoder.Token()
			if err != nil {
				return false
			}
			name, _ = token.(string)
		}
		if name == step {
			return true
		}
		var skipped json.RawMessage
		if decoder.Decode(&skipped) != nil {
			return false
		}
	}
	return false
}

// has reports whether an archive has a part.
func (r *reader) has(name string) bool { return len(r.files[name]) > 0 }

// lines reads a file line by line.
type lines struct {
	reader  *reader
	name    string
	file    io.ReadCloser
	scanner *bufio.Scanner
	// number is the number of the line that was read last.
	number  int
	maxLine int
}

func (r *reader) lines(name string, most int64, maxLine int) (*lines, error) {
	file, err := r.open(name, most)
	if err != nil {
		return nil, err
	}
	l := &lines{reader: r, name: name, file: file, scanner: bufio.NewScanner(file), maxLine: maxLine}
	l.scanner.Buffer(make([]byte, 64<<10), maxLine)
	return l, nil
}

func (l *lines) close() { _ = l.file.Close() }

// next returns the next line, which is valid until the next call, and nil after the last line. Its errors are
// *Error, unless the context has ended.
func (l *lines) next() ([]byte, error) {
	if err := l.reader.check(l.name); err != nil {
		return nil, err
	}
	if !l.scanner.Scan() {
		err := l.scanner.Err()
		if errors.Is(err, bufio.ErrTooLong) {
			err = &Error{File: l.name, Line: l.number + 1, Problem: ProblemLong, Args: map[string]any{"Max": l.maxLine >> 20}}
		}
		return nil, err
	}
	l.number++
	return l.scanner.Bytes(), nil
}

// at adds the file's name and the line number to an *Error.
func (l *lines) at(err error) error {
	wrong := (*Error)(nil)
	if errors.As(err, &wrong) {
		wrong.File, wrong.Line = l.name, l.number
	}
	return err
}
