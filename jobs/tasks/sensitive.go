package tasks

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"slices"

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
	// Column is the column of the question, valueOfAnswer for one of its answers, or the name of the prompt.
	Column  string `json:"column"`
	Pattern string `json:"pattern"`
}

// SensitiveError means that a launch would send content that its project forbids, or allows only if a person confirms
// it. Matches are the first places.
type SensitiveError struct {
	Matches []SensitiveMatch
	// Places is the number of places that were found. The search for content that is forbidden ends after mostMatches.
	Places int
	// InFile is true if the matches are in the rows of a file whose questions are added to a task.
	InFile bool
	// Confirmation identifies all places with their content: a request that repeats it may send them. It is empty if
	// the content is forbidden.
	Confirmation string
}

func (e *SensitiveError) Error() string {
	return fmt.Sprintf("%d places with sensitive content", e.Places)
}

// mostMatches is the maximum number of matches in a SensitiveError.
const mostMatches = 20

// leaving looks for sensitive content in the texts that a launch sends to agents, and to the models that judge and
// group answers.
type leaving struct {
	ctx        context.Context
	finder     people.Finder
	mayConfirm bool
	matches    []SensitiveMatch
	places     int
	patterns   []string
	inFile     bool
	// content is the hash of all places that were found.
	content hash.Hash
}

func (l *leaving) add(row int, column, text string) {
	for _, pattern := range l.finder.Find(l.ctx, text) {
		if l.places++; len(l.matches) < mostMatches {
			l.matches = append(l.matches, SensitiveMatch{row, column, pattern})
		}
		if !slices.Contains(l.patterns, pattern) {
			l.patterns = append(l.patterns, pattern)
		}
		_, _ = fmt.Fprintf(l.content, "%d %q %q %q\n", row, column, pattern, text)
	}
}

// isOver reports whether the remaining texts need not be checked. If a person may confirm the launch, all texts are
// checked, because the person must know everything that was found.
func (l *leaving) isOver() bool {
	return l.places >= mostMatches && !l.mayConfirm || l.ctx.Err() != nil
}

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

// checkLeaving checks the texts that a launch in a project sends; the function add passes them to it. If they match the
// project's patterns, it returns a *SensitiveError or, if a person has confirmed all places, the matching patterns. If
// the project has no patterns, add is not called.
func (s *Service) checkLeaving(ctx context.Context, projectID uuid.UUID,
	add func(*leaving) error) (confirmed []string, err error) {
	finder, action, err := people.New(s.Store).Finder(ctx, projectID, s.SensitivePatterns)
	if err != nil || len(finder) == 0 {
		return nil, err
	}
	l := &leaving{ctx: ctx, finder: finder, mayConfirm: action == people.SensitiveConfirm, content: sha256.New()}
	if err := add(l); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if l.places == 0 {
		return nil, nil
	}
	found := &SensitiveError{Matches: l.matches, Places: l.places, InFile: l.inFile}
	if l.mayConfirm {
		found.Confirmation = hex.EncodeToString(l.content.Sum(nil)[:8])
	}
	if s.Confirmed != nil && s.Confirmed(ctx, found) {
		return l.patterns, nil
	}
	return nil, found
}

// checkTask is checkLeaving for a task that exists. It stores the patterns that were confirmed.
func (s *Service) checkTask(ctx context.Context, task db.Task, add func(*leaving) error) error {
	confirmed, err := s.checkLeaving(ctx, task.ProjectID, add)
	if err != nil {
		return err
	}
	return people.New(s.Store).ConfirmPatterns(ctx, task.ProjectID, task.ID, confirmed)
}

// checkNew is checkLeaving for a new task and its launch, if it has one.
func (s *Service) checkNew(ctx context.Context, n db.NewTask) (confirmed []string, err error) {
	if n.Launch == nil {
		return nil, nil
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

// checkStored is checkTask for a launch of a task that exists.
func (s *Service) checkStored(ctx context.Context, task db.Task) error {
	return s.checkTask(ctx, task, func(l *leaving) error {
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

// checkAnswers is checkTask for the answers of a task that a launch sends to a model.
func (s *Service) checkAnswers(ctx context.Context, task db.Task) error {
	return s.checkTask(ctx, task, func(l *leaving) error {
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
				l.add(place+1, valueOfAnswer, answer.Text)
			}
		}
		return nil
	})
}

// Screen makes sure that the models that judge and group answers are not sent content that the project does not allow.
// It works while a launch runs, because the answers did not exist when the launch was checked.
type Screen struct{ questions, answers people.Finder }

// NewScreen returns the screen for trials in a project, in which nothing can be confirmed. usual are the patterns of
// projects without a list of their own.
func NewScreen(ctx context.Context, store *db.Store, projectID uuid.UUID, usual []string) (Screen, error) {
	finder, _, err := people.New(store).Finder(ctx, projectID, usual)
	return Screen{finder, finder}, err
}

// NewLaunchScreen returns the screen of a launch: what somebody confirmed when it was started may be sent.
func NewLaunchScreen(ctx context.Context, store *db.Store, launchID uuid.UUID, usual []string) (Screen, error) {
	questions, answers, err := people.New(store).LaunchFinders(ctx, launchID, usual)
	return Screen{questions, answers}, err
}

// RefuseAnswer checks the values that a judge would be sent. If one of them contains content that the project does not
// allow, it returns the outcome with which the call fails; otherwise nil.
func (s Screen) RefuseAnswer(ctx context.Context, values map[string]string) *protocol.Answer {
	for name, value := range values {
		finder := s.questions
		if name == valueOfAnswer || name == valueOfHistory {
			finder = s.answers
		}
		if refusal := withheld(finder.Find(ctx, value)); refusal != nil {
			return refusal
		}
	}
	return nil
}

// RefuseAnswers is like RefuseAnswer, but for a question whose answers would all be sent to the model that groups them.
func (s Screen) RefuseAnswers(ctx context.Context, question string, answers []string) *protocol.Answer {
	for _, answer := range answers {
		if refusal := withheld(s.answers.Find(ctx, answer)); refusal != nil {
			return refusal
		}
	}
	return withheld(s.questions.Find(ctx, question))
}

// withheld returns the outcome of a call that is not made because its text matches patterns; nil if there are none.
func withheld(patterns []string) *protocol.Answer {
	if len(patterns) == 0 {
		return nil
	}
	return &protocol.Answer{Status: protocol.Failed, ErrorCode: evaluate.CodeWithheld, ErrorMessage: patterns[0]}
}

// checkRows is checkTask for rows that are added to a task; matches have the row numbers of the file.
func (s *Service) checkRows(ctx context.Context, task db.Task, set *dataset.Dataset) error {
	return s.checkTask(ctx, task, func(l *leaving) error {
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

// CheckSample returns a *SensitiveError if a question with which an agent is tried out contains content that matches
// the project's patterns.
func (s *Service) CheckSample(ctx context.Context, projectID uuid.UUID, question, answer string,
	system, userContext *string) error {
	_, err := s.checkLeaving(ctx, projectID, func(l *leaving) error {
		l.mayConfirm = false // nobody is asked to confirm a trial
		l.addQuestion(1, question, answer, system, userContext, nil, nil)
		return nil
	})
	return err
}
