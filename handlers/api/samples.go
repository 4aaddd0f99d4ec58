package api

import (
	"context"
	"math/rand/v2"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/uuid"

	"wending/db/review"
	"wending/handlers/request"
	"wending/handlers/rest"
)

func (h *handler) registerSamples(api huma.API) {
	rest.Register(api, h.Failed, rest.Endpoint{
		Method: http.MethodPost, Path: tasksPath + "/{task_id}/samples", ID: "draw-sample", Tag: "reviews",
		Summary: "Draw answers at random for people to judge", Status: http.StatusCreated,
		Description: "One answer of each question, from questions that are in no sample of the task yet, so that all " +
			"samples of a task together are random, too. People's verdicts on them correct the pass rate of a judge " +
			"(people in the statistics). If fewer questions are left than size, all of them are drawn; 409 if none is left.",
		Faults: []string{request.CodeTaskNotFound, request.CodeTaskNotFinished, request.CodeTaskStateConflict,
			request.CodeParameterInvalid},
	}, h.drawSample)
	rest.Register(api, h.Failed, rest.Endpoint{
		Method: http.MethodGet, Path: tasksPath + "/{task_id}/samples", ID: "list-samples", Tag: "reviews",
		Summary: "List a task's random samples",
		Faults:  []string{request.CodeTaskNotFound},
	}, h.listSamples)
}

// SampledRun is an answer in a random sample.
type SampledRun struct {
	QuestionID string `json:"question_id" example:"q1"`
	Variant    int    `json:"variant" example:"1"`
	RunIndex   int    `json:"run_index" example:"2"`
	// IsJudged reports that somebody has a valid verdict on the answer.
	IsJudged bool `json:"is_judged" doc:"True if somebody has judged the answer" example:"false"`
}

// RandomSample is a random sample of a task's answers.
type RandomSample struct {
	ID           uuid.UUID    `json:"id"`
	Seed         int64        `json:"seed" doc:"Draws the same sample from the same answers" example:"7"`
	IsStratified bool         `json:"is_stratified" doc:"True if all variants have about the same number of answers in it"`
	Judged       int          `json:"judged" doc:"How many of the answers somebody has judged" example:"12"`
	Items        []SampledRun `json:"items" nullable:"false" doc:"The answers, in the order in which they were drawn"`
	CreatedAt    *rest.Moment `json:"created_at"`
}

func newRandomSample(s review.Sample) RandomSample {
	sample := RandomSample{ID: s.ID, Seed: s.Seed, IsStratified: s.IsStratified, Judged: s.JudgedBy(""),
		Items: []SampledRun{}, CreatedAt: rest.MomentOf(&s.CreatedAt)}
	for _, run := range s.Runs {
		sample.Items = append(sample.Items, SampledRun{run.QuestionID, run.Variant, run.RunIndex, run.IsJudgedBy("")})
	}
	return sample
}

type drawSampleInput struct {
	TaskPath
	Body struct {
		Size         int    `json:"size" minimum:"1" maximum:"1000" doc:"How many answers to draw, at most one of each question" example:"60"`
		Seed         *int64 `json:"seed,omitempty" doc:"Draws the same sample from the same answers; absent: a random one" example:"7"`
		IsStratified bool   `json:"is_stratified,omitempty" doc:"true takes about the same number of answers from each variant"`
	}
}

type sampleOutput struct{ Body RandomSample }

func (h *handler) drawSample(ctx context.Context, input *drawSampleInput) (*sampleOutput, error) {
	task, err := h.resultsTask(ctx, input.TaskID, false)
	if err != nil {
		return nil, err
	}
	seed := rand.Int64()
	if input.Body.Seed != nil {
		seed = *input.Body.Seed
	}
	drawn, err := review.New(h.Store).Draw(ctx, task.ID, input.Body.Size, seed, input.Body.IsStratified)
	if err != nil {
		return nil, err
	}
	return &sampleOutput{newRandomSample(drawn)}, nil
}

type samplesOutput struct {
	Body struct {
		Items []RandomSample `json:"items" nullable:"false" doc:"The oldest first"`
	}
}

func (h *handler) listSamples(ctx context.Context, input *TaskPath) (*samplesOutput, error) {
	task, err := request.Task(ctx, h.Store, input.TaskID)
	if err != nil {
		return nil, err
	}
	samples, err := review.New(h.Store).Samples(ctx, task.ID)
	if err != nil {
		return nil, err
	}
	output := &samplesOutput{}
	output.Body.Items = []RandomSample{}
	for _, sample := range samples {
		output.Body.Items = append(output.Body.Items, newRandomSample(sample))
	}
	return output, nil
}
