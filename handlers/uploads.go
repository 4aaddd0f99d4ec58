package handlers

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"wending/db"
	"wending/jobs/dataset"
)

// upload is a submitted form: its texts, and the file that came with it.
type upload struct {
	values map[string]string
	file   *uploadedFile
	// source is the task that the form was copied from; nil: none.
	source *db.Task
}

// uploadedFile is a dataset file in memory, at most dataset.MaxBytes of it.
type uploadedFile struct {
	name    string
	content []byte
	// isTooLarge says that the file was larger and its content was dropped.
	isTooLarge bool
}

const (
	maxFieldBytes = 256 << 10
	maxFields     = 64
	// maxBodyBytes is how much of a request is read at all. A file over its limit is read to its end, up to
	// here, and dropped, so that the form's other fields are not lost.
	maxBodyBytes = 64 << 20
)

// readUpload reads a multipart form as a stream. A field that comes twice keeps its last text.
func readUpload(c echo.Context) (*upload, error) {
	request := c.Request()
	isURLEncoded := strings.HasPrefix(request.Header.Get(echo.HeaderContentType), echo.MIMEApplicationForm)
	limit := int64(maxBodyBytes)
	if isURLEncoded { // no file can come with it
		limit = 4 * maxFieldBytes
	}
	request.Body = http.MaxBytesReader(c.Response(), request.Body, limit)
	invalid := func(err error) error {
		if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
			return &Fault{Status: http.StatusRequestEntityTooLarge, Code: "DATASET_TOO_LARGE", Cause: err}
		}
		return &Fault{Status: http.StatusUnprocessableEntity, Code: "REQUEST_INVALID", Cause: err}
	}
	form := &upload{values: map[string]string{}}
	if isURLEncoded {
		if err := request.ParseForm(); err != nil {
			return nil, invalid(err)
		}
		for name, texts := range request.PostForm {
			form.values[name] = texts[len(texts)-1]
		}
		return form, nil
	}
	reader, err := request.MultipartReader()
	if err != nil {
		return nil, parameterInvalid("Content-Type", "error.range.choice", "Choices", "multipart/form-data")
	}
	for n := 0; ; n++ {
		part, err := reader.NextPart()
		if errors.Is(err, io.EOF) {
			return form, nil
		}
		if err != nil || n >= maxFields {
			return nil, invalid(err)
		}
		if part.FormName() == "dataset_file" && part.FileName() != "" {
			form.file, err = readFile(part)
		} else {
			var text []byte
			text, err = io.ReadAll(io.LimitReader(part, maxFieldBytes))
			form.values[part.FormName()] = string(text)
		}
		if err != nil {
			return nil, invalid(err)
		}
	}
}

func readFile(part *multipart.Part) (*uploadedFile, error) {
	file := &uploadedFile{name: filepath.Base(strings.ReplaceAll(part.FileName(), `\`, "/"))}
	var content bytes.Buffer
	if _, err := io.Copy(&content, io.LimitReader(part, dataset.MaxBytes+1)); err != nil {
		return nil, err
	}
	if content.Len() > dataset.MaxBytes {
		file.isTooLarge = true
		_, err := io.Copy(io.Discard, part)
		return file, err
	}
	file.content = content.Bytes()
	return file, nil
}

// Files stand under the uploads folder: <task-id>/dataset.<ext> for good, staged/<token> for a form that
// is still being filled in.

const (
	stagedDir = "staged"
	// stagedFor is how long a staged file waits for its form.
	stagedFor = 24 * time.Hour
	maxStaged = 200
)

var tokenPattern = regexp.MustCompile(`^[A-Z2-7]{26}$`)

func prepareUploads(dir string) error {
	if err := os.MkdirAll(filepath.Join(dir, stagedDir), 0o700); err != nil {
		return fmt.Errorf("make the folder for uploads: %w", err)
	}
	return nil
}

type stagedName struct {
	Name string `json:"name"`
}

// stageFile keeps a file for the form that it was chosen in and returns its token.
func (s *Server) stageFile(file *uploadedFile) (token string, err error) {
	s.removeStaged()
	token = rand.Text()
	head, err := json.Marshal(stagedName{file.name})
	if err != nil {
		return "", err
	}
	return token, writeWhole(filepath.Join(s.Uploads, stagedDir, token), append(append(head, '\n'), file.content...))
}

// stagedFile returns the file of a token; nil when it is gone.
func (s *Server) stagedFile(token string) *uploadedFile {
	if !tokenPattern.MatchString(token) {
		return nil
	}
	stored, err := os.ReadFile(filepath.Join(s.Uploads, stagedDir, token))
	if err != nil {
		return nil
	}
	head, content, _ := bytes.Cut(stored, []byte("\n"))
	var name stagedName
	if json.Unmarshal(head, &name) != nil {
		return nil
	}
	return &uploadedFile{name: name.Name, content: content}
}

// dropStaged removes a staged file whose task has been created.
func (s *Server) dropStaged(token string) {
	if tokenPattern.MatchString(token) {
		_ = os.Remove(filepath.Join(s.Uploads, stagedDir, token)) // an old one is removed in time
	}
}

// removeStaged removes files whose form was abandoned, and the oldest when there are too many.
func (s *Server) removeStaged() {
	entries, err := os.ReadDir(filepath.Join(s.Uploads, stagedDir))
	if err != nil {
		return
	}
	oldest, oldestAt := "", time.Now()
	for _, entry := range entries {
		info, err := entry.Info()
		if err != nil {
			continue
		}
		path := filepath.Join(s.Uploads, stagedDir, entry.Name())
		if time.Since(info.ModTime()) > stagedFor {
			_ = os.Remove(path)
		} else if info.ModTime().Before(oldestAt) {
			oldest, oldestAt = path, info.ModTime()
		}
	}
	if len(entries) >= maxStaged && oldest != "" {
		_ = os.Remove(oldest)
	}
}

func (s *Server) datasetPath(taskID uuid.UUID, extension string) string {
	return filepath.Join(s.Uploads, taskID.String(), "dataset."+extension)
}

// keepDataset stores a task's file for good; nothing of it stays when that fails.
func (s *Server) keepDataset(taskID uuid.UUID, extension string, content []byte) error {
	dir := filepath.Join(s.Uploads, taskID.String())
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make the task's folder: %w", err)
	}
	if err := writeWhole(s.datasetPath(taskID, extension), content); err != nil {
		s.forgetDataset(taskID)
		return err
	}
	return nil
}

func (s *Server) forgetDataset(taskID uuid.UUID) {
	if err := os.RemoveAll(filepath.Join(s.Uploads, taskID.String())); err != nil {
		s.Log.Warn("folder of a task that was not created stays behind", "task_id", taskID, "error", err)
	}
}

// writeWhole writes a file so that it is there whole, also after a crash, or not at all.
func writeWhole(path string, content []byte) (err error) {
	file, err := os.CreateTemp(filepath.Dir(path), ".writing-*")
	if err != nil {
		return fmt.Errorf("write an upload: %w", err)
	}
	defer func() {
		if err != nil {
			_ = os.Remove(file.Name())
		}
	}()
	_, err = file.Write(content)
	if err == nil {
		err = file.Sync()
	}
	if closing := file.Close(); err == nil {
		err = closing
	}
	if err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("write an upload: %w", err)
	}
	return nil
}
