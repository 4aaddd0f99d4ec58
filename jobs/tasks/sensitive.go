package tasks

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"

	"github.com/google/uuid"

	"wending/db"
	"wending/db/engine"
	"wending/db/people"
	"wending/jobs/agent/protocol"
	"wending/jobs/dataset"
	"wending/jobs/evaluate"
)

// SensitiveMatch is a place in a task's questions, answers or prompts with content that must not be sent.
type SensitiveMatch struct {
	// Row is the number of the question, from 1, or of its row if InFile is true; 0 means a prompt.
	Row int `json:"row"`
	// Column is the column of the question, columnOfAnswers, or the prompt.
	Column  string `json:"column"`
	Pattern string `json:"pattern"`
}

// columnOfAnswers stands for the answers to a question, which a launch sends to models that judge or group them.
const columnOfAnswers = "answer"

// SensitiveError means that a launch would send content that its project forbids. Matches are the first places.
type SensitiveError struct {
	Matches []SensitiveMatch
	// InFile is true if the matches are in the rows of a file whose questions are added to a task.
	InFile bool
}

func (e *SensitiveError) Error() string {
	return fmt.Sprintf("%d places with sensitive content", len(e.Matches))
}

// mostMatches is the maximum number of places in a SensitiveError.
const mostMatches = 20

// leaving looks for sensitive content in the texts that a launch sends to agents, and to the models that judge and
// group answers.
type leaving struct {
	ctx     context.Context
	finder  people.Finder
	matches []SensitiveMatch
	inFile  bool
}

func (l *leaving) add(row int, column, text string) {
	for _, pattern := range l.finder.Find(l.ctx, text) {
		if len(l.matches) < mostMatches {
			l.matches = append(l.matches, SensitiveMatch{row, column, pattern})
		}
	}
}

// isOver reports whether the remaining texts need not be checked.
func (l *leaving) isOver() bool { return len(l.matches) == mostMatches || l.ctx.Err() != nil }

func (l *leaving) addQuestion(row int, question, answer string, system, context *string, names, values []string) {
	l.add(row, dataset.ColumnQuestion, question)
	l.add(row, dataset.ColumnAnswer, answer)
	l.add(row, dataset.ColumnSystem, TextOf(system))
	l.add(row, dataset.ColumnContext, TextOf(context))
	for n, value := range values {
		if n < len(names) {
			l.add(row, names[n], value)
		}
	}
}

func (l *leaving) addPrompts(task db.Task) {
	for _, variant := range task.Variants {
		l.add(0, fmt.Sprintf("variants[%d].system", variant.Number), TextOf(variant.SystemTemplate))
		l.add(0, fmt.Sprintf("variants[%d].user", variant.Number), TextOf(variant.UserTemplate))
	}
	for _, evaluator := range task.Evaluators {
		var config struct {
			Prompt     string
			Dimensions []string
		}
		if json.Unmarshal(evaluator.Config, &config) == nil {
			l.add(0, fmt.Sprintf("evaluators[%d].prompt", evaluator.Number), config.Prompt)
			for _, dimension := range config.Dimensions {
				l.add(0, fmt.Sprintf("evaluators[%d].dimensions", evaluator.Number), dimension)
			}
		}
	}
}

// checkLeaving calls add, which adds the texts that a launch in a project sends, and returns a *SensitiveError if they
// match the project's patterns. If the project has no patterns, add is not called.
func (s *Service) checkLeaving(ctx context.Context, projectID uuid.UUID, add func(*leaving) error) error {
	finder, err := people.New(s.Store).Finder(ctx, projectID, s.SensitivePatterns)
	if err != nil || len(finder) == 0 {
		return err
	}
	l := &leaving{ctx: ctx, finder: finder}
	if err := add(l); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if len(l.matches) == 0 {
		return nil
	}
	if s.Withheld != nil {
		s.Withheld(ctx, l.matches)
	}
	return &SensitiveError{l.matches, l.inFile}
}

// checkNew is checkLeaving for a new task and its launch, if it has one.
func (s *Service) checkNew(ctx context.Context, n db.NewTask) error {
	if n.Launch == nil {
		return nil
	}
	return s.checkLeaving(ctx, n.Task.ProjectID, func(l *leaving) error {
		l.addPrompts(n.Task)
		for place, item := range n.Items {
			if l.isOver() {
				return nil
			}
			l.addQuestion(place+1, item.Question, item.StandardAnswer, item.SystemPrompt, item.UserContext,
				n.Task.VariableNames, item.Variables)
		}
		return nil
	})
}

// checkStored is checkLeaving for a launch of a task that exists.
func (s *Service) checkStored(ctx context.Context, task db.Task) error {
	return s.checkLeaving(ctx, task.ProjectID, func(l *leaving) error {
		l.addPrompts(task)
		items, err := engine.NewAdditions(s.Store).Items(ctx, task.ID)
		if err != nil {
			return err
		}
		for place, item := range items {
			if l.isOver() {
				return nil
			}
			l.addQuestion(place+1, item.Question, item.StandardAnswer, item.SystemPrompt, item.UserContext,
				task.VariableNames, item.Variables)
		}
		return nil
	})
}

// checkAnswers is checkLeaving for the answers of a task that a launch sends to a model.
func (s *Service) checkAnswers(ctx context.Context, task db.Task) error {
	return s.checkLeaving(ctx, task.ProjectID, func(l *leaving) error {
		items, err := engine.NewAdditions(s.Store).Items(ctx, task.ID)
		if err != nil {
			return err
		}
		evaluations := engine.NewEvaluations(s.Store)
		for place, item := range items {
			if l.isOver() {
				return nil
			}
			answers, err := evaluations.Answers(ctx, item.ID, evaluate.MaxText)
			if err != nil {
				return err
			}
			for _, answer := range answers {
				l.add(place+1, columnOfAnswers, answer.Text)
			}
		}
		return nil
	})
}

// Screen withholds content that a project does not allow to be sent from the models that judge and group answers. It
// works while a launch runs, because the answers did not exist when the launch was checked.
type Screen struct{ finder people.Finder }

// NewScreen returns the screen of a project. usual are the patterns of projects without a list of their own.
func NewScreen(ctx context.Context, store *db.Store, projectID uuid.UUID, usual []string) (Screen, error) {
	finder, err := people.New(store).Finder(ctx, projectID, usual)
	return Screen{finder}, err
}

// Refuse returns the outcome of a call that would send one of some texts although the project does not allow it; nil if
// the texts may be sent.
func (s Screen) Refuse(ctx context.Context, texts iter.Seq[string]) *protocol.Answer {
	for text := range texts {
		if found := s.finder.Find(ctx, text); len(found) > 0 {
			return &protocol.Answer{Status: protocol.Failed, ErrorCode: evaluate.CodeWithheld, ErrorMessage: found[0]}
		}
	}
	return nil
}

// checkRows is checkLeaving for rows that are added to a task; matches have the row numbers of the file.
func (s *Service) checkRows(ctx context.Context, task db.Task, set *dataset.Dataset) error {
	return s.checkLeaving(ctx, task.ProjectID, func(l *leaving) error {
		l.inFile = true
		for _, row := range set.Rows {
			if l.isOver() {
				return nil
			}
			l.addQuestion(row.Number, row.Question, row.StandardAnswer, row.SystemPrompt, row.UserContext,
				set.VariableNames, row.Variables)
		}
		return nil
	})
}

// CheckSample returns a *SensitiveError if a question with which an agent is tried out contains content that the
// project forbids.
func (s *Service) CheckSample(ctx context.Context, projectID uuid.UUID, question, answer string,
	system, userContext *string) error {
	return s.checkLeaving(ctx, projectID, func(l *leaving) error {
		l.addQuestion(1, question, answer, system, userContext, nil, nil)
		return nil
	})
}
