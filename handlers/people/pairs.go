package people

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"wending/db"
	"wending/db/review"
	"wending/handlers/form"
	"wending/handlers/request"
	"wending/handlers/rest"
	"wending/views/paths"
)

// registerPairs registers the endpoints for people's verdicts on two variants' answers.
func (h endpoints) registerPairs(api huma.API) {
	const tag = "reviews"
	pairs, pair := paths.APITasks+"/{task_id}/pairs", paths.APITasks+"/{task_id}/items/{question_id}/pair"
	rest.Register(api, h.Failed, rest.Endpoint{
		Method: http.MethodPost, Path: pairs, ID: "draw-pairs", Tag: tag,
		Summary: "Draw pairs of two variants' answers for people to compare",
		Description: "Draws one answer of each of two variants, and the order in which pages show them, for every " +
			"question that has no pair of them yet, or whose pair has lost an answer. Other pairs stay as they are. " +
			"Answers the same list as GET.",
		Faults: []string{request.CodeTaskNotFound, request.CodeTaskNotFinished, request.CodeParameterInvalid},
	}, h.drawPairs)
	rest.Register(api, h.Failed, rest.Endpoint{
		Method: http.MethodGet, Path: pairs, ID: "list-pairs", Tag: tag,
		Summary: "List the pairs of two variants' answers, and people's verdicts on them",
		Description: "Pages show no names and no result until a reviewer has compared all pairs; this list hides " +
			"nothing. To show a pair blind, show the answer of the first variant first, or second if is_swapped is true.",
		Faults: []string{request.CodeTaskNotFound, request.CodeParameterInvalid},
	}, h.listPairs)
	rest.Register(api, h.Failed, rest.Endpoint{
		Method: http.MethodPut, Path: pair, ID: "put-pair-verdict", Tag: tag,
		Summary: "Store a person's verdict on two variants' answers to a question",
		Description: "The pair must have been drawn. version is the version that the reviewer has seen, 0 for the first " +
			"verdict. If it is not the latest, nothing is stored and the error contains the current verdict.",
		Faults: []string{request.CodeTaskNotFound, request.CodeQuestionNotFound, request.CodeReviewConflict,
			request.CodeParameterInvalid},
	}, h.putPairVerdict)
	rest.Register(api, h.Failed, rest.Endpoint{
		Method: http.MethodDelete, Path: pair, ID: "withdraw-pair-verdict", Tag: tag,
		Summary: "Withdraw a verdict on two variants' answers to a question", Status: http.StatusNoContent,
		Description: "To store the next verdict, send the version that was withdrawn.",
		Faults: []string{request.CodeTaskNotFound, request.CodeQuestionNotFound, request.CodeNotFound,
			request.CodeReviewConflict, request.CodeParameterInvalid},
	}, h.withdrawPairVerdict)
}

// PairVerdict is a person's verdict on a pair.
type PairVerdict struct {
	Reviewer   string            `json:"reviewer" example:"李雷"`
	Verdict    review.Preference `json:"verdict" doc:"A: the answer of the first variant is better, regardless of the order shown; B: that of the second; SAME: they are equally good" example:"A"`
	Version    int               `json:"version" doc:"Number of the verdict's version, from 1" example:"1"`
	IsOutdated bool              `json:"is_outdated" doc:"True if an answer has since been replaced; the verdict does not count then"`
	CreatedAt  *rest.Moment      `json:"created_at"`
}

func newPairVerdict(v review.PairVerdict) PairVerdict {
	return PairVerdict{v.Reviewer, v.Verdict, v.Version, v.IsOutdated, rest.MomentOf(&v.CreatedAt)}
}

// BlindPair is a question's pair of answers, one by each of two variants, with the verdicts on it.
type BlindPair struct {
	QuestionID string        `json:"question_id" example:"q1"`
	Number     int           `json:"number" doc:"Number of the question in the order of pages, from 1" example:"1"`
	RunA       int           `json:"run_a" doc:"run_index of the first variant's answer" example:"3"`
	RunB       int           `json:"run_b" doc:"run_index of the second variant's answer" example:"1"`
	IsSwapped  bool          `json:"is_swapped" doc:"True if pages show the answer of the second variant first" example:"true"`
	IsEqual    bool          `json:"is_equal" doc:"True if the answers are equal, so that nobody need compare them"`
	Verdicts   []PairVerdict `json:"verdicts" nullable:"false" doc:"Ordered by reviewer; outdated ones last"`
}

// PairReviewer says how many pairs a person has compared.
type PairReviewer struct {
	Reviewer string `json:"reviewer" example:"李雷"`
	Judged   int    `json:"judged" doc:"Pairs on which the person has a verdict" example:"48"`
}

type pairsOutput struct {
	Body struct {
		review.Standing
		Reviewers []PairReviewer `json:"reviewers" nullable:"false" doc:"Everyone with a verdict, by name"`
		Items     []BlindPair    `json:"items" nullable:"false" doc:"Pairs that still have both answers, in the order of pages; empty if none were drawn"`
	}
}

func newPairsOutput(pairs review.Pairs, of review.Matchup) *pairsOutput {
	output := &pairsOutput{}
	body := &output.Body
	body.Standing, body.Reviewers, body.Items = pairs.Standing(of), []PairReviewer{}, []BlindPair{}
	all := pairs.ToJudge()
	for _, name := range all.Reviewers() {
		body.Reviewers = append(body.Reviewers, PairReviewer{name, all.JudgedBy(name)})
	}
	for _, one := range pairs {
		item := BlindPair{one.QuestionID, one.Number, one.IndexA, one.IndexB, one.IsSwapped, one.IsEqual, []PairVerdict{}}
		for _, verdict := range slices.Concat(one.Verdicts, one.Outdated) {
			item.Verdicts = append(item.Verdicts, newPairVerdict(verdict))
		}
		body.Items = append(body.Items, item)
	}
	return output
}

// matchup returns the task with the given id, and those two of its variants that have the numbers a and b. 0 stands for
// the defaults: 1 for a and 2 for b.
func (h endpoints) matchup(ctx context.Context, taskID string, a, b int) (task db.Task, of review.Matchup, err error) {
	if task, err = request.Task(ctx, h.Store, taskID); err != nil {
		return task, of, err
	}
	of, err = form.Matchup(strconv.Itoa(cmp.Or(a, 1)), strconv.Itoa(cmp.Or(b, 2)), task)
	return task, of, err
}

type drawPairsInput struct {
	TaskID string `path:"task_id" doc:"Id of the task" example:"6f0d3c1e-2b7a-4c55-9a60-0f4b8f6a1d21"`
	Body   struct {
		A int `json:"a" minimum:"1" maximum:"20" doc:"Number of a variant" example:"1"`
		B int `json:"b" minimum:"1" maximum:"20" doc:"Number of another variant" example:"2"`
	}
}

func (h endpoints) drawPairs(ctx context.Context, input *drawPairsInput) (*pairsOutput, error) {
	task, err := request.Task(ctx, h.Store, input.TaskID)
	if err == nil && !task.HasResults {
		err = request.NewFault(request.CodeTaskNotFinished)
	}
	if err != nil {
		return nil, err
	}
	of, err := form.Matchup(strconv.Itoa(input.Body.A), strconv.Itoa(input.Body.B), task)
	if err != nil {
		return nil, err
	}
	reviews := review.New(h.Store)
	if err := reviews.DrawPairs(ctx, task.ID, of); err != nil {
		return nil, err
	}
	pairs, err := reviews.Pairs(ctx, task.ID, of)
	return newPairsOutput(pairs, of), err
}

type listPairsInput struct {
	TaskID string `path:"task_id" doc:"Id of the task" example:"6f0d3c1e-2b7a-4c55-9a60-0f4b8f6a1d21"`
	A      int    `query:"a" minimum:"1" maximum:"20" default:"1" doc:"Number of a variant" example:"1"`
	B      int    `query:"b" minimum:"1" maximum:"20" default:"2" doc:"Number of another variant" example:"2"`
}

func (h endpoints) listPairs(ctx context.Context, input *listPairsInput) (*pairsOutput, error) {
	task, of, err := h.matchup(ctx, input.TaskID, input.A, input.B)
	if err != nil {
		return nil, err
	}
	pairs, err := review.New(h.Store).Pairs(ctx, task.ID, of)
	return newPairsOutput(pairs, of), err
}

type putPairVerdictInput struct {
	rest.QuestionPath
	Body struct {
		Reviewer string            `json:"reviewer,omitempty" doc:"Name of the reviewer, 1–64 characters; with accounts, it is always your own" example:"李雷"`
		Verdict  review.Preference `json:"verdict" doc:"A: the answer of the variant with the lower number is better, regardless of the order shown; B: that of the other; SAME: they are equally good" example:"A"`
		Version  int               `json:"version,omitempty" minimum:"0" doc:"The version that the reviewer has seen; 0 for the first verdict"`
		A        int               `json:"a,omitempty" minimum:"1" maximum:"20" default:"1" doc:"Number of a variant"`
		B        int               `json:"b,omitempty" minimum:"1" maximum:"20" default:"2" doc:"Number of another variant"`
	}
}

func (h endpoints) putPairVerdict(ctx context.Context, input *putPairVerdictInput) (*output[PairVerdict], error) {
	task, of, err := h.matchup(ctx, input.TaskID, input.Body.A, input.Body.B)
	if err != nil {
		return nil, err
	}
	reviewer, err := form.ReviewerName(ctx, input.Body.Reviewer)
	if err != nil {
		return nil, err
	}
	said, err := form.Preference(input.Body.Verdict)
	if err != nil {
		return nil, err
	}
	place := review.PairPlace{Of: of, QuestionID: request.StorableText(input.QuestionID), Reviewer: reviewer}
	stored, err := review.New(h.Store).Compare(ctx, task.ID, place, said, input.Body.Version)
	if err != nil {
		return nil, h.conflicting(ctx, task, place, err)
	}
	return &output[PairVerdict]{newPairVerdict(stored)}, nil
}

// conflicting returns the error wrong; if it is a conflict, it adds the current verdict, for the response.
func (h endpoints) conflicting(ctx context.Context, task db.Task, place review.PairPlace, wrong error) error {
	if conflict := (*review.ConflictError)(nil); !errors.As(wrong, &conflict) {
		return wrong
	}
	pairs, err := review.New(h.Store).Pairs(ctx, task.ID, place.Of)
	if err != nil {
		return err
	}
	for _, pair := range pairs {
		if current := pair.By(place.Reviewer); pair.QuestionID == place.QuestionID && current != nil {
			return rest.NewConflict(wrong, newPairVerdict(*current))
		}
	}
	return wrong
}

type withdrawPairVerdictInput struct {
	rest.QuestionPath
	Reviewer string `query:"reviewer" doc:"Name of the reviewer; with accounts, it is always your own" example:"李雷"`
	Version  int    `query:"version" minimum:"1" required:"true" doc:"The version to withdraw" example:"1"`
	A        int    `query:"a" minimum:"1" maximum:"20" default:"1" doc:"Number of a variant" example:"1"`
	B        int    `query:"b" minimum:"1" maximum:"20" default:"2" doc:"Number of another variant" example:"2"`
}

func (h endpoints) withdrawPairVerdict(ctx context.Context, input *withdrawPairVerdictInput) (*struct{}, error) {
	task, of, err := h.matchup(ctx, input.TaskID, input.A, input.B)
	if err != nil {
		return nil, err
	}
	reviewer, err := form.ReviewerName(ctx, input.Reviewer)
	if err != nil {
		return nil, err
	}
	place := review.PairPlace{Of: of, QuestionID: request.StorableText(input.QuestionID), Reviewer: reviewer}
	return nil, h.conflicting(ctx, task, place, review.New(h.Store).WithdrawPair(ctx, task.ID, place, input.Version))
}
