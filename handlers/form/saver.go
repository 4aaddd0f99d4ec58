package form

import (
	"context"
	"errors"
	"net/url"

	"github.com/google/uuid"

	"wending/db"
	"wending/db/entries"
	"wending/handlers/request"
	"wending/jobs/library"
	"wending/jobs/secret"
)

// Check holds the functions that refuse addresses that may not be called.
type Check struct {
	// URL, Model and Channel check the addresses of agents, providers of models, and channels.
	URL, Model, Channel func(*url.URL) error
	// Task checks the address of a task's agent. From the headers it can tell whether the task is a copy of the demo.
	Task func(u *url.URL, headers map[string]string) error
}

// Saver parses forms for entries of the library and stores the entries. row is the entry that a form changes; nil means
// a new one. The methods that store an entry return its id, or the form's faults.
type Saver struct {
	Library *library.Service
	Check   Check
}

// Opened returns value and err, without an error that says that a secret cannot be decrypted because the key has
// changed: the parts that are not secret can still be shown.
func Opened[T any](value T, err error) (T, error) {
	if errors.Is(err, secret.ErrKey) {
		return value, nil
	}
	return value, err
}

// Base returns the entry that a form changes, decrypted with open; it is empty for a new entry.
func Base[T, V any](row *T, open func(T) (V, error)) (base V, err error) {
	if row == nil {
		return base, nil
	}
	return Opened(open(*row))
}

// saved returns the results of saving an entry, with the error that its name is taken as a fault of the field.
func saved(id uuid.UUID, err error) (uuid.UUID, []FieldFault, error) {
	if errors.Is(err, entries.ErrNameTaken) {
		return uuid.Nil, []FieldFault{{"name", request.FaultOf(err)}}, nil
	}
	return id, nil, err
}

func (s Saver) saveProvider(ctx context.Context, row *entries.Provider, f *Upload) (uuid.UUID, []FieldFault, error) {
	base, err := Base(row, s.Library.OpenProvider)
	if err != nil {
		return uuid.Nil, nil, err
	}
	p, faults := Provider(f, base, s.Check.Model)
	if len(faults) > 0 {
		return uuid.Nil, faults, nil
	}
	id := uuid.Nil
	if row != nil {
		id = row.ID
	}
	return saved(s.Library.SaveProvider(ctx, request.ScopeOf(ctx), id, p))
}

// ReadModel parses a form for a model without storing it.
func (s Saver) ReadModel(ctx context.Context, row *entries.Model,
	f *Upload) (m library.Model, faults []FieldFault, err error) {
	base, err := Base(row, s.Library.OpenModel)
	if err != nil {
		return m, nil, err
	}
	return Model(f, base, func(id uuid.UUID) (entries.Provider, error) {
		return s.Library.Entries.Providers.Get(ctx, request.ScopeOf(ctx), id)
	})
}

func (s Saver) saveModel(ctx context.Context, row *entries.Model, f *Upload) (uuid.UUID, []FieldFault, error) {
	m, faults, err := s.ReadModel(ctx, row, f)
	if err != nil || len(faults) > 0 {
		return uuid.Nil, faults, err
	}
	id := uuid.Nil
	if row != nil {
		id = row.ID
	}
	// db.ErrGone means that the provider has been removed in the meantime.
	if id, err = s.Library.SaveModel(ctx, request.ScopeOf(ctx), id, m); errors.Is(err, db.ErrGone) {
		return uuid.Nil,
			[]FieldFault{{"provider_id", request.FieldFault("provider_id", request.ValidEntries()).WithCause(err)}}, nil
	}
	return saved(id, err)
}

// ReadAgent parses a form for an agent without storing it.
func (s Saver) ReadAgent(row *entries.Agent, f *Upload) (a library.Agent, faults []FieldFault, err error) {
	base, err := Base(row, s.Library.OpenAgent)
	if err != nil {
		return a, nil, err
	}
	a, faults = Agent(f, base, s.Check.URL)
	return a, faults, nil
}

func (s Saver) saveAgent(ctx context.Context, row *entries.Agent, f *Upload) (uuid.UUID, []FieldFault, error) {
	a, faults, err := s.ReadAgent(row, f)
	if err != nil || len(faults) > 0 {
		return uuid.Nil, faults, err
	}
	id := uuid.Nil
	if row != nil {
		id = row.ID
	}
	return saved(s.Library.SaveAgent(ctx, request.ScopeOf(ctx), id, a))
}

func (s Saver) savePrompt(ctx context.Context, row *entries.Prompt, f *Upload) (uuid.UUID, []FieldFault, error) {
	if row == nil {
		p, faults := Prompt(f, entries.Prompt{Entry: entries.Entry{ID: uuid.New()}})
		if len(faults) > 0 {
			return uuid.Nil, faults, nil
		}
		return saved(p.ID, s.Library.Entries.InsertPrompt(ctx, request.ScopeOf(ctx), p))
	}
	p, faults := Prompt(f, *row)
	if len(faults) > 0 {
		return uuid.Nil, faults, nil
	}
	err := s.Library.Entries.Prompts.Update(ctx, request.ScopeOf(ctx), p)
	if err == nil && (p.System != row.System || p.User != row.User) {
		_, err = s.Library.Entries.AddPromptVersion(ctx, request.ScopeOf(ctx), p)
	}
	return saved(p.ID, err)
}

func (s Saver) saveDataset(ctx context.Context, row *entries.Dataset, f *Upload) (uuid.UUID, []FieldFault, error) {
	if row == nil {
		n, faults := Dataset(ctx, f, library.NewDataset{})
		if len(faults) > 0 {
			return uuid.Nil, faults, nil
		}
		created, err := s.Library.CreateDataset(ctx, request.ScopeOf(ctx), n)
		return saved(created.ID, err)
	}
	d, faults := DatasetFields(f, *row)
	if len(faults) > 0 {
		return uuid.Nil, faults, nil
	}
	return saved(d.ID, s.Library.Entries.Datasets.Update(ctx, request.ScopeOf(ctx), d))
}

// DatasetVersion stores the next version of a dataset, and returns the changed dataset.
func (s Saver) DatasetVersion(ctx context.Context, row entries.Dataset,
	f *Upload) (entries.Dataset, []FieldFault, error) {
	n, faults := Dataset(ctx, f, library.NewDataset{Name: row.Name, Description: row.Description})
	if len(faults) > 0 {
		return row, faults, nil
	}
	next, err := s.Library.AddDatasetVersion(ctx, request.ScopeOf(ctx), row.ID, n)
	return next, nil, err
}
