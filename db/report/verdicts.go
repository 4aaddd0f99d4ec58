package report

import (
	"context"

	"github.com/google/uuid"
	"github.com/lib/pq"

	"wending/db"
	"wending/db/pg"
	"wending/jobs/evaluate"
)

// variantVerdicts are what evaluators say of one variant.
type variantVerdicts struct {
	// questions are those that have runs, in no order.
	questions []evaluate.Judged
	// errors is how many evaluations ended with one.
	errors int
}

// verdictsOfAll returns what all evaluators of a task together say of its current runs, by the variants' numbers.
func (r Report) verdictsOfAll(ctx context.Context, taskID uuid.UUID) (map[int]variantVerdicts, error) {
	const read = `
		SELECT r.variant, r.item_id, count(*) AS runs, count(r.passed) AS judged, count(*) FILTER (WHERE r.passed) AS passes, avg(r.score) AS score,
			0 AS errors
		FROM evaluation_runs r
		WHERE r.task_id = $1 AND r.is_current
		GROUP BY r.variant, r.item_id`
	verdicts, err := r.verdicts(ctx, read, taskID)
	if err != nil {
		return nil, err
	}
	const countErrors = `
		SELECT r.variant, count(*) AS errors
		FROM evaluation_runs r
		JOIN evaluations e ON e.run_id = r.id
		WHERE r.task_id = $1 AND r.is_current AND e.status = 'FAILED'
		GROUP BY r.variant`
	var errors []struct{ Variant, Errors int }
	if err := r.db.SelectContext(ctx, &errors, countErrors, taskID); err != nil {
		return nil, pg.Classify("count the evaluations with errors", err)
	}
	for _, one := range errors {
		of := verdicts[one.Variant]
		of.errors = one.Errors
		verdicts[one.Variant] = of
	}
	return verdicts, nil
}

// PassStatistics returns the numbers of what all evaluators of a task together say, by the variants' numbers.
func (r Report) PassStatistics(ctx context.Context, task db.Task) (map[int]evaluate.Statistics, error) {
	verdicts, err := r.verdictsOfAll(ctx, task.ID)
	return summarised(task, verdicts), err
}

// PassStatisticsOf returns the numbers of what one evaluator says.
func (r Report) PassStatisticsOf(ctx context.Context, task db.Task, evaluator int) (map[int]evaluate.Statistics, error) {
	verdicts, err := r.verdictsOf(ctx, task.ID, evaluator)
	return summarised(task, verdicts), err
}

func summarised(task db.Task, verdicts map[int]variantVerdicts) map[int]evaluate.Statistics {
	statistics := map[int]evaluate.Statistics{}
	for _, variant := range task.Variants {
		of := verdicts[variant.Number]
		for len(of.questions) < task.TotalItems { // those without a run
			of.questions = append(of.questions, evaluate.Judged{})
		}
		statistics[variant.Number] = evaluate.Summarise(of.questions, task.RunsPerItem, of.errors)
	}
	return statistics
}

// verdictsOf returns what one evaluator of a task says of its current runs, by the variants' numbers.
func (r Report) verdictsOf(ctx context.Context, taskID uuid.UUID, evaluator int) (map[int]variantVerdicts, error) {
	const read = `
		SELECT r.variant, r.item_id, count(*) AS runs, count(e.passed) AS judged, count(*) FILTER (WHERE e.passed) AS passes, avg(e.score) AS score,
			count(*) FILTER (WHERE e.status = 'FAILED') AS errors
		FROM evaluation_runs r
		LEFT JOIN evaluations e ON e.run_id = r.id AND e.evaluator = $2
		WHERE r.task_id = $1 AND r.is_current
		GROUP BY r.variant, r.item_id`
	return r.verdicts(ctx, read, taskID, evaluator)
}

func (r Report) verdicts(ctx context.Context, read string, arguments ...any) (map[int]variantVerdicts, error) {
	type row struct {
		Variant, Runs, Judged, Passes, Errors int
		ItemID                                int64    `db:"item_id"`
		Score                                 *float64 `db:"score"`
	}
	verdicts := map[int]variantVerdicts{}
	err := pg.EachRow(ctx, r.db, "read the verdicts", read, arguments, func(one row) error {
		of := verdicts[one.Variant]
		of.questions = append(of.questions, evaluate.Judged{Runs: one.Runs, Judged: one.Judged, Passes: one.Passes, Score: one.Score})
		of.errors += one.Errors
		verdicts[one.Variant] = of
		return nil
	})
	return verdicts, err
}

// PassShares returns the share of judged runs that pass, by items and variants; what is not judged has none.
func (r Report) PassShares(ctx context.Context, itemIDs []int64) (map[int64]map[int]float64, error) {
	const read = `
		SELECT item_id, variant, count(*) FILTER (WHERE passed) / count(passed)::float8 AS share
		FROM evaluation_runs
		WHERE item_id = ANY ($1) AND is_current AND passed IS NOT NULL
		GROUP BY item_id, variant`
	var rows []struct {
		ItemID  int64 `db:"item_id"`
		Variant int
		Share   float64
	}
	if err := r.db.SelectContext(ctx, &rows, read, pq.Int64Array(itemIDs)); err != nil {
		return nil, pg.Classify("read the shares of runs that pass", err)
	}
	shares := map[int64]map[int]float64{}
	for _, row := range rows {
		if shares[row.ItemID] == nil {
			shares[row.ItemID] = map[int]float64{}
		}
		shares[row.ItemID][row.Variant] = row.Share
	}
	return shares, nil
}
