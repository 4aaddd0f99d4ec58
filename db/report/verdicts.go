package report

import (
	"context"
	"maps"
	"slices"

	"github.com/google/uuid"
	"github.com/lib/pq"

	"wending/db"
	"wending/db/measure"
	"wending/db/pg"
)

// variantVerdicts are the evaluators' verdicts on one variant.
type variantVerdicts struct {
	// questions holds the questions that have runs, keyed by item id.
	questions map[int64]measure.Judged
	// errors is the number of evaluations that ended with an error, and defaults the number of these that have default
	// ratings.
	errors, defaults int
	// ratings holds the mean ratings of questions, keyed by dimension.
	ratings map[string]*measure.Sample
}

// isCounted is the condition for the runs r of the task $1 from which statistics are computed: the same number of first
// runs of every question. Additional runs of questions that are not settled would bias the statistics.
const isCounted = `r.run_index <= (SELECT runs_per_item FROM evaluation_tasks WHERE id = $1)`

// PassStatistics returns the statistics of the combined verdicts of all evaluators of a task, keyed by variant number.
// Default ratings of judges are included only if withDefaults is true.
func (r Report) PassStatistics(ctx context.Context, task db.Task,
	withDefaults bool) (map[int]measure.Statistics, error) {
	score := `r.score`
	if withDefaults {
		score = `(SELECT avg(e.score) FROM evaluations e WHERE e.run_id = r.id)`
	}
	read := `
		SELECT r.variant, r.item_id, count(*) AS runs, count(r.passed) AS judged, count(*) FILTER (WHERE r.passed) AS passes, avg(` + score + `) AS score,
			0 AS errors, 0 AS defaults
		FROM evaluation_runs r
		WHERE r.task_id = $1 AND r.is_current AND ` + isCounted + `
		GROUP BY r.variant, r.item_id`
	verdicts, err := r.verdicts(ctx, read, task.ID)
	if err != nil {
		return nil, err
	}
	errors, err := r.evaluationErrors(ctx, task)
	if err != nil {
		return nil, err
	}
	for _, one := range errors {
		of := verdicts[one.Variant]
		of.errors, of.defaults = of.errors+one.Errors, of.defaults+one.Defaults
		verdicts[one.Variant] = of
	}
	clusters, err := r.clusters(ctx, task)
	return summarised(task, verdicts, clusters), err
}

// PassStatisticsOf returns the statistics of one evaluator's verdicts, keyed by variant number; for a judge, they
// include its ratings.
func (r Report) PassStatisticsOf(ctx context.Context, task db.Task, evaluator db.Evaluator,
	withDefaults bool) (map[int]measure.Statistics, error) {
	const read = `
		SELECT r.variant, r.item_id, count(*) AS runs, count(e.passed) AS judged, count(*) FILTER (WHERE e.passed) AS passes,
			avg(e.score) FILTER (WHERE $3 OR NOT e.is_default) AS score,
			count(*) FILTER (WHERE e.status = 'FAILED' OR e.is_default) AS errors,
			count(*) FILTER (WHERE e.is_default) AS defaults
		FROM evaluation_runs r
		LEFT JOIN evaluations e ON e.run_id = r.id AND e.evaluator = $2
		WHERE r.task_id = $1 AND r.is_current AND ` + isCounted + `
		GROUP BY r.variant, r.item_id`
	verdicts, err := r.verdicts(ctx, read, task.ID, evaluator.Number, withDefaults)
	if err != nil {
		return nil, err
	}
	clusters, err := r.clusters(ctx, task)
	if err == nil && evaluator.IsJudge() {
		err = r.addRatings(ctx, task.ID, evaluator.Number, withDefaults, clusters, verdicts)
	}
	return summarised(task, verdicts, clusters), err
}

// clusters returns the clusters of a task's items, keyed by item id; nil if all items are independent.
func (r Report) clusters(ctx context.Context, task db.Task) (map[int64]string, error) {
	const read = `
		SELECT i.id, ` + db.ClusterOf + ` AS cluster
		FROM evaluation_items i
		JOIN evaluation_tasks t ON t.id = i.task_id
		WHERE i.task_id = $1`
	if task.ClusterBy == nil && task.TotalConversations == 0 {
		return nil, nil
	}
	var rows []struct {
		ID      int64
		Cluster string
	}
	if err := r.db.SelectContext(ctx, &rows, read, task.ID); err != nil {
		return nil, pg.Classify("read the clusters", err)
	}
	clusters := make(map[int64]string, len(rows))
	for _, row := range rows {
		clusters[row.ID] = row.Cluster
	}
	return clusters, nil
}

// addRatings adds a judge's mean ratings of questions to the verdicts, which are keyed by variant number.
func (r Report) addRatings(
	ctx context.Context, taskID uuid.UUID, evaluator int, withDefaults bool, clusters map[int64]string,
	verdicts map[int]variantVerdicts,
) error {
	const read = `
		SELECT r.variant, r.item_id, rating.key AS dimension, avg(CAST(rating.value AS float8)) AS mean
		FROM evaluation_runs r
		JOIN evaluations e ON e.run_id = r.id AND e.evaluator = $2 AND ($3 OR NOT e.is_default)
		CROSS JOIN LATERAL json_each_text(e.ratings) rating
		WHERE r.task_id = $1 AND r.is_current AND ` + isCounted + `
		GROUP BY r.variant, r.item_id, rating.key
		ORDER BY r.variant, rating.key, r.item_id`
	type row struct {
		Variant   int
		ItemID    int64 `db:"item_id"`
		Dimension string
		Mean      float64
	}
	return pg.EachRow(ctx, r.db, "read the ratings", read, []any{taskID, evaluator, withDefaults}, func(one row) error {
		of := verdicts[one.Variant]
		if of.ratings == nil {
			of.ratings = map[string]*measure.Sample{}
		}
		if of.ratings[one.Dimension] == nil {
			of.ratings[one.Dimension] = &measure.Sample{}
		}
		of.ratings[one.Dimension].Add(one.Mean, clusters[one.ItemID])
		verdicts[one.Variant] = of
		return nil
	})
}

func summarised(task db.Task, verdicts map[int]variantVerdicts, clusters map[int64]string) map[int]measure.Statistics {
	statistics := map[int]measure.Statistics{}
	for _, variant := range task.Variants {
		statistics[variant.Number] = summarisedVariant(task, verdicts[variant.Number], clusters)
	}
	return statistics
}

// summarisedVariant returns the statistics of the verdicts on one variant.
func summarisedVariant(task db.Task, of variantVerdicts, clusters map[int64]string) measure.Statistics {
	questions := make([]measure.Judged, 0, task.TotalItems)
	for _, id := range slices.Sorted(maps.Keys(of.questions)) {
		question := of.questions[id]
		question.Cluster = clusters[id]
		questions = append(questions, question)
	}
	for id, cluster := range clusters { // questions without a run
		if _, hasRuns := of.questions[id]; !hasRuns {
			questions = append(questions, measure.Judged{Cluster: cluster})
		}
	}
	for len(questions) < task.TotalItems {
		questions = append(questions, measure.Judged{})
	}
	summary := measure.Summarise(questions, task.RunsPerItem, of.errors)
	summary.Defaults = of.defaults
	for dimension, means := range of.ratings {
		if summary.Ratings == nil {
			summary.Ratings = map[string]measure.Rating{}
		}
		summary.Ratings[dimension] = measure.NewRating(*means)
	}
	return summary
}

func (r Report) verdicts(ctx context.Context, read string, arguments ...any) (map[int]variantVerdicts, error) {
	type row struct {
		Variant, Runs, Judged, Passes, Errors, Defaults int
		ItemID                                          int64    `db:"item_id"`
		Score                                           *float64 `db:"score"`
	}
	verdicts := map[int]variantVerdicts{}
	err := pg.EachRow(ctx, r.db, "read the verdicts", read, arguments, func(one row) error {
		of := verdicts[one.Variant]
		if of.questions == nil {
			of.questions = map[int64]measure.Judged{}
		}
		of.questions[one.ItemID] = measure.Judged{Runs: one.Runs, Judged: one.Judged, Passes: one.Passes, Score: one.Score}
		of.errors, of.defaults = of.errors+one.Errors, of.defaults+one.Defaults
		verdicts[one.Variant] = of
		return nil
	})
	return verdicts, err
}

// Unpassed returns the items of a task with a run that did not pass an evaluator, keyed by evaluator number and item
// id; variant 0 means any variant.
func (r Report) Unpassed(ctx context.Context, taskID uuid.UUID, variant int) (map[string]map[int64]bool, error) {
	const read = `
		SELECT DISTINCT e.evaluator, r.item_id
		FROM evaluation_runs r
		JOIN evaluations e ON e.run_id = r.id AND NOT e.passed
		WHERE r.task_id = $1 AND r.is_current AND ($2 = 0 OR r.variant = $2)`
	var rows []struct {
		Evaluator string
		ItemID    int64 `db:"item_id"`
	}
	if err := r.db.SelectContext(ctx, &rows, read, taskID, variant); err != nil {
		return nil, pg.Classify("read the failed evaluations", err)
	}
	items := map[string]map[int64]bool{}
	for _, row := range rows {
		if items[row.Evaluator] == nil {
			items[row.Evaluator] = map[int64]bool{}
		}
		items[row.Evaluator][row.ItemID] = true
	}
	return items, nil
}

// Unrated returns the items of a task that have an answer on which an evaluator reached no verdict; variant 0 means any
// variant.
func (r Report) Unrated(ctx context.Context, taskID uuid.UUID, variant int) (map[int64]bool, error) {
	const read = `
		SELECT DISTINCT r.item_id
		FROM evaluation_runs r
		JOIN evaluations e ON e.run_id = r.id AND (e.status = 'FAILED' OR e.is_default)
		WHERE r.task_id = $1 AND r.is_current AND ($2 = 0 OR r.variant = $2)`
	var ids []int64
	if err := r.db.SelectContext(ctx, &ids, read, taskID, variant); err != nil {
		return nil, pg.Classify("read the answers without a rating", err)
	}
	items := make(map[int64]bool, len(ids))
	for _, id := range ids {
		items[id] = true
	}
	return items, nil
}

// Passes counts the runs of one question that passed, among those that were judged, of which there is at least one.
type Passes struct{ Passed, Judged int }

// Share returns the share of the judged runs that passed.
func (p Passes) Share() float64 { return float64(p.Passed) / float64(p.Judged) }

// Interval returns the 95 % interval of the share (metrics.md, pass_interval).
func (p Passes) Interval() measure.Interval { return measure.Wilson(p.Share(), p.Judged) }

// Passes counts the judged runs that passed, keyed by item id and variant; pairs without judged runs are missing.
func (r Report) Passes(ctx context.Context, itemIDs []int64) (map[int64]map[int]Passes, error) {
	const read = `
		SELECT item_id, variant, count(*) FILTER (WHERE passed) AS passed, count(passed) AS judged
		FROM evaluation_runs
		WHERE item_id = ANY ($1) AND is_current AND passed IS NOT NULL
		GROUP BY item_id, variant`
	var rows []struct {
		ItemID  int64 `db:"item_id"`
		Variant int
		Passes
	}
	if err := r.db.SelectContext(ctx, &rows, read, pq.Int64Array(itemIDs)); err != nil {
		return nil, pg.Classify("read the pass rates", err)
	}
	passes := map[int64]map[int]Passes{}
	for _, row := range rows {
		if passes[row.ItemID] == nil {
			passes[row.ItemID] = map[int]Passes{}
		}
		passes[row.ItemID][row.Variant] = row.Passes
	}
	return passes, nil
}
