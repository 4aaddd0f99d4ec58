package tasks

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/google/uuid"

	"wending/db"
	"wending/db/upgrade"
	"wending/jobs/secret"
)

// Target is what calling a task's agent takes, with its secrets opened.
type Target struct {
	// URL has its query.
	URL     string
	Headers map[string]string
	// Payload is a JSON object merged into every request body; nil means there is none.
	Payload json.RawMessage
}

// Each secret is sealed for its task and its place: none can be moved to another.
func payloadOwner(id uuid.UUID) string { return id.String() + "/payload" }
func queryOwner(id uuid.UUID) string   { return id.String() + "/query" }

// Open opens a task's secrets, or returns secret.ErrKey.
func Open(sealer *secret.Sealer, task db.Task) (t Target, err error) {
	t.URL = task.AgentURL
	if err := sealer.Open(task.SealedHeaders, task.ID.String(), &t.Headers); err != nil {
		return t, err
	}
	if err := sealer.Open(task.SealedPayload, payloadOwner(task.ID), &t.Payload); err != nil {
		return t, err
	}
	var query *string
	if err := sealer.Open(task.SealedQuery, queryOwner(task.ID), &query); err != nil {
		return t, err
	}
	if query != nil {
		t.URL += "?" + *query
	}
	return t, nil
}

// Seal puts a target into a task, its secrets sealed.
func Seal(sealer *secret.Sealer, target Target, task *db.Task) (err error) {
	address, query, hasQuery := strings.Cut(target.URL, "?")
	task.AgentURL, task.SealedHeaders, task.SealedPayload, task.SealedQuery = address, nil, nil, nil
	if len(target.Headers) > 0 {
		if task.SealedHeaders, err = sealer.Seal(target.Headers, task.ID.String()); err != nil {
			return err
		}
	}
	if target.Payload != nil {
		if task.SealedPayload, err = sealer.Seal(target.Payload, payloadOwner(task.ID)); err != nil {
			return err
		}
	}
	if hasQuery {
		task.SealedQuery, err = sealer.Seal(query, queryOwner(task.ID))
	}
	return err
}

// SealPlain seals what versions before stored in clear. It may run in several processes at once.
func SealPlain(ctx context.Context, store *db.Store, sealer *secret.Sealer) (sealed int, err error) {
	return upgrade.SealPlain(ctx, store, func(plain upgrade.PlainSecrets) (payload, query []byte, address string, err error) {
		task := db.Task{ID: plain.TaskID}
		target := Target{URL: plain.AgentURL}
		if plain.Payload != nil {
			target.Payload = *plain.Payload
		}
		err = Seal(sealer, target, &task)
		return task.SealedPayload, task.SealedQuery, task.AgentURL, err
	})
}
