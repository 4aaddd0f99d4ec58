package library

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"strconv"
	"strings"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"wending/db"
	"wending/db/entries"
	"wending/db/report"
	"wending/db/review"
	"wending/db/tasklist"
	"wending/handlers/form"
	"wending/handlers/pages"
	"wending/handlers/request"
	"wending/jobs/evaluate"
	"wending/jobs/library"
	"wending/jobs/tasks"
	"wending/views/saved"
	"wending/views/ui"
)

func (h *handler) evaluators() kind[entries.Evaluator] {
	rows := h.Library.Entries.Evaluators
	return kind[entries.Evaluator]{
		kind: saved.Evaluators, rows: rows, entry: func(e entries.Evaluator) entries.Entry { return e.Entry },
		cells: func(c echo.Context, e entries.Evaluator) []saved.Cell {
			return []saved.Cell{{Text: pages.Locale(c).Text("evaluator.kind." + e.Rule)}, {Text: "v" + strconv.Itoa(e.Version)},
				{Text: saved.ConfigLine(pages.Locale(c), evaluate.Kind(e.Rule), e.Config), Class: "cut quiet"}}
		},
		fill: h.fillEvaluator, save: h.saver.Evaluator, remove: removing(rows),
	}
}

// tasksShown is the maximum number of finished tasks that are offered for trying an evaluator. Of a schedule's copies
// only the newest is offered; a search finds the others.
const tasksShown = 100

// fillEvaluator fills the form with the newest version of an evaluator, or with the fields of the kind in the query.
func (h *handler) fillEvaluator(c echo.Context, view *saved.Form, row *entries.Evaluator) error {
	ctx := c.Request().Context()
	values := map[string]string{"kind": c.QueryParam("kind")}
	if row != nil {
		values["kind"], values["name"] = row.Rule, row.Name
		versions, err := h.Library.Entries.EvaluatorVersions(ctx, request.ScopeOf(ctx), row.ID,
			db.Page{Number: 1, Size: versionsShown})
		if err != nil {
			return err
		}
		for _, version := range versions {
			view.Versions = append(view.Versions,
				saved.Version{Number: version.Version,
					Note: saved.ConfigLine(pages.Locale(c), evaluate.Kind(version.Rule), version.Config), SavedAt: version.SavedAt})
		}
		if view.Record, err = review.New(h.Library.Tasks.Store).Records(ctx, request.ScopeOf(ctx), row.ID); err != nil {
			return err
		}
		if _, isTyped := view.Values["kind"]; !isTyped { // a checkbox that was cleared is missing from the typed values
			for name, value := range evaluate.WriteFields(evaluate.Kind(row.Rule), row.Config) {
				values[evaluate.FormField(name)] = value
			}
		}
	}
	put(view, values)
	if _, isKind := evaluate.Fields[evaluate.Kind(view.Values["kind"])]; !isKind {
		view.Values["kind"] = ""
		return nil
	}
	if view.Values["kind"] == string(evaluate.Judge) {
		if err := h.fillJudge(c, view); err != nil {
			return err
		}
	}
	sought := strings.TrimSpace(view.Values["try_query"])
	filter := tasklist.Filter{Statuses: []db.TaskStatus{db.TaskSucceeded, db.TaskStopped}, NameContains: sought,
		Newest: sought == ""}
	var total int
	var err error
	if view.Tasks, total, err = h.choicesOfTasks(ctx, filter, tasksShown, view.Values["try_task"]); err != nil {
		return err
	}
	view.MoreTasks = max(0, total-tasksShown)
	return nil
}

// fillJudge fills the form with the saved models, and with the default prompt and dimensions of a judge.
func (h *handler) fillJudge(c echo.Context, view *saved.Form) error {
	models, _, err := h.Library.Entries.Models.List(c.Request().Context(), request.ScopeOf(c.Request().Context()),
		entries.Filter{}, db.Page{Number: 1, Size: modelsShown})
	if err != nil {
		return err
	}
	for _, model := range models {
		view.Models = append(view.Models, ui.Choice{Value: model.ID.String(), Label: model.Name})
	}
	put(view, map[string]string{
		evaluate.FormField("prompt"):     evaluate.DefaultJudgePrompt(pages.Locale(c).Lang != "en"),
		evaluate.FormField("dimensions"): strings.Join(evaluate.DefaultDimensions(), "\n"),
	})
	return nil
}

// modelsShown is the maximum number of models that are offered for a judge.
const modelsShown = 200

// tryEvaluator judges answers with the evaluator in a form, and shows its verdicts: on a task's answers, on answers
// that people have judged, or on an answer that was typed.
func (h *handler) tryEvaluator(c echo.Context) error {
	ctx, k := c.Request().Context(), h.evaluators()
	submitted, err := h.read(c, "", nil)
	if err != nil {
		return err
	}
	if submitted.Has("try_search") {
		return h.findTasks(c, k, submitted)
	}
	leave, err := pages.Gates(c).Probes.Enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	rule, config, faults := form.Rule(ctx, submitted)
	tried := &saved.Tried{Kind: submitted.Value("kind"), Config: config}
	chosen := submitted.Value("try_task")
	size, isTuned := tunedSize(chosen)
	ask := askingOf(h.Library, rule, config, isTuned)
	switch {
	case len(faults) > 0:
		name, _ := strings.CutPrefix(faults[0].Field, evaluate.FormField(""))
		tried.Message = pages.Locale(c).Text("evaluator.part", "Name", pages.Locale(c).Text("evaluator.field."+name),
			"Value", faults[0].Beside(pages.Locale(c)))
	case isTuned:
		h.tuneOnPage(c, submitted, size, ask, tried)
	case chosen != "":
		if tried.Rows, tried.Questions, err = h.tryOnTask(ctx, ask, rule == nil, chosen); err != nil {
			tried.Rows, tried.Message = nil, form.JudgeFault(submitted, err).Beside(pages.Locale(c))
			break
		}
		if len(tried.Rows) == 0 {
			tried.Message = pages.Locale(c).Text("evaluator.try.none")
		}
	default:
		answer := submitted.Values["answer"]
		verdict, err := ask(ctx, evaluate.Subject{
			Answer: answer, Values: map[string]string{"standard_answer": submitted.Values["standard_answer"],
				"question": submitted.Values["question"]},
		})
		if err != nil {
			tried.Message = form.JudgeFault(submitted, err).Beside(pages.Locale(c))
			break
		}
		tried.Rows = []saved.TriedRow{{Answer: answer, Verdict: verdict}}
	}
	if request.IsFragment(c.Request()) {
		return pages.Render(c, http.StatusOK, saved.TriedPart(tried))
	}
	row, err := k.submittedRow(c, submitted)
	if err != nil {
		return err
	}
	view, err := k.form(c, h, row, submitted, nil)
	if err != nil {
		return err
	}
	view.Tried = tried
	return h.render(c, http.StatusOK, view)
}

// findTasks shows the form of an evaluator with the tasks whose names contain the search text.
func (h *handler) findTasks(c echo.Context, k kind[entries.Evaluator], submitted *form.Upload) error {
	row, err := k.submittedRow(c, submitted)
	if err != nil {
		return err
	}
	view, err := k.form(c, h, row, submitted, nil)
	if err != nil {
		return err
	}
	if request.IsFragment(c.Request()) {
		return pages.Render(c, http.StatusOK, saved.TryChoices(view))
	}
	return h.render(c, http.StatusOK, view)
}

// The maximum number of questions and answers of a task on which an evaluator is tried, and the maximum number of
// characters that are read of each answer.
const (
	triedQuestions = 10
	triedAnswers   = 30
	triedText      = 20_000
	// triedByJudge is the maximum number of answers on which a judge is tried; it is small because each takes a call.
	triedByJudge = 3
)

// tuneOnPage compares the evaluator in a form with its saved version, on at most size answers that people have judged,
// and stores the result in tried.
func (h *handler) tuneOnPage(c echo.Context, submitted *form.Upload, size int, ask asking, tried *saved.Tried) {
	id, err := request.ID(submitted.Value("id"), entries.KindEntry)
	var t tuned
	if err == nil {
		t, err = tune(c.Request().Context(), h.Library, id, size, ask)
	}
	switch {
	case err != nil:
		tried.Message = form.JudgeFault(submitted, err).Beside(pages.Locale(c))
	case len(t.answers) == 0:
		tried.Message = pages.Locale(c).Text("evaluator.people.none")
	default:
		tried.Rows, tried.Tuned = t.rows(), &t.Tuned
	}
}

// askJudge has the judge in a form rate an answer: once or, if withVotes is set, as many times as it is configured to
// vote.
func askJudge(ctx context.Context, service *library.Service, config json.RawMessage, subject evaluate.Subject,
	withVotes bool) (evaluate.Verdict, error) {
	values := maps.Clone(subject.Values)
	values["answer"], values["expected"] = subject.Answer, values["standard_answer"]
	if _, isKnown := values["history"]; !isKnown {
		values["history"] = ""
	}
	tried, err := service.TryJudge(ctx, request.ScopeOf(ctx), config, values, withVotes)
	verdict := evaluate.Verdict{
		Status: evaluate.Succeeded, Score: &tried.Score, Passed: tried.Passed, Reason: tried.Reason,
		ErrorCode: tried.ErrorCode, ErrorMessage: tried.ErrorMessage,
	}
	if tried.IsDefault {
		verdict.Status = evaluate.Failed
	}
	return verdict, err
}

// tryOnTask judges the answers to the first few questions of a task, whose id is text. It returns the verdicts and the
// number of these questions.
func (h *handler) tryOnTask(
	ctx context.Context, ask asking, isJudge bool, text string,
) (rows []saved.TriedRow, questions int, err error) {
	most := triedAnswers
	if isJudge {
		most = triedByJudge
	}
	store := h.Library.Tasks.Store
	task, err := request.Task(ctx, store, text)
	if err != nil {
		return nil, 0, err
	}
	items, err := report.New(store).FirstItems(ctx, task.ID, triedQuestions)
	if err != nil {
		return nil, 0, err
	}
	ids, byID := make([]int64, len(items)), map[int64]db.Item{}
	for n, item := range items {
		ids[n], byID[item.ID] = item.ID, item
	}
	runs, err := report.New(store).CurrentRuns(ctx, ids, triedText)
	if err != nil {
		return nil, 0, err
	}
	seen := map[uuid.UUID]bool{} // an answer that was given several times is judged only once
	for _, run := range runs {
		item := byID[run.ItemID]
		key := uuid.NewSHA1(uuid.Nil, append([]byte(item.QuestionID+"\x00"), run.AnswerKey...))
		if run.Status != db.RunSucceeded || run.Response == nil || seen[key] || len(rows) == most {
			continue
		}
		seen[key] = true
		subject := evaluate.Subject{Answer: *run.Response, Values: tasks.Values(item, task.VariableNames),
			Tokens: run.TotalTokens}
		if run.LatencyMS != nil {
			subject.LatencyMS = *run.LatencyMS
		}
		verdict, err := ask(ctx, subject)
		if err != nil {
			return nil, 0, err
		}
		rows = append(rows, saved.TriedRow{Question: item.Question, Answer: *run.Response, Verdict: verdict})
	}
	return rows, len(items), nil
}
