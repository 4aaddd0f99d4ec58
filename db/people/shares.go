package people

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"wending/db"
	"wending/db/pg"
)

// Share is a link that shows one report to anyone who has the link.
type Share struct {
	ID        uuid.UUID  `db:"id"`
	TaskID    uuid.UUID  `db:"task_id"`
	CreatedBy string     `db:"created_by"`
	ExpiresAt time.Time  `db:"expires_at"`
	RevokedAt *time.Time `db:"revoked_at"`
	UsedAt    *time.Time `db:"used_at"`
	CreatedAt time.Time  `db:"created_at"`
	// IsExpired is determined by the database's clock.
	IsExpired bool `db:"is_expired"`
}

const readShares = `
	SELECT s.id, s.task_id, s.created_by, s.expires_at, s.revoked_at, s.used_at, s.created_at,
	s.expires_at <= now() AS is_expired
	FROM shares s`

// AddShare stores a new link to a task's report and returns its secret, which cannot be read again.
func (p People) AddShare(ctx context.Context, share Share, lasts time.Duration) (secret string, err error) {
	const insert = `INSERT INTO shares (id, task_id, hash, created_by, expires_at)
		VALUES ($1, $2, $3, $4, now() + $5 * interval '1 second')`
	secret = NewSecret()
	err = p.db.InTx(ctx, "store a link", func(tx *sqlx.Tx) error {
		var of uuid.UUID
		if err := tx.GetContext(ctx, &of, `SELECT project_id FROM evaluation_tasks WHERE id = $1`, share.TaskID); err != nil {
			return db.NotFound(db.KindTask, pg.Classify("read the task", err))
		}
		if err := db.ShareCap.Admit(ctx, tx, of); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, insert, share.ID, share.TaskID, hashOf(secret), share.CreatedBy, lasts.Seconds())
		return pg.Classify("store a link", err)
	})
	return secret, err
}

// Share returns a link, or db.ErrNotFound.
func (p People) Share(ctx context.Context, id uuid.UUID) (share Share, err error) {
	err = p.db.GetContext(ctx, &share, readShares+` WHERE s.id = $1`, id)
	return share, db.NotFound(KindShare, pg.Classify("read a link", err))
}

// ShareOf returns the link that belongs to a secret if it is still valid, or db.ErrNotFound, and records the time
// of use.
func (p People) ShareOf(ctx context.Context, secret string) (share Share, err error) {
	const use = `
		WITH s AS (
			UPDATE shares SET used_at = now() WHERE hash = $1 AND revoked_at IS NULL AND expires_at > now() RETURNING *)
		SELECT s.id, s.task_id, s.created_by, s.expires_at, s.revoked_at, s.used_at, s.created_at, false AS is_expired FROM s`
	err = p.db.GetContext(ctx, &share, use, hashOf(secret))
	return share, db.NotFound(KindShare, pg.Classify("read a link", err))
}

// Shares returns the links to a task's report, newest first.
func (p People) Shares(ctx context.Context, taskID uuid.UUID) (shares []Share, err error) {
	err = p.db.SelectContext(ctx, &shares, readShares+` WHERE s.task_id = $1 ORDER BY s.created_at DESC, s.id`, taskID)
	return shares, pg.Classify("list the links", err)
}

// RevokeShare revokes a link with immediate effect. It returns db.ErrNotFound if there is no such link.
func (p People) RevokeShare(ctx context.Context, id uuid.UUID) error {
	return p.changeRow(ctx, KindShare, "revoke a link", `UPDATE shares SET revoked_at = coalesce(revoked_at, now())
		WHERE id = $1`, id)
}
