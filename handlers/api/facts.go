package api

import (
	"context"
	"net/http"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"

	"wending/db/measure"
	"wending/db/measure/facts"
	"wending/handlers/request"
	"wending/handlers/rest"
	"wending/views/paths"
)

// maxFactsBytes is the maximum size of the body of POST /facts, and maxAnswersBytes is the maximum size of the answers
// in it. Finding and comparing the facts in that much text takes a few seconds on one core.
const (
	maxFactsBytes   = 4 << 20
	maxAnswersBytes = 2<<20 + 64<<10
)

// registerFacts registers the endpoint that compares the facts of answers without a task.
func (h *handler) registerFacts(api huma.API) {
	rest.Register(api, h.Failed, rest.Endpoint{
		Method: http.MethodPost, Path: paths.API + "/facts", ID: "read-facts", Tag: "tasks",
		Summary: "Read the facts of a question's answers",
		Description: "Finds numbers, money, dates, times, citations, negations and the like, and where the answers " +
			"differ in them. Nothing is stored and no model is called. The answers may be 2 MB long in total.",
		MaxBytes: maxFactsBytes,
	}, h.readFacts)
}

type factsInput struct {
	Body struct {
		Question string   `json:"question,omitempty" maxLength:"100000" doc:"For the caller's own records; it does not affect the result" example:"答复期限是多久？"`
		Answers  []string `json:"answers" nullable:"false" minItems:"2" maxItems:"20" example:"[\"答复期限为 30 日。\",\"答复期限为 35 日。\"]"`
	}
}

type factsOutput struct {
	Body struct {
		FactsDiffer facts.Differ   `json:"facts_differ" doc:"conflict: two answers contradict each other on a fact; omission: only some answers state a fact; none: neither" example:"conflict"`
		Facts       []measure.Fact `json:"facts" nullable:"false" doc:"The facts on which the answers differ, conflicts first"`
		Each        [][]ReadFact   `json:"each" nullable:"false" doc:"For each answer, the facts found in it, in the order of their position"`
	}
}

// ReadFact is a fact that was found in one answer.
type ReadFact struct {
	Kind  facts.Kind `json:"kind" example:"duration"`
	Value string     `json:"value" doc:"The value in canonical form, equal for values that mean the same" example:"30 day"`
	Text  string     `json:"text" doc:"The value as written in the answer" example:"30 日"`
	Start int        `json:"start" doc:"Position of the fact's first character in the answer, from 0" example:"6"`
	End   int        `json:"end" doc:"Position after the fact's last character" example:"10"`
}

func (h *handler) readFacts(ctx context.Context, input *factsInput) (*factsOutput, error) {
	size := 0
	for _, answer := range input.Body.Answers {
		size += len(answer)
	}
	if size > maxAnswersBytes {
		return nil, request.NewFault(request.CodeRequestTooLarge)
	}
	leave, err := request.From(ctx).Gates.Files.Enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	reading, err := facts.Question(ctx, input.Body.Answers)
	if err != nil {
		return nil, err
	}
	output := &factsOutput{}
	output.Body.FactsDiffer = reading.Differ
	runs := make([]int, len(input.Body.Answers))
	for n := range runs {
		runs[n] = n + 1
	}
	output.Body.Facts = measure.Differing(reading.Statements, runs)
	output.Body.Each = make([][]ReadFact, len(input.Body.Answers))
	for n, answer := range input.Body.Answers {
		output.Body.Each[n] = newReadFacts(answer, facts.Read(answer))
	}
	return output, nil
}

// newReadFacts describes the facts of an answer, with their positions converted from bytes to characters. list must be
// ordered by position.
func newReadFacts(answer string, list []facts.Fact) []ReadFact {
	read := make([]ReadFact, len(list))
	bytes, characters := 0, 0
	for n, f := range list {
		characters += utf8.RuneCountInString(answer[bytes:f.Start])
		bytes = f.Start
		read[n] = ReadFact{Kind: f.Kind, Value: f.Value, Text: f.Text, Start: characters,
			End: characters + utf8.RuneCountInString(answer[f.Start:f.End])}
	}
	return read
}
