package tasks

import (
	"context"
	"math"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/shopspring/decimal"

	"wending/db"
	"wending/db/measure"
	"wending/db/report"
	"wending/jobs/agent/protocol"
)

// Estimate is the expected duration, tokens and cost of a task, including judges and groupings, based on earlier calls
// of its targets or, if there were none, on their last test.
type Estimate struct {
	Calls, JudgeCalls, MeaningCalls int
	Variants                        []db.Variant
	// Duration is nil if there is no rate limit and a target's calls have no known duration.
	Duration *time.Duration
	// Tokens is nil if they are unknown for a target.
	Tokens *int
	// Cost is nil if tokens or prices are unknown, or currencies differ.
	Cost     *decimal.Decimal
	Currency string
	// IsUnpriced reports that the cost is unknown because a target has no prices.
	IsUnpriced bool
	Warnings   []Warning
	Design     measure.Design
	// DesignOf are the names of the tasks that the design was estimated from; empty if it is assumed.
	DesignOf []string
	// Clusters is the number of independent groups of questions.
	Clusters   int
	Detectable measure.Detectable
	// AtMost holds the maximum for an adaptive task, reached if every question gets all its runs; nil for other
	// tasks.
	AtMost *EstimatedMost
}

// EstimatedMost is the upper end of an estimate. Cost is nil if it is unknown.
type EstimatedMost struct {
	Calls, JudgeCalls int
	Cost              *decimal.Decimal
}

// Warning is something that a user should know before starting the task.
type Warning struct {
	// Code is one of the constants below; Names are the names of the objects concerned.
	Code  string
	Names []string
}

// The codes of warnings.
const (
	WarnUnknownVariables = "UNKNOWN_VARIABLES"
	WarnPriceMissing     = "PRICE_MISSING"
	WarnTestFailed       = "TEST_FAILED"
	WarnCurrenciesDiffer = "CURRENCIES_DIFFER"
	// WarnOneTest means that the only known call of a target is a test.
	WarnOneTest = "ESTIMATED_FROM_ONE_TEST"
)

// WarningCodes lists all codes of warnings.
var WarningCodes = []string{WarnUnknownVariables, WarnPriceMissing, WarnTestFailed, WarnCurrenciesDiffer, WarnOneTest}

// estimatedPlaces is the number of decimal places of an estimated cost.
const estimatedPlaces = 12

// Estimate returns the expected cost of a task and the warnings to show before its start. It creates nothing.
func (s *Service) Estimate(ctx context.Context, scope db.Scope, n New) (Estimate, error) {
	e := Estimate{Calls: n.Calls(), JudgeCalls: n.JudgeCalls(), MeaningCalls: n.MeaningCalls(), Variants: n.AllVariants(),
		Warnings: []Warning{}}
	loads, err := s.loads(ctx, n)
	if err != nil {
		return e, err
	}
	if e.Duration, err = s.duration(ctx, loads, n.Concurrency); err != nil {
		return e, err
	}
	if err := e.price(loads); err != nil {
		return e, err
	}
	e.warnOfTests(loads)
	if e.AtMost, err = s.atMost(ctx, n); err != nil {
		return e, err
	}
	e.Warnings = append(e.Warnings, n.Warnings()...)
	return e, s.design(ctx, scope, n, &e)
}

// atMost returns the maximum calls and cost of a task, which it reaches if none of its questions is ever settled; nil
// if the task is not adaptive.
func (s *Service) atMost(ctx context.Context, n New) (*EstimatedMost, error) {
	most := n.mostRuns()
	if most == n.RunsPerItem {
		return nil, nil
	}
	n.RunsPerItem = most
	loads, err := s.loads(ctx, n)
	if err != nil {
		return nil, err
	}
	var whole Estimate
	if err := whole.price(loads); err != nil {
		return nil, err
	}
	return &EstimatedMost{n.Calls(), n.JudgeCalls(), whole.Cost}, nil
}

// design computes which difference the task can detect when it is compared with another task of the same size.
func (s *Service) design(ctx context.Context, scope db.Scope, n New, e *Estimate) error {
	if n.Dataset == nil || len(n.Dataset.Rows) == 0 {
		return nil
	}
	rows, results := n.Dataset.Rows, report.New(s.Store)
	ids, err := results.SameQuestions(ctx, scope, report.Asking{
		DatasetID: n.DatasetID, Questions: len(rows), First: rows[0].Question, Last: rows[len(rows)-1].Question,
	})
	if err != nil {
		return err
	}
	var sides [][]measure.ComparedQuestion // the newest first
	for _, id := range ids {
		if len(sides) > 1 {
			break
		}
		task, err := s.Store.Task(ctx, scope, id)
		if err != nil {
			return err
		}
		matrix, err := results.Matrix(ctx, task)
		if err != nil {
			return err
		}
		slices.Reverse(matrix)
		sides, e.DesignOf = append(sides, matrix...), append(e.DesignOf, task.Name)
	}
	sides = append(sides, nil, nil)
	if e.Design = measure.NewDesign(sides[1], sides[0]); sides[1] == nil {
		e.Design = measure.NewDesign(sides[0], nil)
	}
	if e.Design.Basis() == measure.Assumed {
		e.DesignOf = nil
	}
	e.Clusters = n.clusters()
	e.Detectable = e.Design.Detectable(e.Clusters, n.RunsPerItem)
	return nil
}

// clusters returns the number of independent groups that the questions form (metrics.md, Clusters).
func (n New) clusters() int {
	column := slices.Index(n.Dataset.VariableNames, n.ClusterBy)
	named, alone := map[string]bool{}, 0
	for _, row := range n.Dataset.Rows {
		cluster := row.Series
		if n.ClusterBy != "" && column >= 0 && column < len(row.Variables) {
			cluster = row.Variables[column]
		}
		if cluster == "" {
			alone++
		} else {
			named[cluster] = true
		}
	}
	return len(named) + alone
}

// Warnings returns the warnings to show before the start, as far as they are known from the task itself.
func (n New) Warnings() (warnings []Warning) {
	if unknown := n.unknownVariables(); len(unknown) > 0 {
		warnings = append(warnings, Warning{WarnUnknownVariables, unknown})
	}
	if len(n.Untested) > 0 {
		warnings = append(warnings, Warning{WarnTestFailed, n.Untested})
	}
	return warnings
}

// load is the number of calls to a target, with the measures of its past calls.
type load struct {
	NewTarget
	calls int
	past  report.Past
	// isTest reports that past comes from a single test call.
	isTest bool
}

// loads returns the loads of all targets and judges. If a judge has made no calls yet, its calls are assumed to be
// like other calls of its model.
func (s *Service) loads(ctx context.Context, n New) (loads []load, err error) {
	results, targets := report.New(s.Store), n.AllTargets()
	for _, target := range targets {
		one := load{NewTarget: target, calls: n.Calls() / len(targets)}
		if target.LibraryID != nil {
			if one.past, err = results.Past(ctx, *target.LibraryID); err != nil {
				return nil, err
			}
			if err := one.measure(ctx, results); err != nil {
				return nil, err
			}
		}
		loads = append(loads, one)
	}
	var models []load
	for _, evaluator := range n.Evaluators {
		if evaluator.Model != nil {
			models = append(models, load{NewTarget: *evaluator.Model, calls: n.Calls() * votesOf(evaluator)})
		}
	}
	if n.Meaning != nil {
		models = append(models, load{NewTarget: *n.Meaning, calls: n.MeaningCalls()})
	}
	for _, one := range models {
		if one.LibraryID != nil {
			if one.past, err = results.PastOfJudge(ctx, *one.LibraryID); err == nil && one.past.LatencyMS == nil {
				one.past, err = results.Past(ctx, *one.LibraryID)
			}
			if err != nil {
				return nil, err
			}
			if err := one.measure(ctx, results); err != nil {
				return nil, err
			}
		}
		loads = append(loads, one)
	}
	return loads, nil
}

// measure uses the last test of a saved target, if there is one, unless the duration of its calls is known.
func (l *load) measure(ctx context.Context, results report.Report) (err error) {
	if l.past.LatencyMS != nil {
		return nil
	}
	l.past, err = results.Measured(ctx, *l.LibraryID)
	l.isTest = l.past.LatencyMS != nil
	return err
}

// warnOfTests adds a warning that names the targets for which only a test call is known.
func (e *Estimate) warnOfTests(loads []load) {
	var names []string
	for _, one := range loads {
		if one.isTest && !slices.Contains(names, one.Name) {
			names = append(names, one.Name)
		}
	}
	if len(names) > 0 {
		e.Warnings = append(e.Warnings, Warning{WarnOneTest, names})
	}
}

// duration returns how long the loads take: the time that the lanes need for all calls or, if longer, the time that the
// rate limits require.
func (s *Service) duration(ctx context.Context, loads []load, concurrency int) (*time.Duration, error) {
	var work time.Duration // summed over all lanes
	isKnown := len(loads) > 0
	intervals, calls := map[string]time.Duration{}, map[string]int{}
	for _, one := range loads {
		address, err := url.Parse(one.Secrets.URL)
		if err != nil {
			return nil, err
		}
		interval, _, err := s.CallInterval(one.RateLimit)
		if err != nil {
			return nil, err
		}
		origin := Origin(address)
		intervals[origin], calls[origin] = max(intervals[origin], interval), calls[origin]+one.calls
		if one.past.LatencyMS == nil {
			isKnown = false
			continue
		}
		work += time.Duration(*one.past.LatencyMS*float64(one.calls)) * time.Millisecond
	}
	var longest *time.Duration
	if isKnown {
		lanes, err := s.lanes(ctx, concurrency)
		if err != nil {
			return nil, err
		}
		shared := work / time.Duration(lanes)
		longest = &shared
	}
	for origin, interval := range intervals {
		if limited := interval * time.Duration(calls[origin]); limited > 0 && (longest == nil || limited > *longest) {
			longest = &limited
		}
	}
	return longest, nil
}

// price adds up tokens and cost, and adds the warnings about them.
func (e *Estimate) price(loads []load) error {
	tokens, cost := 0.0, decimal.Zero
	areTokensKnown, isCostKnown := len(loads) > 0, len(loads) > 0
	var unpriced, currencies []string
	for _, one := range loads {
		hasTokens := one.past.InputTokens != nil && one.past.OutputTokens != nil
		if hasTokens {
			tokens += (*one.past.InputTokens + *one.past.OutputTokens) * float64(one.calls)
		}
		areTokensKnown = areTokensKnown && hasTokens
		switch {
		case one.InputPrice == nil || one.OutputPrice == nil:
			isCostKnown, e.IsUnpriced = false, true
			if one.Kind != db.TargetURL && one.Kind != db.TargetAgent && !slices.Contains(unpriced, one.Name) {
				unpriced = append(unpriced, one.Name)
			}
		case !hasTokens:
			isCostKnown = false
		default:
			perCall, err := one.costOfCall()
			if err != nil {
				return err
			}
			cost = cost.Add(perCall.Mul(decimal.NewFromInt(int64(one.calls))))
		}
		if currency := TextOf(one.Currency); currency != "" && !slices.Contains(currencies, currency) {
			currencies = append(currencies, currency)
		}
	}
	if areTokensKnown {
		rounded := int(math.Round(tokens))
		e.Tokens = &rounded
	}
	switch {
	case len(currencies) > 1:
		e.Warnings = append(e.Warnings, Warning{WarnCurrenciesDiffer, currencies})
	case isCostKnown:
		rounded := cost.Round(estimatedPlaces)
		e.Cost = &rounded
	}
	if len(currencies) == 1 {
		e.Currency = currencies[0]
	}
	if len(unpriced) > 0 {
		e.Warnings = append(e.Warnings, Warning{WarnPriceMissing, unpriced})
	}
	return nil
}

// costOfCall returns the cost of a call with known tokens and prices.
func (l load) costOfCall() (decimal.Decimal, error) {
	input, err := decimal.NewFromString(*l.InputPrice)
	if err != nil {
		return input, err
	}
	output, err := decimal.NewFromString(*l.OutputPrice)
	if err != nil {
		return output, err
	}
	cost := input.Mul(decimal.NewFromFloat(*l.past.InputTokens)).
		Add(output.Mul(decimal.NewFromFloat(*l.past.OutputTokens)))
	return cost.Shift(-6), nil
}

// lanes returns how many calls of a task the living workers can make at once.
func (s *Service) lanes(ctx context.Context, concurrency int) (int, error) {
	workers, err := report.NewMonitor(s.Store).Workers(ctx)
	if err != nil {
		return 0, err
	}
	lanes := 0
	for _, worker := range workers {
		if worker.IsAlive {
			lanes += worker.Lanes
		}
	}
	if lanes == 0 { // there is no worker yet
		lanes = concurrency
	}
	return max(1, min(lanes, concurrency)), nil
}

// unknownVariables returns the names in the prompts and the targets' templates that match no column.
func (n New) unknownVariables() []string {
	if n.Dataset == nil {
		return nil
	}
	names := n.Dataset.VariableNames
	values := Values(db.Item{Variables: make([]string, len(names))}, names)
	var templates []string
	for _, one := range n.Prompts {
		templates = append(templates, one.System, one.User)
	}
	unknown := protocol.MissingNames(values, templates...)
	// The templates of bodies may also contain these names.
	for _, name := range []string{"session_id", "model", "history", "conversation_id"} {
		values[name] = ""
	}
	for _, target := range n.Targets {
		for _, name := range protocol.MissingNames(values, string(target.Secrets.Template)) {
			if !slices.Contains(unknown, name) && !strings.ContainsAny(name, "\"\\") {
				unknown = append(unknown, name)
			}
		}
	}
	return unknown
}
