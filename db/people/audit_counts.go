package people

import (
	"context"
	"encoding/json"
	"time"

	"github.com/jmoiron/sqlx"

	"wending/db/pg"
)

// Count increases a count for the event's action, object and hour instead of adding an entry. AddCounted later adds one
// entry for each count.
func (l AuditLog) Count(ctx context.Context, entry AuditEntry) error {
	const count = `
		INSERT INTO audit_counts AS c (action, object_id, hour, entry)
		VALUES ($1, $2, date_trunc('hour', now()), $3)
		ON CONFLICT (action, object_id, hour) DO UPDATE SET count = c.count + 1`
	text, err := json.Marshal(entry)
	if err != nil {
		return err
	}
	_, err = l.db.ExecContext(ctx, count, entry.Action, entry.ObjectID, string(text))
	return pg.Classify("count an audited action", err)
}

// counted is the part of an entry that records how many times something happened within an hour.
type counted struct {
	Count int64     `json:"count"`
	Hour  time.Time `json:"hour"`
}

// AddCounted adds the entries of the hours that are over and returns them. Each is added in the transaction that
// deletes its count.
func (l AuditLog) AddCounted(ctx context.Context) (added []AuditEntry, err error) {
	const take = `
		DELETE FROM audit_counts
		WHERE (action, object_id, hour) = (
			SELECT action, object_id, hour FROM audit_counts
			WHERE hour < date_trunc('hour', now())
			ORDER BY hour, action, object_id LIMIT 1 FOR UPDATE SKIP LOCKED)
		RETURNING entry, count, hour`
	return l.addEach(ctx, "add counted actions to the audit log", func(tx *sqlx.Tx) (entry AuditEntry, err error) {
		var row struct {
			Entry string    `db:"entry"`
			Count int64     `db:"count"`
			Hour  time.Time `db:"hour"`
		}
		if err := tx.GetContext(ctx, &row, take); err != nil {
			return entry, pg.Classify("take counted actions", err)
		}
		if err := json.Unmarshal([]byte(row.Entry), &entry); err != nil {
			return entry, err
		}
		after, err := json.Marshal(counted{row.Count, row.Hour.UTC()})
		entry.After = string(after)
		return entry, err
	})
}
