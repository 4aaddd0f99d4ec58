package engine

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"wending/db"
	"wending/db/pg"
)

// Judgement is a judge's verdict on a run.
type Judgement struct {
	// Score is from 0 to 1; Passed is nil without a verdict; Ratings are from 0 to 100.
	Score   float64
	Passed  *bool
	Ratings map[string]float64
	// IsDefault reports that the model gave no usable rating.
	IsDefault bool
	Reason    string
	// Raw is the model's output, vote by vote.
	Raw string
	// Votes are the scores, from 0 to 1, of the readable votes of a judge that votes several times.
	Votes pq.Float64Array
	// LatencyMS, Attempts and the tokens cover all votes; nil tokens are unknown.
	LatencyMS, Attempts                    int
	InputTokens, OutputTokens, TotalTokens *int
	ErrorCode, ErrorMessage                string
}

const recordJudgements = `
	WITH given AS (
		SELECT * FROM unnest(
			CAST(:units AS bigint[]), CAST(:epochs AS int[]), CAST(:scores AS float8[]), CAST(:passed AS bool[]),
			CAST(:ratings AS text[]),
			CAST(:defaults AS bool[]), CAST(:reasons AS text[]), CAST(:raws AS text[]), CAST(:latencies AS int[]),
			CAST(:attempts AS int[]),
			CAST(:inputs AS int[]), CAST(:outputs AS int[]), CAST(:totals AS int[]), CAST(:codes AS text[]),
			CAST(:messages AS text[]), CAST(:votes AS text[]))
		AS g (unit_id, epoch, score, passed, ratings, is_default, reason, raw, latency_ms, attempts, input_tokens,
		output_tokens, total_tokens, code, message, votes)),
	fresh AS (
		UPDATE units u
		SET state = 'DONE', outcome = CASE WHEN g.is_default THEN 'FAILED' ELSE 'SUCCEEDED' END, worker_id = NULL
		FROM given g
		WHERE u.id = g.unit_id AND u.state = 'RUNNING' AND u.epoch = g.epoch
		RETURNING u.id, u.launch_id, u.target, u.subject_run_id AS run_id, u.evaluator),` + db.KeepPastEvaluations + `,
	stored AS (
		INSERT INTO evaluations (run_id, evaluator, task_id, status, score, passed, reason, error_code, error_message,
		version, ratings, is_default, raw, votes,
			latency_ms, attempts, input_tokens, output_tokens, total_tokens, cost, launch_id)
		SELECT f.run_id, f.evaluator, CAST(:task AS uuid), 'SUCCEEDED', g.score, g.passed, nullif(g.reason, ''),
		nullif(g.code, ''), nullif(g.message, ''),
			NULL, CAST(g.ratings AS json), g.is_default, nullif(g.raw, ''), CAST(g.votes AS float8[]),
			g.latency_ms, g.attempts, g.input_tokens,
			g.output_tokens, g.total_tokens,
			(g.input_tokens * t.input_price + g.output_tokens * t.output_price) / 1000000, f.launch_id
		FROM fresh f
		JOIN given g ON g.unit_id = f.id
		JOIN task_targets t ON t.task_id = CAST(:task AS uuid) AND t.number = f.target` + db.ReplaceEvaluation + `)
	SELECT id FROM fresh`

// lockRuns keeps evaluations of the same runs from being summed up at the same time.
const lockRuns = `SELECT id FROM evaluation_runs WHERE id = ANY ($1) ORDER BY id FOR NO KEY UPDATE`

// knownUnits selects the units $1 that are DONE under the epochs $2.
const knownUnits = `
	SELECT u.id
	FROM units u
	JOIN unnest($1::bigint[], $2::int[]) AS g (unit_id, epoch) ON u.id = g.unit_id AND u.epoch = g.epoch
	WHERE u.state = 'DONE'`

// judgements stores the judges' verdicts, each exactly once, and returns the units whose claims still held.
func (r Recorder) judgements(ctx context.Context, taskID uuid.UUID, results []Result) (stored []int64, err error) {
	n := len(results)
	ids, epochs, runs := make(pq.Int64Array, n), make(pq.Int64Array, n), make(pq.Int64Array, n)
	latencies, attempts := make(pq.Int64Array, n), make(pq.Int64Array, n)
	scores, defaults, passed := make(pq.Float64Array, n), make(pq.BoolArray, n), make([]*bool, n)
	ratings, reasons, raws := make(pq.StringArray, n), make(pq.StringArray, n), make(pq.StringArray, n)
	codes, messages, votes := make(pq.StringArray, n), make(pq.StringArray, n), make([]*string, n)
	inputs, outputs, totals := make([]*int, n), make([]*int, n), make([]*int, n)
	for n, result := range results {
		said := *result.Judgement
		ids[n], epochs[n], runs[n] = result.Unit.ID, int64(result.Unit.Epoch), *result.Unit.SubjectRunID
		latencies[n], attempts[n], scores[n], defaults[n], passed[n] = int64(said.LatencyMS), int64(said.Attempts),
			said.Score, said.IsDefault, said.Passed
		text, err := json.Marshal(said.Ratings)
		if err != nil {
			return nil, err
		}
		ratings[n], reasons[n], raws[n] = pg.StorableText(string(text)), pg.StorableText(said.Reason),
			pg.StorableText(said.Raw)
		codes[n], messages[n] = said.ErrorCode, pg.StorableText(said.ErrorMessage)
		if len(said.Votes) > 0 {
			scores, err := said.Votes.Value()
			if err != nil {
				return nil, err
			}
			array := scores.(string)
			votes[n] = &array
		}
		inputs[n], outputs[n], totals[n] = said.InputTokens, said.OutputTokens, said.TotalTokens
	}
	arguments := map[string]any{
		"task": taskID, "units": ids, "epochs": epochs, "scores": scores, "passed": pq.Array(passed), "ratings": ratings,
		"defaults": defaults,
		"reasons":  reasons, "raws": raws, "latencies": latencies, "attempts": attempts, "inputs": pq.Array(inputs),
		"outputs": pq.Array(outputs),
		"totals":  pq.Array(totals), "codes": codes, "messages": messages, "votes": pq.Array(votes),
	}
	err = r.db.InTx(ctx, "record judgements", func(tx *sqlx.Tx) error {
		if _, err := tx.ExecContext(ctx, lockRuns, runs); err != nil {
			return pg.Classify("lock the judged runs", err)
		}
		// Units that are already DONE were stored by an earlier attempt whose reply was lost.
		if err := tx.SelectContext(ctx, &stored, knownUnits, ids, epochs); err != nil {
			return pg.Classify("look for recorded judgements", err)
		}
		var fresh []int64
		if err := pg.SelectNamed(ctx, tx, &fresh, recordJudgements, arguments); err != nil {
			return pg.Classify("record judgements", err)
		}
		stored = slices.Concat(stored, fresh)
		_, err := tx.ExecContext(ctx, db.SumEvaluationsUp, runs, taskID)
		return pg.Classify("sum up the evaluations", err)
	})
	return stored, err
}

// Ruled holds the rules' evaluations of a run that an earlier launch made.
type Ruled struct {
	RunID       int64
	Evaluations []db.Evaluation
}

// Rules stores the rules' evaluations of a task's runs for a PENDING EVALUATE launch, and records the id of the last
// item that they cover (through). Evaluations that they replace are kept as past ones. db.ErrConflict means that the
// launch is no longer PENDING, or that another process has already covered these items; nothing is stored then.
func (r Recorder) Rules(ctx context.Context, launchID, taskID uuid.UUID, through int64, ruled []Ruled) error {
	const note = `UPDATE launches SET ruled_through = $2 WHERE id = $1 AND status = 'PENDING' AND ruled_through < $2`
	const store = `
		WITH fresh AS (
			SELECT * FROM unnest($3::bigint[], $4::int[], $5::text[], $6::float8[], $7::bool[], $8::text[], $9::text[],
			$10::text[])
			AS g (run_id, evaluator, status, score, passed, reason, code, message)),` + db.KeepPastEvaluations + `
		INSERT INTO evaluations (run_id, evaluator, task_id, status, score, passed, reason, error_code, error_message,
		launch_id)
		SELECT run_id, evaluator, $2, status, score, passed, nullif(reason, ''), nullif(code, ''), nullif(message, ''), $1
		FROM fresh` + db.ReplaceEvaluation
	var runs pq.Int64Array
	var judged verdicts
	for _, one := range ruled {
		runs = append(runs, one.RunID)
		judged.addTo(one.RunID, one.Evaluations)
	}
	return r.db.InTx(ctx, "record the rules' evaluations", func(tx *sqlx.Tx) error {
		result, err := tx.ExecContext(ctx, note, launchID, through)
		if err := pg.RequireRow("record the rules' progress", result, err); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, lockRuns, runs); err != nil {
			return pg.Classify("lock the judged runs", err)
		}
		if len(judged.units) > 0 {
			_, err := tx.ExecContext(ctx, store, launchID, taskID, judged.units, judged.evaluators, judged.statuses,
				pq.Array(judged.scores), pq.Array(judged.passed),
				judged.reasons, judged.codes, judged.messages)
			if err != nil {
				return pg.Classify("record the rules' evaluations", err)
			}
		}
		_, err = tx.ExecContext(ctx, db.SumEvaluationsUp, runs, taskID)
		return pg.Classify("sum up the evaluations", err)
	})
}
