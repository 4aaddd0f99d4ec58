package library

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"github.com/google/uuid"

	"wending/db"
	"wending/db/entries"
	"wending/jobs/agent"
	"wending/jobs/dataset"
	"wending/jobs/evaluate"
	"wending/jobs/tasks"
)

// Demo holds the parts of the comparison demo.
type Demo struct {
	// BaseURL is the base URL of the demo's models.
	BaseURL string
	// Headers give the task access to the models. They belong to the task, not to the saved provider, because other
	// tasks with the saved models are not part of the demo.
	Headers map[string]string
	// Questions is the file of questions.
	Questions tasks.File
	// The names of the saved entries, in the user's language.
	TaskName, ProviderName, Currency string
	Models                           []DemoModel
	Prompts                          []DemoPrompt
	// EvaluatorName names the evaluator that looks for the standard answers.
	EvaluatorName string
	// Judge is the model that rates the answers, JudgeName the name of the evaluator that calls it, and JudgePrompt its
	// prompt.
	Judge                  DemoModel
	JudgeName, JudgePrompt string
}

// DemoModel is a model of the demo with its prices.
type DemoModel struct{ Name, ID, InputPrice, OutputPrice string }

// DemoPrompt is a prompt of the demo.
type DemoPrompt struct{ Name, System, User string }

// CreateDemo saves the entries that the demo compares, if they do not exist yet, and creates the task.
func (s *Service) CreateDemo(ctx context.Context, scope db.Scope, by db.Actor, demo Demo) (uuid.UUID, error) {
	set, err := dataset.Read(ctx, demo.Questions.Name, demo.Questions.Content, dataset.Layout{})
	if err != nil {
		return uuid.Nil, err
	}
	n := tasks.New{
		Name: demo.TaskName, File: demo.Questions, Dataset: set,
		Settings: tasks.Settings{RunsPerItem: 5, TimeoutSeconds: 10, MaxRetries: 1, Concurrency: 8, UseStream: true,
			RateLimit: s.DefaultRate},
	}
	provider, err := s.demoProvider(ctx, scope, demo)
	if err != nil {
		return uuid.Nil, err
	}
	for _, one := range demo.Models {
		model, err := s.demoModel(ctx, scope, demo, provider, one)
		if err != nil {
			return uuid.Nil, err
		}
		target, _, err := s.ModelTarget(ctx, scope, Reference{ID: model.ID})
		if err != nil {
			return uuid.Nil, err
		}
		target.AddHeaders(demo.Headers)
		n.Targets = append(n.Targets, target)
	}
	for _, one := range demo.Prompts {
		row, err := ensure(ctx, scope, s.Entries.Prompts, one.Name, func(entries.Prompt) (uuid.UUID, error) {
			fresh := entries.Prompt{Entry: entries.Entry{ID: uuid.New(), Name: one.Name},
				PromptVersion: entries.PromptVersion{System: one.System, User: one.User}}
			return fresh.ID, s.Entries.InsertPrompt(ctx, scope, fresh)
		}, func(entries.Prompt) bool { return true })
		if err != nil {
			return uuid.Nil, err
		}
		n.Prompts = append(n.Prompts, tasks.NewPrompt{ID: row.ID, Version: row.Version, Name: row.Name, System: row.System,
			User: row.User})
	}
	judging, err := s.demoModel(ctx, scope, demo, provider, demo.Judge)
	if err == nil {
		n.Evaluators, err = s.demoEvaluators(ctx, scope, demo, judging.ID)
	}
	if err != nil {
		return uuid.Nil, err
	}
	return s.Tasks.Create(ctx, scope, by, n)
}

func (s *Service) demoProvider(ctx context.Context, scope db.Scope, demo Demo) (entries.Provider, error) {
	return ensure(ctx, scope, s.Entries.Providers, demo.ProviderName, func(row entries.Provider) (uuid.UUID, error) {
		return s.SaveProvider(ctx, scope, row.ID, Provider{
			Name: demo.ProviderName, Protocol: "openai", BaseURL: demo.BaseURL, RateLimit: "unlimited",
			RetryOn: agent.RetryKinds,
		})
	}, func(row entries.Provider) bool {
		// A provider that a user saved under this name is not overwritten.
		return row.BaseURL == demo.BaseURL || row.SealedKey != nil || row.SealedHeaders != nil ||
			!strings.HasPrefix(row.BaseURL, "http://127.0.0.1:")
	})
}

func (s *Service) demoModel(ctx context.Context, scope db.Scope, demo Demo, provider entries.Provider,
	one DemoModel) (entries.Model, error) {
	return ensure(ctx, scope, s.Entries.Models, one.Name, func(row entries.Model) (uuid.UUID, error) {
		return s.SaveModel(ctx, scope, row.ID, Model{
			Name: one.Name, ProviderID: provider.ID, ModelID: one.ID,
			Prices: Prices{InputPrice: one.InputPrice, OutputPrice: one.OutputPrice, Currency: demo.Currency},
		})
	}, func(row entries.Model) bool { return row.ProviderID == provider.ID || row.ModelID != one.ID })
}

// demoEvaluators saves a rule, and a judge that calls a model.
func (s *Service) demoEvaluators(ctx context.Context, scope db.Scope, demo Demo,
	model uuid.UUID) (evaluators []tasks.NewEvaluator, err error) {
	asked, err := json.Marshal(map[string]string{"model_id": model.String(), "prompt": demo.JudgePrompt})
	if err != nil {
		return nil, err
	}
	for _, one := range []struct {
		name   string
		kind   evaluate.Kind
		config json.RawMessage
	}{{demo.EvaluatorName, evaluate.Contains, json.RawMessage("{}")}, {demo.JudgeName, evaluate.Judge, asked}} {
		saved, err := ensure(ctx, scope, s.Entries.Evaluators, one.name, func(entries.Evaluator) (uuid.UUID, error) {
			fresh := entries.Evaluator{Entry: entries.Entry{ID: uuid.New(), Name: one.name}}
			fresh.Rule, fresh.Config = string(one.kind), one.config
			return fresh.ID, s.Entries.InsertEvaluator(ctx, scope, fresh)
		}, func(entries.Evaluator) bool { return true })
		if err != nil {
			return nil, err
		}
		evaluator, err := s.Evaluator(ctx, scope, Reference{ID: saved.ID})
		if err != nil {
			return nil, err
		}
		if evaluator.Model != nil {
			evaluator.Model.AddHeaders(demo.Headers)
		}
		evaluators = append(evaluators, evaluator)
	}
	return evaluators, nil
}

// ensure returns the entry that scope offers with the given name. If there is none, or isRight returns false for it,
// ensure first saves one. save receives the entry to replace, or an empty one.
func ensure[T any](ctx context.Context, scope db.Scope, kind entries.Kind[T], name string,
	save func(T) (uuid.UUID, error), isRight func(T) bool) (T, error) {
	row, err := kind.Named(ctx, scope, name)
	if err == nil && isRight(row) || err != nil && !errors.Is(err, db.ErrNotFound) {
		return row, err
	}
	id, err := save(row)
	if errors.Is(err, entries.ErrNameTaken) { // a concurrent request for the same demo has just saved it
		return kind.Named(ctx, scope, name)
	}
	if err != nil {
		return row, err
	}
	return kind.Get(ctx, scope, id)
}
