package form

import (
	"context"
	"slices"

	"wending/handlers/request"
	"wending/jobs/answers"
	"wending/jobs/dataset"
	"wending/jobs/tasks"
)

// Answers reads a form with a file of answers, and returns all its faults, in the form's order. settings are the task's
// settings.
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

// AnswersFile reads the file of answers in a form. Its error reports what is wrong with the file or with the fields
// that describe its layout.
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
