package db

import (
	"context"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"wending/db/pg"
)

// TurnNotReachedCode is the error code of a turn that was not asked because one before it did not succeed.
const TurnNotReachedCode = "TURN_NOT_REACHED"

// turnsOfUnit joins the turns that a unit u asks: its item and, of a conversation, all that follow.
const turnsOfUnit = `
	JOIN evaluation_items own ON own.id = u.item_id
	JOIN LATERAL (
		SELECT own.id, own.turn
		UNION ALL
		SELECT id, turn FROM evaluation_items WHERE task_id = own.task_id AND series = own.series AND turn > own.turn) turn ON true`

// Turn is the next turn of a conversation that a unit asks, with what came before it.
type Turn struct {
	Item Item
	// Later are the items of the turns after it, in their order.
	Later []int64
	// History are the turns before it that were answered, oldest first.
	History []Exchange
	// ConversationID is by which the agent knows the conversation; empty unless it has said.
	ConversationID string
}

// Exchange is a turn that was answered.
type Exchange struct {
	Item
	Answer string `db:"answer"`
	// ConversationID is by which the agent knew the conversation after it; LaunchID and UnitID are of its run.
	ConversationID *string   `db:"conversation_id"`
	LaunchID       uuid.UUID `db:"launch_id"`
	UnitID         int64     `db:"unit_id"`
}

// NextTurn returns the first of a unit's turns that has no run of it yet. ErrConflict means that there is none: the unit
// belongs to another worker by now, which has asked them. limit is how many bytes the history may have; where it has more,
// isTooLong is true and the history is empty.
func (s *Store) NextTurn(ctx context.Context, unit Unit, limit int) (turn Turn, isTooLong bool, err error) {
	const read = `
		SELECT ` + ItemColumns + `
		FROM units u` + turnsOfUnit + `
		JOIN evaluation_items i ON i.id = turn.id
		WHERE u.id = $1 AND u.epoch = $2 AND u.state = 'RUNNING'
		  AND NOT EXISTS (SELECT FROM evaluation_runs r WHERE r.unit_id = u.id AND r.item_id = turn.id)
		ORDER BY turn.turn`
	var open []Item
	if err := s.db.SelectContext(ctx, &open, read, unit.ID, unit.Epoch); err != nil {
		return turn, false, pg.Classify("read the next turn", err)
	}
	if len(open) == 0 {
		return turn, false, ErrConflict
	}
	turn.Item = open[0]
	for _, item := range open[1:] {
		turn.Later = append(turn.Later, item.ID)
	}
	const before = `r.is_current`
	turn.History, turn.ConversationID, isTooLong, err = s.history(ctx, before, limit, turn.Item.ID, unit.Variant, unit.RunIndex)
	return turn, isTooLong, err
}

// HistoryOf returns what came before a run of a turn of a conversation, as NextTurn did when it was asked.
func (s *Store) HistoryOf(ctx context.Context, run Run, taskID uuid.UUID, limit int) (turn Turn, isTooLong bool, err error) {
	// A run that was replaced is found by its launch: there is no other index that leads to it.
	const before = `r.launch_id = ANY (ARRAY(SELECT id FROM launches WHERE task_id = $5)) AND r.id < $6`
	turn.History, turn.ConversationID, isTooLong, err = s.history(ctx, before, limit, run.ItemID, run.Variant, run.RunIndex, taskID, run.ID)
	return turn, isTooLong, err
}

// history reads the turns before an item ($2), by the newest of their runs that the condition takes.
func (s *Store) history(ctx context.Context, condition string, limit int, arguments ...any) (
	history []Exchange, conversationID string, isTooLong bool, err error,
) {
	runs := `
		FROM evaluation_items own
		JOIN evaluation_items i ON i.task_id = own.task_id AND i.series = own.series AND i.turn < own.turn
		JOIN LATERAL (
			SELECT r.*
			FROM evaluation_runs r
			WHERE r.item_id = i.id AND r.variant = $3 AND r.run_index = $4 AND ` + condition + `
			ORDER BY r.id DESC
			LIMIT 1) r ON r.status = 'SUCCEEDED'
		WHERE own.id = $2`
	length := `SELECT coalesce(sum(octet_length(r.response_body)), 0) <= $1` + runs
	read := `
		SELECT ` + ItemColumns + `, coalesce(r.response_body, '') AS answer, r.conversation_id, r.launch_id, r.unit_id` + runs + `
		AND $1::int IS NOT NULL
		ORDER BY i.turn`
	arguments = append([]any{limit}, arguments...)
	var fits bool
	if err := s.db.GetContext(ctx, &fits, length, arguments...); err != nil {
		return nil, "", false, pg.Classify("measure the history", err)
	}
	if !fits {
		return nil, "", true, nil
	}
	if err := s.db.SelectContext(ctx, &history, read, arguments...); err != nil {
		return nil, "", false, pg.Classify("read the history", err)
	}
	for _, one := range history {
		if one.ConversationID != nil {
			conversationID = *one.ConversationID
		}
	}
	return history, conversationID, false, nil
}

const endOpenTurns = `
	WITH done AS (
		SELECT u.id, u.epoch, u.launch_id, u.variant, u.run_index, u.losses, turn.id AS item_id,
			$2 <> '' AND row_number() OVER (PARTITION BY u.id ORDER BY turn.turn) = 1 AS was_asked
		FROM units u` + turnsOfUnit + `
		WHERE u.id = ANY ($1)
		  AND NOT EXISTS (SELECT FROM evaluation_runs r WHERE r.unit_id = u.id AND r.item_id = turn.id)),` + Supersede + `
	INSERT INTO evaluation_runs (unit_id, epoch, task_id, launch_id, item_id, variant, run_index, status, attempts, error_code, error_message)
	SELECT d.id, d.epoch, l.task_id, d.launch_id, d.item_id, d.variant, d.run_index, 'FAILED', CASE WHEN d.was_asked THEN d.losses ELSE 0 END,
		CASE WHEN d.was_asked THEN $2 ELSE '` + TurnNotReachedCode + `' END,
		CASE WHEN d.was_asked THEN $3 ELSE 'An earlier turn of the conversation did not succeed' END
	FROM done d
	JOIN launches l ON l.id = d.launch_id
	CROSS JOIN superseded`

// EndOpenTurns gives the turns of units that have no run one that FAILED: the first with this code, because it was asked –
// none if the code is empty –, the others because they were not reached.
func EndOpenTurns(ctx context.Context, tx *sqlx.Tx, units []int64, code, message string) error {
	_, err := tx.ExecContext(ctx, endOpenTurns, pq.Int64Array(units), code, message)
	return pg.Classify("end the open turns", err)
}
