package upkeep

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"

	"wending/db"
	"wending/db/pg"
)

// Lost is an object whose secrets no key opens any more.
type Lost struct {
	// Kind is "provider", "model", "agent", "channel", "task" or "session": the session of an account that signed in
	// through an identity provider.
	Kind string
	ID   uuid.UUID
	// Number is the target's number within its task.
	Number int
	// Name is the name of the entry or task or, for a session, of the account.
	Name string
	// Places are the lost values: "key", "headers", "parameters", "query", "payload", "template", "url",
	// "secret" or "tokens".
	Places []string
	// Models are the models that a provider serves.
	Models []string
}

// lostValue is a sealed value and its owner.
type lostValue struct {
	ID     uuid.UUID `db:"id"`
	Name   string    `db:"name"`
	Sealed []byte    `db:"sealed"`
}

// FindLost returns the owners of unreadable secrets. isLost reports whether a sealed value is unreadable; owner is the
// owner for which it was sealed, as in ResealLibrary, or empty for the tokens of a session. isTargetLost reports the
// same for the secrets of a task's target.
func (s Secrets) FindLost(ctx context.Context, isLost func(sealed []byte, owner string) bool,
	isTargetLost func(db.Target) bool) (found []Lost, err error) {
	if found, err = s.lostEntries(ctx, isLost); err == nil {
		var targets, sessions []Lost
		if targets, err = s.lostTargets(ctx, isTargetLost); err == nil {
			sessions, err = s.lostSessions(ctx, isLost)
		}
		found = slices.Concat(found, targets, sessions)
	}
	return found, pg.Classify("look for secrets that no key opens", err)
}

func (s Secrets) lostEntries(ctx context.Context,
	isLost func(sealed []byte, owner string) bool) (found []Lost, err error) {
	for _, place := range libraryPlaces {
		var values []lostValue
		column := "sealed_" + place.name
		err := s.db.SelectContext(ctx, &values, `SELECT id, name, `+column+` AS sealed FROM `+place.table+` WHERE `+column+
			` IS NOT NULL ORDER BY name, id`)
		if err != nil {
			return nil, err
		}
		for _, value := range values {
			if !isLost(value.Sealed, value.ID.String()+"/"+place.name) {
				continue
			}
			one := Lost{Kind: strings.TrimSuffix(place.table, "s"), ID: value.ID, Name: value.Name}
			if place.table == "providers" {
				err := s.db.SelectContext(ctx, &one.Models, `SELECT name FROM models WHERE provider_id = $1 AND archived_at IS NULL
					ORDER BY name`, value.ID)
				if err != nil {
					return nil, err
				}
			}
			found = addLost(found, one, place.name)
		}
	}
	return found, nil
}

func (s Secrets) lostTargets(ctx context.Context, isLost func(db.Target) bool) (found []Lost, err error) {
	var targets []struct {
		db.Target
		TaskName string `db:"task_name"`
	}
	const read = `
		SELECT g.task_id, g.number, t.task_name, g.sealed_headers, g.sealed_payload, g.sealed_query, g.sealed_template
		FROM task_targets g
		JOIN evaluation_tasks t ON t.id = g.task_id
		WHERE coalesce(g.sealed_headers, g.sealed_payload, g.sealed_query, g.sealed_template) <> $1
		ORDER BY t.created_at, g.task_id, g.number`
	if err := s.db.SelectContext(ctx, &targets, read, givenUp); err != nil {
		return nil, err
	}
	for _, target := range targets {
		if !isLost(target.Target) {
			continue
		}
		one := Lost{Kind: "task", ID: target.TaskID, Number: target.Number, Name: target.TaskName}
		for _, place := range []struct {
			sealed []byte
			name   string
		}{{target.SealedHeaders, "headers"}, {target.SealedPayload, "payload"}, {target.SealedQuery, "query"},
			{target.SealedTemplate, "template"}} {
			if place.sealed != nil {
				one.Places = append(one.Places, place.name)
			}
		}
		found = append(found, one)
	}
	return found, nil
}

func (s Secrets) lostSessions(ctx context.Context,
	isLost func(sealed []byte, owner string) bool) (found []Lost, err error) {
	var sessions []lostValue
	const read = `
		SELECT p.session_id AS id, u.name, p.tokens AS sealed
		FROM provider_sessions p
		JOIN sessions s ON s.id = p.session_id
		JOIN users u ON u.id = s.user_id
		ORDER BY u.name, p.session_id`
	if err := s.db.SelectContext(ctx, &sessions, read); err != nil {
		return nil, err
	}
	for _, session := range sessions {
		if isLost(session.Sealed, "") {
			found = append(found, Lost{Kind: "session", ID: session.ID, Name: session.Name, Places: []string{"tokens"}})
		}
	}
	return found, nil
}

// addLost adds a place to the owner's entry in the findings, or adds a new entry.
func addLost(found []Lost, one Lost, place string) []Lost {
	for n := range found {
		if found[n].Kind == one.Kind && found[n].ID == one.ID {
			found[n].Places = append(found[n].Places, place)
			return found
		}
	}
	one.Places = []string{place}
	return append(found, one)
}

// givenUp is stored in a task in place of a secret that was given up: otherwise the agent would be called as if there
// had never been a secret.
var givenUp = []byte("wnd\x00given up")

// GiveUp removes the secrets that FindLost found from the library and the sessions, marks them in tasks, and replaces
// the secret key's check value with fresh. The library shows code as the last test result of entries whose secrets
// must be entered again. GiveUp returns db.ErrConflict if the check value no longer equals was.
func (s Secrets) GiveUp(ctx context.Context, lost []Lost, code string, was, fresh []byte) error {
	return s.db.InTx(ctx, "give up secrets that no key opens", func(tx *sqlx.Tx) error {
		for _, one := range lost {
			if err := giveUp(ctx, tx, one, code); err != nil {
				return pg.Classify(fmt.Sprintf("give up what no key opens of the %s %s", one.Kind, one.ID), err)
			}
		}
		return replaceCheck(ctx, tx, was, fresh)
	})
}

func giveUp(ctx context.Context, tx *sqlx.Tx, one Lost, code string) error {
	switch one.Kind {
	case "task":
		const mark = `
			UPDATE task_targets
			SET sealed_headers = CASE WHEN sealed_headers IS NOT NULL THEN $3::bytea END,
				sealed_payload = CASE WHEN sealed_payload IS NOT NULL THEN $3::bytea END,
				sealed_query = CASE WHEN sealed_query IS NOT NULL THEN $3::bytea END,
				sealed_template = CASE WHEN sealed_template IS NOT NULL THEN $3::bytea END
			WHERE task_id = $1 AND number = $2`
		_, err := tx.ExecContext(ctx, mark, one.ID, one.Number, givenUp)
		return err
	case "session":
		_, err := tx.ExecContext(ctx, `DELETE FROM sessions WHERE id = $1`, one.ID)
		return err
	}
	table := one.Kind + "s"
	for _, place := range one.Places {
		if _, err := tx.ExecContext(ctx, `UPDATE `+table+` SET sealed_`+place+` = NULL WHERE id = $1`, one.ID); err != nil {
			return err
		}
	}
	note := `UPDATE ` + table + ` SET tested_at = now(), test_code = $2 WHERE id = $1`
	if one.Kind == "provider" { // providers are not tested; their models are
		note = `UPDATE models SET tested_at = now(), test_code = $2 WHERE provider_id = $1`
	}
	_, err := tx.ExecContext(ctx, note, one.ID, code)
	return err
}
