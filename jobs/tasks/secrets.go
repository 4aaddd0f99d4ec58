package tasks

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"github.com/google/uuid"

	"wending/db"
	"wending/db/sealed"
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

// SealPlain seals what versions before stored in clear and returns of how many tasks. It may run in several processes at
// once.
func SealPlain(ctx context.Context, store *db.Store, sealer *secret.Sealer) (count int, err error) {
	return sealed.SealPlain(ctx, store, func(plain sealed.PlainSecrets) (payload, query []byte, address string, err error) {
		task := db.Task{ID: plain.TaskID}
		target := Target{URL: plain.AgentURL}
		if plain.Payload != nil {
			target.Payload = *plain.Payload
		}
		err = Seal(sealer, target, &task)
		return task.SealedPayload, task.SealedQuery, task.AgentURL, err
	})
}

// Reseal seals with the sealer's current key what another of its keys sealed. progress learns of how many tasks, and of
// how many no key opens the secrets: those stay as they are. It may run beside processes that have the same keys, and
// resumes where it was interrupted.
func Reseal(ctx context.Context, store *db.Store, sealer *secret.Sealer, progress func(changed, left int)) error {
	again := func(old sealed.Secrets) (*sealed.Secrets, error) {
		task := db.Task{ID: old.TaskID, SealedHeaders: old.Headers, SealedPayload: old.Payload, SealedQuery: old.Query}
		target, err := Open(sealer, task)
		if errors.Is(err, secret.ErrKey) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		if err := Seal(sealer, target, &task); err != nil {
			return nil, err
		}
		return &sealed.Secrets{TaskID: task.ID, Headers: task.SealedHeaders, Payload: task.SealedPayload, Query: task.SealedQuery}, nil
	}
	return sealed.Reseal(ctx, store, sealer.Head(), again, progress)
}

// NewSealer returns the sealer with the installation's salt.
func NewSealer(ctx context.Context, store *db.Store, keys secret.Keys) (s *secret.Sealer, err error) {
	if keys.Salt, err = sealed.Salt(ctx, store); err != nil {
		return nil, err
	}
	return secret.NewSealer(keys)
}
