// Package upgrade does what a new version must do once to rows of older ones and migrations cannot, because it takes the
// secret key.
package upgrade

import (
	"context"
	"encoding/json"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"wending/db"
	"wending/db/pg"
)

// PlainSecrets are what a task of an earlier version holds in clear.
type PlainSecrets struct {
	TaskID uuid.UUID `db:"id"`
	// AgentURL has its query.
	AgentURL string           `db:"agent_api_url"`
	Payload  *json.RawMessage `db:"extra_payload"`
}

const findPlainSecrets = `
	SELECT id, agent_api_url, extra_payload
	FROM evaluation_tasks
	WHERE extra_payload IS NOT NULL OR strpos(agent_api_url, '?') > 0
	ORDER BY id
	LIMIT 100
	FOR UPDATE`

const replacePlainSecrets = `
	UPDATE evaluation_tasks
	SET extra_payload = NULL,
		sealed_payload = coalesce($2, sealed_payload),
		sealed_query = coalesce($3, sealed_query),
		agent_api_url = $4
	WHERE id = $1`

// SealPlain replaces what tasks hold in clear by what seal makes of it, and returns of how many. Nothing that is
// sealed stays in clear: a batch is one transaction.
func SealPlain(ctx context.Context, store *db.Store, seal func(PlainSecrets) (payload, query []byte, address string, err error)) (sealed int, err error) {
	for {
		var found []PlainSecrets
		err := store.Pool().InTx(ctx, "seal what is stored in clear", func(tx *sqlx.Tx) error {
			found = nil
			if err := tx.SelectContext(ctx, &found, findPlainSecrets); err != nil {
				return pg.Classify("look for what is stored in clear", err)
			}
			for _, plain := range found {
				payload, query, address, err := seal(plain)
				if err != nil {
					return err
				}
				if _, err := tx.ExecContext(ctx, replacePlainSecrets, plain.TaskID, payload, query, address); err != nil {
					return pg.Classify("seal what is stored in clear", err)
				}
			}
			return nil
		})
		if err != nil || len(found) == 0 {
			return sealed, err
		}
		sealed += len(found)
	}
}
