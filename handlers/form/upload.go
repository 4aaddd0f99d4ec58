// Package form parses and checks submitted forms: for tasks, entries of the library, accounts and reviews. It receives
// the files that they upload, and keeps a file on the server while its form is still being filled in.
package form

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime/multipart"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"wending/db/people"
	"wending/handlers/request"
	"wending/jobs/answers"
	"wending/jobs/blob"
	"wending/jobs/dataset"
	"wending/jobs/tasks"
)

// Upload is a submitted form: its text fields, and the file that was sent with it.
type Upload struct {
	Values map[string]string
	// IsJSON reports that the form was sent as JSON.
	IsJSON bool
	// notTexts are the fields of a JSON form whose values are neither strings nor null.
	notTexts map[string]bool
	// nulls are the fields of a JSON form that are null.
	nulls map[string]bool
	// File is nil if no file was sent.
	File *File
	// Refused is the reason why the form's file cannot be processed now: the server is busy, or a quota is used up.
	Refused error
	// mostBytes is the maximum size of the file, in bytes.
	mostBytes int64
	hasPlace  bool
	leave     func()
}

// New returns a form with the given fields, as if it had been submitted.
func New(values map[string]string) *Upload { return &Upload{Values: values, leave: func() {}} }

// With returns a copy of the form with the field set to value.
func (u *Upload) With(field, value string) *Upload {
	changed := *u
	changed.Values = maps.Clone(u.Values)
	changed.Values[field] = value
	return &changed
}

// WithFile returns a copy of the form with the given file.
func (u *Upload) WithFile(file *File) *Upload {
	changed := *u
	changed.File = file
	return &changed
}

// File is an uploaded file.
type File struct {
	tasks.File
	// IsTooLarge reports that the file exceeded the maximum size, so its content was dropped.
	IsTooLarge bool
	spooled    *os.File
}

const (
	maxFieldBytes = 256 << 10
	maxFields     = 256
	// maxTextBytes is the maximum size of the names and values of all fields together, which are in memory while the rest
	// of the form arrives, possibly slowly.
	maxTextBytes = 4 * maxFieldBytes
	// maxPublicBytes is the maximum size, in bytes, of a form that any client may send, signed in or not.
	maxPublicBytes = 64 << 10
	// maxBodyBytes is the maximum size of a request's body. A file that is too large is still read, up to this limit, and
	// dropped, so that the form's other fields are not lost.
	maxBodyBytes = 64 << 20
)

// ReadText parses a form without a file, which any client may send.
func ReadText(w http.ResponseWriter, r *http.Request) (*Upload, error) {
	r.Body = http.MaxBytesReader(w, r.Body, maxPublicBytes)
	return Read(w, r, nil)
}

// Read parses a form while it arrives. A field that may not be repeated keeps its last value; without a body, the form
// is empty. A file waits on disk until it gets a slot at the gate: slow clients hold no slot, and only files with a
// slot are in memory. If gate is nil, the form may not contain a file.
func Read(w http.ResponseWriter, r *http.Request, gate *request.Gate) (*Upload, error) {
	return read(w, r, gate, dataset.MaxBytes)
}

// ReadAnswers is like Read, but for a form with a file of answers, which may be larger than a file of questions.
func ReadAnswers(w http.ResponseWriter, r *http.Request, gate *request.Gate) (*Upload, error) {
	return read(w, r, gate, answers.MaxBytes)
}

func read(w http.ResponseWriter, r *http.Request, gate *request.Gate, mostBytes int64) (*Upload, error) {
	form := &Upload{Values: map[string]string{}, mostBytes: mostBytes, leave: func() {}}
	if r.ContentLength == 0 {
		return form, nil
	}
	if strings.HasPrefix(r.Header.Get("Content-Type"), "application/x-www-form-urlencoded") {
		r.Body = http.MaxBytesReader(w, r.Body, maxTextBytes) // neither this encoding nor JSON can contain a file
		if err := r.ParseForm(); err != nil {
			if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
				return nil, errTooMuchText.WithCause(err)
			}
			return nil, unreadable(err, gate)
		}
		for name, texts := range r.PostForm {
			for _, text := range texts {
				form.set(name, text)
			}
		}
		return form, nil
	}
	if strings.HasPrefix(r.Header.Get("Content-Type"), "application/json") {
		return readJSON(w, r)
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxBodyBytes)
	reader, err := r.MultipartReader()
	if err != nil {
		return nil, request.ParameterFault("Content-Type", request.OneOf("multipart/form-data"))
	}
	text := 0
	for n := 0; ; n++ {
		part, err := reader.NextPart()
		if errors.Is(err, io.EOF) {
			if form.File == nil {
				return form, nil
			}
			return form, form.Admit(r.Context(), gate)
		}
		if err != nil || n >= maxFields {
			form.drop()
			return nil, unreadable(err, gate)
		}
		if err := form.add(part, gate); err != nil {
			form.drop()
			return nil, unreadable(err, gate)
		}
		if text += len(part.FormName()) + len(form.Values[part.FormName()]); text > maxTextBytes {
			form.drop()
			return nil, errTooMuchText
		}
	}
}

// errTooMuchText refuses a form whose fields are larger than those of any real form.
var errTooMuchText = request.NewFault(request.CodeRequestTooLarge)

func unreadable(err error, gate *request.Gate) error {
	if system := (systemError{}); errors.As(err, &system) {
		return system
	}
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		if gate == nil { // the form could not contain a file, so its fields are too large
			return errTooMuchText.WithCause(err)
		}
		return request.NewFault(request.CodeDatasetTooLarge).WithCause(err)
	}
	return request.NewFault(request.CodeRequestInvalid).WithCause(err)
}

// FileFields are the fields that may contain a file.
var FileFields = []string{"dataset_file", "file"}

func (u *Upload) add(part *multipart.Part, gate *request.Gate) (err error) {
	if gate != nil && slices.Contains(FileFields, part.FormName()) && part.FileName() != "" {
		if u.File != nil {
			return errors.New("more than one file")
		}
		u.File, err = spool(part, u.mostBytes)
		return err
	}
	value, err := io.ReadAll(io.LimitReader(part, maxFieldBytes))
	u.set(part.FormName(), string(value))
	return err
}

// spool writes a file to disk. If the file has more bytes than most, spool discards the rest and sets IsTooLarge.
func spool(part *multipart.Part, most int64) (*File, error) {
	file := &File{File: tasks.File{Name: filepath.Base(strings.ReplaceAll(part.FileName(), `\`, "/"))}}
	disk, err := blob.Unnamed("")
	if err != nil {
		return nil, systemError{fmt.Errorf("store an upload: %w", err)}
	}
	file.spooled = disk
	size, err := io.Copy(disk, io.LimitReader(part, most+1))
	if err == nil && size > most {
		file.IsTooLarge = true
		_, err = io.Copy(io.Discard, part)
	}
	return file, err
}

// Admit takes a slot at the gate, which is held until Release or the end of the request, and loads the form's file into
// memory. Read has already admitted a form with a file. A form that refers to a file on the server must be admitted
// before that file is read. If no slot becomes free, or a quota is used up, Admit sets Refused.
func (u *Upload) Admit(ctx context.Context, gate *request.Gate) error {
	if u.hasPlace || u.Refused != nil {
		return nil
	}
	if u.File != nil {
		defer u.File.spooled.Close() //nolint:errcheck // a temporary file
		if take := request.From(ctx).TakeUpload; take != nil {
			exceeded := (*people.QuotaExceededError)(nil)
			if err := take(ctx); errors.As(err, &exceeded) {
				u.Refused = err
				return nil
			} else if err != nil {
				return err
			}
		}
	}
	leave, err := gate.Enter(ctx)
	if errors.Is(err, request.ErrBusy) {
		u.Refused = err
		return nil
	}
	if err != nil {
		return err
	}
	u.leave, u.hasPlace = leave, true
	context.AfterFunc(ctx, leave)
	if u.File == nil || u.File.IsTooLarge {
		return nil
	}
	size, err := u.File.spooled.Seek(0, io.SeekEnd)
	if err == nil {
		u.File.Content = make([]byte, size)
		_, err = u.File.spooled.ReadAt(u.File.Content, 0)
	}
	if err != nil {
		return fmt.Errorf("read an upload: %w", err)
	}
	return nil
}

// drop closes the temporary file of a form that cannot be read.
func (u *Upload) drop() {
	if u.File != nil {
		_ = u.File.spooled.Close() // the file has no name, so nothing is left behind
	}
}

// Release gives back the form's slot at the gate before the request ends.
func (u *Upload) Release() { u.leave() }

// systemError is an error of the server's own disk, as opposed to an error in the request.
type systemError struct{ error }

func (e systemError) Unwrap() error { return e.error }

// Value returns a field's text without surrounding white space; empty if the field is absent.
func (u *Upload) Value(name string) string { return strings.TrimSpace(u.Values[name]) }
