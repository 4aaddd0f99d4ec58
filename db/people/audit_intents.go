package people

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"wending/db/pg"
)

// Begin durably stores an action that is about to be performed, and returns the id with which Complete adds its entry
// or Drop discards it. If neither happens because the process dies, CloseLost adds an entry with an unknown outcome,
// so every action that follows Begin has an entry.
func (l AuditLog) Begin(ctx context.Context, entry AuditEntry) (id uuid.UUID, err error) {
	text, err := json.Marshal(entry)
	if err != nil {
		return id, err
	}
	id = uuid.New()
	_, err = l.db.ExecContext(ctx, `INSERT INTO audit_intents (id, entry) VALUES ($1, $2)`, id, string(text))
	return id, pg.Classify("store a pending audit entry", err)
}

// Complete adds the entry of an action that was begun. If its outcome has already been recorded as unknown, the audit
// log holds two entries.
func (l AuditLog) Complete(ctx context.Context, id uuid.UUID, entry AuditEntry) (AuditEntry, error) {
	err := l.db.InTx(ctx, "add an audit entry", func(tx *sqlx.Tx) (err error) {
		if _, err := tx.ExecContext(ctx, `DELETE FROM audit_intents WHERE id = $1`, id); err != nil {
			return pg.Classify("complete a pending audit entry", err)
		}
		entry, err = l.add(ctx, tx, entry)
		return err
	})
	return entry, err
}

// Drop discards an action that was begun but not performed.
func (l AuditLog) Drop(ctx context.Context, id uuid.UUID) error {
	_, err := l.db.ExecContext(ctx, `DELETE FROM audit_intents WHERE id = $1`, id)
	return pg.Classify("drop a pending audit entry", err)
}

// Hold keeps actions in progress from being considered lost.
func (l AuditLog) Hold(ctx context.Context, begun []uuid.UUID) error {
	_, err := l.db.ExecContext(ctx, `UPDATE audit_intents SET alive_at = now() WHERE id = ANY ($1)`, pq.Array(begun))
	return pg.Classify("keep pending audit entries", err)
}

// CloseLost adds entries with OutcomeUnknown for the actions that were begun by processes that have been silent
// for the given time, and returns those entries.
func (l AuditLog) CloseLost(ctx context.Context, silent time.Duration) (added []AuditEntry, err error) {
	const take = `
		DELETE FROM audit_intents
		WHERE id = (
			SELECT id FROM audit_intents
			WHERE alive_at < now() - $1 * interval '1 second'
			ORDER BY alive_at LIMIT 1 FOR UPDATE SKIP LOCKED)
		RETURNING entry`
	return l.addEach(ctx, "record lost audit entries", func(tx *sqlx.Tx) (entry AuditEntry, err error) {
		var text string
		if err := tx.GetContext(ctx, &text, take, silent.Seconds()); err != nil {
			return entry, pg.Classify("take a lost audit entry", err)
		}
		err = json.Unmarshal([]byte(text), &entry)
		entry.Status = OutcomeUnknown
		return entry, err
	})
}

// addEach adds the entries that take returns, each in its own transaction, until take returns pg.ErrNotFound.
func (l AuditLog) addEach(ctx context.Context, doing string,
	take func(*sqlx.Tx) (AuditEntry, error)) (added []AuditEntry, err error) {
	for {
		var entry AuditEntry
		err := l.db.InTx(ctx, doing, func(tx *sqlx.Tx) (err error) {
			if entry, err = take(tx); err == nil {
				entry, err = l.add(ctx, tx, entry)
			}
			return err
		})
		if errors.Is(err, pg.ErrNotFound) {
			return added, nil
		}
		if err != nil {
			return added, err
		}
		added = append(added, entry)
	}
}
