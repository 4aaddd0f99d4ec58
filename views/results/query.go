package results

import (
	"cmp"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"wending/db"
	"wending/db/measure"
	"wending/db/report"
	"wending/db/review"
	"wending/views/paths"
	"wending/views/ui"
)

// Query selects and orders the questions of a report.
type Query struct {
	// Filter is one of Filters, Review is one of ReviewFilters, and Sort is one of Sorts.
	Filter, Review, Sort, Search string
	// Reason keeps questions with a verdict for that reason; empty matches any.
	Reason string
	// By keeps questions with a verdict of that reviewer; if Review is not empty, the verdict must be that one.
	// AssignedTo keeps questions that are assigned to that reviewer. Empty matches any.
	By, AssignedTo string
	// FinishReason and ErrorCode keep questions with a run that ended with that reason and that code; empty matches any.
	FinishReason, ErrorCode string
	// Series names the conversation whose turns are selected; empty means all questions.
	Series string
	// Variant is the number of the variant whose runs are considered; 0 means all.
	Variant int
	// Slice holds the parameters that narrow questions by columns of the dataset and by measurements of runs:
	// column.<name>, min_latency_ms …
	Slice url.Values
	// Sample is the id of the random sample whose questions are selected; nil means all questions.
	Sample *uuid.UUID
	// IsPartial selects the questions that are finished before the first launch has ended.
	IsPartial bool
}

// Values returns the query's parameters.
func (q Query) Values() url.Values {
	values := url.Values{}
	for name, value := range map[string]string{"filter": q.Filter, "review": q.Review, "reason": q.Reason,
		"reviewer": q.By, "assigned": q.AssignedTo,
		"sort": q.sortParameter(), "search": q.Search, "series": q.Series,
		"finish_reason": q.FinishReason, "error_code": q.ErrorCode} {
		if value != "" {
			values.Set(name, value)
		}
	}
	for name, chosen := range q.Slice {
		values[name] = chosen
	}
	if q.Variant != 0 {
		values.Set("variant", strconv.Itoa(q.Variant))
	}
	if q.Sample != nil {
		values.Set("sample", q.Sample.String())
	}
	if q.IsPartial {
		values.Set("partial", "1")
	}
	return values
}

// AnswersHref returns the address of a task's answers, of all variants if variant is 0.
func AnswersHref(task uuid.UUID, variant int, filter, sort string) string {
	return paths.WithQuery(paths.Results(task), Query{Variant: variant, Filter: filter, Sort: sort}.Values())
}

// MetricHref returns the address of the answers behind a metric's value, the worst first: for a share only those that
// lower it, otherwise all.
func MetricHref(task uuid.UUID, variant int, metric measure.Metric, value float64) string {
	filter, sort := "", ""
	switch metric {
	case measure.MetricAgreement:
		sort = sortAgreement
	case measure.MetricMeaning:
		filter = FilterMeaningDifferent
	case measure.MetricLatency:
		sort = sortLatency
	case measure.MetricPassRate:
		filter = FilterUnpassed
	case measure.MetricSuccessRate:
		filter = FilterFailed
	}
	if value == 1 {
		filter = ""
	}
	return AnswersHref(task, variant, filter, sort)
}

// Absent returns the name of a parameter whose value does not occur in the report: a code with which no run failed, a
// reason that no verdict has, a conversation of another task. It is empty if all values occur.
func (r Report) Absent() string {
	switch {
	case r.ErrorCode != "" && r.Variant == 0 && !slices.Contains(r.outcomes(func(one report.Outcome) string {
		return one.ErrorCode
	}), r.ErrorCode):
		return "error_code"
	case r.Reason != "" && !slices.Contains(review.Reasons, r.Reason) &&
		!slices.ContainsFunc(review.CountReasons(r.Reviews), func(one review.ReasonCount) bool {
			return one.Reason == r.Reason
		}):
		return "reason"
	case r.By != "" && !r.hasReviewer(r.By):
		return "reviewer"
	case r.AssignedTo != "" && !r.hasReviewer(r.AssignedTo):
		return "assigned"
	case r.Series != "" && r.turns(r.Series) == 0:
		return "series"
	case r.Query.Sample != nil && r.Drawn == nil:
		return "sample"
	}
	return ""
}

func (r Report) hasReviewer(name string) bool {
	return slices.ContainsFunc(r.Tallies(), func(one review.Tally) bool { return one.Name == name })
}

// sortParameter returns the order for an address, which omits the default order.
func (q Query) sortParameter() string {
	if q.Sort == DefaultSort {
		return ""
	}
	return q.Sort
}

// Filters by the answers.
const (
	// FilterUnstable keeps questions with several answers.
	FilterUnstable = "unstable"
	// FilterFailed keeps questions with runs that have no answer.
	FilterFailed = "failed"
	// FilterUnpassed keeps questions with runs that were judged and did not pass.
	FilterUnpassed = "unpassed"
	// FilterUnrated keeps questions with an answer that a judge could not rate.
	FilterUnrated = "unrated"
	// FilterMissing keeps questions with planned runs that did not take place.
	FilterMissing = "missing"
	// FilterUnsettled keeps questions whose most common answer could still change with more runs.
	FilterUnsettled = "unsettled"
	// FilterSame keeps questions whose answers have the same content: identical, or different only in format.
	FilterSame = "same"
	// FilterMeaningSame and FilterMeaningDifferent keep questions whose answers all say the same thing, or do not;
	// FilterMeaningUnsure keeps those where this is not certain.
	FilterMeaningSame      = "meaning-same"
	FilterMeaningDifferent = "meaning-different"
	FilterMeaningUnsure    = "meaning-unsure"
	// filterAgreement begins the filters for single bars of the distribution of agreement.
	filterAgreement = "agreement-"
)

// AgreementBars are the lower ends of the bars that show the distribution of agreement, in percent: five bars of 20
// percentage points, and one for complete agreement.
var AgreementBars = [...]int{0, 20, 40, 60, 80, 100}

// AgreementBar returns the index of the bar to which an agreement, from 0 to 1, belongs.
func AgreementBar(agreement float64) int {
	return min(int(agreement*5+1e-9), len(AgreementBars)-1)
}

// FilterBar returns the filter that keeps the questions of a bar.
func FilterBar(bar int) string { return filterAgreement + strconv.Itoa(bar) }

// unpassedBy returns a filter like FilterUnpassed, for the verdicts of a single evaluator.
func unpassedBy(evaluator db.Evaluator) string {
	return FilterUnpassed + "-" + strconv.Itoa(evaluator.Number)
}

// Filters returns the names of the filters of a task's report; the empty name shows all questions.
func Filters(task db.Task) []string {
	filters := []string{"", FilterUnstable, FilterFailed, FilterUnpassed}
	if len(task.Evaluators) > 1 {
		for _, evaluator := range task.Evaluators {
			filters = append(filters, unpassedBy(evaluator))
		}
	}
	for _, level := range measure.ByRisk {
		filters = append(filters, string(level))
	}
	if len(task.Evaluators) > 0 {
		filters = append(filters, FilterUnrated)
	}
	for _, evaluator := range task.Evaluators {
		filters = append(filters, besidePeople(evaluator)...)
	}
	filters = append(filters, FilterMissing, FilterSame, FilterUnsettled)
	if task.Grouper() != nil {
		filters = append(filters, FilterMeaningSame, FilterMeaningDifferent, FilterMeaningUnsure)
	}
	for bar := range AgreementBars {
		filters = append(filters, FilterBar(bar))
	}
	return filters
}

// Filters by people's verdicts.
const (
	// ReviewOpen keeps questions without a verdict.
	ReviewOpen = "open"
	reviewMine = "mine"
	// ReviewFailed keeps questions that people failed.
	ReviewFailed = string(review.Fail)
	// ReviewDisagree keeps questions on which people's verdicts differ.
	ReviewDisagree = "disagree"
)

// ReviewFilters returns the names of the filters by people's verdicts on questions; the empty name shows all questions.
func ReviewFilters(task db.Task) []string {
	filters := []string{"", ReviewOpen, reviewMine}
	for _, verdict := range review.Verdicts {
		filters = append(filters, string(verdict))
	}
	if task.ReviewersPerItem != nil {
		filters = append(filters, string(review.Others), string(review.Done))
	}
	return append(filters, ReviewDisagree)
}

// Orders of questions.
const (
	// SortNumber orders by the questions' numbers.
	SortNumber = "number"
	// DefaultSort orders by risk: the questions that a reader should see first come first.
	DefaultSort   = "risk"
	sortAgreement = "agreement"
	sortLatency   = "-latency"
	sortLength    = "-length"
	sortPassed    = "passed"
	sortScore     = "score"
)

// Sorts lists the names of the orders.
var Sorts = []string{DefaultSort, SortNumber, sortAgreement, sortPassed, sortScore, sortLatency, sortLength}

// runsCounted returns the number of runs of each question that the query considers: the runs of one variant, or of all.
func (r Report) runsCounted() int {
	if r.Variant != 0 {
		return r.Task.RunsPerItem
	}
	return r.Task.RunsOfItem()
}

// NeedsMeasures reports whether the order needs data that is slow to read: the latencies and lengths of answers.
func (q Query) NeedsMeasures() bool { return q.Sort == sortLatency || q.Sort == sortLength }

// Opinion sums up the verdicts on a question: the verdict if all agree, or else that they disagree or that there is
// none.
func Opinion(verdicts []review.Review) string {
	if len(verdicts) == 0 {
		return ReviewOpen
	}
	for _, one := range verdicts {
		if one.Verdict != verdicts[0].Verdict {
			return ReviewDisagree
		}
	}
	return string(verdicts[0].Verdict)
}

// IsTurnOf reports whether a question waits for a reviewer's verdict: it is assigned to the reviewer, or it is assigned
// to nobody and its review is not complete.
func (r Report) IsTurnOf(item report.Summary, reviewer string) bool {
	turns := r.Turns[item.ID]
	if len(turns) > 0 && !slices.Contains(turns, reviewer) || len(turns) == 0 && r.stateOf(item) == review.Done {
		return false
	}
	return !slices.ContainsFunc(r.Reviews[item.QuestionID], func(one review.Review) bool {
		return one.Reviewer == reviewer
	})
}

// stateOf returns the state of a question's review; empty if the task does not say how many verdicts complete it.
func (r Report) stateOf(item report.Summary) review.State {
	if r.Task.ReviewersPerItem == nil {
		return ""
	}
	return review.StateOf(r.Reviews[item.QuestionID], *r.Task.ReviewersPerItem)
}

func (r Report) passesFilter(item report.Summary, filter string) bool {
	switch filter {
	case "":
		return true
	case FilterUnstable:
		return item.IsUnstable()
	case FilterFailed:
		return item.Failures > 0
	case FilterUnpassed:
		return item.Passes < item.Judged
	case FilterUnrated:
		return r.Unrated[item.ID]
	case FilterMissing:
		return item.Runs < item.Planned
	case FilterUnsettled:
		return r.isUnsettled(item)
	case FilterSame:
		return item.Level != nil && (*item.Level == measure.Identical || *item.Level == measure.FormatOnly)
	}
	if strings.HasPrefix(filter, ui.FilterPeople) {
		return len(r.Compared[filter][item.ID]) > 0
	}
	if isMeaningFilter(filter) {
		return passesMeaning(item, filter)
	}
	if bar, isOf := strings.CutPrefix(filter, filterAgreement); isOf {
		return item.Agreement != nil && strconv.Itoa(AgreementBar(*item.Agreement)) == bar
	}
	if number, isOf := strings.CutPrefix(filter, FilterUnpassed+"-"); isOf {
		return r.Unpassed[number][item.ID]
	}
	level := measure.Unknown
	if item.Level != nil {
		level = *item.Level
	}
	return string(level) == filter
}

// passesOutcome reports whether one of an item's runs ended as the query requires.
func (r Report) passesOutcome(item report.Summary, query Query) bool {
	if query.FinishReason == "" && query.ErrorCode == "" {
		return true
	}
	return slices.ContainsFunc(r.Outcomes[item.ID], func(one report.Outcome) bool {
		return (query.FinishReason == "" || one.FinishReason == query.FinishReason) &&
			(query.ErrorCode == "" || one.ErrorCode == query.ErrorCode)
	})
}

func (r Report) passesReview(item report.Summary, query Query) bool {
	if query.AssignedTo != "" && !slices.Contains(r.Turns[item.ID], query.AssignedTo) {
		return false
	}
	verdicts := r.Reviews[item.QuestionID]
	if query.By != "" {
		return slices.ContainsFunc(verdicts, func(one review.Review) bool {
			return one.Reviewer == query.By && (query.Review == "" || string(one.Verdict) == query.Review)
		})
	}
	switch query.Review {
	case "":
		return true
	case reviewMine:
		return r.IsTurnOf(item, r.Reviewer)
	case string(review.Others), string(review.Done):
		return string(r.stateOf(item)) == query.Review
	}
	return Opinion(verdicts) == query.Review
}

func (r Report) passesReason(item report.Summary, reason string) bool {
	return reason == "" || slices.ContainsFunc(r.Reviews[item.QuestionID], func(one review.Review) bool {
		return slices.Contains(one.Reasons, reason)
	})
}

// isPartOf reports whether an item belongs to the slice, the conversation and the random sample that a query names.
func (r Report) isPartOf(item report.Summary, query Query) bool {
	if len(query.Slice) > 0 && !r.Sliced[item.ID] {
		return false
	}
	if query.Series != "" && (item.Series == nil || *item.Series != query.Series) {
		return false
	}
	_, isDrawn := r.DrawnRun(item.ID)
	return isDrawn || query.Sample == nil
}

// Shown returns the questions that a query selects, in its order.
func (r Report) Shown(query Query) (shown []report.Summary) {
	for _, item := range r.All {
		if r.isPartOf(item, query) && item.Matches && (item.Level != nil || !query.IsPartial) &&
			r.passesFilter(item, query.Filter) && r.passesOutcome(item, query) &&
			r.passesReview(item, query) && r.passesReason(item, query.Reason) {
			shown = append(shown, item)
		}
	}
	switch query.Sort {
	case DefaultSort:
		slices.SortStableFunc(shown, func(a, b report.Summary) int { return compareKnown(a.Risk, b.Risk) })
	case sortAgreement:
		slices.SortStableFunc(shown, func(a, b report.Summary) int { return compareKnown(a.Agreement, b.Agreement) })
	case sortPassed:
		slices.SortStableFunc(shown, func(a, b report.Summary) int { return compareKnown(passShare(a), passShare(b)) })
	case sortScore:
		slices.SortStableFunc(shown, func(a, b report.Summary) int { return compareKnown(a.Score, b.Score) })
	case sortLatency:
		slices.SortStableFunc(shown, func(a, b report.Summary) int {
			return compareKnown(negative(a.LatencyMS), negative(b.LatencyMS))
		})
	case sortLength:
		slices.SortStableFunc(shown, func(a, b report.Summary) int { return cmp.Compare(b.Bytes, a.Bytes) })
	}
	return shown
}

// passShare returns the share of an item's judged runs that passed; nil if none is judged.
func passShare(item report.Summary) *float64 {
	return measure.Judged{Judged: item.Judged, Passes: item.Passes}.Share()
}

// compareKnown compares two numbers for sorting; unknown ones come last.
func compareKnown(a, b *float64) int {
	switch {
	case a == nil && b == nil:
		return 0
	case a == nil:
		return 1
	case b == nil:
		return -1
	}
	return cmp.Compare(*a, *b)
}

func negative(number *float64) *float64 {
	if number == nil {
		return nil
	}
	negated := -*number
	return &negated
}

// count returns how many questions would be shown after a choice in the bar, with the other choices unchanged.
func (r Report) count(change func(*Query)) int {
	query := r.Query
	query.Sort = ""
	change(&query)
	return len(r.Shown(query))
}

// countOf returns how many of all questions the filter and the review state of a query select.
func (r Report) countOf(query Query) (count int) {
	for _, item := range r.All {
		if r.passesFilter(item, query.Filter) && r.passesReview(item, query) {
			count++
		}
	}
	return count
}

// href returns the address of a page of the report with a query.
func (r Report) href(query Query, page int) string {
	values := query.Values()
	if size := r.Pager.Query.Get("page_size"); size != "" { // other than the default
		values.Set("page_size", size)
	}
	if page > 1 {
		values.Set("page", strconv.Itoa(page))
	}
	return paths.WithQuery(paths.Results(r.Task.ID), values)
}

// changed returns the address of the same page with one choice changed; the browser will remember that choice.
func (r Report) changed(name, value string) string {
	here := r.href(r.Query, r.Pager.Page)
	separator := "?"
	if strings.Contains(here, "?") {
		separator = "&"
	}
	return here + separator + url.Values{name: {value}}.Encode()
}

// mapHref returns the address of a question on its page of the report. For a question that the query leaves out, the
// address has no query.
func (r Report) mapHref(item report.Summary) string {
	query, place := Query{IsPartial: r.IsPartial}, item.Number-1
	if n, isShown := r.Places[item.ID]; isShown {
		query, place = r.Query, n
	}
	return r.href(query, place/r.Pager.Size+1) + "#" + paths.ItemID(item.ID)
}
