package upkeep

import (
	"context"
	"encoding/json"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"wending/db"
	"wending/db/pg"
)

// Secrets reads and replaces the stored secrets of one database.
type Secrets struct{ db *pg.Pool }

// NewSecrets returns the secrets of a store.
func NewSecrets(store *db.Store) Secrets { return Secrets{store.Pool()} }

// Salt returns the installation's salt for keys that are passphrases.
func (s Secrets) Salt(ctx context.Context) (salt []byte, err error) {
	err = s.db.GetContext(ctx, &salt, `SELECT key_salt FROM installation`)
	return salt, pg.Classify("read the installation's salt", err)
}

// Check returns the check value, which only the installation's secret key opens; nil means that no process has
// stored one yet.
func (s Secrets) Check(ctx context.Context) (check []byte, err error) {
	err = s.db.GetContext(ctx, &check, `SELECT sealed_check FROM installation`)
	return check, pg.Classify("read the check value of the secret key", err)
}

// ReplaceCheck stores fresh as the check value if the stored value still equals was. It returns db.ErrConflict if
// another process changed it first.
func (s Secrets) ReplaceCheck(ctx context.Context, was, fresh []byte) error {
	return replaceCheck(ctx, s.db, was, fresh)
}

func replaceCheck(ctx context.Context, in sqlx.ExecerContext, was, fresh []byte) error {
	const replace = `UPDATE installation SET sealed_check = $2 WHERE sealed_check IS NOT DISTINCT FROM $1`
	result, err := in.ExecContext(ctx, replace, was, fresh)
	return pg.RequireRow("store the check value of the secret key", result, err)
}

// Heads returns the first size bytes of every sealed value, without duplicates. They show which keys sealed the values.
func (s Secrets) Heads(ctx context.Context, size int) (heads [][]byte, err error) {
	read := `
		SELECT substring(unnest(ARRAY[sealed_headers, sealed_payload, sealed_query, sealed_template]) FOR $1) AS head
		FROM task_targets`
	for _, place := range libraryPlaces {
		read += ` UNION SELECT substring(sealed_` + place.name + ` FOR $1) FROM ` + place.table
	}
	err = s.db.SelectContext(ctx, &heads, `SELECT head FROM (`+read+`) found WHERE head IS NOT NULL`, size)
	return heads, pg.Classify("read the keys that sealed the secrets", err)
}

// PlainSecrets are the unencrypted secrets of the first target of a task from an earlier version.
type PlainSecrets struct {
	TaskID uuid.UUID `db:"task_id"`
	// URL includes its query.
	URL     string           `db:"url"`
	Payload *json.RawMessage `db:"extra_payload"`
}

// sealedAtOnce is how many targets one transaction changes.
const sealedAtOnce = 100

const findPlainSecrets = `
	SELECT task_id, url, extra_payload
	FROM task_targets
	WHERE extra_payload IS NOT NULL OR strpos(url, '?') > 0
	ORDER BY task_id
	LIMIT $1
	FOR UPDATE`

const replacePlainSecrets = `
	UPDATE task_targets
	SET extra_payload = NULL,
		sealed_payload = coalesce($2, sealed_payload),
		sealed_query = coalesce($3, sealed_query),
		url = $4
	WHERE task_id = $1 AND number = 1`

// SealPlain replaces the plain secrets of targets with the result of seal, and returns how many targets it
// changed. An interrupted run leaves no half-sealed target: each batch is one transaction.
func (s Secrets) SealPlain(ctx context.Context,
	seal func(PlainSecrets) (payload, query []byte, address string, err error)) (sealed int, err error) {
	for {
		var found []PlainSecrets
		err := s.db.InTx(ctx, "seal a value stored in plain text", func(tx *sqlx.Tx) error {
			found = nil
			if err := tx.SelectContext(ctx, &found, findPlainSecrets, sealedAtOnce); err != nil {
				return pg.Classify("find values stored in plain text", err)
			}
			for _, plain := range found {
				payload, query, address, err := seal(plain)
				if err != nil {
					return err
				}
				if _, err := tx.ExecContext(ctx, replacePlainSecrets, plain.TaskID, payload, query, address); err != nil {
					return pg.Classify("seal a value stored in plain text", err)
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

const findOtherSecrets = `
	WITH current AS (
		SELECT CAST($3 AS bytea) AS head)
	SELECT t.task_id, t.number, sealed_headers, sealed_payload, sealed_query, sealed_template
	FROM task_targets t, current
	WHERE (t.task_id, t.number) > ($1, $2)
	  AND (substring(sealed_headers FOR length(head)) <> head
		OR substring(sealed_payload FOR length(head)) <> head
		OR substring(sealed_query FOR length(head)) <> head
		OR substring(sealed_template FOR length(head)) <> head)
	  AND coalesce(sealed_headers, sealed_payload, sealed_query, sealed_template) <> $5 -- secrets that were given up
	ORDER BY t.task_id, t.number
	LIMIT $4
	FOR UPDATE OF t`

const replaceSecrets = `
	UPDATE task_targets
	SET sealed_headers = :sealed_headers,
		sealed_payload = :sealed_payload,
		sealed_query = :sealed_query,
		sealed_template = :sealed_template
	WHERE task_id = :task_id AND number = :number`

// Reseal replaces the secrets of targets that were sealed with a different key. Each target with a secret that does not
// begin with head is passed to the given function, which returns the target with the secrets to store, or nil to leave
// it unchanged. progress is called after each batch with the number of targets changed so far and the number left. Each
// batch is one transaction, so an interrupted run can be repeated.
func (s Secrets) Reseal(ctx context.Context, head []byte, again func(db.Target) (*db.Target, error),
	progress func(changed, left int)) error {
	last, changed, left := db.Target{}, 0, 0
	for {
		var found []db.Target
		replaced := 0
		err := s.db.InTx(ctx, "seal again", func(tx *sqlx.Tx) error {
			found, replaced = nil, 0
			if err := tx.SelectContext(ctx, &found, findOtherSecrets, last.TaskID, last.Number, head, sealedAtOnce,
				givenUp); err != nil {
				return pg.Classify("find values sealed with another key", err)
			}
			for _, one := range found {
				fresh, err := again(one)
				if err != nil {
					return err
				}
				if fresh == nil {
					continue
				}
				if _, err := tx.NamedExecContext(ctx, replaceSecrets, fresh); err != nil {
					return pg.Classify("seal again", err)
				}
				replaced++
			}
			return nil
		})
		if err != nil || len(found) == 0 {
			return err
		}
		last = found[len(found)-1]
		changed, left = changed+replaced, left+len(found)-replaced
		progress(changed, left)
	}
}

// libraryPlace is a place where entries of the library keep a secret: the column sealed_<name> of the table, sealed
// for the owner <id>/<name>.
type libraryPlace struct{ table, name string }

var libraryPlaces = []libraryPlace{
	{"providers", "key"}, {"providers", "headers"}, {"models", "parameters"},
	{"agents", "query"}, {"agents", "headers"}, {"agents", "payload"}, {"agents", "template"},
	{"channels", "url"}, {"channels", "secret"},
}

// ResealLibrary is like Reseal, but for the library's entries. The given function receives a sealed value and its
// owner, and returns nil to leave the value unchanged. changed and left count values, not entries.
func (s Secrets) ResealLibrary(
	ctx context.Context, head []byte, again func(sealed []byte, owner string) ([]byte, error),
	progress func(changed, left int),
) error {
	changed, left := 0, 0
	for _, place := range libraryPlaces {
		for last, isDone := uuid.Nil, false; !isDone; {
			found, replaced, err := s.resealSome(ctx, place, last, head, again)
			if err != nil {
				return err
			}
			if isDone = len(found) == 0; !isDone {
				last = found[len(found)-1].ID
				changed, left = changed+replaced, left+len(found)-replaced
				progress(changed, left)
			}
		}
	}
	return nil
}

// sealedValue is one secret of an entry.
type sealedValue struct {
	ID     uuid.UUID `db:"id"`
	Sealed []byte    `db:"sealed"`
}

// resealSome passes the next values of a place, those after the entry last, to the given function. It returns all
// values that it read, and how many it replaced.
func (s Secrets) resealSome(
	ctx context.Context, place libraryPlace, last uuid.UUID, head []byte,
	again func(sealed []byte, owner string) ([]byte, error),
) (found []sealedValue, replaced int, err error) {
	column := "sealed_" + place.name
	find := `SELECT id, ` + column + ` AS sealed FROM ` + place.table + `
		WHERE id > $1 AND substring(` + column + ` FOR length(CAST($2 AS bytea))) <> $2 ORDER BY id LIMIT $3 FOR UPDATE`
	replace := `UPDATE ` + place.table + ` SET ` + column + ` = $2 WHERE id = $1`
	err = s.db.InTx(ctx, "seal "+place.table+" again", func(tx *sqlx.Tx) error {
		found, replaced = nil, 0
		if err := tx.SelectContext(ctx, &found, find, last, head, sealedAtOnce); err != nil {
			return pg.Classify("find values sealed with another key", err)
		}
		for _, one := range found {
			fresh, err := again(one.Sealed, one.ID.String()+"/"+place.name)
			if err != nil {
				return err
			}
			if fresh == nil {
				continue
			}
			if _, err := tx.ExecContext(ctx, replace, one.ID, fresh); err != nil {
				return pg.Classify("seal again", err)
			}
			replaced++
		}
		return nil
	})
	return found, replaced, err
}
