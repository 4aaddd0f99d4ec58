package notice

import (
	"context"
	"net/url"
	"slices"
	"strings"
	"time"

	"wending/db"
	"wending/db/engine"
	"wending/db/measure"
	"wending/db/measure/facts"
	"wending/db/outbox"
	"wending/db/report"
	"wending/jobs/courier/notify"
	"wending/jobs/library"
	"wending/views/paths"
	"wending/views/results"
	"wending/views/summary"
	"wending/views/text"
)

// stats are the statistics of a task as a webhook receives them.
type stats struct {
	db.TaskStatistics
	// Statistics sum up the verdicts if the task has one variant and evaluators; otherwise nil.
	*measure.Statistics
	// PassRate and ScoreMean occur in both embedded structs, so encoding/json would leave both out.
	PassRate  *float64       `json:"pass_rate,omitempty"`
	ScoreMean *float64       `json:"score_mean,omitempty"`
	Variants  []variantStats `json:"variants,omitempty"`
}

type variantStats struct {
	Number      int      `json:"number"`
	Name        string   `json:"name"`
	SuccessRate *float64 `json:"success_rate"`
	Agreement   *float64 `json:"agreement"`
	PassRate    *float64 `json:"pass_rate"`
	ScoreMean   *float64 `json:"score_mean"`
	LatencyP50  *float64 `json:"latency_p50_ms"`
	Cost        *string  `json:"cost"`
	Currency    *string  `json:"currency"`
}

// winner is the variant of a comparison that beats every other, as a webhook receives it.
type winner struct {
	Variant    int       `json:"variant"`
	Name       string    `json:"name"`
	RunnerUp   int       `json:"runner_up"`
	Metric     string    `json:"metric"`
	Value      float64   `json:"value"`
	Difference float64   `json:"difference"`
	Interval   []float64 `json:"interval"`
	Adjusted   float64   `json:"p_adjusted"`
}

// ended holds the data that may be reported about a launch that has ended.
type ended struct {
	task       db.Task
	launch     engine.PastLaunch
	statistics db.TaskStatistics
	variants   []report.VariantStatistics
	verdicts   map[int]measure.Statistics
	// winner is nil if the task has one variant, or if the data show no winner by the metric.
	winner *winner
	metric string
	// worse are the questions that got worse since the previous task.
	worse  []library.QuestionChange
	before string
	// changed are the questions whose facts changed since the previous firing; nil if there was no previous firing.
	changed *measure.FactChanges
	// link links words of a value to a path of this site.
	link func(words, path string) []notify.Link
}

// ending returns the message about the end of a launch: the task, its headline numbers, the winning variant, and the
// questions that got worse.
func (w Writer) ending(ctx context.Context, l text.Locale, d outbox.Delivery, task db.Task, data taskData,
	m *notify.Message) error {
	e, err := w.ended(ctx, d, task)
	if err != nil {
		return err
	}
	m.Title = l.Text("notify."+string(d.Event), "Name", task.Name)
	m.Tone = map[outbox.Event]notify.Tone{outbox.Finished: notify.Good, outbox.Failed: notify.Bad,
		outbox.Stopped: notify.Neutral}[d.Event]
	if e.statistics.Succeeded == 0 || e.statistics.Failed+e.statistics.TimedOut > 0 && m.Tone == notify.Good {
		m.Tone = notify.Neutral
	}
	m.Facts = e.facts(l, d.Event)
	if m.Worse = e.worseLines(l); len(m.Worse) > 0 {
		m.WorseTitle, m.Tone = l.Text("notify.worse", "Name", e.before), notify.Bad
	}
	data.Kind, data.Status = e.launch.Kind, e.launch.Status
	worse := []string{}
	for _, line := range m.Worse {
		worse = append(worse, line.Value)
	}
	m.Data = struct {
		taskData
		Stats  stats    `json:"stats"`
		Winner *winner  `json:"winner,omitempty"`
		Worse  []string `json:"worse"`
		// FactsChanged is null if there is no earlier firing.
		FactsChanged *measure.FactChanges `json:"facts_changed"`
	}{data, e.stats(), e.winner, worse, e.changed}
	return nil
}

// ended reads the data for the message.
func (w Writer) ended(ctx context.Context, d outbox.Delivery, task db.Task) (e ended, err error) {
	e.task, e.metric, e.link = task, "agreement", w.link
	if e.launch, err = engine.NewHistory(w.Store).Launch(ctx, task.ID, *d.LaunchID); err != nil {
		return e, err
	}
	if e.statistics, err = w.Store.TaskStatistics(ctx, task); err != nil {
		return e, err
	}
	if e.variants, err = report.New(w.Store).VariantStatistics(ctx, task.ID); err != nil {
		return e, err
	}
	if len(task.Evaluators) > 0 {
		e.metric = "pass"
		if e.verdicts, err = report.New(w.Store).PassStatistics(ctx, task, false); err != nil {
			return e, err
		}
	}
	if len(e.variants) > 1 {
		matrix, err := report.New(w.Store).Matrix(ctx, task)
		if err != nil {
			return e, err
		}
		matters, err := report.New(w.Store).Matters(ctx, task.ID)
		if err != nil {
			return e, err
		}
		e.winner = winnerOf(e.metric, e.variants, matrix, matters)
	}
	return e, w.compareWithPrevious(ctx, &e)
}

// metricsOf maps the metrics that can have a winner to their names in the API and the way to compute them.
var metricsOf = map[string]struct {
	name string
	by   measure.By
}{
	"agreement": {"agreement", measure.By{Of: func(q measure.ComparedQuestion) *float64 {
		return q.Agreement
	}, Limit: measure.OfShares}},
	"pass": {"pass_rate", measure.By{Of: func(q measure.ComparedQuestion) *float64 {
		return q.PassShare
	}, Limit: measure.OfShares}},
}

func winnerOf(metric string, variants []report.VariantStatistics, matrix [][]measure.ComparedQuestion,
	matters measure.Matters) *winner {
	won := measure.Win(matrix, metricsOf[metric].by, matters)
	if won == nil {
		return nil
	}
	return &winner{
		Variant: variants[won.Leader].Number, Name: variants[won.Leader].Name, RunnerUp: variants[won.RunnerUp].Number,
		Metric: metricsOf[metric].name,
		Value:  *won.Change.MeanB, Difference: *won.Change.Mean, Interval: []float64{*won.Change.Low, *won.Change.High},
		Adjusted: won.Adjusted,
	}
}

// variantsShown is the maximum number of variants that a message lists.
const variantsShown = 6

// facts returns the lines of the message; unknown values are left out.
func (e ended) facts(l text.Locale, event outbox.Event) (lines []notify.Fact) {
	add := func(key, value string, links ...notify.Link) {
		if value != "" && value != "–" {
			lines = append(lines, notify.Fact{Name: l.Text(key), Value: value, Links: links})
		}
	}
	if levels := e.levels(l); levels.Value != "" {
		lines = append(lines, levels)
	}
	if e.launch.Kind != db.LaunchSubmit {
		add("notify.launch", l.Text("launch.kind."+string(e.launch.Kind)))
	}
	if e.task.FailureCode != nil && event == outbox.Failed {
		add("notify.reason", l.Text("failure."+*e.task.FailureCode))
	}
	runs := l.Text("notify.runs.of", "Succeeded", e.statistics.Succeeded, "Expected", e.statistics.RunsExpected)
	add("notify.runs", runs, e.link(runs, paths.Task(e.task.ID))...)
	if len(e.variants) > 1 {
		add("notify.winner", e.winnerText(l), e.link(l.Text("notify."+e.metric), paths.Variants(e.task.ID))...)
		for _, one := range e.variants[:min(len(e.variants), variantsShown)] {
			lines = append(lines, e.variantLine(l, one))
		}
	} else {
		for _, one := range []struct{ key, value, filter, sort string }{
			{"notify.pass", text.Percent(e.statistics.PassRate), summary.UnpassedFilter(e.verdicts[1]), ""},
			{"notify.score", scoreText(e.statistics.ScoreMean), "", "score"},
			{"notify.agreement", text.Percent(e.statistics.Agreement), "", "agreement"},
			{"notify.meaning", text.Percent(e.statistics.MeaningAgreement), results.FilterMeaningDifferent, ""},
			{"notify.latency", text.Millis(e.statistics.LatencyP50), "", "-latency"},
		} {
			add(one.key, one.value, e.link(one.value, results.AnswersHref(e.task.ID, 0, one.filter, one.sort))...)
		}
	}
	if count := e.statistics.FactsDiffer[string(facts.Conflict)]; count > 0 && len(e.variants) > 1 {
		said := l.Text("notify.facts.count", "Count", count)
		add("notify.facts", said, e.link(said, paths.Report(e.task.ID)+"#differing")...)
	}
	if e.changed != nil && e.changed.Questions > 0 {
		add("notify.facts.changed", e.changedText(l), e.changedLink(l)...)
	}
	for _, one := range [][2]string{
		{"notify.cost", text.Cost(e.statistics.Cost, e.statistics.Currency)},
		{"notify.cost.judges", text.Cost(e.statistics.JudgeCost, e.statistics.JudgeCurrency)},
	} {
		add(one[0], one[1], e.link(one[1], paths.Launches(e.task.ID))...)
	}
	if e.launch.Statistics.Duration != nil {
		took := text.Duration(l, time.Duration(*e.launch.Statistics.Duration*float64(time.Second)))
		add("notify.duration", took, e.link(took, paths.Launch(e.task.ID, e.launch.ID))...)
	}
	return lines
}

// changedLink returns a link to the schedule's page, which lists the questions whose facts changed.
func (e ended) changedLink(l text.Locale) []notify.Link {
	return e.linkToChanges(l.Text("notify.facts.changed.count", "Count", e.changed.Questions))
}

// linkToChanges links words of a value to the changes since the previous firing.
func (e ended) linkToChanges(words string) []notify.Link {
	if e.task.ScheduleID == nil {
		return nil
	}
	at := url.Values{"at": {e.task.ID.String()}}
	return e.link(words, paths.WithQuery(paths.LibraryEntry("schedules", *e.task.ScheduleID), at)+"#changes")
}

// changedShown is the maximum number of questions with changed facts that a message names.
const changedShown = 3

// changedText states in how many questions the facts changed, and names the first of them.
func (e ended) changedText(l text.Locale) string {
	said := l.Text("notify.facts.changed.count", "Count", e.changed.Questions)
	for _, one := range e.changed.Items[:min(len(e.changed.Items), changedShown)] {
		question := one.QuestionID
		if one.Variant != "" {
			question = l.Text("notify.of", "Question", question, "Name", one.Variant)
		}
		said += l.Text("notify.facts.changed.one", "Question", question, "Before", text.Cut(one.Before, 40),
			"Now", text.Cut(one.Now, 40))
	}
	return said
}

// levels returns the sentence with which the report begins; its value is empty if there are several variants, because
// each has its own levels.
func (e ended) levels(l text.Locale) (fact notify.Fact) {
	if len(e.variants) > 1 {
		return fact
	}
	counts := make(map[measure.Level]int, len(e.statistics.Levels))
	for level, count := range e.statistics.Levels {
		counts[measure.Level(level)] = count
	}
	fact.Name = l.Text("notify.levels", "Total", e.task.TotalItems)
	var said []string
	for _, one := range summary.LevelCounts(l, counts) {
		said = append(said, one.Text)
		fact.Links = append(fact.Links, e.link(one.Text, results.AnswersHref(e.task.ID, 0, string(one.Level), ""))...)
	}
	fact.Value = strings.Join(said, " · ")
	return fact
}

// scoreText formats a mean score; empty if it is unknown.
func scoreText(score *float64) string {
	if score == nil {
		return ""
	}
	return text.Score(score)
}

// variantLine returns the line of one variant: its name and its numbers, each linked to the answers behind it.
func (e ended) variantLine(l text.Locale, one report.VariantStatistics) notify.Fact {
	verdict := e.verdicts[one.Number]
	parts := []string{one.Name}
	links := e.link(one.Name, results.AnswersHref(e.task.ID, one.Number, "", ""))
	for _, part := range []struct{ key, value, filter, sort string }{
		{"notify.pass", text.Percent(verdict.PassRate), summary.UnpassedFilter(verdict), ""},
		{"notify.score", scoreText(verdict.ScoreMean), "", "score"},
		{"notify.agreement", text.Percent(one.Agreement), "", "agreement"},
		{"notify.meaning", text.Percent(one.MeaningAgreement), results.FilterMeaningDifferent, ""},
		{"notify.cost", text.Cost(one.Cost, one.Currency), "", ""},
	} {
		if part.value != "" && part.value != "–" {
			said := l.Text(part.key) + " " + part.value
			parts = append(parts, said)
			links = append(links, e.link(said, results.AnswersHref(e.task.ID, one.Number, part.filter, part.sort))...)
		}
	}
	return notify.Fact{Name: l.Text("notify.variant"), Value: strings.Join(parts, l.Text("notify.comma")), Links: links}
}

// winnerText returns the sentence that names the winner and its lead, or that the data show no winner.
func (e ended) winnerText(l text.Locale) string {
	metric := l.Text("notify." + e.metric)
	if e.winner == nil {
		return l.Text("notify.winner.none", "Metric", metric)
	}
	points := func(share float64) string { return text.Signed(100*share, 1) }
	return l.Text("notify.winner.by", "Name", e.winner.Name, "Metric", metric, "Value", text.Percent(&e.winner.Value),
		"RunnerUp", e.nameOf(e.winner.RunnerUp),
		"Points", strings.TrimPrefix(points(e.winner.Difference), "+"), "Low", points(e.winner.Interval[0]),
		"High", points(e.winner.Interval[1]))
}

func (e ended) nameOf(number int) string {
	for _, one := range e.variants {
		if one.Number == number {
			return one.Name
		}
	}
	return ""
}

// stats returns the statistics as a webhook receives them.
func (e ended) stats() stats {
	own := stats{TaskStatistics: e.statistics, PassRate: e.statistics.PassRate, ScoreMean: e.statistics.ScoreMean}
	for _, one := range e.variants {
		verdict, isJudged := e.verdicts[one.Number]
		if len(e.variants) == 1 {
			if isJudged {
				own.Statistics = &verdict
			}
			break
		}
		own.Variants = append(own.Variants, variantStats{
			one.Number, one.Name, one.SuccessRate, one.Agreement, verdict.PassRate, verdict.ScoreMean, one.LatencyP50, one.Cost,
			one.Currency,
		})
	}
	return own
}

// compareWithPrevious finds, for a task that a schedule made, the questions that got worse since the previous firing
// (the same ones as on the schedule's page), and those whose facts changed.
func (w Writer) compareWithPrevious(ctx context.Context, e *ended) error {
	previous, err := library.PreviousCopy(ctx, w.Store, e.task)
	if err != nil || previous == nil {
		return err
	}
	changes, err := library.QuestionChanges(ctx, w.Store, *previous, e.task)
	if err != nil {
		return err
	}
	e.before = previous.Name
	e.worse = slices.DeleteFunc(changes, func(change library.QuestionChange) bool { return !change.IsWorse() })
	changed, err := library.ChangedFacts(ctx, w.Store, *previous, e.task, time.Time{})
	e.changed = &changed
	return err
}

// worseShown is the maximum number of questions that a message names as worse.
const worseShown = 5

// worseLines returns a line for each question that got worse.
func (e ended) worseLines(l text.Locale) (lines []notify.Fact) {
	for _, one := range e.worse[:min(len(e.worse), worseShown)] {
		key := "notify.worse.agreement"
		if one.IsVerdict {
			key = "notify.worse.pass"
		}
		question := one.Now.QuestionID
		if len(e.variants) > 1 {
			question = l.Text("notify.of", "Question", question, "Name", one.Name)
		}
		from, to := one.Shares()
		lines = append(lines, notify.Fact{
			Value: l.Text(key, "Question", question, "From", text.Percent(from), "To", text.Percent(to)),
			Links: e.link(question, paths.Question(e.task.ID, one.Now.Number)),
		})
	}
	if more := len(e.worse) - worseShown; more > 0 {
		said := l.Text("notify.worse.more", "Count", more)
		lines = append(lines, notify.Fact{Value: said, Links: e.linkToChanges(said)})
	}
	return lines
}
