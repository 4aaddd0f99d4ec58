// Package sealed has the statements about secrets of tasks that only a process with the secret key can carry out: seal
// what early versions stored in clear, and seal again with another key.
package sealed

import (
	"context"
	"encoding/json"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"wending/db"
	"wending/db/pg"
)

// Salt returns the installation's salt for keys that are phrases.
func Salt(ctx context.Context, store *db.Store) (salt []byte, err error) {
	err = store.Pool().GetContext(ctx, &salt, `SELECT key_salt FROM installation`)
	return salt, pg.Classify("read the installation's salt", err)
}

// PlainSecrets are what a task of an earlier version holds in clear.
type PlainSecrets struct {
	TaskID uuid.UUID `db:"id"`
	// AgentURL has its query.
	AgentURL string           `db:"agent_api_url"`
	Payload  *json.RawMessage `db:"extra_payload"`
}

// batch is how many tasks one transaction changes.
const batch = 100

const findPlainSecrets = `
	SELECT id, agent_api_url, extra_payload
	FROM evaluation_tasks
	WHERE extra_payload IS NOT NULL OR strpos(agent_api_url, '?') > 0
	ORDER BY id
	LIMIT $1
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
			if err := tx.SelectContext(ctx, &found, findPlainSecrets, batch); err != nil {
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

// Secrets are what a task holds sealed; nil means it has none of the kind.
type Secrets struct {
	TaskID  uuid.UUID `db:"id"`
	Headers []byte    `db:"agent_api_headers"`
	Payload []byte    `db:"sealed_payload"`
	Query   []byte    `db:"sealed_query"`
}

const findOtherSecrets = `
	WITH current AS (
		SELECT CAST($2 AS bytea) AS head)
	SELECT t.id, agent_api_headers, sealed_payload, sealed_query
	FROM evaluation_tasks t, current
	WHERE t.id > $1
	  AND (substring(agent_api_headers FOR length(head)) <> head
		OR substring(sealed_payload FOR length(head)) <> head
		OR substring(sealed_query FOR length(head)) <> head)
	ORDER BY t.id
	LIMIT $3
	FOR UPDATE OF t`

const replaceSecrets = `
	UPDATE evaluation_tasks
	SET agent_api_headers = $2,
		sealed_payload = $3,
		sealed_query = $4
	WHERE id = $1`

// Reseal replaces the secrets of tasks that do not begin with head by what again makes of them; nil leaves them as they
// are. progress learns after each batch how many tasks were changed and left in all. A batch is one transaction, so
// an interrupted run resumes where it was.
func Reseal(ctx context.Context, store *db.Store, head []byte, again func(Secrets) (*Secrets, error), progress func(changed, left int)) error {
	last, changed, left := uuid.Nil, 0, 0
	for {
		var found []Secrets
		replaced := 0
		err := store.Pool().InTx(ctx, "seal again", func(tx *sqlx.Tx) error {
			found, replaced = nil, 0
			if err := tx.SelectContext(ctx, &found, findOtherSecrets, last, head, batch); err != nil {
				return pg.Classify("look for what another key sealed", err)
			}
			for _, one := range found {
				fresh, err := again(one)
				if err != nil {
					return err
				}
				if fresh == nil {
					continue
				}
				if _, err := tx.ExecContext(ctx, replaceSecrets, fresh.TaskID, fresh.Headers, fresh.Payload, fresh.Query); err != nil {
					return pg.Classify("seal again", err)
				}
				replaced++
			}
			return nil
		})
		if err != nil || len(found) == 0 {
			return err
		}
		last = found[len(found)-1].TaskID
		changed, left = changed+replaced, left+len(found)-replaced
		progress(changed, left)
	}
}
