package report

import (
	"context"
	"slices"
	"strconv"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"wending/db"
	"wending/db/measure"
	"wending/db/pg"
)

// VariantStatistics describes one variant, computed from its current runs (metrics.md). A statistic is nil if unknown.
type VariantStatistics struct {
	Number      int    `db:"number" json:"number" doc:"Number of the variant; 1 for a plain task" example:"1"`
	Name        string `db:"name" json:"name" doc:"Name of the variant; empty for a plain task"`
	RunsPerItem int    `db:"runs_per_item" json:"runs_per_item" example:"5"`

	Items        int `db:"items" json:"items" doc:"Number of questions" example:"100"`
	Clusters     int `db:"clusters" json:"clusters" doc:"Number of independent groups of questions (conversations, or values of cluster_by); equals items if every question is independent" example:"100"`
	RunsExpected int `db:"runs_expected" json:"runs_expected" doc:"Number of planned runs" example:"500"`
	Runs         int `db:"runs" json:"runs" doc:"Runs that have ended" example:"500"`
	Succeeded    int `db:"succeeded" json:"succeeded" example:"493"`
	Failed       int `db:"failed" json:"failed" example:"5"`
	TimedOut     int `db:"timed_out" json:"timed_out" example:"2"`
	Refused      int `db:"refused" json:"refused" doc:"Failed runs in which the agent refused to answer" example:"2"`
	Filtered     int `db:"filtered" json:"filtered" doc:"Failed runs in which a content filter stopped the answer" example:"1"`
	Truncated    int `db:"truncated" json:"truncated" doc:"Successful runs whose answer was cut off at the length limit" example:"3"`
	Missing      int `db:"missing" json:"missing" doc:"runs_expected − runs" example:"0"`
	Attempts     int `db:"attempts" json:"attempts" doc:"Calls made, including retries" example:"509"`

	SuccessRate   *float64 `db:"success_rate" json:"success_rate" doc:"succeeded / runs_expected" example:"0.986"`
	IdenticalRate *float64 `db:"identical_rate" json:"identical_rate" doc:"Share of questions with every run answered and all answers equal" example:"0.42"`
	Agreement     *float64 `db:"agreement" json:"agreement" doc:"Mean over questions of the share of pairs of runs with equal answers" example:"0.71"`
	AgreementSE   *float64 `db:"agreement_se" json:"agreement_se" doc:"Standard error of agreement; null with fewer than two clusters" example:"0.03"`
	// AgreementReason explains why Agreement or AgreementSE is unknown.
	AgreementReason *measure.UnknownReason `db:"agreement_reason" json:"agreement_reason,omitempty" enum:"one_run,no_question,one_question,one_cluster" doc:"Why agreement or agreement_se is null: each question is asked once, no question has all its runs, only one has, or all questions belong to one cluster; absent otherwise" example:"one_cluster"`
	Consensus       *float64               `db:"consensus" json:"consensus" doc:"Mean over questions of the share of runs that gave the most common answer" example:"0.83"`
	DistinctMean    *float64               `db:"distinct_mean" json:"distinct_mean" doc:"Mean number of distinct answers per question" example:"1.9"`
	Similarity      *float64               `db:"similarity" json:"similarity" doc:"Mean similarity of pairs of answers to a question, 0–1" example:"0.94"`

	db.MeaningNumbers

	LatencyAvg      *float64 `db:"latency_avg_ms" json:"latency_avg_ms" example:"812.4"`
	LatencyP50      *float64 `db:"latency_p50_ms" json:"latency_p50_ms" example:"640"`
	LatencyP90      *float64 `db:"latency_p90_ms" json:"latency_p90_ms" example:"1730.5"`
	LatencyP99      *float64 `db:"latency_p99_ms" json:"latency_p99_ms" example:"4210"`
	FirstTokenP50   *float64 `db:"first_token_p50_ms" json:"first_token_p50_ms" doc:"Median time to the first token of the answer, over streamed answers; reasoning does not count" example:"210"`
	TokensPerSecond *float64 `db:"tokens_per_second" json:"tokens_per_second" doc:"Median of output tokens, without reasoning, per second after the first token; runs that do not report reasoning tokens separately are left out" example:"48.2"`
	// LongestSilenceP50MS and LongestSilenceMaxMS are the median and the maximum, over the calls, of the longest
	// time without data.
	LongestSilenceP50MS *float64 `db:"longest_silence_p50_ms" json:"longest_silence_p50_ms" doc:"Median over calls of the longest time without data" example:"850"`
	LongestSilenceMaxMS *int     `db:"longest_silence_max_ms" json:"longest_silence_max_ms" doc:"Maximum over calls of the longest time without data" example:"4200"`

	InputTokens     *int64  `db:"input_tokens" json:"input_tokens" doc:"Sum over the runs that report it; null if none does" example:"60000"`
	OutputTokens    *int64  `db:"output_tokens" json:"output_tokens" example:"17500"`
	ReasoningTokens *int64  `db:"reasoning_tokens" json:"reasoning_tokens"`
	TotalTokens     *int64  `db:"total_tokens" json:"total_tokens" example:"77500"`
	RunsWithUsage   int     `db:"runs_with_usage" json:"runs_with_usage" doc:"Number of runs that report tokens" example:"500"`
	Cost            *string `db:"cost" json:"cost" doc:"Sum over the runs whose cost is known, a decimal number" example:"0.295"`
	Currency        *string `db:"currency" json:"currency" example:"USD"`
	RunsWithCost    int     `db:"runs_with_cost" json:"runs_with_cost" doc:"Number of runs that cost sums up" example:"500"`

	// Settled is how many questions are settled, and SettledAfter how many of these have each number of runs, keyed by
	// that number; nil unless the task is adaptive.
	Settled      *int        `db:"-" json:"settled,omitempty" doc:"Number of questions whose most common answer is settled; absent unless the task is adaptive" example:"97"`
	SettledAfter map[int]int `db:"-" json:"settled_after,omitempty" doc:"Number of settled questions by the number of runs it took; absent unless the task is adaptive"`
}

// The columns of VariantStatistics, over the runs and the assessed questions that the statement groups.
const (
	numbersOfVariant = `v.number, v.name, t.runs_per_item, n.items, n.clusters,
		n.items * t.runs_per_item + n.extra AS runs_expected,
		coalesce(r.runs, 0) AS runs, coalesce(r.succeeded, 0) AS succeeded, coalesce(r.failed, 0) AS failed,
		coalesce(r.timed_out, 0) AS timed_out,
		coalesce(r.refused, 0) AS refused, coalesce(r.filtered, 0) AS filtered, coalesce(r.truncated, 0) AS truncated,
		n.items * t.runs_per_item + n.extra - coalesce(r.runs, 0) AS missing, coalesce(r.attempts, 0) AS attempts,
		coalesce(r.counted, 0) / nullif(n.items * t.runs_per_item + least(n.extra, 0), 0)::float8 AS success_rate,
		q.identical_rate, q.agreement, c.agreement_se, q.consensus, q.distinct_mean, q.similarity,
		CASE WHEN t.runs_per_item = 1 THEN 'one_run' WHEN q.agreement IS NULL THEN 'no_question'
			WHEN c.agreement_se IS NOT NULL THEN NULL WHEN n.clusters = 1 AND n.items > 1 THEN 'one_cluster'
			ELSE 'one_question' END AS agreement_reason,
		coalesce(q.meaning_items, 0) AS meaning_items, q.meaning_agreement, q.meaning_identical_rate, q.meaning_distinct_mean,
		q.meaning_entropy,
		coalesce(q.meaning_unsure, 0) AS meaning_unsure, coalesce(q.meaning_people, 0) AS meaning_people,
		r.latency_avg_ms, r.latency_p50_ms, r.latency_p90_ms, r.latency_p99_ms, r.first_token_p50_ms, r.tokens_per_second,
		r.longest_silence_p50_ms, r.longest_silence_max_ms,
		r.input_tokens, r.output_tokens, r.reasoning_tokens, r.total_tokens,
		coalesce(r.runs_with_usage, 0) AS runs_with_usage,
		trim_scale(r.cost) AS cost, g.currency, coalesce(r.runs_with_cost, 0) AS runs_with_cost`
	numbersOfRuns = `count(*) AS runs, sum(attempts) AS attempts,
			count(*) FILTER (WHERE status = 'SUCCEEDED') AS succeeded,
			count(*) FILTER (WHERE status = 'SUCCEEDED' AND run_index <= (SELECT runs_per_item FROM evaluation_tasks
			WHERE id = $1)) AS counted,
			count(*) FILTER (WHERE status = 'FAILED') AS failed,
			count(*) FILTER (WHERE status = 'TIMEOUT') AS timed_out,
			count(*) FILTER (WHERE error_code = 'REFUSED') AS refused,
			count(*) FILTER (WHERE error_code = 'CONTENT_FILTERED') AS filtered,
			count(*) FILTER (WHERE status = 'SUCCEEDED' AND finish_reason = 'length') AS truncated,
			avg(latency_ms::float8) FILTER (WHERE status = 'SUCCEEDED') AS latency_avg_ms,
			percentile_cont(0.5) WITHIN GROUP (ORDER BY latency_ms) FILTER (WHERE status = 'SUCCEEDED') AS latency_p50_ms,
			percentile_cont(0.9) WITHIN GROUP (ORDER BY latency_ms) FILTER (WHERE status = 'SUCCEEDED') AS latency_p90_ms,
			percentile_cont(0.99) WITHIN GROUP (ORDER BY latency_ms) FILTER (WHERE status = 'SUCCEEDED') AS latency_p99_ms,
			percentile_cont(0.5) WITHIN GROUP (ORDER BY first_token_ms) FILTER (WHERE status = 'SUCCEEDED') AS
			first_token_p50_ms,
			percentile_cont(0.5) WITHIN GROUP (ORDER BY ` + db.AnswerTokens + ` * 1000.0 / nullif(latency_ms - first_token_ms, 0))
				FILTER (WHERE status = 'SUCCEEDED' AND latency_ms > first_token_ms) AS tokens_per_second,
			percentile_cont(0.5) WITHIN GROUP (ORDER BY longest_silence_ms) FILTER (WHERE status = 'SUCCEEDED') AS
			longest_silence_p50_ms,
			max(longest_silence_ms) FILTER (WHERE status = 'SUCCEEDED') AS longest_silence_max_ms,
			sum(input_tokens) AS input_tokens, sum(output_tokens) AS output_tokens, sum(reasoning_tokens) AS reasoning_tokens,
			sum(total_tokens) AS total_tokens,
			count(*) FILTER (WHERE coalesce(input_tokens, output_tokens, total_tokens) IS NOT NULL) AS runs_with_usage,
			sum(cost) AS cost, count(cost) AS runs_with_cost`
	numbersOfQuestions = `avg(CAST(s.consensus = 1 AS int)::float8) AS identical_rate, avg(s.agreement) AS agreement,
		avg(s.consensus) AS consensus,
			avg(s.answers::float8) FILTER (WHERE s.answers > 0) AS distinct_mean, avg(s.similarity) AS similarity,
			count(s.meaning_by) AS meaning_items, avg(s.meaning_agreement) AS meaning_agreement,
			avg(CAST(s.meaning_agreement = 1 AS int)::float8) AS meaning_identical_rate,
			avg(s.meaning_groups::float8) FILTER (WHERE s.meaning_groups > 0) AS meaning_distinct_mean,
			avg(s.meaning_entropy) AS meaning_entropy,
			count(*) FILTER (WHERE s.meaning_unsure <> '{}') AS meaning_unsure,
			count(*) FILTER (WHERE s.meaning_by = 'person') AS meaning_people`
)

const readVariantStatistics = `
	WITH items AS (
		SELECT i.id, coalesce('=' || nullif(` + db.ClusterOf + `, ''), '#' || i.id) AS cluster
		FROM evaluation_items i
		JOIN evaluation_tasks t ON t.id = i.task_id
		WHERE i.task_id = $1)
	SELECT ` + numbersOfVariant + `
	FROM evaluation_tasks t
	JOIN task_variants v ON v.task_id = t.id
	JOIN task_targets g ON g.task_id = t.id AND g.number = v.target
	CROSS JOIN LATERAL (
		SELECT t.total_items AS items, (SELECT count(DISTINCT cluster) FROM items) AS clusters,
		coalesce(sum(p.runs - t.runs_per_item), 0) AS extra
		FROM items i
		JOIN planned_runs p ON p.item_id = i.id AND p.variant = v.number) n
	LEFT JOIN (
		SELECT variant, ` + numbersOfRuns + `
		FROM evaluation_runs
		WHERE task_id = $1 AND is_current
		GROUP BY variant) r ON r.variant = v.number
	LEFT JOIN (
		SELECT s.variant, ` + numbersOfQuestions + `
		FROM items i
		JOIN question_statistics s ON s.item_id = i.id
		GROUP BY s.variant) q ON q.variant = v.number
	LEFT JOIN ( -- metrics.md, Clusters
		SELECT variant, sqrt(count(*) / nullif(count(*) - 1, 0)::float8 * sum(deviation * deviation)) / sum(items) AS
		agreement_se
		FROM (
			SELECT variant, sum(deviation) AS deviation, count(*) AS items
			FROM (
				SELECT s.variant, i.cluster, s.agreement - avg(s.agreement) OVER (PARTITION BY s.variant) AS deviation
				FROM items i
				JOIN question_statistics s ON s.item_id = i.id
				WHERE s.agreement IS NOT NULL) d
			GROUP BY variant, cluster) d
		GROUP BY variant) c ON c.variant = v.number
	WHERE t.id = $1
	ORDER BY v.number`

// VariantStatistics returns the statistics of each variant of a task, in variant order, or a db.NotFoundError if there
// is no such task.
func (r Report) VariantStatistics(ctx context.Context, taskID uuid.UUID) (variants []VariantStatistics, err error) {
	err = r.db.InTx(ctx, "compute the variants' statistics", func(tx *sqlx.Tx) error {
		err := tx.SelectContext(ctx, &variants, readVariantStatistics, taskID)
		return pg.Classify("compute the variants' statistics", err)
	})
	if err == nil && len(variants) == 0 {
		err = &db.NotFoundError{Kind: db.KindTask}
	}
	if err != nil {
		return nil, err
	}
	return variants, r.countSettled(ctx, taskID, variants)
}

// countSettled counts the settled questions of an adaptive task.
func (r Report) countSettled(ctx context.Context, taskID uuid.UUID, variants []VariantStatistics) error {
	const read = `
		SELECT q.variant, q.letters, CAST(t.adaptive ->> 'confidence' AS float8) AS confidence
		FROM evaluation_tasks t
		JOIN evaluation_items i ON i.task_id = t.id
		JOIN question_statistics q ON q.item_id = i.id
		WHERE t.id = $1 AND t.adaptive IS NOT NULL`
	type row struct {
		Variant    int
		Letters    string
		Confidence float64
	}
	return pg.EachRow(ctx, r.db, "count the settled questions", read, []any{taskID}, func(one row) error {
		of := &variants[one.Variant-1]
		if of.Settled == nil {
			of.Settled, of.SettledAfter = new(int), map[int]int{}
		}
		if first, second := measure.Votes(one.Letters); measure.IsSettled(first, second, one.Confidence) {
			*of.Settled++
			of.SettledAfter[len(one.Letters)]++
		}
		return nil
	})
}

// UnknownReasons returns the distinct reasons why variants have no agreement, or no interval for it.
func UnknownReasons(variants []VariantStatistics,
	interval func(variant int) measure.Interval) (reasons []measure.UnknownReason) {
	for _, of := range variants {
		reason := measure.NoVariation
		if of.AgreementReason != nil {
			reason = *of.AgreementReason
		}
		if interval(of.Number) == nil && !slices.Contains(reasons, reason) {
			reasons = append(reasons, reason)
		}
	}
	return reasons
}

// CostOfRun returns the average cost of the runs whose cost is known; 0 if there are none.
func (v VariantStatistics) CostOfRun() float64 {
	if v.Cost == nil || v.RunsWithCost == 0 {
		return 0
	}
	cost, err := strconv.ParseFloat(*v.Cost, 64)
	if err != nil {
		return 0
	}
	return cost / float64(v.RunsWithCost)
}

// ErrorCount counts the runs that ended with an error, keyed by variant number, and the questions that have such runs.
type ErrorCount struct {
	Code   string
	Items  int
	Counts map[int]int
}

// Errors returns the reasons why current runs of a task have no answer, the most frequent first.
func (r Report) Errors(ctx context.Context, taskID uuid.UUID) (errors []ErrorCount, err error) {
	const read = `
		WITH failed AS MATERIALIZED (
			SELECT error_code, variant, item_id
			FROM evaluation_runs
			WHERE task_id = $1 AND is_current AND error_code IS NOT NULL)
		SELECT error_code, variant, count(*) AS count, items
		FROM failed
		JOIN (SELECT error_code, count(*) AS total, count(DISTINCT item_id) AS items FROM failed GROUP BY error_code) codes
			USING (error_code)
		GROUP BY error_code, variant, total, items
		ORDER BY total DESC, error_code`
	var rows []struct {
		Code                  string `db:"error_code"`
		Variant, Count, Items int
	}
	if err := r.db.SelectContext(ctx, &rows, read, taskID); err != nil {
		return nil, pg.Classify("count the errors", err)
	}
	for _, row := range rows {
		if len(errors) == 0 || errors[len(errors)-1].Code != row.Code {
			errors = append(errors, ErrorCount{row.Code, row.Items, map[int]int{}})
		}
		errors[len(errors)-1].Counts[row.Variant] = row.Count
	}
	return errors, nil
}

// Levels returns the number of questions at each level, and the number for each way in which facts differ, keyed by
// variant number. Questions that are not assessed are not counted.
func (r Report) Levels(ctx context.Context, taskID uuid.UUID) (levels, differ map[int]map[string]int, err error) {
	const read = `
		SELECT q.variant, q.level, coalesce(q.facts_differ, '') AS facts_differ, count(*) AS count
		FROM evaluation_items i
		JOIN question_statistics q ON q.item_id = i.id
		WHERE i.task_id = $1
		GROUP BY q.variant, q.level, q.facts_differ`
	var rows []levelCount
	if err := r.db.SelectContext(ctx, &rows, read, taskID); err != nil {
		return nil, nil, pg.Classify("count the levels", err)
	}
	levels, differ = byVariant(rows)
	return levels, differ, nil
}

// levelCount is the number of a variant's questions with a certain level and a certain way in which facts differ.
type levelCount struct {
	Variant     int
	Level       string
	FactsDiffer string `db:"facts_differ"`
	Count       int
}

// byVariant sums up counts by variant number.
func byVariant(counts []levelCount) (levels, differ map[int]map[string]int) {
	levels, differ = map[int]map[string]int{}, map[int]map[string]int{}
	for _, one := range counts {
		if levels[one.Variant] == nil {
			levels[one.Variant], differ[one.Variant] = map[string]int{}, map[string]int{}
		}
		levels[one.Variant][one.Level] += one.Count
		if one.FactsDiffer != "" {
			differ[one.Variant][one.FactsDiffer] += one.Count
		}
	}
	return levels, differ
}

// LevelsOfItems returns the level of each question for a variant, in the order of the questions' numbers; a level is
// empty if it is unknown.
func (r Report) LevelsOfItems(ctx context.Context, taskID uuid.UUID, variant int) (levels []measure.Level, err error) {
	const read = `
		SELECT coalesce(q.level, '')
		FROM evaluation_items i
		LEFT JOIN question_statistics q ON q.item_id = i.id AND q.variant = $2
		WHERE i.task_id = $1
		ORDER BY i.sort_key`
	err = r.db.SelectContext(ctx, &levels, read, taskID, variant)
	return levels, pg.Classify("read the levels of the questions", err)
}

// Matters returns the smallest differences that matter to a task's project.
func (r Report) Matters(ctx context.Context, taskID uuid.UUID) (measure.Matters, error) {
	const read = `
		SELECT p.smallest_points, p.smallest_percent
		FROM evaluation_tasks t
		JOIN projects p ON p.id = t.project_id
		WHERE t.id = $1`
	var stored struct {
		Points  float64 `db:"smallest_points"`
		Percent float64 `db:"smallest_percent"`
	}
	err := r.db.GetContext(ctx, &stored, read, taskID)
	return measure.Matters{Share: stored.Points / 100, Part: stored.Percent / 100},
		pg.Classify("read the smallest differences that matter", err)
}
