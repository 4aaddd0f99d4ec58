package tasks

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"io"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"wending/db"
	"wending/db/engine"
	"wending/jobs/blob"
	"wending/jobs/dataset"
)

func datasetKey(id uuid.UUID, extension string) string { return id.String() + "/dataset." + extension }

const pendingKey = "pending"

// pending returns the folder of a task's files while its rows are being created or removed. After a crash, the rows
// determine what happens to the files (Sweep).
func pending(key string) string { return path.Join(pendingKey, key) }

// Questions describes a file of a task's questions.
type Questions struct {
	Name, Extension string
	Layout          dataset.Layout
	// IsOriginal reports that the file is the one that was uploaded.
	IsOriginal bool
}

// LayoutOf returns how to read the file of a task's questions.
func LayoutOf(task db.Task) dataset.Layout {
	return dataset.Layout{ID: task.IDColumn, Question: task.QuestionColumn, Answer: task.AnswerColumn,
		Encoding: task.DatasetEncoding}
}

// DatasetFile returns a file of a task's questions. It is the original file unless questions were appended or the file
// does not exist, as for a schedule's copies; then it is a new CSV file of all questions. The caller closes it.
func (s *Service) DatasetFile(ctx context.Context, task db.Task) (io.ReadSeekCloser, Questions, error) {
	if task.AppendedItems > 0 {
		return s.allQuestions(ctx, task)
	}
	questions := Questions{task.DatasetName, task.DatasetExtension, LayoutOf(task), true}
	key := datasetKey(task.ID, task.DatasetExtension)
	file, err := s.Files.Open(ctx, key)
	if errors.Is(err, blob.ErrNotFound) {
		file, err = s.Files.Open(ctx, pending(key))
	}
	if errors.Is(err, blob.ErrNotFound) {
		return s.allQuestions(ctx, task)
	}
	return file, questions, err
}

// allQuestions returns a new CSV file of a task's questions. It is in memory, because the limits on datasets also limit
// its size.
func (s *Service) allQuestions(ctx context.Context, task db.Task) (io.ReadSeekCloser, Questions, error) {
	questions := Questions{Name: strings.TrimSuffix(task.DatasetName, path.Ext(task.DatasetName)) + ".csv",
		Extension: "csv"}
	items, err := engine.NewAdditions(s.Store).Items(ctx, task.ID)
	if err != nil {
		return nil, questions, err
	}
	var file bytes.Buffer
	file.WriteString("\uFEFF") // so that Excel recognises UTF-8
	writer := csv.NewWriter(&file)
	known := []string{dataset.ColumnID, dataset.ColumnQuestion, dataset.ColumnAnswer, dataset.ColumnSystem,
		dataset.ColumnContext}
	_ = writer.Write(slices.Concat(known, task.VariableNames))
	for _, item := range items {
		cells := []string{item.QuestionID, item.Question, item.StandardAnswer, TextOf(item.SystemPrompt),
			TextOf(item.UserContext)}
		_ = writer.Write(slices.Concat(cells, item.Variables)) // the variables already contain conversations' turns
	}
	writer.Flush()
	return inMemory{bytes.NewReader(file.Bytes())}, questions, nil
}

// inMemory is a file whose content is in memory.
type inMemory struct{ *bytes.Reader }

func (inMemory) Close() error { return nil }

// ImportFile stores the file of an imported task's questions, and calls the function store to store the task. It stores
// both or neither.
func (s *Service) ImportFile(ctx context.Context, id uuid.UUID, extension string, content io.Reader, size int64,
	store func() error) error {
	if err := s.Files.Put(ctx, pending(datasetKey(id, extension)), content, size); err != nil {
		return err
	}
	if err := store(); err != nil {
		s.deleteFiles(ctx, pending(id.String()))
		return err
	}
	s.moveFiles(ctx, pending(id.String()), id.String())
	return nil
}

func (s *Service) moveFiles(ctx context.Context, from, to string) {
	err := s.Files.Move(context.WithoutCancel(ctx), from, to)
	if err != nil && !errors.Is(err, blob.ErrNotFound) {
		s.Log.WarnContext(ctx, "task files not moved into place, the sweep will move them", "from", from, "to", to,
			"error", err)
	}
}

func (s *Service) deleteFiles(ctx context.Context, key string) {
	if err := s.Files.Delete(context.WithoutCancel(ctx), key); err != nil {
		s.Log.WarnContext(ctx, "task files not removed, the sweep will remove them", "key", key, "error", err)
	}
}

// PruneFiles removes the files of tasks that ended longer ago than age. Their questions stay, so a file can be
// written from them on request.
func (s *Service) PruneFiles(ctx context.Context, age time.Duration) error {
	folders, err := s.Files.List(ctx, ".")
	if err != nil {
		return err
	}
	var failure error
	for _, folder := range folders {
		id, err := uuid.Parse(path.Base(folder.Key))
		if err != nil {
			continue
		}
		task, err := s.Store.Task(ctx, db.AllProjects(), id)
		if errors.Is(err, db.ErrNotFound) {
			continue
		}
		if err != nil {
			return errors.Join(failure, err)
		}
		if task.CompletedAt != nil && !task.Status.IsActive() && time.Since(*task.CompletedAt) > age {
			failure = errors.Join(failure, s.Files.Delete(ctx, id.String()))
		}
	}
	return failure
}

// Sweep tidies up after crashes that happened longer ago than age: it deletes the files of tasks that were not stored
// or have been removed, and moves the files of existing tasks into place.
func (s *Service) Sweep(ctx context.Context, age time.Duration) error {
	failure := s.Files.Sweep(ctx, age)
	entries, err := s.Files.List(ctx, pendingKey)
	if err != nil {
		return errors.Join(failure, err)
	}
	for _, entry := range entries {
		name := path.Base(entry.Key)
		id, err := uuid.Parse(name)
		if err != nil || time.Since(entry.StoredAt) <= age {
			continue
		}
		_, err = s.Store.Task(ctx, db.AllProjects(), id)
		switch {
		case errors.Is(err, db.ErrNotFound):
			err = s.Files.Delete(ctx, entry.Key)
		case err == nil:
			if err = s.Files.Move(ctx, entry.Key, name); errors.Is(err, blob.ErrExists) { // a newer file exists
				err = s.Files.Delete(ctx, entry.Key)
			}
		}
		failure = errors.Join(failure, err)
	}
	return failure
}
