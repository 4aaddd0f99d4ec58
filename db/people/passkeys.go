package people

import (
	"context"
	"encoding/json"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"wending/db"
	"wending/db/pg"
)

// Passkey is a WebAuthn credential.
type Passkey struct {
	// ID is the credential's id.
	ID     []byte    `db:"id"`
	UserID uuid.UUID `db:"user_id"`
	Name   string    `db:"name"`
	// Credential holds its public key, counter and flags.
	Credential json.RawMessage `db:"credential"`
	UsedAt     *time.Time      `db:"used_at"`
	CreatedAt  time.Time       `db:"created_at"`
}

// Passkeys returns the passkeys of an account, oldest first.
func (p People) Passkeys(ctx context.Context, userID uuid.UUID) (keys []Passkey, err error) {
	err = p.db.SelectContext(ctx, &keys, `SELECT * FROM passkeys WHERE user_id = $1 ORDER BY created_at, id`, userID)
	return keys, pg.Classify("list the passkeys", err)
}

// AddPasskey stores a new passkey.
func (p People) AddPasskey(ctx context.Context, key Passkey) error {
	const insert = `INSERT INTO passkeys (id, user_id, name, credential) VALUES (:id, :user_id, :name, :credential)`
	_, err := p.db.NamedExecContext(ctx, insert, key)
	return taken(pg.Classify("store a passkey", err))
}

// UsePasskey stores a passkey's counter after a sign-in with it.
func (p People) UsePasskey(ctx context.Context, key Passkey) error {
	_, err := p.db.NamedExecContext(ctx, `UPDATE passkeys SET credential = :credential, used_at = now() WHERE id = :id
		AND user_id = :user_id`, key)
	return pg.Classify("record a passkey's use", err)
}

// RemovePasskey removes a passkey of an account; once the last one is removed, the account's password alone is enough
// again.
func (p People) RemovePasskey(ctx context.Context, userID uuid.UUID, id []byte) error {
	return p.change(ctx, "remove a passkey", func(tx *sqlx.Tx) error {
		result, err := tx.ExecContext(ctx, `DELETE FROM passkeys WHERE user_id = $1 AND id = $2`, userID, id)
		changed, err := pg.Affected("remove a passkey", result, err)
		if err == nil && changed == 0 {
			err = &db.NotFoundError{Kind: KindPasskey}
		}
		if err != nil {
			return err
		}
		const open = `UPDATE users SET needs_passkey = false WHERE id = $1
			AND NOT EXISTS (SELECT FROM passkeys WHERE user_id = $1)`
		_, err = tx.ExecContext(ctx, open, userID)
		return pg.Classify("change how an account signs in", err)
	})
}
