package library

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"wending/db"
	"wending/db/report"
	"wending/db/review"
	"wending/handlers/form"
	"wending/handlers/request"
	"wending/handlers/rest"
	"wending/jobs/evaluate"
	"wending/jobs/library"
	"wending/jobs/tasks"
	"wending/views/saved"
	"wending/views/text"
	"wending/views/ui"
)

const (
	// tunedAtOnce is how many answers a changed evaluator judges concurrently when it is tried, and tunedWithin is the
	// maximum duration of such a trial.
	tunedAtOnce = 4
	tunedWithin = 100 * time.Second
	// maxTuned is the maximum number of answers in such a trial.
	maxTuned = 200
)

// asking is a function that has an evaluator judge an answer.
type asking func(ctx context.Context, subject evaluate.Subject) (evaluate.Verdict, error)

// askingOf returns a function that judges an answer with a rule or, if rule is nil, with the judge that has this
// configuration; withVotes has the judge vote as many times as it is configured to.
func askingOf(service *library.Service, rule *evaluate.Rule, config json.RawMessage, withVotes bool) asking {
	if rule != nil {
		return rule.Evaluate
	}
	return func(ctx context.Context, subject evaluate.Subject) (evaluate.Verdict, error) {
		return askJudge(ctx, service, config, subject, withVotes)
	}
}

// tuned compares a changed evaluator with its saved version, on answers that people have judged.
type tuned struct {
	ui.Tuned
	answers []tunedAnswer
}

// tunedAnswer is an answer that people have judged, with the verdict of the changed evaluator.
type tunedAnswer struct {
	review.JudgedAnswer
	item    db.Item
	text    string
	verdict evaluate.Verdict
}

// tune has a changed evaluator judge answers that both people and the saved evaluator have judged, at most the given
// number of them. The saved version is the newest one that can be compared with people. Answers on which the changed
// evaluator reaches no verdict are counted for neither.
func tune(ctx context.Context, service *library.Service, evaluator uuid.UUID, most int,
	ask asking) (t tuned, err error) {
	scope, reviews := request.ScopeOf(ctx), review.New(service.Tasks.Store)
	records, err := reviews.Records(ctx, scope, evaluator)
	if t.compare(); err != nil || len(records) == 0 {
		return t, err
	}
	t.Version = records[0].Version
	judged, err := reviews.JudgedAnswers(ctx, scope, evaluator, t.Version, most)
	if err != nil {
		return t, err
	}
	t.answers = make([]tunedAnswer, len(judged))
	ids := make([]int64, len(judged))
	for n, one := range judged {
		t.answers[n].JudgedAnswer, ids[n] = one, one.ItemID
	}
	items, err := report.New(service.Tasks.Store).ItemsByID(ctx, ids)
	if err != nil {
		return t, err
	}
	byID := map[int64]db.Item{}
	for _, item := range items {
		byID[item.ID] = item
	}
	within, cancel := context.WithTimeout(ctx, tunedWithin)
	defer cancel()
	group, working := errgroup.WithContext(within)
	group.SetLimit(tunedAtOnce)
	ofTasks := map[uuid.UUID]db.Task{}
	for n := range t.answers {
		one := &t.answers[n]
		task, isRead := ofTasks[one.TaskID]
		if !isRead {
			if task, err = service.Tasks.Store.Task(ctx, scope, one.TaskID); err != nil {
				break
			}
			ofTasks[one.TaskID] = task
		}
		one.item = byID[one.ItemID]
		group.Go(func() error { return one.judge(working, service, task, ask) })
	}
	if asked := group.Wait(); err == nil && within.Err() == nil {
		err = asked
	}
	t.compare()
	return t, err
}

// judge has the changed evaluator judge the answer, and stores its text and verdict.
func (a *tunedAnswer) judge(ctx context.Context, service *library.Service, task db.Task, ask asking) error {
	values, err := tasks.Subject(ctx, service.Tasks.Store, task, db.Unit{Item: a.item, SubjectRunID: &a.RunID})
	if err != nil {
		return err
	}
	a.text = values["answer"]
	subject := evaluate.Subject{Answer: a.text, Values: values, Tokens: a.TotalTokens}
	if a.LatencyMS != nil {
		subject.LatencyMS = *a.LatencyMS
	}
	a.verdict, err = ask(ctx, subject)
	return err
}

// compare computes how far the verdicts of both versions agree with people's.
func (t *tuned) compare() {
	var before, after review.Confusion
	for _, one := range t.answers {
		if one.verdict.Passed == nil {
			t.Unrated++
			continue
		}
		before.Add(one.Passed, one.Person)
		after.Add(*one.verdict.Passed, one.Person)
	}
	t.Before, t.After = before.Fit(), after.Fit()
}

// rows returns the answers on which the changed evaluator disagrees with people or reaches no verdict.
func (t *tuned) rows() (rows []saved.TriedRow) {
	for _, one := range t.answers {
		if passed := one.verdict.Passed; passed != nil && *passed == one.Person {
			continue
		}
		rows = append(rows, saved.TriedRow{Question: one.item.Question, Answer: one.text, Verdict: one.verdict,
			Person: &one.Person, Before: &one.JudgedAnswer.Passed})
	}
	return rows
}

// tunedSize returns the number of judged answers that were chosen in a form; isTuned is false if something else was
// chosen.
func tunedSize(chosen string) (size int, isTuned bool) {
	for _, one := range saved.TunedSizes {
		if chosen == saved.TunedChoice(one) {
			return one, true
		}
	}
	return 0, false
}

type tuneFields struct {
	Config  map[string]any `json:"config,omitempty" doc:"Settings of the changed evaluator; absent means the saved ones"`
	Answers int            `json:"answers,omitempty" minimum:"1" maximum:"200" default:"20" doc:"Maximum number of answers; a judge is called for each of its votes on each answer"`
}

// TunedAnswer is an answer with three verdicts: people's, the saved evaluator's and the changed evaluator's.
type TunedAnswer struct {
	TaskID     uuid.UUID `json:"task_id"`
	QuestionID string    `json:"question_id" example:"q1"`
	Variant    int       `json:"variant" example:"1"`
	RunIndex   int       `json:"run_index" example:"2"`
	Person     bool      `json:"person" doc:"True if people passed the answer"`
	Before     bool      `json:"before" doc:"True if the saved version passed it"`
	After      *bool     `json:"after" doc:"True if the changed evaluator passed it; null if it reached no verdict"`
	Reason     string    `json:"reason" doc:"Why the changed evaluator reached its verdict, or none"`
}

type tunedOutput struct {
	Body struct {
		Version int           `json:"version" doc:"The saved version: the newest that can be compared with people; 0 if there is none" example:"2"`
		Before  review.Fit    `json:"before" doc:"The saved version beside people, on the answers that the changed evaluator judged"`
		After   review.Fit    `json:"after" doc:"The changed evaluator beside people, on the same answers"`
		Unrated int           `json:"unrated" doc:"Answers on which the changed evaluator reached no verdict; they are not compared" example:"0"`
		Items   []TunedAnswer `json:"items" nullable:"false"`
	}
}

// registerTuning registers the endpoint that tries a changed evaluator.
func (e *endpoints) registerTuning(api huma.API, path string) {
	rest.Register(api, e.Failed, rest.Endpoint{
		Method: http.MethodPost, Path: path + "/{id}/tune", ID: "tune-evaluator", Tag: "library",
		Summary: "Try a changed evaluator on answers that people have judged",
		Description: "Nothing is stored. The saved version and the changed one are compared with people on the same " +
			"answers, so that the better one can be kept: PATCH the evaluator to save the change as its next version. What " +
			"is not judged within 100 seconds counts as unrated.",
		Faults: []string{request.CodeNotFound, request.CodeParameterInvalid},
		Body:   rest.OptionalBody[tuneFields](api.OpenAPI().Components.Schemas),
	}, e.tuneEvaluator)
}

func (e *endpoints) tuneEvaluator(ctx context.Context, input *entryFormInput) (*tunedOutput, error) {
	id, row, err := find(ctx, input.EntryPath, e.Library.Entries.Evaluators)
	if err != nil {
		return nil, err
	}
	changed, rule, faults := form.Evaluator(ctx, input.Form, row)
	if err := form.Refusal(faults, nil); err != nil {
		return nil, err
	}
	most, err := form.Whole(input.Form, "answers")
	if err == nil && (most > maxTuned || input.Form.Has("answers") && most < 1) {
		err = request.FieldFault("answers", request.Between(1, maxTuned))
	}
	if err != nil {
		return nil, err
	}
	if most == 0 {
		most = saved.TunedSizes[0]
	}
	leave, err := request.From(ctx).Gates.Probes.Enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	t, err := tune(ctx, e.Library, id, most, askingOf(e.Library, rule, changed.Config, true))
	if err != nil {
		return nil, form.JudgeFault(input.Form, err).Fault
	}
	output := &tunedOutput{}
	output.Body.Version, output.Body.Unrated, output.Body.Items = t.Version, t.Unrated, []TunedAnswer{}
	output.Body.Before, output.Body.After = t.Before, t.After
	locale := request.From(ctx).Locale
	for _, one := range t.answers {
		output.Body.Items = append(output.Body.Items, TunedAnswer{one.TaskID, one.item.QuestionID, one.Variant,
			one.RunIndex, one.Person, one.Passed, one.verdict.Passed, saidBy(locale, one.verdict)})
	}
	return output, nil
}

// saidBy returns the evaluator's reason for its verdict, or the reason why there is none.
func saidBy(locale text.Locale, verdict evaluate.Verdict) string {
	if verdict.ErrorCode != "" {
		return locale.Reason(verdict.ErrorMessage)
	}
	return locale.Reason(verdict.Reason)
}
