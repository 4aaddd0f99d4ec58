package report

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/lib/pq"

	"wending/db"
	"wending/db/measure"
	"wending/db/pg"
)

// Numbers holds the statistics of a task: of each variant as a whole, and for each value of a column.
type Numbers struct {
	Variants []VariantStatistics
	// Levels and FactsDiffer count questions, and Passes holds the statistics of the evaluators' verdicts, all keyed by
	// variant number; Passes is nil without evaluators.
	Levels, FactsDiffer map[int]map[string]int
	Passes              map[int]measure.Statistics
	Slices              []Slice
}

// Slice holds the statistics of the questions with one value in a column.
type Slice struct {
	// Value is nil for the slice of all values beyond the SliceMost most frequent ones.
	Value *string
	// Items is the number of questions in the slice.
	Items    int
	Variants []SliceVariant
}

// SlicedLevels returns the levels whose questions are counted in a table of slices, facts first: those of answers that
// differ, and those without answers to compare if there are any. Identical and format-only answers are counted
// together.
func SlicedLevels(of []Slice) []measure.Level {
	levels := []measure.Level{measure.Facts, measure.Different, measure.Wording}
	for _, level := range []measure.Level{measure.Empty, measure.Unknown} {
		if slices.ContainsFunc(of, func(slice Slice) bool {
			return slices.ContainsFunc(slice.Variants, func(v SliceVariant) bool { return v.Levels[string(level)] > 0 })
		}) {
			levels = append(levels, level)
		}
	}
	return levels
}

// SliceVariant holds the statistics of one variant over one slice.
type SliceVariant struct {
	VariantStatistics
	// Levels and FactsDiffer count the questions by the similarity of their answers; questions that are not assessed
	// are not counted.
	Levels, FactsDiffer map[string]int
	// Passes summarises the evaluators' verdicts; it is the zero value if there are none.
	Passes measure.Statistics
	// Answered and Agreed are the intervals of the success rate and of the agreement.
	Answered, Agreed measure.Interval
}

// whole is the index of the slice that contains all questions.
const whole = -1

// readSliceStatistics returns the statistics of each variant over each slice and over all questions. It reads the runs
// of the task $1 once, grouped by the slices $3 of the items $2; the whole is the sum of the groups. Percentiles and
// intervals are computed later from the runs' values, which are collected in arrays in the same order; -1 stands for an
// unknown value. Scores are collected if $4 is true, with default ratings if $5 is true.
const readSliceStatistics = `
	WITH sliced AS MATERIALIZED (
		SELECT s.item_id, s.slice, coalesce('=' || nullif(` + db.ClusterOf + `, ''), '#' || i.id) AS cluster
		FROM unnest($2::bigint[], $3::int[]) AS s (item_id, slice)
		JOIN evaluation_items i ON i.id = s.item_id AND i.task_id = $1
		JOIN evaluation_tasks t ON t.id = i.task_id),
	twice AS MATERIALIZED (
		SELECT item_id, slice, cluster FROM sliced
		UNION ALL
		SELECT item_id, -1, cluster FROM sliced),
	of_slice AS MATERIALIZED (
		SELECT slice, variant, count(*) AS runs, sum(attempts) AS attempts,
			count(*) FILTER (WHERE status = 'SUCCEEDED') AS succeeded,
			count(*) FILTER (WHERE status = 'SUCCEEDED' AND run_index <= (SELECT runs_per_item FROM evaluation_tasks
			WHERE id = $1)) AS counted,
			count(*) FILTER (WHERE status = 'FAILED') AS failed,
			count(*) FILTER (WHERE status = 'TIMEOUT') AS timed_out,
			count(*) FILTER (WHERE error_code = 'REFUSED') AS refused,
			count(*) FILTER (WHERE error_code = 'CONTENT_FILTERED') AS filtered,
			count(*) FILTER (WHERE status = 'SUCCEEDED' AND finish_reason = 'length') AS truncated,
			sum(latency_ms) FILTER (WHERE status = 'SUCCEEDED') AS latency,
			max(longest_silence_ms) FILTER (WHERE status = 'SUCCEEDED') AS longest_silence_max_ms,
			sum(input_tokens) AS input_tokens, sum(output_tokens) AS output_tokens, sum(reasoning_tokens) AS reasoning_tokens,
			sum(total_tokens) AS total_tokens,
			count(*) FILTER (WHERE coalesce(input_tokens, output_tokens, total_tokens) IS NOT NULL) AS runs_with_usage,
			sum(cost) AS cost, count(cost) AS runs_with_cost,
			array_agg(item_id) AS run_items,
			array_agg(CASE WHEN run_index > (SELECT runs_per_item FROM evaluation_tasks WHERE id = $1) THEN -1 WHEN passed THEN 3
			WHEN passed IS NOT NULL THEN 2 ELSE 0 END) AS run_verdicts,
			array_agg(CASE WHEN status = 'SUCCEEDED' THEN coalesce(latency_ms, -2) ELSE -1 END) AS run_latencies,
			array_agg(coalesce(first_token_ms, -1)) AS run_first_tokens,
			array_agg(coalesce(` + db.AnswerTokens + `, -1)) AS run_tokens,
			array_agg(coalesce(longest_silence_ms, -1)) AS run_silences,
			array_agg(coalesce(CASE WHEN $5 THEN (SELECT avg(e.score) FROM evaluations e WHERE e.run_id = evaluation_runs.id)
			ELSE score END, 'NaN'))
				FILTER (WHERE $4) AS run_scores
		FROM evaluation_runs
		JOIN sliced USING (item_id)
		WHERE task_id = $1 AND is_current
		GROUP BY slice, variant)
	SELECT n.slice, ` + numbersOfVariant + `,
		r.run_items, r.run_verdicts, r.run_latencies, r.run_first_tokens, r.run_tokens, r.run_silences, r.run_scores
	FROM evaluation_tasks t
	JOIN task_variants v ON v.task_id = t.id
	JOIN task_targets g ON g.task_id = t.id AND g.number = v.target
	CROSS JOIN LATERAL (
		SELECT i.slice, count(*) AS items, count(DISTINCT i.cluster) AS clusters,
		coalesce(sum(p.runs - t.runs_per_item), 0) AS extra
		FROM twice i
		LEFT JOIN planned_runs p ON p.item_id = i.item_id AND p.variant = v.number
		GROUP BY i.slice) n
	LEFT JOIN (
		SELECT s.*, latency / nullif(succeeded, 0)::float8 AS latency_avg_ms, ` + unknownPercentiles + `
		FROM (
			SELECT *
			FROM of_slice
			UNION ALL
			SELECT -1, variant, sum(runs)::bigint, sum(attempts)::bigint, sum(succeeded)::bigint, sum(counted)::bigint,
			sum(failed)::bigint, sum(timed_out)::bigint,
				sum(refused)::bigint, sum(filtered)::bigint, sum(truncated)::bigint, sum(latency)::bigint,
				max(longest_silence_max_ms),
				sum(input_tokens)::bigint, sum(output_tokens)::bigint, sum(reasoning_tokens)::bigint, sum(total_tokens)::bigint,
				sum(runs_with_usage)::bigint, sum(cost), sum(runs_with_cost)::bigint, NULL, NULL, NULL, NULL, NULL, NULL, NULL
			FROM of_slice
			GROUP BY variant) s) r ON r.variant = v.number AND r.slice = n.slice
	LEFT JOIN (
		SELECT twice.slice, s.variant, ` + numbersOfQuestions + `
		FROM twice
		JOIN question_statistics s USING (item_id)
		GROUP BY twice.slice, s.variant) q ON q.variant = v.number AND q.slice = n.slice
	LEFT JOIN ( -- metrics.md, Clusters
		SELECT slice, variant, sqrt(count(*) / nullif(count(*) - 1, 0)::float8 * sum(deviation * deviation)) / sum(items) AS
		agreement_se
		FROM (
			SELECT slice, variant, sum(deviation) AS deviation, count(*) AS items
			FROM (
				SELECT twice.slice, s.variant, twice.cluster,
					s.agreement - avg(s.agreement) OVER (PARTITION BY twice.slice, s.variant) AS deviation
				FROM twice
				JOIN question_statistics s USING (item_id)
				WHERE s.agreement IS NOT NULL) d
			GROUP BY slice, variant, cluster) d
		GROUP BY slice, variant) c ON c.variant = v.number AND c.slice = n.slice
	WHERE t.id = $1
	ORDER BY n.slice DESC, v.number`

// unknownPercentiles are placeholders for the columns that are computed later from the values of the runs.
const unknownPercentiles = `NULL::float8 AS latency_p50_ms, NULL::float8 AS latency_p90_ms, NULL::float8 AS latency_p99_ms,
			NULL::float8 AS first_token_p50_ms, NULL::float8 AS tokens_per_second, NULL::float8 AS longest_silence_p50_ms`

// integers is an array of integers without NULLs; a NULL array is empty.
type integers []int64

// Scan implements sql.Scanner.
func (i *integers) Scan(column any) error {
	text, isText := column.([]byte)
	if column != nil && !isText {
		return fmt.Errorf("an array of integers is stored as %T", column)
	}
	*i = make(integers, 0, bytes.Count(text, []byte(","))+1)
	number, isNegative, isIn := int64(0), false, false
	for _, c := range text {
		switch {
		case c == '-':
			isNegative = true
		case '0' <= c && c <= '9':
			number, isIn = number*10+int64(c-'0'), true
		case isIn:
			if isNegative {
				number = -number
			}
			*i = append(*i, number)
			number, isNegative, isIn = 0, false, false
		}
	}
	return nil
}

// collected holds the statistics of one variant over one slice, and the values of its individual runs.
type collected struct {
	Slice int
	VariantStatistics
	ofRuns
}

// ofRuns holds values of runs, with one list for each kind of value, all in the same order; -1 means unknown.
type ofRuns struct {
	Items integers `db:"run_items"`
	// Verdicts are 3 for a run that passed, 2 for one that did not, and 0 for one that was not judged; -1 for a run
	// beyond runs_per_item, which does not count.
	Verdicts integers `db:"run_verdicts"`
	// Latencies are known for runs with an answer; -2 means that the answer was imported without its latency.
	Latencies   integers `db:"run_latencies"`
	FirstTokens integers `db:"run_first_tokens"`
	// Tokens are the tokens of the answer, without reasoning.
	Tokens   integers `db:"run_tokens"`
	Silences integers `db:"run_silences"`
	// Scores are empty if they were not requested; NaN stands for an unknown score.
	Scores pq.Float64Array `db:"run_scores"`
}

// add appends the values of other runs.
func (o *ofRuns) add(other ofRuns) {
	o.Items, o.Verdicts, o.Latencies = append(o.Items, other.Items...), append(o.Verdicts, other.Verdicts...),
		append(o.Latencies, other.Latencies...)
	o.FirstTokens, o.Tokens, o.Silences = append(o.FirstTokens, other.FirstTokens...), append(o.Tokens, other.Tokens...),
		append(o.Silences, other.Silences...)
	o.Scores = append(o.Scores, other.Scores...)
}

// settle computes the percentiles, over runs with an answer.
func (o ofRuns) settle(numbers *VariantStatistics) {
	count := len(o.Latencies)
	latencies, firstTokens, speeds, silences := make([]float64, 0, count), make([]float64, 0, count),
		make([]float64, 0, count), make([]float64, 0, count)
	for n, latency := range o.Latencies {
		first := o.FirstTokens[n]
		if latency < 0 {
			continue
		}
		latencies = append(latencies, float64(latency))
		if first >= 0 {
			firstTokens = append(firstTokens, float64(first))
		}
		if first >= 0 && latency > first && o.Tokens[n] >= 0 {
			speeds = append(speeds, float64(o.Tokens[n])*1000/float64(latency-first))
		}
		if o.Silences[n] >= 0 {
			silences = append(silences, float64(o.Silences[n]))
		}
	}
	for _, all := range [][]float64{latencies, firstTokens, speeds, silences} {
		slices.Sort(all)
	}
	numbers.LatencyP50, numbers.LatencyP90, numbers.LatencyP99 = measure.Percentile(latencies, 0.5),
		measure.Percentile(latencies, 0.9), measure.Percentile(latencies, 0.99)
	numbers.FirstTokenP50, numbers.TokensPerSecond = measure.Percentile(firstTokens, 0.5), measure.Percentile(speeds, 0.5)
	numbers.LongestSilenceP50MS = measure.Percentile(silences, 0.5)
}

// verdicts returns the evaluators' verdicts on the questions, and verdicts by which every answered run passes.
func (o ofRuns) verdicts(runsPerItem int) (said, answered variantVerdicts) {
	type sum struct {
		measure.Judged
		answered, scored int
		score            float64
	}
	sums := map[int64]*sum{}
	for n, item := range o.Items {
		if o.Verdicts[n] < 0 {
			continue
		}
		of := sums[item]
		if of == nil {
			of = &sum{}
			sums[item] = of
		}
		of.Runs++
		if o.Latencies[n] != -1 {
			of.answered++
		}
		if verdict := o.Verdicts[n]; verdict > 0 {
			of.Judged.Judged++
			of.Passes += int(verdict - 2)
		}
		if n < len(o.Scores) && !math.IsNaN(o.Scores[n]) {
			of.scored, of.score = of.scored+1, of.score+o.Scores[n]
		}
	}
	said.questions, answered.questions = make(map[int64]measure.Judged, len(sums)),
		make(map[int64]measure.Judged, len(sums))
	for item, of := range sums {
		if of.scored > 0 {
			mean := of.score / float64(of.scored)
			of.Score = &mean
		}
		said.questions[item] = of.Judged
		answered.questions[item] = measure.Judged{Runs: of.Runs, Judged: runsPerItem, Passes: of.answered}
	}
	return said, answered
}

// ComparedSlice is a comparison of the questions with one value in a column of the second task's dataset.
type ComparedSlice struct {
	// Value is nil for the slice of all values beyond the SliceMost most frequent ones.
	Value *string
	measure.Comparison
}

// CompareBy splits a comparison by the values of a column of the second task's dataset; place is the column's position,
// from 1. Values that occur only in questions missing from the first task are left out.
func (r Report) CompareBy(ctx context.Context, second db.Task, place int,
	c measure.Comparison) (compared []ComparedSlice, err error) {
	values, err := r.Slices(ctx, second.ID, place)
	if err != nil {
		return nil, err
	}
	for n, value := range values.Values {
		none := func(measure.ComparedQuestion) bool { return false }
		of := c.Only(none, func(q measure.ComparedQuestion) bool {
			at, isKnown := values.Of(q.ID)
			return isKnown && at == n
		})
		if len(of.Pairs) > 0 {
			compared = append(compared, ComparedSlice{value, of})
		}
	}
	return compared, nil
}

// NumbersBy returns the statistics of a task as a whole and for each value of a column; place is the column's position,
// from 1. Default ratings of judges are included if withDefaults is true.
func (r Report) NumbersBy(ctx context.Context, task db.Task, place int,
	withDefaults bool) (numbers Numbers, err error) {
	values, err := r.Slices(ctx, task.ID, place)
	if err != nil {
		return numbers, err
	}
	items, places := values.arrays()
	var rows []collected
	if err := r.db.SelectContext(ctx, &rows, readSliceStatistics, task.ID, items, places, len(task.Evaluators) > 0,
		withDefaults); err != nil {
		return numbers, pg.Classify("compute the statistics of slices", err)
	}
	clusters, err := r.clusters(ctx, task)
	if err != nil {
		return numbers, err
	}
	errors, err := r.evaluationErrors(ctx, task)
	if err != nil {
		return numbers, err
	}
	numbers.Slices = make([]Slice, len(values.Values))
	for n, value := range values.Values {
		numbers.Slices[n] = Slice{Value: value, Items: values.Items[n]}
	}
	numbers.Passes = map[int]measure.Statistics{}
	wholes := map[int]*ofRuns{}
	for n := range rows { // the whole comes last
		row, of, own := &rows[n], task, clusters
		if row.Slice == whole {
			if all := wholes[row.Number]; all != nil {
				row.ofRuns = *all
			}
		} else {
			of.TotalItems, own = values.Items[row.Slice], values.clusters(clusters, row.Slice)
			if wholes[row.Number] == nil {
				wholes[row.Number] = &ofRuns{}
			}
			wholes[row.Number].add(row.ofRuns)
		}
		row.settle(&row.VariantStatistics)
		said, answered := row.verdicts(task.RunsPerItem)
		said.addErrors(errors, row.Number)
		if row.Slice == whole {
			numbers.Variants = append(numbers.Variants, row.VariantStatistics)
			numbers.Passes[row.Number] = summarisedVariant(of, said, own)
			continue
		}
		one := SliceVariant{VariantStatistics: row.VariantStatistics,
			Answered: summarisedVariant(of, answered, own).PassInterval}
		if len(task.Evaluators) > 0 {
			one.Passes = summarisedVariant(of, said, own)
		}
		numbers.Slices[row.Slice].Variants = append(numbers.Slices[row.Slice].Variants, one)
	}
	if len(task.Evaluators) == 0 {
		numbers.Passes = nil
	}
	if err := r.countSettled(ctx, task.ID, numbers.Variants); err != nil {
		return numbers, err
	}
	return numbers, r.addQuestions(ctx, values, clusters, &numbers)
}

// addErrors counts the errors of one variant's evaluations of the questions.
func (v *variantVerdicts) addErrors(errors []itemErrors, variant int) {
	for _, one := range errors {
		if _, isHere := v.questions[one.ItemID]; isHere && one.Variant == variant {
			v.errors, v.defaults = v.errors+one.Errors, v.defaults+one.Defaults
		}
	}
}

// clusters returns the clusters of the items of one slice, keyed by item id.
func (s Slices) clusters(all map[int64]string, slice int) map[int64]string {
	own := map[int64]string{}
	for item, cluster := range all {
		if place, isKnown := s.Of(item); isKnown && place == slice {
			own[item] = cluster
		}
	}
	return own
}

// itemErrors counts the evaluations of an item's answers that failed or have a default rating.
type itemErrors struct {
	Variant, Errors, Defaults int
	ItemID                    int64 `db:"item_id"`
}

// evaluationErrors returns the variants and items that have evaluations with an error or a default rating, and how many
// such evaluations each has.
func (r Report) evaluationErrors(ctx context.Context, task db.Task) (errors []itemErrors, err error) {
	const count = `
		SELECT r.variant, r.item_id, count(*) AS errors, count(*) FILTER (WHERE e.is_default) AS defaults
		FROM evaluation_runs r
		JOIN evaluations e ON e.run_id = r.id
		WHERE r.task_id = $1 AND r.is_current AND ` + isCounted + ` AND (e.status = 'FAILED' OR e.is_default)
		GROUP BY r.variant, r.item_id`
	if len(task.Evaluators) == 0 {
		return nil, nil
	}
	err = r.db.SelectContext(ctx, &errors, count, task.ID)
	return errors, pg.Classify("count the evaluations with errors", err)
}

// addQuestions adds the results that are computed from questions rather than runs: the number of questions at each
// level and for each way in which facts differ, and the interval of the agreement.
func (r Report) addQuestions(ctx context.Context, values Slices, clusters map[int64]string, numbers *Numbers) error {
	const read = `
		SELECT s.slice, q.variant, q.level, coalesce(q.facts_differ, '') AS facts_differ, count(*) AS count,
			array_agg(q.item_id ORDER BY q.item_id) FILTER (WHERE q.agreement IS NOT NULL) AS agreed_items,
			array_agg(q.agreement ORDER BY q.item_id) FILTER (WHERE q.agreement IS NOT NULL) AS agreements
		FROM unnest($1::bigint[], $2::int[]) AS s (item_id, slice)
		JOIN question_statistics q ON q.item_id = s.item_id
		GROUP BY s.slice, q.variant, q.level, q.facts_differ`
	items, places := values.arrays()
	var rows []struct {
		Slice int
		levelCount
		AgreedItems pq.Int64Array `db:"agreed_items"`
		Agreements  pq.Float64Array
	}
	if err := r.db.SelectContext(ctx, &rows, read, items, places); err != nil {
		return pg.Classify("read the questions of slices", err)
	}
	var all []levelCount
	of, agreed := make([][]levelCount, len(values.Values)), make([]map[int]measure.Sample, len(values.Values))
	for _, row := range rows {
		all, of[row.Slice] = append(all, row.levelCount), append(of[row.Slice], row.levelCount)
		if agreed[row.Slice] == nil {
			agreed[row.Slice] = map[int]measure.Sample{}
		}
		sample := agreed[row.Slice][row.Variant]
		for n, agreement := range row.Agreements {
			sample.Add(agreement, clusters[row.AgreedItems[n]])
		}
		agreed[row.Slice][row.Variant] = sample
	}
	numbers.Levels, numbers.FactsDiffer = byVariant(all)
	for n := range numbers.Slices {
		levels, differ := byVariant(of[n])
		for v := range numbers.Slices[n].Variants {
			one := &numbers.Slices[n].Variants[v]
			one.Levels, one.FactsDiffer = levels[one.Number], differ[one.Number]
			one.Agreed = agreed[n][one.Number].Share()
		}
	}
	return nil
}
