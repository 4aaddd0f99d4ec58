package api

import (
	"context"
	"maps"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humaecho"

	"wending/db/measure"
	"wending/db/measure/facts"
	"wending/db/report"
	"wending/handlers/reading"
	"wending/handlers/request"
	"wending/handlers/rest"
	"wending/jobs/export"
	"wending/views/paths"
	"wending/views/summary"
)

func (h *handler) registerComparison(api huma.API) {
	rest.Register(api, h.Failed, rest.Endpoint{
		Method: http.MethodGet, Path: paths.APIComparison, ID: "compare-tasks", Tag: "comparison", Summary: "Compare two tasks on the questions that both have",
		Description: "Questions are paired by question_id, the remaining ones by their text. Answers are stable if they are identical or differ only in format. Columns belong to the second task's dataset.",
		HasColumns:  true,
		Faults:      []string{request.CodeTaskNotFound, request.CodeTaskNotFinished, request.CodeParameterInvalid},
	}, h.compareTasks)
}

// registerComparisonExport adds the download, which is streamed.
func (h *handler) registerComparisonExport(api huma.API) {
	rest.Register(api, h.Failed, rest.Endpoint{
		Method: http.MethodGet, Path: paths.APIComparison + "/export", ID: "export-comparison", Tag: "comparison", Summary: "Download a comparison of two tasks",
		Description: "A row for each question that both tasks have, in the order of risk. In CSV, a cell that a spreadsheet might run has one leading '; the workbook has numbers as numbers. The columns of the second task's dataset follow as var_<name>.",
		HasColumns:  true,
		Faults:      []string{request.CodeTaskNotFound, request.CodeTaskNotFinished, request.CodeParameterInvalid},
		Responses: map[string]*huma.Response{"200": rest.Download("The comparison", map[string]string{
			reading.ReportTypes["csv"]:  "number,question_id,question,standard_answer,group,worse,facts,similarity,…\n1,q1,多久答复？,30 日,facts,,答复期限 30 日 → 35 日,0.98,…\n",
			reading.ReportTypes["xlsx"]: "",
		})},
	}, h.exportComparison)
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

// ComparedFact is a fact in which the most common answers of two tasks differ.
type ComparedFact struct {
	Kind    facts.Kind      `json:"kind" example:"duration"`
	Label   string          `json:"label" doc:"The words around it, at most 20 characters" example:"答复期限为"`
	Values  []ComparedValue `json:"values" nullable:"false" doc:"The first task's before the second's; one alone is what the other task's answer leaves out"`
	Missing []int           `json:"missing" nullable:"false" doc:"run_index of the other task's runs whose answer does not state it"`
}

// ComparedValue is what the most common answer of one task states.
type ComparedValue struct {
	Side string `json:"side" enum:"a,b" example:"a"`
	measure.Value
}

// newComparedFacts describes the facts in which the most common answers differ; the runs are those that gave them.
func newComparedFacts(pair measure.Pair) []ComparedFact {
	list := []ComparedFact{}
	if pair.Between == nil {
		return list
	}
	runs := [][]int{commonRuns(pair.A.Letters), commonRuns(pair.B.Letters)}
	for _, fact := range pair.Between.Facts {
		changed := ComparedFact{Kind: fact.Kind, Label: fact.Label, Values: []ComparedValue{}, Missing: []int{}}
		for n, side := range []string{"a", "b"} {
			for _, value := range fact.Values {
				if slices.Contains(value.Runs, n+1) {
					changed.Values = append(changed.Values, ComparedValue{side, measure.Value{Value: value.Value, Text: value.Text, Runs: runs[n]}})
				}
			}
			if slices.Contains(fact.Missing, n+1) {
				changed.Missing = runs[n]
			}
		}
		list = append(list, changed)
	}
	return list
}

// commonRuns are the run_index of the runs that gave the most common answer.
func commonRuns(letters string) []int {
	byLetter, best := map[rune][]int{}, []int(nil)
	index := 0
	for _, letter := range letters {
		if index++; letter != '-' {
			byLetter[letter] = append(byLetter[letter], index)
		}
	}
	for _, runs := range byLetter {
		if len(runs) > len(best) || len(runs) == len(best) && len(runs) > 0 && runs[0] < best[0] {
			best = runs
		}
	}
	return best
}

// ComparedPair is a question that both tasks have.
type ComparedPair struct {
	QuestionID string              `json:"question_id" doc:"That of the first task" example:"q1"`
	Group      measure.ChangeGroup `json:"group" doc:"What became of the question, the first that fits: worse; facts: the most common answers contradict each other in a fact; content; wording; unanswered: a task has no answer; format_only; identical" example:"facts"`
	Worse      []measure.Loss      `json:"worse" nullable:"false" doc:"In what it became worse, the gravest first: failed, verdict, expected (contradicts the standard answer), stability, rating"`
	// Level and what follows compare the most common answers.
	Level       *measure.Level     `json:"level" doc:"How alike the two most common answers are; null if a task has none" example:"facts"`
	Similarity  *float64           `json:"similarity" doc:"Of the two; null if they are equal, or a task has none" example:"0.97"`
	FactsDiffer *facts.Differ      `json:"facts_differ" doc:"conflict: the two contradict each other in a fact; omission: one lacks a fact; none; null if a task has no answer" example:"conflict"`
	Facts       []ComparedFact     `json:"facts" nullable:"false" doc:"The facts in which the two differ, conflicts first"`
	Transition  measure.Transition `json:"transition" example:"unstable_stable"`
	MatchedBy   string             `json:"matched_by" enum:"question_id,text" doc:"text: the tasks have the question under different ids" example:"question_id"`
	SameText    bool               `json:"same_text" doc:"False if the tasks ask something else under this id" example:"true"`
	A           ComparedQuestion   `json:"a"`
	B           ComparedQuestion   `json:"b"`
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
	// Verdict is the verdict of a gate on this comparison.
	Verdict measure.Verdict `json:"verdict" enum:"not_worse,worse,undecided" doc:"Of the second task, for a gate with this margin: not_worse: it is not worse by the margin or more; worse: it is worse by more; undecided: a comparison of this size shows neither" example:"not_worse"`
	Margin  float64         `json:"margin" doc:"By how much it may be worse" example:"0.05"`
}

// numbersOf are the numbers that a comparison compares, by their names.
func numbersOf(c measure.Comparison) map[string]measure.Change {
	return map[string]measure.Change{
		"agreement": c.Agreement, "success_rate": c.SuccessRate, "latency_ms": c.LatencyMS, "pass_share": c.PassShare, "score": c.Score,
	}
}

// newChanges describes the differences of comparisons, by their measures: all of them are one family of tests. margins are the margins of a gate.
func newChanges(margins map[string]float64, comparisons ...map[string]measure.Change) []map[string]Change {
	type place struct {
		of   int
		name string
	}
	var places []place
	var p []*float64
	var tests []measure.GateTest
	for n, changes := range comparisons {
		for _, name := range slices.Sorted(maps.Keys(changes)) {
			places, p = append(places, place{n, name}), append(p, changes[name].P)
			tests = append(tests, measure.GateTest{Change: changes[name], IsLessBetter: name == "latency_ms" || name == "cost", Margin: margins[name]})
		}
	}
	adjusted, described := measure.Adjust(p), make([]map[string]Change, len(comparisons))
	for n, result := range measure.Gate(tests) {
		change := newChange(tests[n].Change, adjusted[n])
		change.Verdict, change.Margin = result.Verdict, tests[n].Margin
		if described[places[n].of] == nil {
			described[places[n].of] = map[string]Change{}
		}
		described[places[n].of][places[n].name] = change
	}
	return described
}

// margins reads the margins of a request, such as agreement:0.05.
func (i comparisonInput) margins() (map[string]float64, error) {
	margins := map[string]float64{}
	for _, one := range listed(i.Margin) {
		name, number, _ := strings.Cut(one, ":")
		if !slices.Contains(comparedNumbers, name) {
			return nil, request.ParameterFault("margin", request.OneOf(comparedNumbers...))
		}
		margin, err := strconv.ParseFloat(number, 64)
		if err != nil || !(margin >= 0) || math.IsInf(margin, 0) {
			return nil, request.ParameterFault("margin", request.ValidMargin())
		}
		margins[name] = margin
	}
	return margins, nil
}

// comparedNumbers are the numbers of a comparison.
var comparedNumbers = []string{"agreement", "success_rate", "pass_share", "score", "latency_ms"}

// comparedSlice is the comparison of the questions with one value in a column.
type comparedSlice struct {
	Value       *string                     `json:"value" doc:"null: all values but the 50 most frequent" example:"合同"`
	Items       int                         `json:"items" doc:"Questions that both tasks have" example:"42"`
	Groups      map[measure.ChangeGroup]int `json:"groups" doc:"How many of them are in each group"`
	Differences map[string]Change           `json:"differences" doc:"As for the whole, with cost; p_adjusted and verdict hold among all measures of all slices"`
}

// newComparedSlices describes the comparisons by a column.
func newComparedSlices(compared []report.ComparedSlice, margins map[string]float64) []comparedSlice {
	numbers := make([]map[string]measure.Change, len(compared))
	for n, one := range compared {
		numbers[n] = numbersOf(one.Comparison)
		numbers[n]["cost"] = one.Change(func(q measure.ComparedQuestion) *float64 { return q.Cost })
	}
	described := make([]comparedSlice, len(compared))
	for n, changes := range newChanges(margins, numbers...) {
		described[n] = comparedSlice{compared[n].Value, len(compared[n].Pairs), groupCounts(compared[n].Comparison), changes}
	}
	return described
}

// groupCounts are how many questions each group has.
func groupCounts(c measure.Comparison) map[measure.ChangeGroup]int {
	counts := map[measure.ChangeGroup]int{}
	for _, group := range measure.ChangeGroups {
		counts[group] = c.InGroup(group)
	}
	return counts
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

// ComparedSides are the tasks of a comparison.
type ComparedSides struct {
	A string `query:"a" required:"true" doc:"The first task, <id> or <id>:<variant>" example:"6f0d3c1e-2b7a-4c55-9a60-0f4b8f6a1d21"`
	B string `query:"b" required:"true" doc:"The second task, or another variant of the first" example:"0b9e7a55-1c1d-4a37-8f4e-6f2f5f0f9a02"`
}

type comparisonInput struct {
	ComparedSides
	ColumnsQuery
	By     string   `query:"by" doc:"Column of the second task's dataset: slices has the comparison of each of its values" example:"category"`
	Group  []string `query:"group,explode" doc:"Only questions of one of these groups: worse, facts, content, wording, unanswered, format_only, identical; repeatable or comma-separated" example:"worse"`
	Facts  []string `query:"facts,explode" doc:"Only questions whose most common answers differ so in their facts: conflict, omission, none; repeatable or comma-separated" example:"conflict"`
	Margin []string `query:"margin,explode" doc:"By how much a number may be worse in the second task, for its verdict: <number>:<margin>, 0 where nothing is said; repeatable or comma-separated" example:"agreement:0.05"`
	Sort   string   `query:"sort" enum:"question_id,risk" default:"question_id" doc:"question_id: as the first task has them; risk: what became worse first, then by the other groups" example:"risk"`
}

type comparisonExportInput struct {
	ComparedSides
	ColumnsQuery
	Format string `query:"format" enum:"csv,xlsx" default:"csv" doc:"Format of the file" example:"csv"`
}

type comparisonOutput struct {
	Body struct {
		Items       []ComparedPair              `json:"items" doc:"Questions that both tasks have, of those that are asked for"`
		Groups      map[measure.ChangeGroup]int `json:"groups" doc:"How many questions that both have are in each group"`
		Transitions map[measure.Transition]int  `json:"transitions" doc:"Questions by how their answers went: stable_stable, stable_unstable, unstable_stable, unstable_unstable"`
		Unknown     int                         `json:"unknown" doc:"Questions to which a task has fewer than two answers, or empty ones only" example:"2"`
		OnlyA       []string                    `json:"only_a" doc:"Ids of questions that only the first task has"`
		OnlyB       []string                    `json:"only_b" doc:"Ids of questions that only the second task has"`
		Differences map[string]Change           `json:"differences" doc:"agreement, success_rate, pass_share, score and latency_ms; the last is the mean of a question's answers"`
		Slices      []comparedSlice             `json:"slices,omitempty" doc:"With by: the most frequent values of the column first"`
	}
}

// comparedTime limits how long the answers of two tasks are compared for a response.
const comparedTime = 10 * time.Minute

// sidesOf returns the tasks that a request compares.
func (h *handler) sidesOf(ctx context.Context, input ComparedSides) (sides [2]summary.ComparedSide, err error) {
	for n, side := range []struct{ name, value string }{{"a", input.A}, {"b", input.B}} {
		if sides[n], err = h.sideOf(ctx, side.name, side.value); err != nil {
			return sides, err
		}
	}
	return sides, nil
}

// sideOf returns the task, with its variant, that a parameter names.
func (h *handler) sideOf(ctx context.Context, name, value string) (side summary.ComparedSide, err error) {
	if value == "" {
		return side, request.ParameterFault(name, request.NonEmpty())
	}
	id, variant, err := request.Compared(value)
	if err != nil {
		return side, err
	}
	task, err := h.resultsTask(ctx, id.String(), false)
	if err == nil {
		err = request.HasVariant(task, variant)
	}
	return summary.ComparedSide{Task: task, Variant: variant}, err
}

func (h *handler) compareTasks(ctx context.Context, input *comparisonInput) (*comparisonOutput, error) {
	sides, err := h.sidesOf(ctx, input.ComparedSides)
	if err != nil {
		return nil, err
	}
	compared, err := reading.New(h.Store, h.Tasks.Assets).Compare(ctx, sides[0].Side(), sides[1].Side(), true, comparedTime)
	if err != nil {
		return nil, err
	}
	second := sides[1].Task
	compared.Comparison, err = reading.New(h.Store, h.Tasks.Assets).Narrow(ctx, sides[0].Task, second, request.ColumnValues(input.values), compared.Comparison)
	if err != nil {
		return nil, err
	}
	output := &comparisonOutput{}
	body := &output.Body
	margins, err := input.margins()
	if err != nil {
		return nil, err
	}
	place, err := request.ColumnPlace(second, input.By)
	if err == nil && place > 0 {
		var found []report.ComparedSlice
		found, err = report.New(h.Store).CompareBy(ctx, second, place, compared.Comparison)
		body.Slices = newComparedSlices(found, margins)
	}
	if err != nil {
		return nil, err
	}
	pairs, err := input.questions(compared)
	if err != nil {
		return nil, err
	}
	body.Items = make([]ComparedPair, len(pairs))
	for n, pair := range pairs {
		body.Items[n] = newComparedPair(pair)
	}
	body.Groups = groupCounts(compared.Comparison)
	body.Transitions = map[measure.Transition]int{}
	for _, transition := range measure.Transitions {
		body.Transitions[transition] = compared.Count(transition)
	}
	body.Unknown, body.OnlyA, body.OnlyB = compared.Count(measure.UnknownTransition), questionIDs(compared.OnlyA), questionIDs(compared.OnlyB)
	body.Differences = newChanges(margins, numbersOf(compared.Comparison))[0]
	return output, nil
}

// questions are the pairs that a request asks for, in its order.
func (i comparisonInput) questions(compared reading.Compared) ([]measure.Pair, error) {
	groups, differs := listed(i.Group), listed(i.Facts)
	for _, test := range []struct {
		name           string
		given, choices []string
	}{{"group", groups, names(measure.ChangeGroups)}, {"facts", differs, names(facts.Differs)}} {
		if slices.ContainsFunc(test.given, func(one string) bool { return !slices.Contains(test.choices, one) }) {
			return nil, request.ParameterFault(test.name, request.OneOf(test.choices...))
		}
	}
	pairs := slices.Clone(compared.Pairs)
	if i.Sort == "risk" {
		pairs = compared.ByRisk()
	}
	return slices.DeleteFunc(pairs, func(pair measure.Pair) bool {
		isOfGroup := len(groups) == 0 || slices.Contains(groups, string(pair.Group()))
		return !isOfGroup || len(differs) > 0 && (pair.Between == nil || !slices.Contains(differs, string(pair.Between.Differ)))
	}), nil
}

func newComparedPair(pair measure.Pair) ComparedPair {
	matchedBy := "question_id"
	if pair.ByText {
		matchedBy = "text"
	}
	described := ComparedPair{
		QuestionID: pair.A.QuestionID, Group: pair.Group(), Worse: append([]measure.Loss{}, pair.Losses()...), Facts: newComparedFacts(pair),
		Transition: pair.Transition, MatchedBy: matchedBy, SameText: pair.A.Text == pair.B.Text,
		A: newComparedQuestion(pair.A), B: newComparedQuestion(pair.B),
	}
	if between := pair.Between; between != nil {
		described.Level, described.Similarity, described.FactsDiffer = &between.Level, between.Similarity, &between.Differ
	}
	return described
}

// exportComparison streams a comparison as a file.
func (h *handler) exportComparison(ctx context.Context, input *comparisonExportInput) (*huma.StreamResponse, error) {
	sides, err := h.sidesOf(ctx, input.ComparedSides)
	if err != nil {
		return nil, err
	}
	return rest.Stream(h.Failed, func(ctx huma.Context) error {
		write, err := reading.NewReports(h.Store, h.Tasks.Assets).PrepareComparison(ctx.Context(), sides[0], sides[1], request.ColumnValues(input.values), input.Format)
		if err != nil {
			return err
		}
		c := humaecho.Unwrap(ctx)
		header := c.Response().Header()
		header.Set("Content-Type", reading.ReportTypes[input.Format])
		header.Set("Content-Disposition", export.Attachment(sides[0].Title()+" → "+sides[1].Title()+"."+input.Format))
		c.Response().WriteHeader(http.StatusOK)
		stream := rest.NewStreamWriter(c.Response())
		if err := write(ctx.Context(), stream); err != nil {
			return err
		}
		return stream.Err()
	}), nil
}

func questionIDs(questions []measure.ComparedQuestion) []string {
	ids := make([]string, len(questions))
	for n, question := range questions {
		ids[n] = question.QuestionID
	}
	return ids
}
