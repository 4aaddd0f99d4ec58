package form

import (
	"net/http"
	"net/url"
	"strconv"

	"wending/db"
	"wending/handlers/request"
	"wending/jobs/tasks"
)

// RetryScope returns what to retry: everything, or the question or variant that the query or the form names.
func RetryScope(r *http.Request, submitted *Upload) (db.Selection, error) {
	named, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return db.Selection{}, request.NewFault(request.CodeRequestInvalid).WithCause(err)
	}
	if c := (fields{form: submitted}); !c.isText("question_id") {
		return db.Selection{}, c.faults[0].Fault
	}
	for _, name := range []string{"question_id", "variant"} {
		if text, isThere := submitted.Values[name]; isThere {
			named.Add(name, text)
		}
	}
	var scope db.Selection
	if ids, isThere := named["question_id"]; isThere {
		scope.QuestionID = request.StorableText(ids[0])
		if len(ids) > 1 || scope.QuestionID == "" {
			return db.Selection{}, request.ParameterFault("question_id", request.NonEmpty())
		}
	}
	if numbers, isThere := named["variant"]; isThere {
		scope.Variant, err = strconv.Atoi(numbers[0])
		if len(numbers) > 1 || err != nil || scope.Variant < 1 {
			return db.Selection{}, request.ParameterFault("variant", request.NonEmpty())
		}
	}
	return scope, nil
}

// Extended returns the number of runs per question to which a form extends a task, and the ids of the questions to
// extend; no ids mean all questions. While the task is active, it returns a fault.
func Extended(submitted *Upload, task db.Task) (ids []string, runs int, err error) {
	if task.Status.IsActive() {
		return nil, 0, request.NewFault(request.CodeTaskStateConflict)
	}
	if err := task.CheckAsking(); err != nil {
		return nil, 0, err
	}
	if task.RunsPerItem >= tasks.MaxRuns {
		return nil, 0, request.NewFault(request.CodeTaskStateConflict).WithMessage("error.MOST_RUNS")
	}
	if submitted.Has("question_ids") {
		var isList bool
		if ids, isList = submitted.QuestionIDs(); !isList {
			return nil, 0, request.FieldFault("question_ids", request.Required())
		}
	}
	if runs, err = strconv.Atoi(submitted.Value("runs_per_item")); err != nil { // 0 is refused below as out of range
		runs = 0
	}
	if wrong := tasks.CheckRuns(task, runs); wrong != nil {
		return nil, 0, request.TaskFault(wrong)
	}
	return ids, runs, nil
}
