package tasks

import (
	"context"
	"errors"

	"github.com/google/uuid"

	"wending/db"
	"wending/db/people"
	"wending/db/report"
	"wending/db/upkeep"
	"wending/jobs/agent"
	"wending/jobs/agent/protocol"
	"wending/jobs/answers"
	"wending/jobs/dataset"
)

// NewAnswers describes a task to create from a file of answers. No agent is called for it, now or later.
type NewAnswers struct {
	Name, FileName string
	File           *answers.File
	// Settings apply to evaluations of the answers, and to copies of the task; the file determines RunsPerItem.
	Settings Settings
}

// AnswersLayout returns how to read a file of answers within the limits of tasks.
func AnswersLayout() answers.Layout {
	return answers.Layout{MaxRuns: MaxRuns, MaxVariants: MaxVariants}
}

// ImportAnswers stores a task that has ended, with the questions and answers of a file, in the scope's own project. It
// returns an *InvalidError if the task is not valid, a *people.QuotaExceededError if a quota is used up, and a
// *DiskFullError if the disk is full.
func (s *Service) ImportAnswers(ctx context.Context, scope db.Scope, by db.Actor, n NewAnswers) (db.Task, error) {
	if wrong := CheckName(n.Name); wrong != nil {
		return db.Task{}, wrong
	}
	if n.File.Runs() > MaxCalls {
		return db.Task{}, &InvalidError{Problem: TooLarge}
	}
	if err := s.HasRoom(); err != nil {
		return db.Task{}, err
	}
	record := n.record(scope.Home(), by)
	quotas, size := people.NewQuotas(s.Store), n.size()
	if err := quotas.TakeDisk(ctx, scope.Home(), size); err != nil {
		return db.Task{}, err
	}
	task := record.Task
	task.TotalItems, task.TotalVariants = len(record.Items), len(task.Variants)
	first, last := n.File.Times()
	err := upkeep.NewArchives(s.Store).Import(ctx, upkeep.Imported{
		Task: record, Status: db.TaskSucceeded, StartedAt: first, CompletedAt: last, Next: n.next(),
		Assess: func(ctx context.Context, results report.Assessor, itemIDs []int64) error {
			return Assess(ctx, results, task, itemIDs)
		},
	})
	if err != nil {
		return db.Task{}, errors.Join(err, quotas.TakeDisk(context.WithoutCancel(ctx), scope.Home(), -size))
	}
	s.Log.InfoContext(ctx, "answers imported", "task_id", task.ID, "format", n.File.Format, "items", len(record.Items))
	return s.Store.Task(ctx, scope, task.ID)
}

// record returns the task in the form that the store expects. home is the id of the task's project.
func (n NewAnswers) record(home uuid.UUID, by db.Actor) db.NewTask {
	settings := n.Settings
	task := db.Task{
		ID: uuid.New(), ProjectID: home, Name: n.Name, RunsPerItem: 1, TimeoutSeconds: settings.TimeoutSeconds,
		MaxRetries: settings.MaxRetries, UseStream: settings.UseStream, Concurrency: settings.Concurrency,
		DatasetName: StorableName(n.FileName), DatasetExtension: dataset.Extensions[0],
		VariableNames: n.File.VariableNames, AnswersFrom: &n.File.Format,
	}
	for place, one := range n.File.Variants {
		task.Targets = append(task.Targets, db.Target{
			TaskID: task.ID, Number: place + 1, Kind: db.TargetURL, Name: one.Name, Protocol: protocol.Default,
			RateLimit: "unlimited", RetryOn: agent.RetryTyped, Model: Given(one.Model), Currency: Given(one.Currency),
		})
		task.Variants = append(task.Variants, db.Variant{TaskID: task.ID, Number: place + 1, Target: place + 1,
			Name: one.Name})
	}
	record := db.NewTask{By: by, Channels: &[]uuid.UUID{}}
	for _, item := range n.File.Items {
		stored := db.NewItem{
			QuestionID: item.QuestionID, Question: item.Question, StandardAnswer: item.StandardAnswer,
			SystemPrompt: item.SystemPrompt, UserContext: item.UserContext, Variables: item.Variables,
			Planned: make([]int, len(task.Variants)),
		}
		for _, run := range item.Runs {
			stored.Planned[run.Variant-1] = max(stored.Planned[run.Variant-1], run.Index)
			task.RunsPerItem = max(task.RunsPerItem, run.Index)
		}
		record.Items = append(record.Items, stored)
	}
	record.Task = task
	return record
}

// size returns the approximate total size of the file's texts, in bytes.
func (n NewAnswers) size() (size int64) {
	for _, item := range n.File.Items {
		size += int64(len(item.Question) + len(item.StandardAnswer))
		for _, run := range item.Runs {
			size += int64(len(TextOf(run.Answer)) + len(TextOf(run.Reasoning)) + len(run.ErrorMessage))
		}
	}
	return size
}

// next returns an iterator over the file's runs. Each call of the iterator returns a run and its approximate size in
// bytes; after the last run, the call returns nil.
func (n NewAnswers) next() func() (*upkeep.ArchivedRun, int, error) {
	item, place := 0, 0
	return func() (*upkeep.ArchivedRun, int, error) {
		for item < len(n.File.Items) && place == len(n.File.Items[item].Runs) {
			item, place = item+1, 0
		}
		if item == len(n.File.Items) {
			return nil, 0, nil
		}
		place++
		return storedRun(n.File.Items[item].QuestionID, n.File.Items[item].Runs[place-1])
	}
}

// storedRun returns a run in the form that the store expects, and its approximate size in bytes.
func storedRun(questionID string, run answers.Run) (*upkeep.ArchivedRun, int, error) {
	stored := &upkeep.ArchivedRun{
		QuestionID: questionID, Variant: run.Variant, RunIndex: run.Index, Status: db.RunStatus(run.Status),
		LatencyMS: run.LatencyMS, CreatedAt: run.CompletedAt,
		ErrorCode: Given(run.ErrorCode), FinishReason: Given(run.FinishReason),
		InputTokens: run.InputTokens, OutputTokens: run.OutputTokens, ReasoningTokens: run.ReasoningTokens,
		TotalTokens: run.TotalTokens, Cost: run.Cost,
	}
	if run.Answer != nil {
		stored.SetAnswer(*run.Answer)
	}
	stored.SetTexts(TextOf(run.Reasoning), run.ErrorMessage)
	return stored, len(TextOf(run.Answer)) + len(TextOf(run.Reasoning)) + len(run.ErrorMessage), nil
}
