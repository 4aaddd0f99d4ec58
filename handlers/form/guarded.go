package form

import (
	"context"
	"slices"
	"strings"

	"github.com/google/uuid"

	"wending/db/entries"
	"wending/db/people"
	"wending/handlers/request"
)

// secretFields are the fields with secrets, which only administrators may replace once they are stored.
var secretFields = []string{"api_key", "headers", "secret"}

// replaced returns the names of the secrets that a form would replace.
func replaced(f *Upload) (names []string) {
	for _, name := range secretFields {
		if f.Value(name) != "" || f.isNull(name) {
			names = append(names, name)
		}
	}
	if strings.Contains(f.Value("url"), "?") { // its query may be a secret
		names = append(names, "query")
	}
	return names
}

// guarded saves an entry with save and records the changes in the audit log. It refuses a form that replaces stored
// secrets, unless its sender is an administrator.
func guarded[T any](
	ctx context.Context, kind entries.Kind[T], row *T, f *Upload,
	save func(context.Context, *T, *Upload) (uuid.UUID, []FieldFault, error),
) (uuid.UUID, []FieldFault, error) {
	secrets := replaced(f)
	if row != nil && len(secrets) > 0 && !request.From(ctx).Role.Allows(people.Admin) {
		return uuid.Nil, nil, request.NewFault(request.CodeForbidden).WithMessage("error.secret")
	}
	before := request.AuditFields(row)
	id, faults, err := save(ctx, row, f)
	if err != nil || len(faults) > 0 {
		return id, faults, err
	}
	stored, err := kind.Get(ctx, request.ScopeOf(ctx), id)
	if err != nil {
		return id, nil, err
	}
	after := request.AuditFields(&stored)
	name, _ := after["name"].(string)
	for field, value := range before { // only changed values are recorded
		if field != "name" && request.Same(value, after[field]) {
			delete(before, field)
			delete(after, field)
		}
	}
	if len(secrets) > 0 {
		after["replaced_secrets"] = slices.Clone(secrets)
	}
	request.Made(ctx, id.String(), name)
	request.Changed(ctx, before, after)
	return id, nil, nil
}

// Provider saves a provider of models.
func (s Saver) Provider(ctx context.Context, row *entries.Provider, f *Upload) (uuid.UUID, []FieldFault, error) {
	return guarded(ctx, s.Library.Entries.Providers, row, f, s.saveProvider)
}

// Model saves a model.
func (s Saver) Model(ctx context.Context, row *entries.Model, f *Upload) (uuid.UUID, []FieldFault, error) {
	return guarded(ctx, s.Library.Entries.Models, row, f, s.saveModel)
}

// Agent saves an agent.
func (s Saver) Agent(ctx context.Context, row *entries.Agent, f *Upload) (uuid.UUID, []FieldFault, error) {
	return guarded(ctx, s.Library.Entries.Agents, row, f, s.saveAgent)
}

// Prompt saves a prompt's name and description; if its templates differ from the newest version's, it also adds a
// version.
func (s Saver) Prompt(ctx context.Context, row *entries.Prompt, f *Upload) (uuid.UUID, []FieldFault, error) {
	return guarded(ctx, s.Library.Entries.Prompts, row, f, s.savePrompt)
}

// Dataset saves a new dataset with its first version, or the changed name and description of an existing one.
func (s Saver) Dataset(ctx context.Context, row *entries.Dataset, f *Upload) (uuid.UUID, []FieldFault, error) {
	return guarded(ctx, s.Library.Entries.Datasets, row, f, s.saveDataset)
}

// Evaluator saves an evaluator; if its kind or configuration differs from the newest version's, it adds a version.
func (s Saver) Evaluator(ctx context.Context, row *entries.Evaluator, f *Upload) (uuid.UUID, []FieldFault, error) {
	return guarded(ctx, s.Library.Entries.Evaluators, row, f, s.saveEvaluator)
}

// Channel saves a channel.
func (s Saver) Channel(ctx context.Context, row *entries.Channel, f *Upload) (uuid.UUID, []FieldFault, error) {
	return guarded(ctx, s.Library.Entries.Channels, row, f, s.saveChannel)
}

// Schedule saves a schedule with the time of its next firing.
func (s Saver) Schedule(ctx context.Context, row *entries.Schedule, f *Upload) (uuid.UUID, []FieldFault, error) {
	return guarded(ctx, s.Library.Entries.Schedules, row, f, s.saveSchedule)
}
