package library

import (
	"context"
	"path/filepath"
	"strings"

	"github.com/google/uuid"

	"wending/db"
	"wending/db/entries"
	"wending/jobs/dataset"
	"wending/jobs/tasks"
)

// Correction is a new standard answer to a question of a dataset.
type Correction struct {
	// QuestionID and Question identify the question: by its id if the file has ids, and otherwise by its text.
	QuestionID, Question string
	Answer, Note         string
}

// CorrectAnswer saves the newest version of a dataset, with one question's standard answer replaced, as its next
// version, as CSV. It returns a db.NotFoundError if the newest version does not have the question, and a dataset.Error
// if the answer cannot be part of a dataset.
func (s *Service) CorrectAnswer(ctx context.Context, scope db.Scope, id uuid.UUID,
	c Correction) (entries.Dataset, error) {
	row, err := s.Entries.Datasets.Get(ctx, scope, id)
	if err != nil {
		return row, err
	}
	_, set, err := s.ReadDataset(ctx, row.ID, row.DatasetVersion)
	if err != nil {
		return row, err
	}
	layout := LayoutOf(row.DatasetVersion)
	layout.Encoding = ""
	content, isFound, err := set.Corrected(layout, c.QuestionID, c.Question, c.Answer)
	if err != nil {
		return row, err
	}
	if !isFound {
		return row, &db.NotFoundError{Kind: db.KindQuestion}
	}
	name := strings.TrimSuffix(row.FileName, filepath.Ext(row.FileName)) + ".csv"
	changed, err := dataset.Read(ctx, name, content, layout)
	if err != nil {
		return row, err
	}
	return s.AddDatasetVersion(ctx, scope, row.ID, NewDataset{Name: row.Name, Description: row.Description, Note: c.Note,
		File: tasks.File{Name: name, Content: content}, Layout: layout, Set: changed})
}
