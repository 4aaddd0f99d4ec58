package summary

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/shopspring/decimal"

	"wending/db/measure"
	"wending/db/report"
	"wending/jobs/cron"
	"wending/views/paths"
	"wending/views/results"
	"wending/views/text"
)

// name returns a variant's number and name. A task's only variant has no number, and that of a plain task has the
// task's name.
func (s Summary) name(row report.VariantStatistics) string {
	if len(s.Numbers) == 1 {
		if row.Name != "" {
			return row.Name
		}
		return s.Task.Name
	}
	return strconv.Itoa(row.Number) + " " + row.Name
}

// short returns a variant's name for places with little space.
func (s Summary) short(locale text.Locale, row report.VariantStatistics) string {
	if len(s.Numbers) == 1 {
		return locale.Text("summary.count")
	}
	return strconv.Itoa(row.Number)
}

// compared returns the sentence about what was compared.
func (s Summary) compared(locale text.Locale) string {
	key := "summary.compared"
	if s.Task.TotalVariants > 1 {
		key = "summary.compared.variants"
	}
	sentence := locale.Text(key, "Variants", s.Task.TotalVariants, "Questions", s.Task.TotalItems,
		"Runs", s.Task.RunsPerItem, "Calls", text.Number(s.Task.TotalRuns()))
	if s.Task.CompletedAt != nil {
		sentence += locale.Text("summary.at", "Time", cron.BeijingSecond(*s.Task.CompletedAt))
	}
	return sentence + s.clustered(locale) + s.settled(locale)
}

// settled returns the clause on the settled questions of an adaptive task: their number, their runs, and the calls
// saved; empty for other tasks.
func (s Summary) settled(locale text.Locale) string {
	if s.Task.Adaptive == nil || len(s.Numbers) == 0 || s.Numbers[0].Settled == nil {
		return ""
	}
	settled, after := 0, map[int]int{}
	for _, row := range s.Numbers {
		if row.Settled != nil {
			settled += *row.Settled
		}
		for runs, count := range row.SettledAfter {
			after[runs] += count
		}
	}
	var parts []string
	for _, runs := range slices.Sorted(maps.Keys(after)) {
		parts = append(parts, locale.Text("summary.settled.after", "Questions", after[runs], "Runs", runs))
	}
	all := s.Task.TotalItems * s.Task.TotalVariants
	key := "summary.settled.none"
	if settled > 0 {
		key = "summary.settled"
	}
	return locale.Text(key, "Settled", strings.Join(parts, locale.Text("word.list")), "Open", all-settled,
		"Most", s.Task.Adaptive.MaxRuns, "Saved", text.Number(max(0, all*s.Task.Adaptive.MaxRuns-s.Task.TotalRuns())))
}

// clustered returns the clause that names the clusters over which intervals are computed; empty if questions are
// independent.
func (s Summary) clustered(locale text.Locale) string {
	if len(s.Numbers) == 0 || s.Numbers[0].Clusters == s.Numbers[0].Items {
		return ""
	}
	if column := s.Task.ClusterBy; column != nil && s.Numbers[0].Clusters == 1 {
		return locale.Text("summary.clusters.one", "Column", *column)
	} else if column != nil {
		return locale.Text("summary.clusters.column", "Column", *column, "Clusters", s.Numbers[0].Clusters)
	}
	return locale.Text("summary.clusters.conversations", "Clusters", s.Numbers[0].Clusters, "Turns", s.Numbers[0].Items)
}

// told are the measures that sentences mention: the ones that decisions are based on. The other measures express the
// same results in other ways.
var told = map[string]bool{
	"pass": true, "success": true, "agreement": true, meaningMeasure: true, "latency": true, "cost": true,
}

func (s Summary) measures() (list []Measure) {
	for _, measure := range MeasuresOf(s.Verdicts != nil, s.Task.Grouper() != nil) {
		if told[measure.Name] {
			list = append(list, measure)
		}
	}
	return list
}

// measureName returns the name of a measure in a sentence: latencies are compared by their means.
func measureName(locale text.Locale, name string) string {
	if name == "pass" || name == "latency" || name == "success" {
		return locale.Text("compare.measure." + name)
	}
	return locale.Text("variants.measure." + name)
}

// said returns the sentences that the data support.
func (s Summary) said(locale text.Locale) (said []sentence) {
	if len(s.Numbers) == 1 {
		return append(s.saidOfOne(locale, s.Numbers[0]), s.reliability(locale)...)
	}
	add := func(measure, text string) { said = append(said, sentence{text, paths.VariantsBy(s.Task.ID, measure)}) }
	for _, measure := range s.measures() {
		ranking, isKnown := s.Rankings[measure.Name]
		if isKnown && len(ranking.Each) > 0 {
			add(measure.Name, locale.Text("summary.each", "Measure", measureName(locale, measure.Name),
				"Variant", s.name(s.Numbers[ranking.Leader]),
				"Worse", s.listed(locale, ranking.Each))+s.leadOfEach(locale, measure.Name))
		}
		if isKnown && len(ranking.Worse)+len(ranking.Each) == 0 && len(ranking.Slight) > 0 {
			add(measure.Name, locale.Text("summary.slight", "Measure", measureName(locale, measure.Name),
				"Variant", s.name(s.Numbers[ranking.Leader]),
				"Slight", s.listed(locale, ranking.Slight))+s.lead(locale, measure.Name))
		}
		if !isKnown || len(ranking.Worse) == 0 {
			continue
		}
		key := "summary.best"
		alike := s.listed(locale, slices.Concat(ranking.Slight, ranking.Alike))
		switch {
		case len(ranking.Tied) > 0 && len(ranking.Tied) == len(ranking.Alike) && len(ranking.Slight) == 0:
			key, alike = "summary.tied", s.listed(locale, append([]int{ranking.Leader}, ranking.Tied...))
		case len(ranking.Alike)+len(ranking.Slight) > 0:
			key = "summary.leads"
		case len(ranking.Each)+len(ranking.Unknown) > 0:
			key = "summary.above"
		}
		add(measure.Name, locale.Text(key, "Measure", measureName(locale, measure.Name),
			"Variant", s.name(s.Numbers[ranking.Leader]),
			"Worse", s.listed(locale, ranking.Worse), "Alike", alike)+s.lead(locale, measure.Name))
	}
	for _, price := range s.price(locale) {
		said = append(said, sentence{text: price})
	}
	return append(said, s.reliability(locale)...)
}

// reliability returns the sentence about how far the model that groups answers agrees with people, if people have
// grouped some of them.
func (s Summary) reliability(locale text.Locale) []sentence {
	of := s.Reliability
	if of.Questions == 0 {
		return nil
	}
	return []sentence{{text: locale.Text("summary.reliability", "Questions", of.Questions, "Unchanged", of.Unchanged,
		"Pairs", text.Number(of.Pairs), "Rate", text.Percent(of.Agreement), "F1", text.Percent(of.F1))}}
}

// leadOfEach returns a sentence about the leader's lead; empty if another sentence already states it.
func (s Summary) leadOfEach(locale text.Locale, name string) string {
	ranking := s.Rankings[name]
	if lead := s.Leads[name]; lead == nil || len(ranking.Worse) > 0 || !slices.Contains(ranking.Each, lead.Over) {
		return ""
	}
	return s.lead(locale, name)
}

// lead returns the sentence on how far the leader of a measure is ahead of the runner-up; empty if the leader is not
// ahead, or if its lead is unknown.
func (s Summary) lead(locale text.Locale, name string) string {
	lead := s.Leads[name]
	if lead == nil {
		return ""
	}
	isAmount := name == "latency" || name == "cost"
	digits := func(difference float64) string {
		switch name {
		case "latency":
			return strconv.FormatFloat(difference, 'f', decimalsOf(difference), 64)
		case "cost":
			return text.Significant(difference, 3)
		}
		return strconv.FormatFloat(100*difference, 'f', 1, 64)
	}
	write := func(difference float64) string {
		written := digits(difference)
		switch name {
		case "latency":
			return locale.Text("summary.lead.ms", "N", written)
		case "cost":
			return text.Cost(&written, s.Numbers[lead.Over].Currency)
		}
		return locale.Text("compare.points", "Points", written)
	}
	key, sign := "summary.lead.higher", 1.0
	if isAmount { // less is better
		key, sign = "summary.lead.lower", -1
	}
	if sign**lead.Change.Mean <= 0 { // on the questions that both answered, the leader is not ahead
		return ""
	}
	said := locale.Text(key, "Next", s.Numbers[lead.Over].Number, "Difference", write(sign**lead.Change.Mean))
	if lead.Change.Low != nil {
		ends := []float64{sign * *lead.Change.Low, sign * *lead.Change.High}
		slices.Sort(ends)
		said += locale.Text("summary.lead.interval", "Low", digits(ends[0]), "High", write(ends[1]))
	}
	limit := measure.OfShares
	if isAmount {
		limit = measure.OfAmounts
	}
	if s.Matters.IsSmall(lead.Change, limit) {
		said += locale.Text("summary.lead.small", "Limit", LimitText(locale, s.Matters, limit))
	}
	return said
}

// LimitText returns the smallest difference that matters, in words.
func LimitText(locale text.Locale, matters measure.Matters, limit measure.Limit) string {
	if limit == measure.OfAmounts {
		return text.Significant(100*matters.Part, 3) + "%"
	}
	return locale.Text("compare.points", "Points", text.Significant(100*matters.Share, 3))
}

// decimalsOf returns the number of decimals for a number of milliseconds: only small numbers have any.
func decimalsOf(ms float64) int {
	if math.Abs(ms) < 10 {
		return 1
	}
	return 0
}

// price returns the sentence on the cost and latency of the variant with the best pass rate, compared with the
// runner-up; nil if they are not known for both.
func (s Summary) price(locale text.Locale) []string {
	ranking, lead := s.Rankings["pass"], s.Leads["pass"]
	if lead == nil || len(ranking.Worse)+len(ranking.Each) == 0 {
		return nil
	}
	leader, next := s.Numbers[ranking.Leader], s.Numbers[lead.Over]
	var parts []string
	add := func(key string, own, other float64, write func(float64) string) {
		if own > 0 && other > 0 {
			parts = append(parts, locale.Text(key, "Own", write(own), "Other", write(other),
				"Times", text.Significant(own/other, 2)))
		}
	}
	if leader.Currency != nil && next.Currency != nil && *leader.Currency == *next.Currency {
		add("summary.price.cost", leader.CostOfRun(), next.CostOfRun(), func(amount float64) string {
			digits := text.Significant(amount, 3)
			return text.Cost(&digits, leader.Currency)
		})
	}
	if leader.LatencyAvg != nil && next.LatencyAvg != nil {
		add("summary.price.latency", *leader.LatencyAvg, *next.LatencyAvg, func(ms float64) string {
			return text.Millis(&ms)
		})
	}
	if len(parts) == 0 {
		return nil
	}
	return []string{locale.Text("summary.price", "Variant", leader.Number, "Next", next.Number,
		"Parts", strings.Join(parts, locale.Text("summary.price.and")))}
}

// listed returns the numbers of variants as text; places are their positions in Numbers.
func (s Summary) listed(locale text.Locale, places []int) string {
	numbers := make([]string, len(places))
	for n, place := range places {
		numbers[n] = strconv.Itoa(s.Numbers[place].Number)
	}
	return locale.Text("summary.listed", "Count", len(numbers),
		"Numbers", strings.Join(numbers, locale.Text("word.list")))
}

func (s Summary) saidOfOne(locale text.Locale, row report.VariantStatistics) (said []sentence) {
	if verdicts := s.Verdicts[row.Number]; verdicts.PassRate != nil {
		passed := locale.Text("summary.passed",
			"Rate", intervalText(locale, verdicts.PassRate, verdicts.PassInterval), "Passed", text.Number(verdicts.PassCount),
			"Judged", text.Number(verdicts.Judged))
		said = append(said, sentence{passed, s.resultsHref(row.Number, UnpassedFilter(verdicts), "")})
	}
	if row.Agreement != nil {
		said = append(said, sentence{
			locale.Text("summary.agreement", "Rate", intervalText(locale, row.Agreement, s.Agreements[row.Number].Share())),
			s.resultsHref(row.Number, "", "agreement"),
		})
	}
	if row.MeaningAgreement != nil {
		said = append(said, sentence{
			locale.Text("summary.meaning", "Rate", text.Percent(row.MeaningAgreement), "Items", text.Number(row.MeaningItems)),
			s.resultsHref(row.Number, results.FilterMeaningDifferent, ""),
		})
	}
	if row.IdenticalRate != nil {
		said = append(said, sentence{
			locale.Text("summary.identical", "Rate", text.Percent(row.IdenticalRate)),
			s.resultsHref(row.Number, results.FilterBar(len(results.AgreementBars)-1), ""),
		})
	}
	return said
}

// sentence is a sentence of the report, with the address of what it counts; href is empty if there is none.
type sentence struct{ text, href string }

// textsOf returns the texts of sentences without their addresses, for readers who cannot follow links.
func textsOf(sentences []sentence) (texts []string) {
	for _, one := range sentences {
		texts = append(texts, one.text)
	}
	return texts
}

// unsaid returns the sentences on what the data do not show.
func (s Summary) unsaid(locale text.Locale) (unsaid []sentence) {
	var open []string
	if len(s.Numbers) > 1 {
		for _, measure := range s.measures() {
			if s.Rankings[measure.Name].ShowsNone() { // a measure that is unknown for all variants has no ranking
				open = append(open, measureName(locale, measure.Name))
			}
		}
	}
	if len(open) > 0 {
		unsaid = append(unsaid, sentence{text: locale.Text("summary.nobest",
			"Measures", strings.Join(open, locale.Text("word.list")))})
	}
	// Adaptive runs continue until a question is settled.
	if proved := measure.ProvedShare(s.Task.RunsPerItem); s.Task.RunsPerItem > 1 && s.Task.Adaptive == nil {
		unsaid = append(unsaid, sentence{
			locale.Text("summary.proved", "Runs", s.Task.RunsPerItem, "Percent", text.Percent(&proved)),
			s.queryHref(0, results.Query{Filter: results.FilterUnsettled}),
		})
	}
	if seldom := s.Rankings["latency"].Seldom; len(seldom) > 0 {
		unsaid = append(unsaid, sentence{text: locale.Text("summary.seldom", "Variants", s.listed(locale, seldom))})
	}
	failures, missing, faults, unjudged := 0, 0, 0, 0
	for _, row := range s.Numbers {
		failures, missing = failures+row.Failed+row.TimedOut, missing+row.Missing
		if verdicts, isJudged := s.Verdicts[row.Number]; isJudged {
			faults, unjudged = faults+verdicts.Errors, unjudged+row.Succeeded-verdicts.Judged
		}
	}
	for _, one := range []struct {
		key, filter string
		count       int
	}{{"summary.failures", results.FilterFailed, failures}, {"summary.missing", "", missing},
		{"summary.faults", results.FilterUnrated, faults}, {"summary.unjudged", results.FilterUnrated, unjudged}} {
		if one.count > 0 {
			said := sentence{text: locale.Text(one.key, "Count", one.count)}
			if one.filter != "" {
				said.href = s.queryHref(0, results.Query{Filter: one.filter})
			}
			unsaid = append(unsaid, said)
		}
	}
	return unsaid
}

// worstHref returns the address of the questions, the worst first.
func (s Summary) worstHref() string {
	if s.Verdicts != nil {
		return s.queryHref(0, results.Query{Sort: "passed"})
	}
	return s.queryHref(0, results.Query{Sort: "agreement"})
}

func (s Summary) worstTitle() string {
	if len(s.Numbers) > 1 {
		return "summary.worst." + s.mainFigure() + ".mean"
	}
	return "summary.worst." + s.mainFigure()
}

// methods returns the names of the metrics whose method is explained.
func (s Summary) methods() []string {
	methods := []string{"agreement", "interval"}
	if s.Verdicts != nil {
		methods = append([]string{"pass"}, methods...)
	}
	if len(s.Numbers) > 1 {
		methods = append(methods, "paired")
	}
	return append(methods, "latency", "cost")
}

// Lines returns the report as a few lines of text: the main result, what was compared, which conclusions the data
// support, and which they do not.
func (s Summary) Lines(locale text.Locale) []string {
	return slices.Concat(s.decided(locale), []string{s.compared(locale)}, textsOf(s.said(locale)), s.rated(locale),
		textsOf(s.unsaid(locale)))
}

// rated returns the mean ratings of each judge, a line for each variant.
func (s Summary) rated(locale text.Locale) (lines []string) {
	for _, judge := range s.Judges {
		for _, row := range s.Numbers {
			of := judge.Variants[row.Number]
			parts := make([]string, 0, len(judge.Dimensions))
			for _, dimension := range judge.Dimensions {
				parts = append(parts, dimension+" "+ratingText(of.Ratings[dimension].Mean))
			}
			lines = append(lines, locale.Text("summary.rated", "Name", judge.Name, "Variant", s.name(row),
				"Ratings", strings.Join(parts, " · "), "Defaults", of.Defaults))
		}
	}
	return lines
}

// resultsHref returns the address of the report with one variant's runs.
func (s Summary) resultsHref(variant int, filter, sort string) string {
	return s.queryHref(variant, results.Query{Filter: filter, Sort: sort})
}

// queryHref returns the address of the questions of one variant that match a query.
func (s Summary) queryHref(variant int, query results.Query) string {
	if len(s.Numbers) > 1 {
		query.Variant = variant
	}
	return paths.WithQuery(paths.Results(s.Task.ID), query.Values())
}

// hasTruncated reports whether an answer was cut off at its maximum length.
func (s Summary) hasTruncated() bool {
	return slices.ContainsFunc(s.Numbers, func(row report.VariantStatistics) bool { return row.Truncated > 0 })
}

// costOfPass returns the average cost of a run that passed: the variant's total cost divided by its passes.
func costOfPass(row report.VariantStatistics, verdicts measure.Statistics) string {
	if row.Cost == nil || verdicts.PassCount == 0 {
		return "–"
	}
	cost, err := decimal.NewFromString(*row.Cost)
	if err != nil {
		return "–"
	}
	one := cost.DivRound(decimal.NewFromInt(int64(verdicts.PassCount)), 6).String()
	if row.Currency != nil {
		one += " " + *row.Currency
	}
	return one
}

// WorstMost is the maximum number of the worst questions that are listed.
const WorstMost = 10
