package engine

import (
	"context"

	"github.com/google/uuid"

	"wending/db"
	"wending/db/pg"
)

// Conversations reads the conversations of tasks.
type Conversations struct{ db *pg.Pool }

// NewConversations returns the Conversations of a store.
func NewConversations(store *db.Store) Conversations { return Conversations{store.Pool()} }

// NextTurn is the next turn of a unit's conversation, with the history before it.
type NextTurn struct {
	Item db.Item
	// Later are the items of the turns after this one, in order.
	Later []int64
	// History holds the answered turns before this one, oldest first.
	History []Exchange
	// ConversationID is the agent's own id for the conversation; empty if it returned none.
	ConversationID string
}

// Exchange is a turn that was answered.
type Exchange struct {
	db.Item
	Answer string `db:"answer"`
	// ConversationID is the agent's id for the conversation after the turn; LaunchID and UnitID identify the
	// turn's run.
	ConversationID *string   `db:"conversation_id"`
	LaunchID       uuid.UUID `db:"launch_id"`
	UnitID         int64     `db:"unit_id"`
}

// Next returns the first turn of a unit that has not been run yet. db.ErrConflict means that there is none, or that the
// unit no longer belongs to this worker. limit is the maximum size of the history in bytes; if the history is longer,
// isTooLong is true and the history is empty.
func (c Conversations) Next(ctx context.Context, unit db.Unit, limit int) (turn NextTurn, isTooLong bool, err error) {
	const read = `
		SELECT ` + db.ItemColumns + `
		FROM units u` + db.TurnsOfUnit + `
		JOIN evaluation_items i ON i.id = turn.id
		WHERE u.id = $1 AND u.epoch = $2 AND u.state = 'RUNNING'
		  AND NOT EXISTS (SELECT FROM evaluation_runs r WHERE r.unit_id = u.id AND r.item_id = turn.id)
		ORDER BY turn.turn`
	var open []db.Item
	if err := c.db.SelectContext(ctx, &open, read, unit.ID, unit.Epoch); err != nil {
		return turn, false, pg.Classify("read the next turn", err)
	}
	if len(open) == 0 {
		return turn, false, db.ErrConflict
	}
	turn.Item = open[0]
	for _, item := range open[1:] {
		turn.Later = append(turn.Later, item.ID)
	}
	const before = `r.is_current`
	turn.History, turn.ConversationID, isTooLong,
		err = c.history(ctx, before, limit, turn.Item.ID, unit.Variant, unit.RunIndex)
	return turn, isTooLong, err
}

// HistoryOf returns the history of a turn's run, as Next returned it when the turn was asked.
func (c Conversations) HistoryOf(ctx context.Context, run db.Run, taskID uuid.UUID,
	limit int) (turn NextTurn, isTooLong bool, err error) {
	// The condition on the launch lets an index find the run even if it was replaced: no other index covers replaced
	// runs.
	const before = `r.launch_id = ANY (ARRAY(SELECT id FROM launches WHERE task_id = $5)) AND r.id < $6`
	turn.History, turn.ConversationID, isTooLong,
		err = c.history(ctx, before, limit, run.ItemID, run.Variant, run.RunIndex, taskID, run.ID)
	return turn, isTooLong, err
}

// history reads the turns before an item ($2), each with its newest run that matches the condition; turns whose run did
// not succeed are left out. If the answers have more than limit bytes in total, isTooLong is true and history is empty.
func (c Conversations) history(ctx context.Context, condition string, limit int, arguments ...any) (
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
		SELECT ` + db.ItemColumns + `, coalesce(r.response_body, '') AS answer, r.conversation_id, r.launch_id, r.unit_id` + runs + `
		AND $1::int IS NOT NULL
		ORDER BY i.turn`
	arguments = append([]any{limit}, arguments...)
	var fits bool
	if err := c.db.GetContext(ctx, &fits, length, arguments...); err != nil {
		return nil, "", false, pg.Classify("measure the history", err)
	}
	if !fits {
		return nil, "", true, nil
	}
	if err := c.db.SelectContext(ctx, &history, read, arguments...); err != nil {
		return nil, "", false, pg.Classify("read the history", err)
	}
	for _, one := range history {
		if one.ConversationID != nil {
			conversationID = *one.ConversationID
		}
	}
	return history, conversationID, false, nil
}
