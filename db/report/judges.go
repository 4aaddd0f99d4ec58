package report

import (
	"context"

	"wending/db"
	"wending/db/pg"
)

// Spent holds the tokens and the cost of a judge's calls, counting only the calls behind current verdicts. A field is
// nil if it is unknown.
type Spent struct {
	InputTokens  *int64  `db:"input_tokens" json:"input_tokens" doc:"Sum over the judge's calls that report tokens; null for rules" example:"18200"`
	OutputTokens *int64  `db:"output_tokens" json:"output_tokens" example:"2280"`
	TotalTokens  *int64  `db:"total_tokens" json:"total_tokens" example:"20480"`
	Cost         *string `db:"cost" json:"cost" doc:"Cost of the judge's calls, a decimal number; null for rules and if prices are unknown" example:"0.08"`
	Currency     *string `db:"currency" json:"currency" example:"USD"`
}

// JudgeNumbers hold the cost of one judge's calls and the scale on which the judge seems to rate.
type JudgeNumbers struct {
	Spent
	// Variants holds the same for each variant, keyed by the variant's number.
	Variants map[int]Spent
	// Scale is 1 or 10 if enough answers were rated and no rating is above it, although ratings go up to 100;
	// otherwise 0.
	Scale int
}

// fewestForScale is the minimum number of rated answers for suspecting a judge's scale.
const fewestForScale = 5

// Judges returns the statistics of a task's judges, keyed by evaluator number. Default ratings do not count towards the
// scale.
func (r Report) Judges(ctx context.Context, task db.Task) (map[int]JudgeNumbers, error) {
	const read = `
		SELECT e.evaluator, coalesce(r.variant, 0) AS variant, sum(e.input_tokens) AS input_tokens,
		sum(e.output_tokens) AS output_tokens,
			sum(e.total_tokens) AS total_tokens, CAST(trim_scale(sum(e.cost)) AS text) AS cost, min(g.currency) AS currency,
			count(*) FILTER (WHERE NOT e.is_default AND e.ratings IS NOT NULL) AS rated,
			max(of.best) FILTER (WHERE NOT e.is_default) AS best
		FROM evaluation_runs r
		JOIN evaluations e ON e.run_id = r.id
		JOIN task_evaluators own ON own.task_id = r.task_id AND own.number = e.evaluator
		JOIN task_targets g ON g.task_id = own.task_id AND g.number = own.target
		LEFT JOIN LATERAL (SELECT max(CAST(value AS float8)) AS best FROM json_each_text(e.ratings)) of ON true
		WHERE r.task_id = $1 AND r.is_current
		GROUP BY GROUPING SETS ((e.evaluator, r.variant), (e.evaluator))`
	type row struct {
		Spent
		Evaluator, Variant, Rated int
		Best                      *float64
	}
	judges := map[int]JudgeNumbers{}
	err := pg.EachRow(ctx, r.db, "read the judges' usage", read, []any{task.ID}, func(one row) error {
		of := judges[one.Evaluator]
		if of.Variants == nil {
			of.Variants = map[int]Spent{}
		}
		if one.Variant == 0 {
			of.Spent, of.Scale = one.Spent, suspectedScale(one.Rated, one.Best)
		} else {
			of.Variants[one.Variant] = one.Spent
		}
		judges[one.Evaluator] = of
		return nil
	})
	return judges, err
}

// suspectedScale returns a judge's likely scale, given the number of rated answers and the best rating; 0 if the scale
// seems to be 0 to 100. Ratings that are all 0 fit every scale.
func suspectedScale(rated int, best *float64) int {
	switch {
	case rated < fewestForScale || best == nil || *best <= 0 || *best > 10:
		return 0
	case *best <= 1:
		return 1
	}
	return 10
}
