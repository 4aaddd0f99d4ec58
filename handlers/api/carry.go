package api

import (
	"context"
	"net/http"
	"slices"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/uuid"

	"wending/db"
	"wending/db/report"
	"wending/db/review"
	"wending/handlers/form"
	"wending/handlers/reading"
	"wending/handlers/request"
	"wending/handlers/rest"
)

func (h *handler) registerCarry(api huma.API) {
	const carried = tasksPath + "/{task_id}/carried-reviews"
	rest.Register(api, h.Failed, rest.Endpoint{
		Method: http.MethodGet, Path: tasksPath + "/{task_id}/carriable-reviews", ID: "list-carriable-reviews",
		Tag:     "reviews",
		Summary: "List the verdicts that a task can take over from an earlier one",
		Description: "A verdict on a question as a whole also holds in the later task if all answers have the same " +
			"content, the standard answer is unchanged, no run has failed and nobody has judged the question " +
			"there.",
		Faults: []string{request.CodeTaskNotFound, request.CodeTaskNotFinished, request.CodeParameterInvalid},
	}, h.listCarriable)
	rest.Register(api, h.Failed, rest.Endpoint{
		Method: http.MethodPost, Path: carried, ID: "carry-reviews", Tag: "reviews",
		Summary: "Take verdicts over from an earlier task", Status: http.StatusCreated,
		Description: "Each verdict still belongs to its reviewer. The verdicts of one request form a batch, which can be " +
			"withdrawn as a whole.",
		Faults: []string{request.CodeTaskNotFound, request.CodeTaskNotFinished, request.CodeParameterInvalid},
	}, h.carryReviews)
	rest.Register(api, h.Failed, rest.Endpoint{
		Method: http.MethodGet, Path: carried, ID: "list-carried-reviews", Tag: "reviews",
		Summary: "List the batches of verdicts that a task took over",
		Faults:  []string{request.CodeTaskNotFound},
	}, h.listCarried)
	rest.Register(api, h.Failed, rest.Endpoint{
		Method: http.MethodDelete, Path: carried + "/{batch_id}", ID: "withdraw-carried-reviews", Tag: "reviews",
		Summary:     "Withdraw a batch of verdicts that were taken over",
		Status:      http.StatusNoContent,
		Description: "Verdicts that have since been changed are kept.",
		Faults:      []string{request.CodeTaskNotFound, request.CodeNotFound, request.CodeParameterInvalid},
	}, h.withdrawCarried)
}

// LaterTask is the path parameter with the id of the task to which verdicts are carried over.
type LaterTask struct {
	TaskID string `path:"task_id" doc:"Id of the later task" example:"0b9e7a55-1c1d-4a37-8f4e-6f2f5f0f9a02"`
}

type listCarriableInput struct {
	LaterTask
	From    string `query:"from" required:"true" doc:"The earlier task, <id> or <id>:<variant>" example:"6f0d3c1e-2b7a-4c55-9a60-0f4b8f6a1d21"`
	Variant int    `query:"variant" minimum:"1" maximum:"20" default:"1" doc:"Number of the later task's variant" example:"1"`
}

// CarriableReviews are the verdicts on a question that can be carried over.
type CarriableReviews struct {
	QuestionID string   `json:"question_id" doc:"Id in the later task" example:"q1"`
	From       string   `json:"from_question_id" doc:"Id in the earlier task; differs from question_id if the questions were matched by their text" example:"q1"`
	Reviews    []Review `json:"reviews" nullable:"false" doc:"The verdicts in the earlier task"`
}

// NotCarriable says how many questions that were judged in the earlier task are left out, and why; each question is
// counted under the first reason that applies.
type NotCarriable struct {
	Judged   int `json:"judged" doc:"Questions already judged in the later task" example:"2"`
	Changed  int `json:"changed" doc:"Questions whose text or answers have changed" example:"5"`
	Failed   int `json:"failed" doc:"Questions with a failed run" example:"0"`
	Standard int `json:"standard_answer" doc:"Questions whose standard answer has changed" example:"1"`
	Files    int `json:"files" doc:"Questions for which the agent produced files, which are not compared" example:"0"`
	Replaced int `json:"replaced" doc:"Questions whose judged answers have since been replaced" example:"0"`
}

type carriableOutput struct {
	Body struct {
		Items   []CarriableReviews `json:"items" doc:"In the order of the earlier task's questions"`
		LeftOut NotCarriable       `json:"left_out"`
	}
}

// carriable holds the verdicts that can be carried over from a to b.
type carriable struct {
	a, b     report.Side
	compared reading.Compared
	found    reading.Carriable
}

// carriable finds the verdicts that can be carried over from an earlier task, which the parameter "from" identifies, to
// a variant of a later one.
func (h *handler) carriable(ctx context.Context, later LaterTask, variant int, from string) (c carriable, err error) {
	task, err := h.resultsTask(ctx, later.TaskID, false)
	if err == nil {
		err = request.HasVariant(task, variant)
	}
	if err != nil {
		return c, err
	}
	earlier, err := h.sideOf(ctx, "from", from)
	if err != nil {
		return c, err
	}
	c.a, c.b = earlier.Side(), report.Side{TaskID: task.ID, Variant: variant}
	reader := reading.New(h.Store, h.Tasks.Assets)
	if c.compared, err = reader.Compare(ctx, c.a, c.b, false, comparedTime); err != nil {
		return c, err
	}
	c.found, err = reader.Carriable(ctx, c.a, c.b, c.compared)
	return c, err
}

func (h *handler) listCarriable(ctx context.Context, input *listCarriableInput) (*carriableOutput, error) {
	c, err := h.carriable(ctx, input.LaterTask, input.Variant, input.From)
	if err != nil {
		return nil, err
	}
	output := &carriableOutput{}
	output.Body.Items = []CarriableReviews{}
	for _, pair := range c.found.Pairs {
		item := CarriableReviews{QuestionID: pair.B.QuestionID, From: pair.A.QuestionID, Reviews: []Review{}}
		for _, one := range reading.ReviewsOf(c.compared.OfA.OfQuestions[pair.A.QuestionID], c.a.Variant) {
			if !one.IsOutdated {
				item.Reviews = append(item.Reviews, newReview(one))
			}
		}
		output.Body.Items = append(output.Body.Items, item)
	}
	found := c.found
	output.Body.LeftOut = NotCarriable{found.Judged, found.Changed, found.Failed, found.Standard, found.Files,
		found.Replaced}
	return output, nil
}

type carryInput struct {
	LaterTask
	Body struct {
		From        string   `json:"from" doc:"The earlier task, <id> or <id>:<variant>" example:"6f0d3c1e-2b7a-4c55-9a60-0f4b8f6a1d21"`
		Variant     int      `json:"variant,omitempty" minimum:"1" maximum:"20" default:"1" doc:"Number of the later task's variant"`
		Reviewer    string   `json:"reviewer,omitempty" doc:"Name of the person who takes the verdicts over, 1–64 characters; with accounts, it is always your own" example:"李雷"`
		QuestionIDs []string `json:"question_ids,omitempty" maxItems:"1000" doc:"Ids of questions in the later task whose verdicts to take over; absent means all that can be taken over" example:"[\"q1\"]"`
	}
}

// CarriedReviews is a batch of verdicts that were carried over together.
type CarriedReviews struct {
	BatchID   uuid.UUID    `json:"batch_id" example:"8a7f1f3e-6f43-4f0e-9a55-0c0a2d1c7b11"`
	Reviewer  string       `json:"reviewer" doc:"Name of the person who took the verdicts over" example:"李雷"`
	Questions int          `json:"questions" doc:"Number of questions that still have a verdict from the batch" example:"41"`
	CreatedAt *rest.Moment `json:"created_at"`
}

func newCarriedReviews(batch review.Batch) CarriedReviews {
	return CarriedReviews{batch.ID, batch.Reviewer, batch.Questions, rest.MomentOf(&batch.CreatedAt)}
}

type carryOutput struct {
	Body struct {
		CarriedReviews
		NotCarried []string `json:"not_carried" nullable:"false" doc:"The question_ids whose verdicts cannot be taken over"`
	}
}

func (h *handler) carryReviews(ctx context.Context, input *carryInput) (*carryOutput, error) {
	name, err := form.ReviewerName(ctx, input.Body.Reviewer)
	if err != nil {
		return nil, err
	}
	c, err := h.carriable(ctx, input.LaterTask, max(1, input.Body.Variant), input.Body.From)
	if err != nil {
		return nil, err
	}
	wanted := input.Body.QuestionIDs
	carried := review.Carried{TaskID: c.b.TaskID, Variant: c.b.Variant, From: c.a.TaskID,
		FromVariant: c.a.Variant, By: name}
	output := &carryOutput{}
	output.Body.NotCarried = append([]string{}, wanted...)
	for _, pair := range c.found.Pairs {
		if wanted == nil || slices.Contains(wanted, pair.B.QuestionID) {
			carried.Pairs = append(carried.Pairs, review.CarriedPair{From: pair.A.ID, To: pair.B.ID})
			output.Body.NotCarried = slices.DeleteFunc(output.Body.NotCarried, func(id string) bool {
				return id == pair.B.QuestionID
			})
		}
	}
	batch, err := review.New(h.Store).Carry(ctx, carried)
	output.Body.CarriedReviews = newCarriedReviews(batch)
	return output, err
}

type carriedOutput struct {
	Body struct {
		Items []CarriedReviews `json:"items" doc:"Newest first; withdrawn batches are left out"`
	}
}

func (h *handler) listCarried(ctx context.Context, input *LaterTask) (*carriedOutput, error) {
	task, err := request.Task(ctx, h.Store, input.TaskID)
	if err != nil {
		return nil, err
	}
	batches, err := review.New(h.Store).Batches(ctx, task.ID, true)
	if err != nil {
		return nil, err
	}
	output := &carriedOutput{}
	output.Body.Items = make([]CarriedReviews, len(batches))
	for n, batch := range batches {
		output.Body.Items[n] = newCarriedReviews(batch)
	}
	return output, nil
}

type withdrawCarriedInput struct {
	LaterTask
	BatchID  string `path:"batch_id" doc:"Id of the batch" example:"8a7f1f3e-6f43-4f0e-9a55-0c0a2d1c7b11"`
	Reviewer string `query:"reviewer" doc:"Name of the person who took the verdicts over; with accounts, it is always your own" example:"李雷"`
}

func (h *handler) withdrawCarried(ctx context.Context, input *withdrawCarriedInput) (*struct{}, error) {
	task, err := request.Task(ctx, h.Store, input.TaskID)
	if err != nil {
		return nil, err
	}
	name, err := form.ReviewerName(ctx, input.Reviewer)
	if err != nil {
		return nil, err
	}
	batch, err := uuid.Parse(input.BatchID)
	if err != nil {
		return nil, db.ErrNotFound
	}
	_, err = review.New(h.Store).WithdrawBatch(ctx, task.ID, batch, name)
	return nil, err
}
