package api

import (
	"context"
	"maps"
	"net/http"
	"slices"

	"github.com/danielgtaylor/huma/v2"

	"wending/db/measure"
	"wending/db/report"
	"wending/handlers/request"
	"wending/handlers/rest"
	"wending/views/paths"
)

func (h *handler) registerComparison(api huma.API) {
	rest.Register(api, h.Failed, rest.Endpoint{
		Method: http.MethodGet, Path: paths.APIComparison, ID: "compare-tasks", Tag: "comparison", Summary: "Compare two tasks on the questions that both have",
		Description: "Questions are paired by question_id, those that find no partner by their text. Answers are stable if they are identical or differ in their format only.",
		Faults:      []string{request.CodeTaskNotFound, request.CodeTaskNotFinished, request.CodeParameterInvalid},
	}, h.compareTasks)
}

// ComparedQuestion holds one task's results for a question.
type ComparedQuestion struct {
	Number     int           `json:"number" example:"1"`
	QuestionID string        `json:"question_id" example:"q1"`
	Level      measure.Level `json:"level" example:"identical"`
	Agreement  *float64      `json:"agreement" example:"1"`
	Letters    string        `json:"letters" example:"AAAAA"`
	FactsOfAnswers
}

func newComparedQuestion(q measure.ComparedQuestion) ComparedQuestion {
	return ComparedQuestion{q.Number, q.QuestionID, q.Level, q.Agreement, q.Letters, newFacts(q.FactsDiffer, q.Facts, q.Expected)}
}

// ComparedPair is a question that both tasks have.
type ComparedPair struct {
	QuestionID string             `json:"question_id" doc:"That of the first task" example:"q1"`
	Transition measure.Transition `json:"transition" example:"unstable_stable"`
	MatchedBy  string             `json:"matched_by" enum:"question_id,text" doc:"text: the tasks have the question under different ids" example:"question_id"`
	SameText   bool               `json:"same_text" doc:"False if the tasks ask something else under this id" example:"true"`
	A          ComparedQuestion   `json:"a"`
	B          ComparedQuestion   `json:"b"`
}

// Change is the difference between two numbers, with its uncertainty.
type Change struct {
	N          int        `json:"n" doc:"Questions on which the number is known in both tasks" example:"97"`
	LeftOut    int        `json:"left_out" doc:"Questions that both have, but on which it is not" example:"3"`
	Clusters   int        `json:"clusters" doc:"Independent groups of these questions: conversations, or values of cluster_by" example:"97"`
	Difference *float64   `json:"difference" doc:"Mean of the second task's number minus the first's" example:"0.12"`
	SE         *float64   `json:"se" doc:"Standard error of the difference" example:"0.04"`
	Interval   *[]float64 `json:"interval" minItems:"2" maxItems:"2" doc:"95 % interval of the difference (Student's t); if it contains 0, no difference is shown"`
	P          *float64   `json:"p" doc:"Two-sided" example:"0.003"`
	PAdjusted  *float64   `json:"p_adjusted" doc:"p, adjusted for all measures of the comparison (Benjamini–Hochberg); up to 0.05 a difference is stated" example:"0.012"`
	Detectable *float64   `json:"detectable" doc:"The difference that a comparison of this size shows in four of five cases: 2.802 · se" example:"0.11"`
}

// newChanges describes the differences of one comparison, by their measures.
func newChanges(c measure.Comparison) map[string]Change {
	changes := map[string]measure.Change{
		"agreement": c.Agreement, "success_rate": c.SuccessRate, "latency_ms": c.LatencyMS, "pass_share": c.PassShare, "score": c.Score,
	}
	names := slices.Sorted(maps.Keys(changes))
	p := make([]*float64, len(names))
	for n, name := range names {
		p[n] = changes[name].P
	}
	described := map[string]Change{}
	for n, adjusted := range measure.Adjust(p) {
		described[names[n]] = newChange(changes[names[n]], adjusted)
	}
	return described
}

func newChange(c measure.Change, adjusted *float64) Change {
	described := Change{
		N: c.N, LeftOut: c.LeftOut, Clusters: c.Clusters, Difference: c.Mean, SE: c.SE, P: c.P, PAdjusted: adjusted, Detectable: c.Detectable(),
	}
	if c.Low != nil {
		described.Interval = &[]float64{*c.Low, *c.High}
	}
	return described
}

type comparisonInput struct {
	A string `query:"a" required:"true" doc:"The first task, <id> or <id>:<variant>" example:"6f0d3c1e-2b7a-4c55-9a60-0f4b8f6a1d21"`
	B string `query:"b" required:"true" doc:"The second task, or another variant of the first" example:"0b9e7a55-1c1d-4a37-8f4e-6f2f5f0f9a02"`
}

type comparisonOutput struct {
	Body struct {
		Items       []ComparedPair             `json:"items" doc:"Questions that both tasks have, in the order of the first"`
		Transitions map[measure.Transition]int `json:"transitions" doc:"Questions by how their answers went: stable_stable, stable_unstable, unstable_stable, unstable_unstable"`
		Unknown     int                        `json:"unknown" doc:"Questions to which a task has fewer than two answers, or empty ones only" example:"2"`
		OnlyA       []string                   `json:"only_a" doc:"Ids of questions that only the first task has"`
		OnlyB       []string                   `json:"only_b" doc:"Ids of questions that only the second task has"`
		Differences map[string]Change          `json:"differences" doc:"agreement, success_rate, pass_share, score and latency_ms; the last is the mean of a question's answers"`
	}
}

func (h *handler) compareTasks(ctx context.Context, input *comparisonInput) (*comparisonOutput, error) {
	var sides [2]report.Side
	for n, side := range []struct{ name, value string }{{"a", input.A}, {"b", input.B}} {
		if side.value == "" {
			return nil, request.ParameterFault(side.name, request.NonEmpty())
		}
		id, variant, err := request.Compared(side.value)
		if err != nil {
			return nil, err
		}
		task, err := h.resultsTask(ctx, id.String(), false)
		if err == nil {
			err = request.HasVariant(task, variant)
		}
		if err != nil {
			return nil, err
		}
		sides[n] = report.Side{TaskID: id, Variant: variant}
	}
	compared, err := report.New(h.Store).Compare(ctx, sides[0], sides[1])
	if err != nil {
		return nil, err
	}
	output := &comparisonOutput{}
	body := &output.Body
	body.Items = make([]ComparedPair, len(compared.Pairs))
	for n, pair := range compared.Pairs {
		matchedBy := "question_id"
		if pair.ByText {
			matchedBy = "text"
		}
		body.Items[n] = ComparedPair{
			QuestionID: pair.A.QuestionID, Transition: pair.Transition, MatchedBy: matchedBy, SameText: pair.A.Text == pair.B.Text,
			A: newComparedQuestion(pair.A), B: newComparedQuestion(pair.B),
		}
	}
	body.Transitions = map[measure.Transition]int{}
	for _, transition := range measure.Transitions {
		body.Transitions[transition] = compared.Count(transition)
	}
	body.Unknown, body.OnlyA, body.OnlyB = compared.Count(measure.UnknownTransition), questionIDs(compared.OnlyA), questionIDs(compared.OnlyB)
	body.Differences = newChanges(compared)
	return output, nil
}

func questionIDs(questions []measure.ComparedQuestion) []string {
	ids := make([]string, len(questions))
	for n, question := range questions {
		ids[n] = question.QuestionID
	}
	return ids
}
