package report

import (
	"context"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/lib/pq"

	"wending/db"
	"wending/db/measure"
	"wending/db/measure/facts"
	"wending/db/pg"
)

// FirstItems returns the first count items of a task, in the order in which pages and exports list them.
func (r Report) FirstItems(ctx context.Context, taskID uuid.UUID, count int) ([]db.Item, error) {
	var items []db.Item
	err := r.db.SelectContext(ctx, &items,
		`SELECT `+db.ItemColumns+` FROM evaluation_items i WHERE i.task_id = $1 ORDER BY i.sort_key LIMIT $2`, taskID, count)
	return items, pg.Classify("read the first questions", err)
}

// ItemsByID returns the items with these ids, in the order in which pages and exports list them.
func (r Report) ItemsByID(ctx context.Context, ids []int64) ([]db.Item, error) {
	var items []db.Item
	err := r.db.SelectContext(ctx, &items,
		`SELECT `+db.ItemColumns+` FROM evaluation_items i WHERE i.id = ANY ($1) ORDER BY i.sort_key`, pq.Int64Array(ids))
	return items, pg.Classify("read the questions", err)
}

// Filter narrows and orders a task's items; its zero value selects all of them in the order in which pages list them.
type Filter struct {
	// QuestionID keeps only the item with this question id.
	QuestionID string
	// OnlyAssessed leaves out items that are not assessed, because their runs have not all ended.
	OnlyAssessed bool
	// Variant is the number of the variant whose runs and answers are considered; 0 means all.
	Variant int
	// Statuses keeps items with a run in one of these statuses; STOPPED means that a run never took place.
	Statuses []db.RunStatus
	// FinishReasons keeps items with a run that ended for one of these reasons, and ErrorCodes items with a run that
	// ended with one of these codes.
	FinishReasons, ErrorCodes []string
	// TraceID keeps items with a run that has this id in Wending's or the agent's traces; empty means any.
	TraceID string
	// Passed keeps items with a run whose verdict is that it passed (true) or did not pass (false); nil keeps all.
	// MinScore and MaxScore keep items with a run whose score is in range; nil means no limit. A single run must meet
	// all conditions on runs: Passed, MinScore, MaxScore, Statuses, FinishReasons, ErrorCodes, TraceID, and the bounds
	// in Slicing.
	Passed             *bool
	MinScore, MaxScore *float64
	// Evaluator is the number of the evaluator to whose verdict the conditions apply, and which must have given one; 0
	// means the combined verdict of all evaluators.
	Evaluator int
	// Unstable keeps items that a variant answered in more than one way.
	Unstable bool
	// Levels keeps items with a variant whose answers have one of these levels, and Facts those with a variant whose
	// facts differ in one of these ways. A single variant must meet both.
	Levels []measure.Level
	Facts  []facts.Differ
	Slicing
	// Sort is one of Sorts, with a - before it for descending order; empty means question_id.
	Sort string
}

// judges reports whether the filter depends on the evaluators' verdicts.
func (f Filter) judges() bool {
	return f.Passed != nil || f.MinScore != nil || f.MaxScore != nil || f.Evaluator != 0
}

// Outcome is how runs of an item ended; its fields are empty if unknown or if the runs have no error.
type Outcome struct {
	ItemID       int64  `db:"item_id"`
	FinishReason string `db:"finish_reason"`
	ErrorCode    string `db:"error_code"`
}

// Outcomes returns how the current runs of a task's items ended, for one variant or, if it is 0, for all; each
// outcome appears once per item.
func (r Report) Outcomes(ctx context.Context, taskID uuid.UUID, variant int) (byItem map[int64][]Outcome, err error) {
	const read = `
		SELECT DISTINCT item_id, coalesce(finish_reason, '') AS finish_reason, coalesce(error_code, '') AS error_code
		FROM evaluation_runs
		WHERE task_id = $1 AND is_current AND ($2 = 0 OR variant = $2) AND coalesce(finish_reason, error_code) IS NOT NULL`
	var rows []Outcome
	if err := r.db.SelectContext(ctx, &rows, read, taskID, variant); err != nil {
		return nil, pg.Classify("read the outcomes of runs", err)
	}
	byItem = map[int64][]Outcome{}
	for _, row := range rows {
		byItem[row.ItemID] = append(byItem[row.ItemID], row)
	}
	return byItem, nil
}

// sorts maps the names of orders to SQL.
var sorts = map[string]string{
	"question_id": "i.sort_key",
	"agreement": `(SELECT avg(q.agreement) FROM question_statistics q
		WHERE q.item_id = i.id AND (:variant = 0 OR q.variant = :variant))`,
	"pass_rate": `(SELECT CAST(count(*) FILTER (WHERE r.passed) AS float8) / nullif(count(r.passed), 0)
		FROM evaluation_runs r
		WHERE r.item_id = i.id AND r.is_current AND (:variant = 0 OR r.variant = :variant)
		AND r.run_index <= (SELECT runs_per_item FROM evaluation_tasks WHERE id = i.task_id))`,
	"risk": "(SELECT min(" + riskOfQuestion + `) FROM question_statistics q
		WHERE q.item_id = i.id AND (:variant = 0 OR q.variant = :variant))`,
	"latency": `(SELECT avg(r.latency_ms) FROM evaluation_runs r
		WHERE r.item_id = i.id AND r.is_current AND r.status = 'SUCCEEDED' AND (:variant = 0 OR r.variant = :variant))`,
}

// Sorts lists the valid values of Filter.Sort, without the - of descending order.
var Sorts = []string{"question_id", "risk", "agreement", "pass_rate", "latency"}

// levelsByRisk are the levels in the order of riskOfQuestion, the riskiest first.
var levelsByRisk = []measure.Level{
	measure.Facts, measure.Different, measure.Wording, measure.Unknown, measure.Empty, measure.FormatOnly,
	measure.Identical,
}

// riskOfQuestion orders question_statistics q by urgency for a reader: contradicting facts, then other differences;
// among equals, contradictions of the standard answer, then the lower agreement.
const riskOfQuestion = `
	4 * CASE
		WHEN q.facts_differ = 'conflict' THEN 0
		WHEN q.level = 'different' THEN 1
		WHEN q.facts_differ = 'omission' THEN 2
		WHEN q.level = 'wording' THEN 3
		WHEN q.level = 'unknown' THEN 4
		WHEN q.level = 'empty' THEN 5
		WHEN q.level = 'format_only' THEN 6
		ELSE 7
	END + 2 * CAST(q.expected_facts IS NULL AS int) + coalesce(q.agreement, 1)`

// joinVerdicts joins the verdict v on a run r: one evaluator's, or all evaluators' together.
func (f Filter) joinVerdicts() string {
	if f.Evaluator != 0 {
		return `JOIN evaluations v ON v.run_id = r.id AND v.evaluator = :evaluator AND v.status = 'SUCCEEDED'`
	}
	return `CROSS JOIN LATERAL (SELECT r.passed, r.score) v`
}

func (f Filter) where() string {
	where := `
		WHERE i.task_id = :task
		  AND (:question = '' OR i.question_id = :question)
		  AND (NOT :assessed OR EXISTS (SELECT FROM question_statistics q WHERE q.item_id = i.id AND q.variant = 1))`
	if f.Unstable {
		where += `
		  AND EXISTS (SELECT FROM question_statistics q WHERE q.item_id = i.id AND q.answers > 1
		  AND (:variant = 0 OR q.variant = :variant))`
	}
	if len(f.Levels)+len(f.Facts) > 0 {
		where += `
		  AND EXISTS (
				SELECT FROM question_statistics q
				WHERE q.item_id = i.id AND (:variant = 0 OR q.variant = :variant)
				  AND (coalesce(cardinality(CAST(:levels AS text[])), 0) = 0 OR q.level = ANY (:levels))
				  AND (coalesce(cardinality(CAST(:facts AS text[])), 0) = 0 OR q.facts_differ = ANY (:facts)))`
	}
	if len(f.Columns) > 0 {
		where += hasChosenValues
	}
	if len(f.Statuses)+len(f.FinishReasons)+len(f.ErrorCodes)+len(f.TraceID) > 0 || f.judges() || f.boundsRuns() {
		where += `
		  AND (EXISTS (
				SELECT FROM evaluation_runs r
				` + f.joinVerdicts() + `
				WHERE r.item_id = i.id AND r.is_current AND (:variant = 0 OR r.variant = :variant)
				  AND (cardinality(CAST(:statuses AS text[])) IS NULL OR cardinality(CAST(:statuses AS text[])) = 0
				  OR r.status = ANY (:statuses))
				  AND (coalesce(cardinality(CAST(:finishes AS text[])), 0) = 0 OR r.finish_reason = ANY (:finishes))
				  AND (coalesce(cardinality(CAST(:codes AS text[])), 0) = 0 OR r.error_code = ANY (:codes))
				  AND (:trace = '' OR r.trace_id = lower(:trace) OR r.agent_trace_id = :trace)
				  AND (CAST(:passed AS boolean) IS NULL OR v.passed = :passed)
				  AND (CAST(:min_score AS float8) IS NULL OR v.score >= :min_score)
				  AND (CAST(:max_score AS float8) IS NULL OR v.score <= :max_score)` + isWithinBounds + `)`
		// Runs that never took place have no verdict, numbers, finish reason, error code or trace.
		if slices.Contains(f.Statuses, db.RunStopped) && !f.judges() && !f.boundsRuns() &&
			len(f.FinishReasons)+len(f.ErrorCodes)+len(f.TraceID) == 0 {
			where += `
			OR (SELECT count(*) FROM evaluation_runs r WHERE r.item_id = i.id AND r.is_current
			AND (:variant = 0 OR r.variant = :variant))
				< (SELECT t.runs_per_item * CASE WHEN :variant = 0 THEN t.total_variants ELSE 1 END
					+ (SELECT coalesce(sum(p.runs - t.runs_per_item), 0)
						FROM planned_runs p
						WHERE p.item_id = i.id AND (:variant = 0 OR p.variant = :variant))
				FROM evaluation_tasks t
				WHERE t.id = :task)`
		}
		where += `)`
	}
	return where
}

// arguments returns the parameters of the condition that where returns.
func (f Filter) arguments(taskID uuid.UUID) map[string]any {
	arguments := map[string]any{
		"task": taskID, "question": f.QuestionID, "assessed": f.OnlyAssessed, "variant": f.Variant,
		"statuses": pq.Array(f.Statuses), "finishes": pq.Array(f.FinishReasons), "codes": pq.Array(f.ErrorCodes),
		"trace": f.TraceID, "levels": pq.Array(f.Levels), "facts": pq.Array(f.Facts),
		"passed": f.Passed, "min_score": f.MinScore, "max_score": f.MaxScore, "evaluator": f.Evaluator,
	}
	f.bind(arguments)
	return arguments
}

// Items returns one page of a task's items that match a filter, and how many match.
func (r Report) Items(ctx context.Context, taskID uuid.UUID, filter Filter,
	page db.Page) (items []db.Item, total int, err error) {
	arguments := filter.arguments(taskID)
	arguments["size"], arguments["offset"] = page.Size, page.Offset()
	if err := pg.GetNamed(ctx, r.db, &total, `SELECT count(*) FROM evaluation_items i`+filter.where(), arguments); err !=
		nil {
		return nil, 0, pg.Classify("count the questions", err)
	}
	name, isDescending := strings.CutPrefix(filter.Sort, "-")
	order := sorts["question_id"]
	if by, isKnown := sorts[name]; isKnown {
		order = by
	}
	if isDescending {
		order += " DESC"
	}
	list := `
		SELECT ` + db.ItemColumns + `
		FROM evaluation_items i` + filter.where() + `
		ORDER BY ` + order + ` NULLS LAST, i.sort_key
		LIMIT :size OFFSET :offset`
	if name == "" || name == "question_id" { // the index contains no nulls
		list = strings.Replace(list, order+" NULLS LAST, i.sort_key", order, 1)
	}
	err = pg.SelectNamed(ctx, r.db, &items, list, arguments)
	return items, total, pg.Classify("read the questions", err)
}
