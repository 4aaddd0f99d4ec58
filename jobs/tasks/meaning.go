package tasks

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"

	"wending/db"
	"wending/jobs/agent/protocol"
	"wending/jobs/evaluate"
)

// Grouper returns a grouper of the answers to a question. Within a launch, their order in the prompts does not change
// if a call is repeated.
func Grouper(item db.Item, answers []string, launchID uuid.UUID) *evaluate.Grouper {
	drawn := uuid.NewSHA1(launchID, []byte("order "+strconv.FormatInt(item.ID, 10)))
	return evaluate.NewGrouper(item.Question, answers, binary.BigEndian.Uint64(drawn[:8]))
}

// AskGrouper returns the request for the first or second call of a unit that groups a question's answers.
func AskGrouper(task db.Task, secrets Target, grouper *evaluate.Grouper, launchID uuid.UUID, unit db.Unit,
	isAgain bool) protocol.Request {
	call := 1
	if isAgain {
		call = 2
	}
	return askModel(task, task.Target(unit.Target), secrets, grouper.Ask(isAgain, markOf(launchID, unit.ID)), unit.ID,
		fmt.Sprintf("wending-%s-%d-%d", launchID, unit.ID, call))
}

// markOf returns the word that encloses texts in the prompts of a unit. It need not be secret, only unknown to the
// authors of the answers; every attempt uses the same mark.
func markOf(launchID uuid.UUID, unitID int64) string {
	return uuid.NewSHA1(launchID, []byte("mark "+strconv.FormatInt(unitID, 10))).String()[:8]
}

// askModel returns a unit's request to a model that judges or groups answers.
func askModel(task db.Task, target db.Target, secrets Target, texts evaluate.JudgeTexts, unitID int64,
	key string) protocol.Request {
	request := protocol.Request{
		Protocol: target.Protocol, URL: secrets.URL, Headers: secrets.Headers, Template: secrets.Template,
		ExtraPayload: secrets.Payload,
		Question:     texts.User, SystemPrompt: &texts.System, Model: TextOf(target.Model),
		Timeout:   time.Duration(task.TimeoutSeconds) * time.Second,
		IsTooLong: len(texts.User) > protocol.MaxRendered,
	}
	Identify(&request, unitID, key)
	return request
}

// addGrouper sets the saved model that groups a task's answers, and numbers it after the task's targets. It does
// nothing if the model is nil.
func (s *Service) addGrouper(task *db.Task, model *NewTarget) error {
	if model == nil {
		return nil
	}
	grouper, number := model.Target, 1
	for _, target := range slices.Concat(task.Targets, task.Judges) {
		number = max(number, target.Number+1)
	}
	grouper.TaskID, grouper.Number, grouper.Kind = task.ID, number, db.TargetJudge
	if err := Seal(s.Sealer, model.Secrets, &grouper); err != nil {
		return err
	}
	task.Judges, task.MeaningTarget = append(slices.Clip(task.Judges), grouper), &number
	return nil
}

// MeaningCalls returns the number of calls that group the answers of a new task, if the answers to every question
// differ and each first reply is certain; a question whose first reply is not certain takes two.
func (n New) MeaningCalls() int {
	if n.Meaning == nil || n.Dataset == nil || n.RunsPerItem*max(1, len(n.AllVariants())) < 2 {
		return 0
	}
	return len(n.Dataset.Rows)
}

// Group has a model group by meaning the answers of a task that has ended, without calling the task's agents. The model
// replaces any previous one.
func (s *Service) Group(ctx context.Context, by db.Actor, task db.Task, model NewTarget) (db.Task, error) {
	if err := s.addGrouper(&task, &model); err != nil {
		return task, err
	}
	if err := s.checkAnswers(ctx, task); err != nil {
		return task, err
	}
	grouper := task.Grouper()
	return s.begin(ctx, by, task, func(launch db.NewLaunch) (uuid.UUID, error) {
		return s.Store.GroupTask(ctx, task.Scope(), task.ID, *grouper, launch)
	}, "grouping requested", "model", grouper.Name)
}

// AssessForGroupings assesses the questions of a pending launch of kind MEANING, to find out which of them need
// grouping; it does nothing for launches of other kinds.
func AssessForGroupings(ctx context.Context, store *db.Store, launchID uuid.UUID) error {
	taskID, err := store.TaskToGroup(ctx, launchID)
	if err != nil || taskID == uuid.Nil {
		return err
	}
	return AssessTask(ctx, store, taskID)
}
