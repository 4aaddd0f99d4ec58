package api

import (
	"context"
	"net/http"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"

	"wending/db/measure/facts"
	"wending/handlers/fault"
	"wending/handlers/request"
	"wending/handlers/rest"
	"wending/views/paths"
)

// maxFactsBytes is how large the body of POST /facts may be, and maxAnswersBytes how much text the answers in it may have:
// reading and comparing that much takes a few seconds of one core.
const (
	maxFactsBytes   = 4 << 20
	maxAnswersBytes = 2<<20 + 64<<10
)

// registerFacts adds the endpoint that reads answers without a task.
func (h *handler) registerFacts(api huma.API) {
	rest.Register(api, h.Failed, rest.Endpoint{
		Method: http.MethodPost, Path: paths.API + "/facts", ID: "read-facts", Tag: "tasks", Summary: "Read the facts of a question's answers",
		Description: "Numbers, money, dates, times, citations, negations and the like, and where the answers differ in them. Nothing is stored, and no model is asked. " +
			"The answers may have 2 MB together.",
		MaxBytes: maxFactsBytes,
	}, h.readFacts)
}

type factsInput struct {
	Body struct {
		Question string   `json:"question,omitempty" maxLength:"100000" doc:"For the caller's records: what is read does not depend on it" example:"答复期限是多久？"`
		Answers  []string `json:"answers" nullable:"false" minItems:"2" maxItems:"20" example:"[\"答复期限为 30 日。\",\"答复期限为 35 日。\"]"`
	}
}

type factsOutput struct {
	Body struct {
		FactsDiffer facts.Differ    `json:"facts_differ" doc:"conflict: two answers contradict each other; omission: a fact is in some answers, but not in all" example:"conflict"`
		Facts       []DifferingFact `json:"facts" nullable:"false" doc:"The facts in which the answers differ, conflicts first"`
		Each        [][]ReadFact    `json:"each" nullable:"false" doc:"By answer, what was read in it, in the order of the places"`
	}
}

// DifferingFact is a fact in which the answers of a question differ.
type DifferingFact struct {
	Kind    facts.Kind  `json:"kind" example:"duration"`
	Label   string      `json:"label" doc:"The words around it, at most 20 characters" example:"答复期限为"`
	Values  []FactValue `json:"values" nullable:"false" doc:"The most frequent first; one alone is what other answers leave out"`
	Missing []int       `json:"missing" nullable:"false" doc:"Answers that do not have it, counted from 1"`
}

// FactValue is what some answers say.
type FactValue struct {
	Value string `json:"value" doc:"Canonical: the same for every notation" example:"30 day"`
	Text  string `json:"text" doc:"As written in the first of the answers" example:"30 日"`
	Runs  []int  `json:"runs" nullable:"false" doc:"The answers that say so, counted from 1" example:"[1]"`
}

// ReadFact is a fact of one answer.
type ReadFact struct {
	Kind  facts.Kind `json:"kind" example:"duration"`
	Value string     `json:"value" example:"30 day"`
	Text  string     `json:"text" example:"30 日"`
	Start int        `json:"start" doc:"How many characters of the answer stand before it" example:"6"`
	End   int        `json:"end" doc:"How many there are up to its end" example:"10"`
}

func (h *handler) readFacts(ctx context.Context, input *factsInput) (*factsOutput, error) {
	size := 0
	for _, answer := range input.Body.Answers {
		size += len(answer)
	}
	if size > maxAnswersBytes {
		return nil, fault.New("REQUEST_TOO_LARGE")
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
	output.Body.Facts = newDifferingFacts(reading.Statements)
	output.Body.Each = make([][]ReadFact, len(reading.Each))
	for n, list := range reading.Each {
		output.Body.Each[n] = newReadFacts(input.Body.Answers[n], list)
	}
	return output, nil
}

func newDifferingFacts(statements []facts.Statement) []DifferingFact {
	list := make([]DifferingFact, len(statements))
	for n, s := range statements {
		values := make([]FactValue, len(s.Values))
		for k, v := range s.Values {
			values[k] = FactValue{Value: v.Value, Text: v.Text, Runs: fromOne(v.Runs)}
		}
		list[n] = DifferingFact{Kind: s.Kind, Label: s.Label, Values: values, Missing: fromOne(s.Missing)}
	}
	return list
}

// fromOne counts runs from 1 on, as tasks do.
func fromOne(runs []int) []int {
	counted := make([]int, len(runs))
	for n, run := range runs {
		counted[n] = run + 1
	}
	return counted
}

// newReadFacts counts places in characters; the facts come in the order of their places.
func newReadFacts(answer string, list []facts.Fact) []ReadFact {
	read := make([]ReadFact, len(list))
	bytes, characters := 0, 0
	for n, f := range list {
		characters += utf8.RuneCountInString(answer[bytes:f.Start])
		bytes = f.Start
		read[n] = ReadFact{Kind: f.Kind, Value: f.Value, Text: f.Text, Start: characters, End: characters + utf8.RuneCountInString(answer[f.Start:f.End])}
	}
	return read
}
