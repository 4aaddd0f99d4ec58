package api

import (
	"context"
	"maps"
	"net/http"
	"slices"
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
	"wending/views/paths"
	"wending/views/summary"
)

func (h *handler) registerComparison(api huma.API) {
	rest.Register(api, h.Failed, rest.Endpoint{
		Method: http.MethodGet, Path: paths.APIComparison, ID: "compare-tasks", Tag: "comparison",
		Summary: "Compare two tasks on the questions that both have",
		Description: "Questions are paired by question_id, and the remaining ones by their text. Answers are stable if " +
			"they are identical or differ only in format. Columns belong to the second task's dataset.",
		HasColumns: true,
		Faults:     []string{request.CodeTaskNotFound, request.CodeTaskNotFinished, request.CodeParameterInvalid},
	}, h.compareTasks)
}

// registerComparisonExport registers the download of a comparison, which is streamed.
func (h *handler) registerComparisonExport(api huma.API) {
	rest.Register(api, h.Failed, rest.Endpoint{
		Method: http.MethodGet, Path: paths.APIComparison + "/export", ID: "export-comparison", Tag: "comparison",
		Summary: "Download a comparison of two tasks",
		Description: "One row for each question that both tasks have, riskiest first. In CSV, a cell that a spreadsheet " +
			"might execute is prefixed with one '; in the workbook, numbers are stored as numbers. The columns of the second " +
			"task's dataset follow as var_<name>.",
		HasColumns: true,
		Faults:     []string{request.CodeTaskNotFound, request.CodeTaskNotFinished, request.CodeParameterInvalid},
		Responses: map[string]*huma.Response{"200": rest.Download("The comparison", map[string]string{
			reading.ReportTypes["csv"]: "number,question_id,question,standard_answer,group,worse,facts,similarity,…\n" +
				"1,q1,多久答复？,30 日,facts,,答复期限 30 日 → 35 日,0.98,…\n",
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
	return ComparedQuestion{q.Number, q.QuestionID, q.Level, q.Agreement, q.Letters,
		newFacts(q.FactsDiffer, q.Facts, q.Expected)}
}

// ComparedFact is a fact on which the most common answers of two tasks differ.
type ComparedFact struct {
	Kind    facts.Kind      `json:"kind" example:"duration"`
	Label   string          `json:"label" doc:"The words around the fact, at most 20 characters" example:"答复期限为"`
	Values  []ComparedValue `json:"values" nullable:"false" doc:"The first task's value, then the second's; a single value is one that the other task's answer omits"`
	Missing []int           `json:"missing" nullable:"false" doc:"run_index of each of the other task's runs whose answer does not state the fact"`
}

// ComparedValue is the value that one task's most common answer states.
type ComparedValue struct {
	Side string `json:"side" doc:"The task whose answer states the value: a is the first, b the second" enum:"a,b" example:"a"`
	measure.Value
}

// newComparedFacts returns the facts on which the most common answers differ, with the indexes of the runs that gave
// these answers.
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
					changed.Values = append(changed.Values,
						ComparedValue{side, measure.Value{Value: value.Value, Text: value.Text, Runs: runs[n]}})
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

// commonRuns returns the indexes, from 1, of the runs that gave the most common answer. letters has a letter for each
// run, equal for equal answers, or "-" for a run without an answer.
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
	QuestionID string              `json:"question_id" doc:"Id in the first task" example:"q1"`
	Group      measure.ChangeGroup `json:"group" doc:"The first that applies: worse; facts (the most common answers contradict each other on a fact); content; wording; unanswered (a task has no answer); format_only; identical" example:"facts"`
	Worse      []measure.Loss      `json:"worse" nullable:"false" doc:"What became worse, most serious first: failed, verdict, expected (contradicts the standard answer), stability, rating"`
	Better     []measure.Loss      `json:"better" nullable:"false" doc:"What became better, in the same words"`
	TestOfPair
	// Level and the fields that follow compare the two tasks' most common answers.
	Level       *measure.Level     `json:"level" doc:"How alike the two most common answers are; null if a task has none" example:"facts"`
	Similarity  *float64           `json:"similarity" doc:"Similarity of the two most common answers, 0–1; null if they are equal or a task has none" example:"0.97"`
	FactsDiffer *facts.Differ      `json:"facts_differ" doc:"conflict: the two answers contradict each other on a fact; omission: one omits a fact that the other states; none: neither; null if a task has no answer" example:"conflict"`
	Facts       []ComparedFact     `json:"facts" nullable:"false" doc:"The facts on which the two answers differ, conflicts first"`
	Transition  measure.Transition `json:"transition" doc:"Stability in the first and the second task" example:"unstable_stable"`
	MatchedBy   string             `json:"matched_by" enum:"question_id,text" doc:"How the questions were paired; text: they have different ids in the two tasks" example:"question_id"`
	SameText    bool               `json:"same_text" doc:"False if the two tasks ask different questions under this id" example:"true"`
	A           ComparedQuestion   `json:"a"`
	B           ComparedQuestion   `json:"b"`
}

// Change is how much a measure differs between the two tasks, with its uncertainty.
type Change struct {
	N          int        `json:"n" doc:"Number of questions for which the measure is known in both tasks" example:"97"`
	LeftOut    int        `json:"left_out" doc:"Number of shared questions for which the measure is unknown in a task" example:"3"`
	Clusters   int        `json:"clusters" doc:"Number of independent groups of these questions: conversations, or values of cluster_by" example:"97"`
	Difference *float64   `json:"difference" doc:"Mean of the second task's value minus the first task's" example:"0.12"`
	SE         *float64   `json:"se" doc:"Standard error of the difference" example:"0.04"`
	Interval   *[]float64 `json:"interval" minItems:"2" maxItems:"2" doc:"95 % interval of the difference (Student's t): [low, high]; if it contains 0, no difference is demonstrated"`
	P          *float64   `json:"p" doc:"Two-sided p-value" example:"0.003"`
	PAdjusted  *float64   `json:"p_adjusted" doc:"p adjusted for all measures of the comparison (Benjamini–Hochberg); a difference is reported if it is at most 0.05" example:"0.012"`
	// Reason explains why Difference or Interval is unknown.
	Reason     *measure.UnknownReason `json:"reason,omitempty" enum:"no_question,one_question,one_cluster" doc:"Why difference or interval is null: no question has the measure on both sides, only one has, or all belong to one cluster; absent otherwise" example:"one_cluster"`
	Detectable *float64               `json:"detectable" doc:"The smallest difference that a comparison of this size detects with 80 % power: 2.802 · se" example:"0.11"`
	// Verdict is a gate's verdict on this comparison.
	Verdict measure.Verdict `json:"verdict" enum:"not_worse,worse,undecided" doc:"Verdict on the second task for a gate with this margin: not_worse: it is not worse by the margin or more; worse: it is worse by more than the margin; undecided: a comparison of this size shows neither" example:"not_worse"`
	Margin  float64         `json:"margin" doc:"How much worse the second task may be, in the unit of the measure" example:"0.05"`
}

// newChanges returns the differences of each comparison by measure. The p-values and verdicts of all of them are
// adjusted together. margins maps measures to the margins of a gate.
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
			tests = append(tests, measure.GateTest{Change: changes[name], IsLessBetter: measure.IsLessBetter(name),
				Margin: margins[name]})
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

// margins parses the margins in a request's query, such as agreement:0.05, into a map by measure.
func (i comparisonInput) margins() (map[string]float64, error) {
	margins := map[string]float64{}
	for _, one := range listed(i.Margin) {
		name, number, _ := strings.Cut(one, ":")
		if !slices.Contains(measure.GatedNumbers, name) {
			return nil, request.ParameterFault("margin", request.OneOf(measure.GatedNumbers...))
		}
		margin, isValid := request.Margin(name, number)
		if !isValid {
			return nil, request.ParameterFault("margin", request.ValidMargin())
		}
		margins[name] = margin
	}
	return margins, nil
}

// comparedSlice is a comparison restricted to the questions with one value in a column.
type comparedSlice struct {
	Value       *string                     `json:"value" doc:"Value of the column; null for all values other than the 50 most frequent" example:"合同"`
	Items       int                         `json:"items" doc:"Number of questions that both tasks have" example:"42"`
	Groups      map[measure.ChangeGroup]int `json:"groups" doc:"Number of these questions in each group"`
	Differences map[string]Change           `json:"differences" doc:"The same measures as for the whole comparison, and cost; p_adjusted and verdict are adjusted for all measures of all slices"`
}

// newComparedSlices returns the comparisons for the values of a column.
func newComparedSlices(compared []report.ComparedSlice, margins map[string]float64) []comparedSlice {
	numbers := make([]map[string]measure.Change, len(compared))
	for n, one := range compared {
		numbers[n] = one.Numbers()
		numbers[n]["cost"] = one.Change(func(q measure.ComparedQuestion) *float64 { return q.Cost })
	}
	described := make([]comparedSlice, len(compared))
	for n, changes := range newChanges(margins, numbers...) {
		described[n] = comparedSlice{compared[n].Value, len(compared[n].Pairs), groupCounts(compared[n].Comparison), changes}
	}
	return described
}

// groupCounts returns the number of questions in each group.
func groupCounts(c measure.Comparison) map[measure.ChangeGroup]int {
	counts := map[measure.ChangeGroup]int{}
	for _, group := range measure.ChangeGroups {
		counts[group] = c.InGroup(group)
	}
	return counts
}

func newChange(c measure.Change, adjusted *float64) Change {
	described := Change{
		N: c.N, LeftOut: c.LeftOut, Clusters: c.Clusters, Difference: c.Mean, SE: c.SE, P: c.P, PAdjusted: adjusted,
		Reason: c.Unknown(), Detectable: c.Detectable(),
	}
	if c.Low != nil {
		described.Interval = &[]float64{*c.Low, *c.High}
	}
	return described
}

// ComparedSides holds the query parameters that identify the two tasks of a comparison.
type ComparedSides struct {
	A string `query:"a" required:"true" doc:"The first task, <id> or <id>:<variant>" example:"6f0d3c1e-2b7a-4c55-9a60-0f4b8f6a1d21"`
	B string `query:"b" required:"true" doc:"The second task, or another variant of the first" example:"0b9e7a55-1c1d-4a37-8f4e-6f2f5f0f9a02"`
}

type comparisonInput struct {
	ComparedSides
	ColumnsQuery
	By      string   `query:"by" doc:"Column of the second task's dataset; slices then holds a comparison for each of its values" example:"category"`
	Group   []string `query:"group,explode" doc:"Only questions of one of these groups: worse, facts, content, wording, unanswered, format_only, identical; repeatable or comma-separated" example:"worse"`
	Facts   []string `query:"facts,explode" doc:"Only questions whose most common answers differ in their facts in one of these ways: conflict, omission, none; repeatable or comma-separated" example:"conflict"`
	Changed bool     `query:"changed" doc:"Only questions that changed beyond chance (is_changed)" example:"true"`
	Margin  []string `query:"margin,explode" doc:"How much worse a measure may be in the second task before its verdict is worse: <measure>:<margin>; default 0; repeatable or comma-separated" example:"agreement:0.05"`
	Sort    string   `query:"sort" enum:"question_id,risk" default:"question_id" doc:"question_id: in the first task's order; risk: questions that became worse first, then the other groups in order of severity" example:"risk"`
}

type comparisonExportInput struct {
	ComparedSides
	ColumnsQuery
	Format string `query:"format" enum:"csv,xlsx" default:"csv" doc:"Format of the file" example:"csv"`
}

type comparisonOutput struct {
	Body struct {
		Items              []ComparedPair              `json:"items" doc:"Questions that both tasks have and that meet the filters"`
		Groups             map[measure.ChangeGroup]int `json:"groups" doc:"Number of shared questions in each group"`
		Changed            int                         `json:"changed" doc:"Number of questions that changed beyond chance (is_changed)" example:"7"`
		FalseDiscoveryRate float64                     `json:"false_discovery_rate" doc:"Share of these questions that may have changed by chance" example:"0.1"`
		Confirmations      map[measure.Outcome]int     `json:"confirmations" doc:"Number of questions that were repeated, by the result of their fresh runs: held, not_held, pending, untested"`
		Transitions        map[measure.Transition]int  `json:"transitions" doc:"Number of questions by stability in the first and the second task: stable_stable, stable_unstable, unstable_stable, unstable_unstable"`
		Unknown            int                         `json:"unknown" doc:"Number of questions to which a task has fewer than two answers, or only empty ones" example:"2"`
		OnlyA              []string                    `json:"only_a" doc:"Ids of questions that only the first task has"`
		OnlyB              []string                    `json:"only_b" doc:"Ids of questions that only the second task has"`
		Differences        map[string]Change           `json:"differences" doc:"Differences in agreement, meaning_agreement (where answers are grouped by meaning), success_rate, pass_share, score and latency_ms (mean latency of a question's answers)"`
		Slices             []comparedSlice             `json:"slices,omitempty" doc:"With by: one comparison per value of the column, most frequent values first"`
	}
}

// comparedTime is the maximum time that comparing two tasks' answers for one response may take.
const comparedTime = 10 * time.Minute

// sidesOf returns the two tasks and variants that a request compares.
func (h *handler) sidesOf(ctx context.Context, input ComparedSides) (sides [2]summary.ComparedSide, err error) {
	for n, side := range []struct{ name, value string }{{"a", input.A}, {"b", input.B}} {
		if sides[n], err = h.sideOf(ctx, side.name, side.value); err != nil {
			return sides, err
		}
	}
	return sides, nil
}

// sideOf returns the task and variant that the value of a parameter identifies; name is the parameter's name, for
// faults.
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
	compared, err := reading.New(h.Store, h.Tasks.Assets).Compare(ctx, sides[0].Side(), sides[1].Side(), true,
		comparedTime)
	if err != nil {
		return nil, err
	}
	second := sides[1].Task
	compared.Comparison, err = reading.New(h.Store, h.Tasks.Assets).Narrow(ctx, sides[0], sides[1],
		request.ColumnValues(input.values), compared.Comparison)
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
	body.Confirmations = map[measure.Outcome]int{}
	for _, outcome := range measure.Outcomes {
		body.Confirmations[outcome] = compared.InOutcome(outcome)
	}
	body.Changed, body.FalseDiscoveryRate = len(compared.Changed()), measure.ListedShare
	body.Transitions = map[measure.Transition]int{}
	for _, transition := range measure.Transitions {
		body.Transitions[transition] = compared.Count(transition)
	}
	body.Unknown, body.OnlyA, body.OnlyB = compared.Count(measure.UnknownTransition), questionIDs(compared.OnlyA),
		questionIDs(compared.OnlyB)
	body.Differences = newChanges(margins, compared.Numbers())[0]
	return output, nil
}

// questions returns the compared pairs that match a request's filters, in the requested order.
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
		return !isOfGroup || i.Changed && !pair.IsChanged() || len(differs) > 0 &&
			(pair.Between == nil || !slices.Contains(differs, string(pair.Between.Differ)))
	}), nil
}

func newComparedPair(pair measure.Pair) ComparedPair {
	matchedBy := "question_id"
	if pair.ByText {
		matchedBy = "text"
	}
	described := ComparedPair{
		QuestionID: pair.A.QuestionID, Group: pair.Group(), Worse: append([]measure.Loss{}, pair.Losses()...),
		Better:     append([]measure.Loss{}, pair.Gains()...),
		Facts:      newComparedFacts(pair),
		Transition: pair.Transition, MatchedBy: matchedBy, SameText: pair.A.Text == pair.B.Text,
		A: newComparedQuestion(pair.A), B: newComparedQuestion(pair.B),
	}
	if between := pair.Between; between != nil {
		described.Level, described.Similarity, described.FactsDiffer = &between.Level, between.Similarity, &between.Differ
	}
	described.Confirmation = newConfirmed(pair.Confirmed)
	if tested := pair.Tested; tested != nil {
		test := "answers"
		if tested.IsOfVerdicts {
			test = "verdicts"
		}
		described.P, described.Q, described.Test, described.IsChanged = &tested.P, &tested.Q, &test, pair.IsChanged()
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
		write, err := reading.NewReports(h.Store, h.Tasks.Assets).PrepareComparison(ctx.Context(), sides[0], sides[1],
			request.ColumnValues(input.values), input.Format)
		if err != nil {
			return err
		}
		c := humaecho.Unwrap(ctx)
		header := c.Response().Header()
		header.Set("Content-Type", reading.ReportTypes[input.Format])
		header.Set("Content-Disposition", request.Attachment(sides[0].Title()+" → "+sides[1].Title()+"."+input.Format))
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
