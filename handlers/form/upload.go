// Package form reads submitted forms: multipart uploads, files that wait on the server for their form, and the
// fields of a task.
package form

import (
	"bytes"
	"errors"
	"io"
	"mime/multipart"
	"net/http"
	"path/filepath"
	"strings"

	"wending/handlers/fault"
	"wending/jobs/dataset"
	"wending/jobs/tasks"
)

// Upload is a submitted form: its texts, and the file that came with it.
type Upload struct {
	Values map[string]string
	// File is nil if none came.
	File *File
}

// File is a dataset file as it was uploaded.
type File struct {
	tasks.File
	// IsTooLarge reports that the file was larger than dataset.MaxBytes and its content was dropped.
	IsTooLarge bool
}

const (
	maxFieldBytes = 256 << 10
	maxFields     = 64
	// maxBodyBytes is how much of a request is read at all. A file over its limit is read to its end, up to here,
	// and dropped, so that the form's other fields are not lost.
	maxBodyBytes = 64 << 20
)

// Read reads a form as a stream. A repeated field keeps its last value. A body that is absent is an empty form.
func Read(w http.ResponseWriter, r *http.Request) (*Upload, error) {
	form := &Upload{Values: map[string]string{}}
	if r.ContentLength == 0 {
		return form, nil
	}
	if strings.HasPrefix(r.Header.Get("Content-Type"), "application/x-www-form-urlencoded") {
		r.Body = http.MaxBytesReader(w, r.Body, 4*maxFieldBytes) // no file can come with it
		if err := r.ParseForm(); err != nil {
			return nil, unreadable(err)
		}
		for name, texts := range r.PostForm {
			form.Values[name] = texts[len(texts)-1]
		}
		return form, nil
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxBodyBytes)
	reader, err := r.MultipartReader()
	if err != nil {
		return nil, fault.Parameter("Content-Type", fault.OneOf("multipart/form-data"))
	}
	for n := 0; ; n++ {
		part, err := reader.NextPart()
		if errors.Is(err, io.EOF) {
			return form, nil
		}
		if err != nil || n >= maxFields {
			return nil, unreadable(err)
		}
		if err := form.add(part); err != nil {
			return nil, unreadable(err)
		}
	}
}

func unreadable(err error) error {
	if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
		return fault.New("DATASET_TOO_LARGE").WithCause(err)
	}
	return fault.New("REQUEST_INVALID").WithCause(err)
}

func (u *Upload) add(part *multipart.Part) (err error) {
	if part.FormName() == "dataset_file" && part.FileName() != "" {
		u.File, err = readFile(part)
		return err
	}
	value, err := io.ReadAll(io.LimitReader(part, maxFieldBytes))
	u.Values[part.FormName()] = string(value)
	return err
}

func readFile(part *multipart.Part) (*File, error) {
	file := &File{File: tasks.File{Name: filepath.Base(strings.ReplaceAll(part.FileName(), `\`, "/"))}}
	var content bytes.Buffer
	if _, err := io.Copy(&content, io.LimitReader(part, dataset.MaxBytes+1)); err != nil {
		return nil, err
	}
	if content.Len() > dataset.MaxBytes {
		file.IsTooLarge = true
		_, err := io.Copy(io.Discard, part)
		return file, err
	}
	file.Content = content.Bytes()
	return file, nil
}

// Value returns a field without surrounding white space; empty if it is absent.
func (u *Upload) Value(name string) string { return strings.TrimSpace(u.Values[name]) }
