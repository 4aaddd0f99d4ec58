package tasks

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"wending/db"
	"wending/db/upkeep"
	"wending/jobs/agent"
	"wending/jobs/agent/protocol"
	"wending/jobs/secret"
)

// Target holds the opened secrets that are needed to call a target.
type Target struct {
	// URL includes its query.
	URL     string
	Headers map[string]string
	// Payload is a JSON object merged into every request body, and Template the JSON object that replaces the body; nil
	// means none.
	Payload  json.RawMessage
	Template json.RawMessage
	// Poll describes how to poll a target that accepts jobs; it is not secret.
	Poll *protocol.Poll
}

// Each secret is sealed for its target with one of these suffixes, headers without one, so that it cannot be moved to
// another field.
const (
	payloadPlace  = "/payload"
	queryPlace    = "/query"
	templatePlace = "/template"
)

// Open opens a target's secrets, or returns secret.ErrKey.
func Open(sealer *secret.Sealer, target db.Target) (t Target, err error) {
	owner := target.SecretsOwner()
	t.URL = target.URL
	var query *string
	for _, one := range []struct {
		sealed []byte
		owner  string
		into   any
	}{
		{target.SealedHeaders, owner, &t.Headers},
		{target.SealedPayload, owner + payloadPlace, &t.Payload},
		{target.SealedTemplate, owner + templatePlace, &t.Template},
		{target.SealedQuery, owner + queryPlace, &query},
	} {
		if err := sealer.Open(one.sealed, one.owner, one.into); err != nil {
			return t, err
		}
	}
	if query != nil {
		t.URL += "?" + *query
	}
	t.Poll, err = ReadPoll(target.Poll)
	return t, err
}

// ReadPoll parses the stored description of how a target is polled; nil means that it answers directly.
func ReadPoll(text *string) (*protocol.Poll, error) {
	if text == nil {
		return nil, nil
	}
	poll := new(protocol.Poll)
	return poll, json.Unmarshal([]byte(*text), poll)
}

// IsPoll reports whether poll has all the settings that polling requires.
func IsPoll(poll protocol.Poll) bool {
	return poll.URLPath != "" && poll.DonePath != "" && poll.ResultPath != "" && len(poll.DoneValues) > 0
}

// PollText encodes how a target is polled as JSON, the form in which it is stored.
func PollText(poll *protocol.Poll) (*string, error) {
	if poll == nil {
		return nil, nil
	}
	text, err := json.Marshal(poll)
	return Given(string(text)), err
}

// Mask returns a function that redacts the secrets of a variant's requests in a text from its agent. client is the
// client that calls the agent.
func (s *Service) Mask(client *agent.Client, task db.Task, variant int) (func(string) string, error) {
	target, err := Open(s.Sealer, task.Targets[task.Variants[variant-1].Target-1])
	return client.Mask(protocol.Request{URL: target.URL, Headers: target.Headers}), err
}

// Seal seals secrets and stores them in a target.
func Seal(sealer *secret.Sealer, secrets Target, target *db.Target) (err error) {
	owner := target.SecretsOwner()
	address, query, hasQuery := strings.Cut(secrets.URL, "?")
	target.URL, target.SealedHeaders, target.SealedPayload, target.SealedQuery, target.SealedTemplate = address, nil,
		nil, nil, nil
	for _, one := range []struct {
		has   bool
		value any
		owner string
		into  *[]byte
	}{
		{len(secrets.Headers) > 0, secrets.Headers, owner, &target.SealedHeaders},
		{secrets.Payload != nil, secrets.Payload, owner + payloadPlace, &target.SealedPayload},
		{secrets.Template != nil, secrets.Template, owner + templatePlace, &target.SealedTemplate},
		{hasQuery, query, owner + queryPlace, &target.SealedQuery},
	} {
		if !one.has {
			continue
		}
		if *one.into, err = sealer.Seal(one.value, one.owner); err != nil {
			return err
		}
	}
	target.Poll, err = PollText(secrets.Poll)
	return err
}

// SealPlain seals the secrets that earlier versions stored in plain text and returns the number of changed
// tasks. It may run in several processes at once.
func SealPlain(ctx context.Context, store *db.Store, sealer *secret.Sealer) (count int, err error) {
	return upkeep.NewSecrets(store).SealPlain(ctx,
		func(plain upkeep.PlainSecrets) (payload, query []byte, address string, err error) {
			target, secrets := db.Target{TaskID: plain.TaskID, Number: 1}, Target{URL: plain.URL}
			if plain.Payload != nil {
				secrets.Payload = *plain.Payload
			}
			err = Seal(sealer, secrets, &target)
			return target.SealedPayload, target.SealedQuery, target.URL, err
		})
}

// Reseal reseals, with the sealer's current key, the secrets sealed with its other keys. progress is called with the
// number of resealed targets, and the number of targets that are left unchanged because no key opens their secrets.
// Reseal may run alongside processes that have the same keys, and resumes after an interruption.
func Reseal(ctx context.Context, store *db.Store, sealer *secret.Sealer, progress func(changed, left int)) error {
	again := func(target db.Target) (*db.Target, error) {
		secrets, err := Open(sealer, target)
		if errors.Is(err, secret.ErrKey) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		if err := Seal(sealer, secrets, &target); err != nil {
			return nil, err
		}
		return &target, nil
	}
	return upkeep.NewSecrets(store).Reseal(ctx, sealer.Head(), again, progress)
}

// ErrForeignKey means that the process has a different SECRET_KEY from the installation and could not open any
// secrets.
var ErrForeignKey = errors.New("SECRET_KEY is not the key of this database: start this process with the SECRET_KEY " +
	"(or the secret.key in DATA_DIR) of the other processes; to change the key, set the previous one as " +
	"SECRET_KEY_PREVIOUS and run 'wending rotate-key'; if the key is lost, 'wending rotate-key --lost-key' lists " +
	"the secrets lost with it")

// Loss is the set of secrets sealed with a lost key.
type Loss struct {
	Lost []upkeep.Lost
	// IsForeign reports that the lost key is the installation's key, so that no process starts without it.
	IsForeign bool
	// Sealer holds the available keys.
	Sealer *secret.Sealer
	store  *db.Store
	check  []byte
}

// FindLoss returns the secrets that none of the keys opens.
func FindLoss(ctx context.Context, store *db.Store, keys secret.Keys) (l Loss, err error) {
	secrets := upkeep.NewSecrets(store)
	if keys.Salt, err = secrets.Salt(ctx); err != nil {
		return l, err
	}
	l.store = store
	if l.Sealer, err = secret.NewSealer(keys); err != nil {
		return l, err
	}
	if l.check, err = secrets.Check(ctx); err != nil {
		return l, err
	}
	l.IsForeign = l.check != nil && !opensCheck(l.Sealer, l.check)
	isLost := func(sealed []byte, owner string) bool {
		if secret.HasHead(sealed) {
			return !l.Sealer.Knows(sealed[:secret.HeadSize])
		}
		var value json.RawMessage
		return l.Sealer.Open(sealed, owner, &value) != nil
	}
	l.Lost, err = secrets.FindLost(ctx, isLost, func(target db.Target) bool {
		_, err := Open(l.Sealer, target)
		return errors.Is(err, secret.ErrKey)
	})
	return l, err
}

// GiveUp gives up lost secrets, and makes the current key the installation's key. The library shows code as the
// last test result of entries whose secrets must be entered again.
func (l Loss) GiveUp(ctx context.Context, code string) error {
	fresh, err := l.Sealer.Seal(checkValue, checkOwner)
	if err != nil {
		return err
	}
	return upkeep.NewSecrets(l.store).GiveUp(ctx, l.Lost, code, l.check, fresh)
}

// NewSealer returns the sealer with the installation's salt. It returns ErrForeignKey if none of the keys is the
// installation's. The first process to start sets the installation's key. A process whose previous key is the
// installation's replaces it with its current key.
func NewSealer(ctx context.Context, store *db.Store, keys secret.Keys) (s *secret.Sealer, err error) {
	if keys.Salt, err = upkeep.NewSecrets(store).Salt(ctx); err != nil {
		return nil, err
	}
	if s, err = secret.NewSealer(keys); err != nil {
		return nil, err
	}
	check, err := upkeep.NewSecrets(store).Check(ctx)
	if err != nil {
		return nil, err
	}
	switch {
	case check == nil:
		err = requireKnownHeads(ctx, store, s)
	case !opensCheck(s, check):
		err = ErrForeignKey
	case bytes.HasPrefix(check, s.Head()):
		return s, nil
	}
	if err != nil {
		return nil, err
	}
	fresh, err := s.Seal(checkValue, checkOwner)
	if err != nil {
		return nil, err
	}
	err = upkeep.NewSecrets(store).ReplaceCheck(ctx, check, fresh)
	if errors.Is(err, db.ErrConflict) { // another process was first, perhaps with a different key
		return NewSealer(ctx, store, keys)
	}
	return s, err
}

// The content of the check value, and the owner for which it is sealed.
const (
	checkValue = "wending"
	checkOwner = "installation/check"
)

func opensCheck(s *secret.Sealer, check []byte) bool {
	var value string
	return s.Open(check, checkOwner, &value) == nil && value == checkValue
}

// requireKnownHeads returns ErrForeignKey if the database has sealed values and none names a key of s. Values
// of versions without a check value may have been sealed with several keys.
func requireKnownHeads(ctx context.Context, store *db.Store, s *secret.Sealer) error {
	heads, err := upkeep.NewSecrets(store).Heads(ctx, secret.HeadSize)
	if err != nil {
		return err
	}
	heads = slices.DeleteFunc(heads, func(head []byte) bool { return !secret.HasHead(head) })
	if len(heads) > 0 && !slices.ContainsFunc(heads, s.Knows) {
		return ErrForeignKey
	}
	return nil
}

// IsForeign reports whether the installation's key has been replaced since the process started, so that a
// failure to open a value is not the value's fault.
func IsForeign(ctx context.Context, store *db.Store, s *secret.Sealer) (bool, error) {
	check, err := upkeep.NewSecrets(store).Check(ctx)
	return err == nil && check != nil && !opensCheck(s, check), err
}
