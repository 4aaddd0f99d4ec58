package tasks

import (
	"context"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/shopspring/decimal"

	"wending/db"
	"wending/db/monitor"
	"wending/db/report"
	"wending/jobs/prompt"
)

// Estimate is what a task will take, as far as earlier runs of its targets tell.
type Estimate struct {
	Calls    int
	Variants []db.Variant
	// Duration is nil where no rate limit holds and nothing is known of a target's calls.
	Duration *time.Duration
	// Cost is nil where tokens or prices are unknown, or currencies differ.
	Cost     *decimal.Decimal
	Currency string
	// IsUnpriced reports that the cost is unknown because a target has no prices.
	IsUnpriced bool
	Warnings   []Warning
}

// Warning is something that a user should know before the start.
type Warning struct {
	// Code is one of the constants below; Names are what it is about.
	Code  string
	Names []string
}

// The codes of warnings.
const (
	WarnUnknownVariables = "UNKNOWN_VARIABLES"
	WarnPriceMissing     = "PRICE_MISSING"
	WarnTestFailed       = "TEST_FAILED"
	WarnCurrenciesDiffer = "CURRENCIES_DIFFER"
)

// WarningCodes are all of them.
var WarningCodes = []string{WarnUnknownVariables, WarnPriceMissing, WarnTestFailed, WarnCurrenciesDiffer}

// estimatedPlaces is to how many decimal places a cost is estimated.
const estimatedPlaces = 12

// Estimate says what a task would take and what is to be known before its start. It creates nothing.
func (s *Service) Estimate(ctx context.Context, n New) (Estimate, error) {
	targets := n.AllTargets()
	e := Estimate{Calls: n.Calls(), Variants: n.AllVariants(), Warnings: []Warning{}}
	callsOf := 0
	if len(targets) > 0 {
		callsOf = e.Calls / len(targets)
	}
	if err := s.estimate(ctx, n, targets, callsOf, &e); err != nil {
		return e, err
	}
	if unknown := n.unknownVariables(); len(unknown) > 0 {
		e.Warnings = append(e.Warnings, Warning{WarnUnknownVariables, unknown})
	}
	if len(n.Untested) > 0 {
		e.Warnings = append(e.Warnings, Warning{WarnTestFailed, n.Untested})
	}
	return e, nil
}

// estimate adds up time and cost of the targets, each of which is called so often.
func (s *Service) estimate(ctx context.Context, n New, targets []NewTarget, calls int, e *Estimate) error {
	var work time.Duration // of all lanes together
	intervals, loads := map[string]time.Duration{}, map[string]int{}
	isTimeKnown, cost, isCostKnown := len(targets) > 0, decimal.Zero, len(targets) > 0
	var unpriced, currencies []string
	for _, target := range targets {
		address, err := url.Parse(target.Secrets.URL)
		if err != nil {
			return err
		}
		interval, _, err := s.CallInterval(target.RateLimit)
		if err != nil {
			return err
		}
		origin := Origin(address)
		intervals[origin], loads[origin] = max(intervals[origin], interval), loads[origin]+calls
		past := report.Past{}
		if target.LibraryID != nil {
			if past, err = report.New(s.Store).Past(ctx, *target.LibraryID); err != nil {
				return err
			}
		}
		if past.LatencyMS == nil {
			isTimeKnown = false
		} else {
			work += time.Duration(*past.LatencyMS*float64(calls)) * time.Millisecond
		}
		switch {
		case target.InputPrice == nil || target.OutputPrice == nil:
			isCostKnown, e.IsUnpriced = false, true
			if target.Kind == db.TargetModel {
				unpriced = append(unpriced, target.Name)
			}
		case past.InputTokens == nil || past.OutputTokens == nil:
			isCostKnown = false
		default:
			input, err := decimal.NewFromString(*target.InputPrice)
			if err != nil {
				return err
			}
			output, err := decimal.NewFromString(*target.OutputPrice)
			if err != nil {
				return err
			}
			perCall := input.Mul(decimal.NewFromFloat(*past.InputTokens)).Add(output.Mul(decimal.NewFromFloat(*past.OutputTokens)))
			cost = cost.Add(perCall.Mul(decimal.NewFromInt(int64(calls))).Shift(-6))
		}
		if currency := TextOf(target.Currency); currency != "" && !slices.Contains(currencies, currency) {
			currencies = append(currencies, currency)
		}
	}
	if isTimeKnown {
		lanes, err := s.lanes(ctx, n.Concurrency)
		if err != nil {
			return err
		}
		longest := work / time.Duration(lanes)
		e.Duration = &longest
	}
	for origin, interval := range intervals {
		if limited := interval * time.Duration(loads[origin]); limited > 0 && (e.Duration == nil || limited > *e.Duration) {
			e.Duration = &limited
		}
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

// lanes are how many calls of a task the workers that are there can make at once.
func (s *Service) lanes(ctx context.Context, concurrency int) (int, error) {
	workers, err := monitor.New(s.Store).Workers(ctx)
	if err != nil {
		return 0, err
	}
	lanes := 0
	for _, worker := range workers {
		if worker.IsAlive {
			lanes += worker.Lanes
		}
	}
	if lanes == 0 { // none is there yet
		lanes = concurrency
	}
	return max(1, min(lanes, concurrency)), nil
}

// unknownVariables are the names in the prompts and the targets' templates that no column has.
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
	unknown := prompt.Missing(values, templates...)
	for _, name := range []string{"session_id", "model", "history", "conversation_id"} { // what bodies may hold too
		values[name] = ""
	}
	for _, target := range n.Targets {
		for _, name := range prompt.Missing(values, string(target.Secrets.Template)) {
			if !slices.Contains(unknown, name) && !strings.ContainsAny(name, "\"\\") {
				unknown = append(unknown, name)
			}
		}
	}
	return unknown
}
