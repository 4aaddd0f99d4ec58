package form

import (
	"context"
	"errors"
	"slices"

	"wending/handlers/request"
	"wending/jobs/answers"
	"wending/jobs/dataset"
	"wending/jobs/tasks"
)

// Answers parses a form with a file of answers, and returns its faults in the order of its fields. settings become the
// task's settings.
func Answers(ctx context.Context, f *Upload, settings tasks.Settings) (n tasks.NewAnswers, faults []FieldFault) {
	c := checker{fields: fields{form: f}}
	c.name()
	if wrong := tasks.CheckName(c.n.Name); wrong != nil {
		c.fail("task_name", request.TaskFault(wrong))
	}
	n = tasks.NewAnswers{Name: c.n.Name, Settings: settings}
	file, err := AnswersFile(ctx, f)
	if err != nil {
		c.fail("file", request.FaultOf(err))
		return n, c.faults
	}
	n.FileName, n.File = f.File.Name, file
	return n, c.faults
}

// AnswersFile parses the file of answers in a form. The error says what is wrong with the file or with the fields that
// describe its layout.
func AnswersFile(ctx context.Context, f *Upload) (*answers.File, error) {
	layout := tasks.AnswersLayout()
	layout.Columns = map[string]string{}
	for _, column := range answers.Mappable {
		layout.Columns[column] = f.Value("column_" + column)
	}
	if layout.Format = f.Value("format"); layout.Format != "" && !slices.Contains(answers.Formats, layout.Format) {
		return nil, request.FieldFault("format", request.OneOf(answers.Formats...))
	}
	if layout.Encoding = f.Value("dataset_encoding"); !slices.Contains(dataset.Encodings, layout.Encoding) {
		return nil, request.FieldFault("dataset_encoding", request.OneOf(dataset.GB18030))
	}
	switch {
	case f.Refused != nil:
		return nil, f.Refused
	case f.File == nil:
		return nil, request.NewFault(request.CodeDatasetRequired)
	case f.File.IsTooLarge:
		return nil, request.NewFault(request.CodeDatasetTooLarge).WithMessage("error.ANSWERS_TOO_LARGE")
	}
	file, err := answers.Read(ctx, f.File.Content, layout)
	if err != nil {
		return nil, request.DatasetFault(err)
	}
	return file, nil
}

// FoundAnswers is the result of reading a form's file of answers.
type FoundAnswers struct {
	// File is nil if the file could not be read; Fault then says why.
	File  *answers.File
	Fault *request.Fault
	// Columns are the names of a table's columns; nil if they are not known.
	Columns []string
	// Encoding is the encoding in which a CSV file was read; empty means UTF-8.
	Encoding string
}

// FindAnswers reads the file of answers in a form, to let the user check its layout. A CSV file that is not UTF-8 is
// read as GB18030 if possible. Faults of the file are returned in found; err is an internal error.
func FindAnswers(ctx context.Context, f *Upload) (found FoundAnswers, err error) {
	found.Encoding = f.Value("dataset_encoding")
	found.File, err = AnswersFile(ctx, f)
	refused := (*dataset.Error)(nil)
	if errors.As(err, &refused) && refused.Code == dataset.CodeEncodingInvalid && found.Encoding == "" {
		if file, again := AnswersFile(ctx, f.With("dataset_encoding", dataset.GB18030)); again == nil {
			found.File, found.Encoding, err = file, dataset.GB18030, nil
		}
	}
	switch {
	case err == nil:
		for _, column := range found.File.Columns {
			found.Columns = append(found.Columns, column.Name)
		}
		return found, nil
	case errors.As(err, &refused):
		found.Columns = refused.Columns
	}
	if request.IsInternal(err) {
		return found, err
	}
	found.Fault = request.FaultOf(err)
	return found, nil
}
