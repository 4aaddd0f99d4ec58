package library

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"wending/db"
	"wending/db/entries"
	"wending/jobs/tasks"
)

// Held is the state, in the library, of something that a task uses.
type Held string

// The states of an entry; each comment says what the copy of the task uses. What the library never had, such as an
// agent whose address was typed in, counts as gone, and so does the dataset of a task to which questions were added.
const (
	HeldNewest   Held = "newest"   // the library has the entry, and its current state is used
	HeldPinned   Held = "pinned"   // a person chose an earlier version when creating the task, and it is kept
	HeldArchived Held = "archived" // the entry was archived; its last state, or the version a person chose, is used
	HeldGone     Held = "gone"     // the library does not have the entry, and the task's own copy of it is used
)

// AllHeld lists all states.
var AllHeld = []Held{HeldNewest, HeldPinned, HeldArchived, HeldGone}

// The kinds of entries that a task uses; a grouper is a model that groups answers by meaning.
const (
	PartAgent     = "agent"
	PartModel     = "model"
	PartPrompt    = "prompt"
	PartEvaluator = "evaluator"
	PartDataset   = "dataset"
	PartGrouper   = "grouper"
)

// Parts lists the kinds of entries.
var Parts = []string{PartAgent, PartModel, PartPrompt, PartEvaluator, PartDataset, PartGrouper}

// Followed is something that a task uses, in the state in which the next firing of a schedule uses it.
type Followed struct {
	Kind string
	// ID is the entry's id; uuid.Nil if the library never had such an entry, or for the dataset of a task to which
	// questions were added.
	ID   uuid.UUID
	Name string
	// Version is 0 for entries without versions.
	Version int
	Held    Held
}

// Newest is a copy of a task that uses the current state of the library.
type Newest struct {
	Task  tasks.New
	Parts []Followed
	// Dataset is the dataset whose questions have yet to be added to Task; nil if Task has its questions.
	Dataset *entries.Dataset
}

// Newest returns a copy of a task in which everything that came from the library is replaced by its current state
// there. A version that was not the newest when the task was created is kept, because a person chose it. A task to
// which questions were added keeps its questions, because they are not all in its dataset.
func (s *Service) Newest(ctx context.Context, source db.Task, n tasks.New) (newest Newest, err error) {
	newest.Task = n
	for place := range n.Targets {
		if err := s.newestTarget(ctx, source, &newest, &newest.Task.Targets[place]); err != nil {
			return newest, err
		}
	}
	if n.Meaning != nil {
		grouper := *n.Meaning
		if err := s.newestTarget(ctx, source, &newest, &grouper); err != nil {
			return newest, err
		}
		newest.Parts[len(newest.Parts)-1].Kind, newest.Task.Meaning = PartGrouper, &grouper
	}
	for place := range n.Prompts {
		if err := s.newestPrompt(ctx, source, &newest, &newest.Task.Prompts[place]); err != nil {
			return newest, err
		}
	}
	for place := range n.Evaluators {
		if err := s.newestEvaluator(ctx, source, &newest, &newest.Task.Evaluators[place]); err != nil {
			return newest, err
		}
	}
	if n.AgentURL != "" {
		newest.Parts = append(newest.Parts, Followed{Kind: PartAgent, Name: tasks.Host(n.AgentURL), Held: HeldGone})
	}
	return newest, s.newestDataset(ctx, source, &newest)
}

// ChangedSince returns the names of the agents and models of a task that were saved again after it was created.
func (s *Service) ChangedSince(ctx context.Context, source db.Task) (names []string, err error) {
	for _, target := range source.Targets {
		if target.LibraryID == nil {
			continue
		}
		changedAt, err := s.savedAt(ctx, source.Scope(), target)
		if errors.Is(err, db.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if changedAt.After(source.CreatedAt) {
			names = append(names, target.Name)
		}
	}
	return names, nil
}

// savedAt returns when the entry of a target was last saved. For a model, a later change of its provider counts, too.
func (s *Service) savedAt(ctx context.Context, scope db.Scope, target db.Target) (at time.Time, err error) {
	if target.Kind == db.TargetAgent {
		row, err := s.Entries.Agents.Get(ctx, scope, *target.LibraryID)
		return row.UpdatedAt, err
	}
	row, err := s.Entries.Models.Get(ctx, scope, *target.LibraryID)
	if err != nil {
		return at, err
	}
	provider, err := s.Entries.Providers.Get(ctx, scope, row.ProviderID)
	if provider.UpdatedAt.After(row.UpdatedAt) {
		return provider.UpdatedAt, err
	}
	return row.UpdatedAt, err
}

// held finds an entry or, if it is no longer offered, its last state.
func held[T any](r Reference, find func(Reference) (T, error)) (found T, state Held, err error) {
	if found, err = find(r); !errors.Is(err, ErrUnknownReference) {
		return found, HeldNewest, err
	}
	r.IsArchivedToo = true
	if found, err = find(r); !errors.Is(err, ErrUnknownReference) {
		return found, HeldArchived, err
	}
	return found, HeldGone, nil
}

// wasChosen reports whether a version was not the newest when a task was created. savedAt returns when the next version
// was saved.
func wasChosen(source db.Task, savedAt func() (time.Time, error)) (bool, error) {
	at, err := savedAt()
	if errors.Is(err, db.ErrNotFound) {
		return false, nil
	}
	return err == nil && at.Before(source.CreatedAt), err
}

// newestTarget replaces an agent or a model with its current state in the library.
func (s *Service) newestTarget(ctx context.Context, source db.Task, newest *Newest, target *tasks.NewTarget) error {
	part, find := Followed{Kind: PartModel, Name: target.Name, Held: HeldGone}, s.ModelTarget
	if target.Kind == db.TargetAgent {
		part.Kind, find = PartAgent, s.AgentTarget
	}
	if target.LibraryID != nil {
		part.ID = *target.LibraryID
		fresh, state, err := held(Reference{ID: part.ID}, func(r Reference) (tasks.NewTarget, error) {
			fresh, _, err := find(ctx, source.Scope(), r)
			return fresh, err
		})
		if err != nil {
			return err
		}
		if part.Held = state; state != HeldGone {
			fresh.KeepTicket(*target)
			*target, part.Name = fresh, fresh.Name
		}
	}
	newest.Parts = append(newest.Parts, part)
	return nil
}

func (s *Service) newestPrompt(ctx context.Context, source db.Task, newest *Newest, prompt *tasks.NewPrompt) error {
	part := Followed{Kind: PartPrompt, ID: prompt.ID, Name: prompt.Name, Version: prompt.Version, Held: HeldPinned}
	isPinned, err := wasChosen(source, func() (time.Time, error) {
		next, err := s.Entries.PromptVersion(ctx, source.Scope(), prompt.ID, prompt.Version+1)
		return next.SavedAt, err
	})
	if err != nil {
		return err
	}
	if !isPinned {
		fresh, state, err := held(Reference{ID: prompt.ID}, func(r Reference) (tasks.NewPrompt, error) {
			return s.Prompt(ctx, source.Scope(), r)
		})
		if err != nil {
			return err
		}
		if part.Held = state; state != HeldGone {
			*prompt, part.Name, part.Version = fresh, fresh.Name, fresh.Version
		}
	}
	newest.Parts = append(newest.Parts, part)
	return nil
}

// newestEvaluator replaces an evaluator with its newest version, unless another version was chosen. Even for a chosen
// version, a judge's model gets its current credentials.
func (s *Service) newestEvaluator(ctx context.Context, source db.Task, newest *Newest,
	evaluator *tasks.NewEvaluator) error {
	reference := Reference{ID: evaluator.EvaluatorID}
	isPinned, err := wasChosen(source, func() (time.Time, error) {
		next, err := s.Entries.EvaluatorVersion(ctx, source.Scope(), evaluator.EvaluatorID, evaluator.Version+1)
		return next.SavedAt, err
	})
	if err != nil {
		return err
	}
	if isPinned {
		reference.Version = evaluator.Version
	}
	fresh, state, err := held(reference, func(r Reference) (tasks.NewEvaluator, error) {
		return s.Evaluator(ctx, source.Scope(), r)
	})
	if err != nil {
		return err
	}
	if state != HeldGone {
		if fresh.Model != nil && evaluator.Model != nil {
			fresh.Model.KeepTicket(*evaluator.Model)
		}
		*evaluator = fresh
	}
	if state == HeldNewest && isPinned {
		state = HeldPinned
	}
	newest.Parts = append(newest.Parts, Followed{PartEvaluator, evaluator.EvaluatorID, evaluator.Name,
		evaluator.Version, state})
	return nil
}

// newestDataset finds the version of the dataset whose questions the copy asks.
func (s *Service) newestDataset(ctx context.Context, source db.Task, newest *Newest) error {
	if source.DatasetID == nil || source.DatasetVersion == nil || source.AppendedItems > 0 {
		newest.Parts = append(newest.Parts, Followed{Kind: PartDataset, Name: source.DatasetName, Held: HeldGone})
		return nil
	}
	part := Followed{PartDataset, *source.DatasetID, source.DatasetName, *source.DatasetVersion, HeldPinned}
	isPinned, err := wasChosen(source, func() (time.Time, error) {
		next, err := s.Entries.DatasetVersion(ctx, source.Scope(), part.ID, part.Version+1)
		return next.SavedAt, err
	})
	if err != nil {
		return err
	}
	found, state, err := held(Reference{ID: part.ID}, func(r Reference) (entries.Dataset, error) {
		return s.Dataset(ctx, source.Scope(), r)
	})
	if err != nil {
		return err
	}
	if state != HeldGone {
		part.Name = found.Name
	}
	if !isPinned {
		if part.Held = state; state != HeldGone && found.Version != part.Version {
			part.Version, newest.Dataset = found.Version, &found
		}
	}
	newest.Parts = append(newest.Parts, part)
	return nil
}

// fill gives a task the questions of its dataset's newest version.
func (s *Service) fill(ctx context.Context, newest *Newest) (err error) {
	found := newest.Dataset
	if found == nil {
		return nil
	}
	n := &newest.Task
	n.File, n.Dataset, err = s.ReadDataset(ctx, found.ID, found.DatasetVersion)
	n.Layout, n.DatasetID, n.DatasetVersion = LayoutOf(found.DatasetVersion), &found.ID, &found.Version
	newest.Dataset = nil
	return err
}
