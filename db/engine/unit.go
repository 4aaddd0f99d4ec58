package engine

import (
	"context"
	"time"

	"github.com/google/uuid"

	"wending/db"
	"wending/db/pg"
)

// Unit is a unit whose events can be followed. It asks one question, or all turns of one conversation, once.
type Unit struct {
	ID       int64     `db:"id"`
	TaskID   uuid.UUID `db:"task_id"`
	LaunchID uuid.UUID `db:"launch_id"`
	// ItemID is the question, or the first turn of a conversation.
	ItemID   int64 `db:"item_id"`
	Variant  int   `db:"variant"`
	RunIndex int   `db:"run_index"`
	Turns    int   `db:"turns"`
	// Number is the question's number, from 1, in the order of the report.
	Number   int    `db:"number"`
	Question string `db:"question"`
	// IsOver reports that the unit will ask nothing more, and IsWaiting reports that it is waiting for a worker.
	IsOver    bool `db:"is_over"`
	IsWaiting bool `db:"is_waiting"`
	// IsSettled reports that the unit ended long enough ago for all its events to be stored.
	IsSettled bool `db:"is_settled"`
	// Last is the position of the last stored part.
	Last EventPosition `db:"last"`
}

// settledAfter is how long after a unit's end its last events may still be stored.
const settledAfter = `interval '3 seconds'`

// readUnit reads a unit. If the unit was removed with its launch's history, it is reconstructed from its runs.
const readUnit = `
	SELECT u.id, u.task_id, u.launch_id, u.item_id, u.variant, u.run_index, u.turns, u.is_over, u.is_waiting, i.question,
		(SELECT count(*) FROM evaluation_items WHERE task_id = i.task_id AND sort_key <= i.sort_key) AS number,
		u.is_over AND coalesce(
			(SELECT max(created_at) < now() - ` + settledAfter + ` FROM evaluation_runs WHERE unit_id = u.id),
			u.launch_is_over) AS is_settled,
		coalesce(e.epoch, 0) AS "last.epoch", coalesce(e.first_seq, 0) AS "last.seq"
	FROM (
		SELECT u.id, l.task_id, u.launch_id, u.item_id, u.variant, u.run_index, u.turns,
		l.finished_at IS NOT NULL AS launch_is_over,
			u.state IN ('DONE', 'STOPPED') OR l.finished_at IS NOT NULL AS is_over, u.state = 'QUEUED' AS is_waiting
		FROM units u
		JOIN launches l ON l.id = u.launch_id AND l.task_id = $1
		WHERE u.id = $2 AND u.evaluator = 0
		UNION ALL
		(SELECT r.unit_id, r.task_id, r.launch_id, r.item_id, r.variant, r.run_index, 1, true, true, false
		FROM evaluation_runs r
		WHERE r.unit_id = $2 AND r.task_id = $1
		ORDER BY r.id
		LIMIT 1)
		LIMIT 1) u
	JOIN evaluation_items i ON i.id = u.item_id
	LEFT JOIN LATERAL (SELECT epoch, first_seq FROM run_events WHERE unit_id = u.id ORDER BY epoch DESC, first_seq DESC
	LIMIT 1) e ON true`

// Unit returns a unit of a task that asks a question, or a db.NotFoundError.
func (j Journal) Unit(ctx context.Context, taskID uuid.UUID, id int64) (Unit, error) {
	var unit Unit
	err := j.db.GetContext(ctx, &unit, readUnit, taskID, id)
	return unit, db.NotFound(db.KindRun, pg.Classify("read the unit", err))
}

// Outcome is a run of a unit, as the unit's page shows it.
type Outcome struct {
	RunID     int64        `db:"id"`
	UnitID    int64        `db:"unit_id"`
	Epoch     int          `db:"epoch"`
	ItemID    int64        `db:"item_id"`
	RunIndex  int          `db:"run_index"`
	Variant   int          `db:"variant"`
	Status    db.RunStatus `db:"status"`
	LatencyMS *int         `db:"latency_ms"`
	Question  string       `db:"question"`
	Turn      *int         `db:"turn"`
	FirstMS   *int         `db:"first_token_ms"`
	// AnswerTokens counts the tokens of the answer without its reasoning.
	AnswerTokens *int      `db:"answer_tokens"`
	SilenceMS    *int      `db:"longest_silence_ms"`
	ErrorCode    *string   `db:"error_code"`
	FinishReason *string   `db:"finish_reason"`
	CreatedAt    time.Time `db:"created_at"`
	// IsSettled reports that the run ended long enough ago for all its events to be stored.
	IsSettled bool `db:"is_settled"`
}

const outcomeColumns = `r.id, r.unit_id, r.epoch, r.item_id, r.run_index, r.variant, r.status, r.latency_ms,
		r.first_token_ms, ` + db.AnswerTokens + ` AS answer_tokens, r.longest_silence_ms, r.error_code, r.finish_reason, r.created_at,
		r.created_at < now() - ` + settledAfter + ` AS is_settled, left(i.question, 2000) AS question, i.turn`

// OutcomesOf returns the runs of a unit, in the order in which they ended.
func (j Journal) OutcomesOf(ctx context.Context, taskID uuid.UUID, unitID int64) (outcomes []Outcome, err error) {
	const read = `
		SELECT ` + outcomeColumns + `
		FROM evaluation_runs r
		JOIN evaluation_items i ON i.id = r.item_id
		WHERE r.unit_id = $2 AND r.task_id = $1
		ORDER BY r.id`
	err = j.db.SelectContext(ctx, &outcomes, read, taskID, unitID)
	return outcomes, pg.Classify("read the unit's runs", err)
}

// OutcomesBeside returns the current runs of the question with the given number (from 1, in the order of the report),
// ordered by variant and index. The result is empty if there is no such question.
func (j Journal) OutcomesBeside(ctx context.Context, taskID uuid.UUID, number int) (outcomes []Outcome, err error) {
	const read = `
		SELECT ` + outcomeColumns + `
		FROM (SELECT * FROM evaluation_items WHERE task_id = $1 ORDER BY sort_key OFFSET $2 - 1 LIMIT 1) i
		JOIN evaluation_runs r ON r.item_id = i.id AND r.is_current
		ORDER BY r.variant, r.run_index`
	err = j.db.SelectContext(ctx, &outcomes, read, taskID, number)
	return outcomes, pg.Classify("read the question's runs", err)
}

// Outcome returns a run of a task, or a db.NotFoundError.
func (j Journal) Outcome(ctx context.Context, taskID uuid.UUID, runID int64) (outcome Outcome, err error) {
	const read = `
		SELECT ` + outcomeColumns + `
		FROM evaluation_runs r
		JOIN evaluation_items i ON i.id = r.item_id
		WHERE r.id = $2 AND r.task_id = $1`
	err = j.db.GetContext(ctx, &outcome, read, taskID, runID)
	return outcome, db.NotFound(db.KindRun, pg.Classify("read the run", err))
}
