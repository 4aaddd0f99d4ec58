package db

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"wending/db/pg"
)

// Evaluator is a row of task_evaluators: a task's copy of one version of a saved evaluator.
type Evaluator struct {
	TaskID uuid.UUID `db:"task_id"`
	Number int       `db:"number"` // 1, 2, 3 …
	// EvaluatorID and Version identify the saved evaluator that was copied.
	EvaluatorID uuid.UUID       `db:"evaluator_id"`
	Version     int             `db:"version"`
	Name        string          `db:"name"`
	Kind        string          `db:"kind"`
	Config      json.RawMessage `db:"config"`
	// Target is the number of the model that judges; nil for a rule.
	Target *int `db:"target"`
}

// IsJudge reports whether the evaluator is a model, which rates answers in separate calls.
func (e Evaluator) IsJudge() bool { return e.Target != nil }

const insertEvaluator = `
	INSERT INTO task_evaluators (task_id, number, evaluator_id, version, name, kind, config, target)
	VALUES (:task_id, :number, :evaluator_id, :version, :name, :kind, :config, :target)
	ON CONFLICT (task_id, number) DO UPDATE
	SET version = excluded.version, name = excluded.name, kind = excluded.kind, config = excluded.config,
	target = excluded.target`

// replaceEvaluators replaces the stored evaluators of a task.
func replaceEvaluators(ctx context.Context, tx *sqlx.Tx, task Task) error {
	if _, err := tx.ExecContext(ctx, `DELETE FROM task_evaluators WHERE task_id = $1`, task.ID); err != nil {
		return pg.Classify("remove the evaluators", err)
	}
	return insertEvaluators(ctx, tx, task.ID, task.Evaluators)
}

// noteVersions records in a task's evaluations which version of the evaluator made them, before the version changes.
func noteVersions(ctx context.Context, tx *sqlx.Tx, task Task, next []Evaluator) error {
	const version = ` e
		SET version = $3
		FROM evaluation_runs r
		WHERE r.task_id = $1 AND r.is_current AND e.run_id = r.id AND e.evaluator = $2 AND e.version IS NULL`
	for _, evaluator := range next {
		at := slices.IndexFunc(task.Evaluators, func(known Evaluator) bool { return known.Number == evaluator.Number })
		if at < 0 || task.Evaluators[at].Version == evaluator.Version {
			continue
		}
		for _, note := range []string{`UPDATE evaluations` + version, `UPDATE past_evaluations` + version} {
			if _, err := tx.ExecContext(ctx, note, task.ID, evaluator.Number, task.Evaluators[at].Version); err != nil {
				return pg.Classify("record the evaluators' versions", err)
			}
		}
	}
	return nil
}

// insertEvaluators stores evaluators of a task, replacing those with the same numbers.
func insertEvaluators(ctx context.Context, tx *sqlx.Tx, taskID uuid.UUID, evaluators []Evaluator) error {
	for _, evaluator := range evaluators {
		evaluator.TaskID = taskID
		if _, err := tx.NamedExecContext(ctx, insertEvaluator, evaluator); err != nil {
			return pg.Classify("store an evaluator", err)
		}
	}
	return nil
}

func readEvaluators(ctx context.Context, db sqlx.QueryerContext, tasks map[uuid.UUID]*Task) error {
	const read = `
		SELECT task_id, number, evaluator_id, version, name, kind, config, target
		FROM task_evaluators
		WHERE task_id = ANY ($1)
		ORDER BY task_id, number`
	var evaluators []Evaluator
	if err := sqlx.SelectContext(ctx, db, &evaluators, read, pq.Array(slices.Collect(maps.Keys(tasks)))); err != nil {
		return pg.Classify("read the evaluators", err)
	}
	for _, evaluator := range evaluators {
		task := tasks[evaluator.TaskID]
		task.Evaluators = append(task.Evaluators, evaluator)
	}
	return nil
}

// Evaluation is an evaluator's verdict on a run.
type Evaluation struct {
	// Number is the evaluator's number within the task.
	Number int    `json:"number"`
	Status string `json:"status"`
	// Score is from 0 to 1; it and Passed are nil without a verdict.
	Score        *float64 `json:"score"`
	Passed       *bool    `json:"passed"`
	Reason       string   `json:"reason"`
	ErrorCode    string   `json:"error_code"`
	ErrorMessage string   `json:"error_message"`
	// Version is the version of the evaluator that made the evaluation, if it differs from the task's.
	Version *int `json:"version"`
	// Ratings are a judge's ratings from 0 to 100, by dimension; IsDefault reports that the judge gave none, so each
	// is set to 50.
	Ratings   map[string]float64 `json:"ratings"`
	IsDefault bool               `json:"is_default"`
	// LatencyMS and the following fields cover a judge's calls; nil means unknown.
	LatencyMS    *int    `json:"latency_ms"`
	InputTokens  *int    `json:"input_tokens"`
	OutputTokens *int    `json:"output_tokens"`
	TotalTokens  *int    `json:"total_tokens"`
	Cost         *string `json:"cost"`
}

// Evaluations are the evaluations of a run, in the order of the evaluators.
type Evaluations []Evaluation

// Scan implements sql.Scanner for a nullable JSON column.
func (e *Evaluations) Scan(column any) error {
	*e = nil
	if column == nil {
		return nil
	}
	text, ok := column.([]byte)
	if !ok {
		return fmt.Errorf("evaluations are stored as %T", column)
	}
	return json.Unmarshal(text, e)
}

// SumEvaluationsUp stores the combined verdict of all evaluators of task $2 in its runs $1, without default ratings.
const SumEvaluationsUp = `
	UPDATE evaluation_runs r
	SET passed = summed.passed, score = summed.score
	FROM (
		SELECT e.run_id, CASE WHEN count(e.passed) = (SELECT count(*) FROM task_evaluators WHERE task_id = $2)
		THEN bool_and(e.passed) END AS passed,
			avg(e.score) FILTER (WHERE NOT e.is_default) AS score
		FROM evaluations e
		WHERE e.run_id = ANY ($1)
		GROUP BY e.run_id) summed
	WHERE r.id = summed.run_id`

// Unrated returns the score (0–1) and the ratings by dimension (0–100) that an answer gets if a judge with this
// configuration fails to rate it.
type Unrated func(config json.RawMessage) (score float64, ratings map[string]float64)

// endLostJudgements gives default ratings to answers whose judge calls were lost too many times, as if they had failed.
func endLostJudgements(ctx context.Context, tx *sqlx.Tx, units []int64, message string, unrated Unrated) error {
	const find = `
		SELECT u.id, l.task_id, u.subject_run_id AS run_id, e.config
		FROM units u
		JOIN launches l ON l.id = u.launch_id
		JOIN task_evaluators e ON e.task_id = l.task_id AND e.number = u.evaluator
		WHERE u.id = ANY ($1)
		ORDER BY u.subject_run_id`
	const store = `
		WITH fresh AS (
			SELECT u.subject_run_id AS run_id, u.evaluator, l.task_id, l.id AS launch_id, u.losses
			FROM units u
			JOIN launches l ON l.id = u.launch_id
			WHERE u.id = $1),` + KeepPastEvaluations + `
		INSERT INTO evaluations (run_id, evaluator, task_id, status, score, ratings, is_default, attempts, error_code,
		error_message, launch_id)
		SELECT run_id, evaluator, task_id, 'SUCCEEDED', $2, $3, true, losses, $4, $5, launch_id
		FROM fresh` + ReplaceEvaluation
	const lock = `SELECT id FROM evaluation_runs WHERE id = ANY ($1) ORDER BY id FOR NO KEY UPDATE`
	var lost []struct {
		ID     int64           `db:"id"`
		TaskID uuid.UUID       `db:"task_id"`
		RunID  int64           `db:"run_id"`
		Config json.RawMessage `db:"config"`
	}
	if err := tx.SelectContext(ctx, &lost, find, pq.Int64Array(units)); err != nil {
		return pg.Classify("read the judges of lost calls", err)
	}
	runs := map[uuid.UUID]pq.Int64Array{}
	for _, one := range lost {
		runs[one.TaskID] = append(runs[one.TaskID], one.RunID)
	}
	for _, taskID := range slices.SortedFunc(maps.Keys(runs), func(a, b uuid.UUID) int {
		return slices.Compare(a[:], b[:])
	}) {
		if _, err := tx.ExecContext(ctx, lock, runs[taskID]); err != nil {
			return pg.Classify("lock the runs of lost judges", err)
		}
	}
	for _, one := range lost {
		score, byDimension := unrated(one.Config)
		ratings, err := json.Marshal(byDimension)
		if err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, store, one.ID, score, ratings, WorkerLostCode, message); err != nil {
			return pg.Classify("end judges' calls that were lost too often", err)
		}
	}
	for taskID, ids := range runs {
		if _, err := tx.ExecContext(ctx, SumEvaluationsUp, ids, taskID); err != nil {
			return pg.Classify("sum up the evaluations", err)
		}
	}
	return nil
}
