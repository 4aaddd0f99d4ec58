package db

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"wending/db/measure"
	"wending/db/pg"
)

// Stability describes how alike the answers of a task are. Numbers are nil while they are unknown: if there is only one
// run per question, or if no question has all its runs yet.
type Stability struct {
	Items        int `json:"items" doc:"Number of questions" example:"100"`
	RunsExpected int `json:"runs_expected" doc:"Number of planned runs" example:"500"`
	Missing      int `json:"missing" doc:"runs_expected − runs" example:"0"`
	// SuccessRate treats missing runs as unsuccessful.
	SuccessRate   *float64 `json:"success_rate" doc:"succeeded / runs_expected" example:"0.986"`
	IdenticalRate *float64 `json:"identical_rate" doc:"Share of questions with every run answered and all answers equal" example:"0.42"`
	// Agreement is the mean over questions of Σ m(m − 1) / (N(N − 1)), where each answer was given by m of N runs.
	Agreement    *float64       `json:"agreement" doc:"Mean over questions of the share of pairs of runs with equal answers" example:"0.71"`
	Consensus    *float64       `json:"consensus" doc:"Mean over questions of the share of runs that gave the most common answer" example:"0.83"`
	DistinctMean *float64       `json:"distinct_mean" doc:"Mean number of distinct answers per question" example:"1.9"`
	Similarity   *float64       `json:"similarity" doc:"Mean similarity of pairs of answers to a question: 1 − edit distance / length of the longer answer" example:"0.94"`
	Levels       map[string]int `json:"levels" doc:"Number of questions at each level: identical, format_only, facts, wording, different, empty, unknown"`
	// FactsDiffer leaves out questions with fewer than two answers.
	FactsDiffer map[string]int `json:"facts_differ" doc:"Number of questions whose answers contradict each other on a fact (conflict), of which only some state a fact (omission), or neither (none)"`
	MeaningNumbers
}

// MeaningNumbers describe how far answers agree in meaning, over the questions whose answers have been grouped.
type MeaningNumbers struct {
	MeaningItems         int      `db:"meaning_items" json:"meaning_items,omitempty" doc:"Number of questions whose answers have been grouped by meaning" example:"98"`
	MeaningAgreement     *float64 `db:"meaning_agreement" json:"meaning_agreement,omitempty" doc:"Mean over these questions of the share of pairs of runs whose answers say the same thing" example:"0.88"`
	MeaningIdenticalRate *float64 `db:"meaning_identical_rate" json:"meaning_identical_rate,omitempty" doc:"Share of these questions with every run answered and all answers saying the same thing" example:"0.75"`
	MeaningDistinctMean  *float64 `db:"meaning_distinct_mean" json:"meaning_distinct_mean,omitempty" doc:"Mean number of groups of answers that say the same thing" example:"1.3"`
	MeaningEntropy       *float64 `db:"meaning_entropy" json:"meaning_entropy,omitempty" doc:"Mean entropy of the groups of a question, in nats (semantic entropy)" example:"0.21"`
	MeaningPeople        int      `db:"meaning_people" json:"meaning_people,omitempty" doc:"Number of these questions whose answers a person grouped" example:"12"`
	MeaningUnsure        int      `db:"meaning_unsure" json:"meaning_unsure,omitempty" doc:"Number of questions with answers whose group is not certain" example:"3"`
}

// Statistics are counts and latencies of runs: the current runs of a task, or the runs of one launch. Latencies are
// in milliseconds and cover successful runs; they are nil if no run succeeded.
type Statistics struct {
	Runs      int `json:"runs" doc:"Runs that have ended" example:"500"`
	Succeeded int `json:"succeeded" example:"493"`
	Failed    int `json:"failed" example:"5"`
	TimedOut  int `json:"timed_out" example:"2"`
	// Stopped is how many runs never took place because the task was stopped or failed.
	Stopped    int            `json:"stopped" doc:"Runs that never took place because the task was stopped or failed" example:"0"`
	Attempts   int            `json:"attempts" doc:"Calls made, including retries" example:"509"`
	ErrorCodes map[string]int `json:"error_codes" doc:"Number of runs by error code"`
	LatencyAvg *float64       `json:"latency_avg_ms" doc:"Mean over successful runs; null if there are none" example:"812.4"`
	LatencyP50 *float64       `json:"latency_p50_ms" example:"640"`
	LatencyP90 *float64       `json:"latency_p90_ms" example:"1730.5"`
	LatencyP99 *float64       `json:"latency_p99_ms" example:"4210"`
	// TotalTokens and Cost are sums over the runs that report tokens; nil means that no run reports them. Cost
	// is also nil if the targets have different currencies.
	TotalTokens *int64  `json:"total_tokens" doc:"Sum over the runs that report tokens; null if none does" example:"51234"`
	Cost        *string `json:"cost" doc:"Sum over the runs with known tokens and prices, a decimal number; null if there are none or if currencies differ" example:"0.42"`
	Currency    *string `json:"currency" example:"USD"`
	// RunsWithCost is the number of runs that Cost includes; it is 0 in statistics stored by earlier versions.
	RunsWithCost int `json:"runs_with_cost,omitempty" doc:"Number of runs that cost sums up" example:"500"`
	// The work of judges is counted separately from the runs: for a launch, all its calls to judges; for a task, the
	// judges' verdicts on its current runs. JudgeErrors is the number of answers that judges could not rate.
	JudgeErrors   int     `json:"judge_errors,omitempty" doc:"Answers that a judge could not rate because its call failed or its reply was unreadable" example:"2"`
	JudgeTokens   *int64  `json:"judge_tokens,omitempty" doc:"Sum over the judges' calls that report tokens; not part of total_tokens" example:"20480"`
	JudgeCost     *string `json:"judge_cost,omitempty" doc:"Cost of the judges' calls, a decimal number; not part of cost; absent if unknown or if currencies differ" example:"0.08"`
	JudgeCurrency *string `json:"judge_currency,omitempty" example:"USD"`
	// Groupings by meaning are counted in the same way as the work of judges. MeaningErrors is the number of questions
	// for which the model gave no grouping.
	MeaningErrors   int     `json:"meaning_errors,omitempty" doc:"Questions whose answers the model failed to group, because its call failed or its reply was unreadable" example:"1"`
	MeaningCalls    int     `json:"meaning_calls,omitempty" doc:"Number of calls for grouping answers by meaning, without retries" example:"110"`
	MeaningTokens   *int64  `json:"meaning_tokens,omitempty" doc:"Sum over the calls for grouping answers that report tokens; not part of total_tokens" example:"81920"`
	MeaningCost     *string `json:"meaning_cost,omitempty" doc:"Cost of the calls for grouping answers, a decimal number; not part of cost; absent if unknown or if currencies differ" example:"0.05"`
	MeaningCurrency *string `json:"meaning_currency,omitempty" example:"USD"`
	// Duration is the time in seconds from a launch's start to its end or, while it is running, to now; for a task it
	// is the sum over its launches.
	Duration *float64 `json:"duration_seconds" doc:"Seconds from start to end, or to now while running; for a task, the sum over its launches" example:"104.31"`
}

// sumGroupings sums up the effort of the groupings m, made by the targets g, as key-value pairs for a JSON object.
const sumGroupings = `
				'meaning_calls', coalesce(sum(m.calls), 0),
				'meaning_tokens', sum(m.total_tokens),
				'meaning_cost', CASE WHEN count(DISTINCT g.currency) = 1 THEN CAST(trim_scale(sum(m.cost)) AS text) END,
				'meaning_currency', CASE WHEN count(DISTINCT g.currency) = 1 THEN min(g.currency) END`

// TaskStatistics are the statistics of a task's current runs, over all variants.
type TaskStatistics struct {
	Statistics
	Stability
	// JudgeMissing is the number of answers that a judge has not rated yet.
	JudgeMissing int `json:"judge_missing,omitempty" doc:"Answers that a judge has not rated yet" example:"0"`
	// MeaningMissing is the number of questions for which the model has not been called yet.
	MeaningMissing int `json:"meaning_missing,omitempty" doc:"Questions with different answers that the model has yet to group" example:"0"`
	// The combined verdict of all evaluators, over all variants; nil without evaluators, or if nothing has been judged.
	PassRate *float64 `json:"pass_rate,omitempty" doc:"passes / (passes + failures); absent without evaluators" example:"0.9"`
	Passes   *int     `json:"passes,omitempty" doc:"Runs that passed every evaluator; absent without evaluators" example:"441"`
	Failures *int     `json:"failures,omitempty" doc:"Runs on which every evaluator reached a verdict and at least one failed the answer" example:"49"`
	// AgreementRange is the lowest and the highest mean agreement among the variants; nil if there is one variant.
	AgreementRange []float64 `json:"agreement_range,omitempty" doc:"Lowest and highest mean agreement among the variants; absent with one variant" example:"[0.72, 0.95]"`
	// PassRateRange and FactsRange are these ranges of the pass rate and of the number of questions at the level facts.
	PassRateRange []float64 `json:"pass_rate_range,omitempty" doc:"Lowest and highest pass rate among the variants; absent with one variant or without evaluators" example:"[0.8, 0.9]"`
	FactsRange    []int     `json:"facts_range,omitempty" doc:"Lowest and highest number of questions at the level facts among the variants; absent with one variant" example:"[2, 9]"`
	ScoreMean     *float64  `json:"score_mean,omitempty" doc:"Mean over questions and variants of the mean score of their runs, 0–1; absent without evaluators" example:"0.87"`
}

// LaunchStatistics are the statistics of the runs, judgements and groupings of one launch.
type LaunchStatistics struct {
	Statistics
	// JudgeCalls is how many answers judges were to rate in the launch, and JudgeStopped how many of them were not
	// reached.
	JudgeCalls   int `json:"judge_calls,omitempty" doc:"Answers that judges were to rate, each with one or more calls" example:"72"`
	JudgeStopped int `json:"judge_stopped,omitempty" doc:"Answers that judges did not rate because the task was stopped or failed" example:"0"`
	// MeaningQuestions is the number of questions that were to be grouped in the launch, and MeaningStopped how many of
	// them were not reached.
	MeaningQuestions int `json:"meaning_questions,omitempty" doc:"Number of questions whose answers the launch was to group by meaning" example:"88"`
	MeaningStopped   int `json:"meaning_stopped,omitempty" doc:"Questions that were not reached because the task was stopped or failed" example:"0"`
}

// Scan implements sql.Scanner for a JSON column.
func (s *TaskStatistics) Scan(column any) error {
	text, ok := column.([]byte)
	if !ok {
		return fmt.Errorf("statistics are stored as %T", column)
	}
	s.Levels, s.FactsDiffer = map[string]int{}, map[string]int{} // statistics stored by an earlier version have none
	return json.Unmarshal(text, s)
}

// Scan implements sql.Scanner for a JSON column.
func (s *LaunchStatistics) Scan(column any) error {
	text, ok := column.([]byte)
	if !ok {
		return fmt.Errorf("statistics are stored as %T", column)
	}
	return json.Unmarshal(text, s)
}

// The statistics that tasks and launches have in common, over the runs r, as key-value pairs for a JSON object.
const (
	countRuns = `
		'runs', count(*),
		'succeeded', count(*) FILTER (WHERE r.status = 'SUCCEEDED'),
		'failed', count(*) FILTER (WHERE r.status = 'FAILED'),
		'timed_out', count(*) FILTER (WHERE r.status = 'TIMEOUT'),
		'attempts', coalesce(sum(r.attempts), 0),
		'total_tokens', sum(r.total_tokens)`
	measureRuns = `
		'latency_avg_ms', round(avg(r.latency_ms) FILTER (WHERE r.status = 'SUCCEEDED'), 1),
		'latency_p50_ms', percentile_cont(0.5) WITHIN GROUP (ORDER BY r.latency_ms) FILTER (WHERE r.status = 'SUCCEEDED'),
		'latency_p90_ms', percentile_cont(0.9) WITHIN GROUP (ORDER BY r.latency_ms) FILTER (WHERE r.status = 'SUCCEEDED'),
		'latency_p99_ms', percentile_cont(0.99) WITHIN GROUP (ORDER BY r.latency_ms) FILTER (WHERE r.status = 'SUCCEEDED')`
)

// computeTaskStatistics counts runs that never took place only once a task has ended: until then, they may be made.
const computeTaskStatistics = `
	SELECT jsonb_build_object(` + countRuns + `,
		'stopped', greatest(0, coalesce((
			SELECT ` + RunsOfTask + `
			FROM evaluation_tasks t
			WHERE t.id = $1 AND t.status IN ('STOPPED', 'FAILED')), 0) - count(*)),
		'error_codes', coalesce((
			SELECT json_object_agg(e.error_code, e.n)
			FROM (
				SELECT error_code, count(*) AS n
				FROM evaluation_runs
				WHERE task_id = $1 AND is_current AND error_code IS NOT NULL
				GROUP BY error_code
				ORDER BY error_code) e), '{}'),` + measureRuns + `,
		'duration_seconds', (
			SELECT round(CAST(extract(epoch FROM sum(coalesce(finished_at, now()) - started_at)) AS numeric), 3)
			FROM launches
			WHERE task_id = $1))
		|| (SELECT jsonb_build_object(
				'items', t.total_items,
				'runs_expected', ` + RunsOfTask + `,
				'missing', ` + RunsOfTask + ` - count(r.id),
				'success_rate', count(r.id) FILTER (WHERE r.status = 'SUCCEEDED'
				AND r.run_index <= (SELECT runs_per_item FROM evaluation_tasks WHERE id = $1)) /
				nullif(t.total_items * t.runs_per_item * t.total_variants + least(t.extra_runs, 0), 0)::float8)
			FROM evaluation_tasks t
			WHERE t.id = $1)
		|| (` + computeStability + `)
		|| (` + computeRanges + `)
		|| (` + computePassRateRange + `)
		|| (
			SELECT jsonb_build_object('judge_missing', count(*) FILTER (WHERE v.run_id IS NULL),
				'judge_errors', count(*) FILTER (WHERE v.status = 'FAILED' OR v.is_default),
				'judge_tokens', sum(v.total_tokens),
				'judge_cost', CASE WHEN count(DISTINCT g.currency) = 1 THEN CAST(trim_scale(sum(v.cost)) AS text) END,
				'judge_currency', CASE WHEN count(DISTINCT g.currency) = 1 THEN min(g.currency) END)
			FROM task_evaluators e
			JOIN task_targets g ON g.task_id = e.task_id AND g.number = e.target
			JOIN evaluation_runs r ON r.task_id = e.task_id AND r.is_current AND r.status = 'SUCCEEDED'
			LEFT JOIN evaluations v ON v.run_id = r.id AND v.evaluator = e.number
			WHERE e.task_id = $1 AND e.target IS NOT NULL)
		|| (
			SELECT jsonb_build_object('meaning_missing', count(*) FILTER (WHERE NOT q.meaning_default), 'meaning_errors',
			count(*) FILTER (WHERE q.meaning_default))
			FROM evaluation_items i
			JOIN question_statistics q ON q.item_id = i.id AND q.variant = 1 AND q.contents > 1 AND q.meaning_by IS NULL
			WHERE i.task_id = $1 AND EXISTS (SELECT FROM evaluation_tasks WHERE id = $1 AND meaning_target IS NOT NULL))
		|| (
			SELECT jsonb_build_object(` + sumGroupings + `)
			FROM evaluation_items i
			JOIN meanings m ON m.item_id = i.id AND m.is_current
			JOIN task_targets g ON g.task_id = i.task_id AND g.number = m.target
			WHERE i.task_id = $1 AND EXISTS (SELECT FROM evaluation_tasks WHERE id = $1 AND meaning_target IS NOT NULL))
		|| (` + computeVerdicts + `)
		|| (
			SELECT ` + sumSpent + `
			FROM (SELECT ` + sharedCurrency + ` FROM task_targets WHERE task_id = $1 AND kind <> 'judge') g)
	FROM evaluation_runs r
	WHERE r.task_id = $1 AND r.is_current`

const computeVerdicts = `
	SELECT CASE WHEN EXISTS (SELECT FROM task_evaluators WHERE task_id = $1)
		THEN jsonb_build_object('passes', coalesce(sum(passes), 0), 'failures', coalesce(sum(judged - passes), 0),
			'pass_rate', CAST(sum(passes) AS float8) / nullif(sum(judged), 0), 'score_mean', avg(score))
		ELSE '{}' END
	FROM (
		SELECT count(passed) AS judged, count(*) FILTER (WHERE passed) AS passes, avg(score) AS score
		FROM evaluation_runs
		WHERE task_id = $1 AND is_current AND run_index <= (SELECT runs_per_item FROM evaluation_tasks WHERE id = $1)
		AND EXISTS (SELECT FROM task_evaluators WHERE task_id = $1)
		GROUP BY item_id, variant) q`

// computeStability includes the lowest and the highest of the variants' values if there are several variants.
const computeStability = `
	SELECT jsonb_build_object(
		'identical_rate', avg(CAST(consensus = 1 AS int)::float8),
		'agreement', avg(agreement),
		'consensus', avg(consensus),
		'distinct_mean', avg(answers::float8) FILTER (WHERE answers > 0),
		'similarity', avg(similarity),
		'levels', jsonb_build_object(
			'identical', count(*) FILTER (WHERE level = 'identical'),
			'format_only', count(*) FILTER (WHERE level = 'format_only'),
			'facts', count(*) FILTER (WHERE level = 'facts'),
			'wording', count(*) FILTER (WHERE level = 'wording'),
			'different', count(*) FILTER (WHERE level = 'different'),
			'empty', count(*) FILTER (WHERE level = 'empty'),
			'unknown', (SELECT CASE WHEN total_variants = 1 THEN total_items ELSE 0 END FROM evaluation_tasks WHERE id = $1)
				- count(*) FILTER (WHERE level <> 'unknown')),
		'facts_differ', jsonb_build_object(
			'conflict', count(*) FILTER (WHERE facts_differ = 'conflict'),
			'omission', count(*) FILTER (WHERE facts_differ = 'omission'),
			'none', count(*) FILTER (WHERE facts_differ = 'none')),
		'meaning_items', count(meaning_by),
		'meaning_agreement', avg(meaning_agreement),
		'meaning_identical_rate', avg(CAST(meaning_agreement = 1 AS int)::float8),
		'meaning_distinct_mean', avg(meaning_groups::float8) FILTER (WHERE meaning_groups > 0),
		'meaning_entropy', avg(meaning_entropy),
		'meaning_people', count(*) FILTER (WHERE meaning_by = 'person'),
		'meaning_unsure', count(*) FILTER (WHERE meaning_unsure <> '{}'))
	FROM question_statistics q
	JOIN evaluation_items i ON i.id = q.item_id
	JOIN evaluation_tasks t ON t.id = i.task_id AND t.total_variants = 1
	WHERE i.task_id = $1`

const computeRanges = `
	SELECT CASE WHEN count(*) > 0
		THEN jsonb_build_object('agreement_range', jsonb_build_array(min(agreement), max(agreement)), 'facts_range',
		jsonb_build_array(min(facts), max(facts)))
		ELSE '{}' END
	FROM (
		SELECT avg(q.agreement) AS agreement, count(*) FILTER (WHERE q.level = 'facts') AS facts
		FROM question_statistics q
		JOIN evaluation_items i ON i.id = q.item_id
		JOIN evaluation_tasks t ON t.id = i.task_id AND t.total_variants > 1
		WHERE i.task_id = $1
		GROUP BY q.variant
		HAVING avg(q.agreement) IS NOT NULL) of_variants`

const computePassRateRange = `
	SELECT CASE WHEN count(*) > 0 THEN jsonb_build_object('pass_rate_range', jsonb_build_array(min(rate), max(rate)))
	ELSE '{}' END
	FROM (
		SELECT CAST(count(*) FILTER (WHERE r.passed) AS float8) / count(r.passed) AS rate
		FROM evaluation_runs r
		JOIN evaluation_tasks t ON t.id = r.task_id AND t.total_variants > 1
		WHERE r.task_id = $1 AND r.is_current AND r.run_index <= t.runs_per_item
		GROUP BY r.variant
		HAVING count(r.passed) > 0) of_variants`

const computeLaunchStatistics = `
	SELECT jsonb_build_object(` + countRuns + `,
		'stopped', (SELECT coalesce(sum(turns - turns_done), 0) FROM units WHERE launch_id = $1 AND state = 'STOPPED'
		AND evaluator = 0),
		'error_codes', coalesce((
			SELECT json_object_agg(e.error_code, e.n)
			FROM (
				SELECT error_code, count(*) AS n
				FROM evaluation_runs
				WHERE launch_id = $1 AND error_code IS NOT NULL
				GROUP BY error_code
				ORDER BY error_code) e), '{}'),` + measureRuns + `,
		'duration_seconds', (
			SELECT round(CAST(extract(epoch FROM coalesce(finished_at, now()) - started_at) AS numeric), 3) FROM launches
			WHERE id = $1))
		|| (
			SELECT ` + sumSpent + `
			FROM (
				SELECT ` + sharedCurrency + `
				FROM task_targets
				WHERE task_id = (SELECT task_id FROM launches WHERE id = $1) AND kind <> 'judge') g)
		|| (
			SELECT jsonb_build_object('judge_calls', count(*) FILTER (WHERE u.state = 'DONE'),
				'judge_errors', count(*) FILTER (WHERE u.outcome = 'FAILED'),
				'judge_stopped', count(*) FILTER (WHERE u.state = 'STOPPED'),
				'judge_tokens', sum(said.total_tokens),
				'judge_cost', CASE WHEN count(DISTINCT g.currency) = 1 THEN CAST(trim_scale(sum(said.cost)) AS text) END,
				'judge_currency', CASE WHEN count(DISTINCT g.currency) = 1 THEN min(g.currency) END)
			FROM units u
			JOIN launches l ON l.id = u.launch_id
			JOIN task_targets g ON g.task_id = l.task_id AND g.number = u.target
			LEFT JOIN LATERAL ( -- whether or not a later launch has replaced the run
				SELECT total_tokens, cost FROM evaluations WHERE run_id = u.subject_run_id AND evaluator = u.evaluator
				AND launch_id = u.launch_id
				UNION ALL
				SELECT total_tokens, cost FROM past_evaluations WHERE run_id = u.subject_run_id AND evaluator = u.evaluator
				AND launch_id = u.launch_id
				LIMIT 1) said ON true
			WHERE u.launch_id = $1 AND u.evaluator > 0)
		|| (
			SELECT jsonb_build_object(` + sumGroupings + `,
				'meaning_questions', count(*) FILTER (WHERE u.state = 'DONE'),
				'meaning_errors', count(*) FILTER (WHERE u.outcome = 'FAILED'),
				'meaning_stopped', count(*) FILTER (WHERE u.state = 'STOPPED'))
			FROM units u
			JOIN launches l ON l.id = u.launch_id
			JOIN task_targets g ON g.task_id = l.task_id AND g.number = u.target
			LEFT JOIN meanings m ON m.unit_id = u.id
			WHERE u.launch_id = $1 AND u.evaluator = -1)
	FROM evaluation_runs r
	WHERE r.launch_id = $1`

// StoreStatistics stores the final statistics of a launch and of its task, which have just ended, and the number of
// questions that have all their runs.
func StoreStatistics(ctx context.Context, tx *sqlx.Tx, launchID, taskID uuid.UUID) error {
	storeOfLaunch := `UPDATE launches SET statistics = (` + computeLaunchStatistics + `) WHERE id = $1`
	storeOfTask := `UPDATE evaluation_tasks SET statistics = (` + computeTaskStatistics + `) WHERE id = $1`
	const storeProcessed = `
		UPDATE evaluation_tasks t
		SET processed_items = (
			SELECT count(*)
			FROM (
				SELECT
				FROM evaluation_runs r
				JOIN evaluation_items i ON i.id = r.item_id
				WHERE r.task_id = $1 AND r.is_current
				GROUP BY i.id
				HAVING count(*) = ` + RunsOfItem + `) whole)
		WHERE t.id = $1`
	if _, err := tx.ExecContext(ctx, storeOfLaunch, launchID); err != nil {
		return pg.Classify("compute the launch's statistics", err)
	}
	if _, err := tx.ExecContext(ctx, storeOfTask, taskID); err != nil {
		return pg.Classify("compute the task's statistics", err)
	}
	_, err := tx.ExecContext(ctx, storeProcessed, taskID)
	return pg.Classify("store the processed questions", err)
}

// RestateStability recomputes a task's stability after people have grouped answers, if its statistics are final.
func RestateStability(ctx context.Context, tx *sqlx.Tx, taskID uuid.UUID) error {
	const restate = `
		UPDATE evaluation_tasks
		SET statistics = CAST(statistics AS jsonb) || (` + computeStability + `)
		WHERE id = $1 AND statistics IS NOT NULL`
	_, err := tx.ExecContext(ctx, restate, taskID)
	return pg.Classify("store the task's stability", err)
}

// TaskStatistics returns the statistics of the task's current runs: final ones, or live ones while it is active.
func (s *Store) TaskStatistics(ctx context.Context, task Task) (TaskStatistics, error) {
	return taskStatistics(ctx, s.db, task)
}

func taskStatistics(ctx context.Context, db sqlx.QueryerContext, task Task) (statistics TaskStatistics, err error) {
	if task.Final != nil {
		return *task.Final, nil
	}
	err = sqlx.GetContext(ctx, db, &statistics, computeTaskStatistics, task.ID)
	return statistics, pg.Classify("compute the task's statistics", err)
}

// LaunchStatistics returns the live statistics of a launch.
func (s *Store) LaunchStatistics(ctx context.Context, launchID uuid.UUID) (statistics LaunchStatistics, err error) {
	err = s.db.GetContext(ctx, &statistics, computeLaunchStatistics, launchID)
	return statistics, pg.Classify("compute the launch's statistics", err)
}

const findUnassessed = `
	SELECT i.id
	FROM evaluation_items i
	CROSS JOIN LATERAL (
		SELECT coalesce(max(id), 0) AS newest, count(*) AS runs FROM evaluation_runs
		WHERE item_id = i.id AND is_current) r
	LEFT JOIN question_statistics q ON q.item_id = i.id AND q.variant = 1
	WHERE i.task_id = $1 AND (q.item_id IS NULL
	OR (q.newest_run_id, q.runs, q.revision) <> (r.newest, r.runs, $3)
		OR q.contents IS NULL AND (SELECT meaning_target FROM evaluation_tasks WHERE id = $1) IS NOT NULL)
	LIMIT $2`

func findUnassessedItems(ctx context.Context, tx *sqlx.Tx, taskID uuid.UUID, limit int) (itemIDs []int64, err error) {
	if err := pg.PreferIndexes(ctx, tx); err != nil {
		return nil, err
	}
	err = tx.SelectContext(ctx, &itemIDs, findUnassessed, taskID, limit, measure.Revision)
	return itemIDs, pg.Classify("look for questions to assess", err)
}

// Unassessed returns up to limit items of a task whose current runs differ from those that their assessment covers, or
// that are not assessed. Items that a stopped task never asked are assessed, too: how alike their answers are is
// unknown.
func (s *Store) Unassessed(ctx context.Context, taskID uuid.UUID, limit int) (itemIDs []int64, err error) {
	err = s.db.InTx(ctx, "look for questions to assess", func(tx *sqlx.Tx) (err error) {
		itemIDs, err = findUnassessedItems(ctx, tx, taskID, limit)
		return err
	})
	return itemIDs, err
}

// MarkAssessed records that all questions of a task that has ended are assessed, and stores the task's statistics.
func (s *Store) MarkAssessed(ctx context.Context, taskID uuid.UUID) error {
	mark := `
		UPDATE evaluation_tasks
		SET is_assessed = true, statistics = (` + computeTaskStatistics + `)
		WHERE id = $1 AND status IN ('SUCCEEDED', 'STOPPED', 'FAILED')`
	return s.db.InTx(ctx, "record that a task is assessed", func(tx *sqlx.Tx) error {
		if err := pg.PreferIndexes(ctx, tx); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, mark, taskID)
		return pg.Classify("record that a task is assessed", err)
	})
}
