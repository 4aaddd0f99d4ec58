// Package archive writes a task with its dataset, its settings without secrets, and its results to a ZIP file,
// and reads such a file from another installation.
package archive

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"io"
	"log/slog"
	"slices"

	"wending/db"
	"wending/db/engine"
	"wending/db/meaning"
	"wending/db/upkeep"
	"wending/jobs/blob"
	"wending/jobs/tasks"
)

// Archiver writes and reads archives of tasks.
type Archiver struct {
	Store *db.Store
	Tasks *tasks.Service
	// Files stores the files that agents produced, each of at most MaxFile bytes.
	Files   blob.Store
	MaxFile int64
	Log     *slog.Logger
	// Version is the program's version.
	Version string
}

// header is a task without its questions and results.
type header struct {
	Name           string           `json:"name"`
	Status         db.TaskStatus    `json:"status"`
	RunsPerItem    int              `json:"runs_per_item"`
	TimeoutSeconds int              `json:"timeout_seconds"`
	MaxRetries     int              `json:"max_retries"`
	UseStream      bool             `json:"use_stream"`
	Concurrency    int              `json:"concurrency"`
	OnTurnFailure  db.OnTurnFailure `json:"on_turn_failure"`
	ClusterBy      *string          `json:"cluster_by,omitempty"`
	Adaptive       *db.Adaptive     `json:"adaptive,omitempty"`
	MeaningTarget  *int             `json:"meaning_target,omitempty"`
	// AnswersFrom is the format of the file that the answers came from; absent if the task asked agents.
	AnswersFrom      *string `json:"answers_from,omitempty"`
	IsBlindReview    bool    `json:"is_blind_review,omitempty"`
	HidesReviews     bool    `json:"hides_reviews,omitempty"`
	ReviewersPerItem *int    `json:"reviewers_per_item,omitempty"`
	MaxCost          *string `json:"max_cost"`
	DatasetName      string  `json:"dataset_name"`
	Extension        string  `json:"dataset_extension"`
	// HasDataset reports that the archive has the file of questions as it was uploaded. IDColumn and Encoding describe
	// how to read it.
	HasDataset     bool            `json:"has_dataset,omitempty"`
	IDColumn       string          `json:"id_column,omitempty"`
	Encoding       string          `json:"dataset_encoding,omitempty"`
	QuestionColumn string          `json:"question_column"`
	AnswerColumn   string          `json:"answer_column"`
	VariableNames  list[variable]  `json:"variable_names"`
	CreatedAt      *moment         `json:"created_at"`
	StartedAt      *moment         `json:"started_at"`
	CompletedAt    *moment         `json:"completed_at"`
	Targets        list[target]    `json:"targets"`
	Variants       list[variant]   `json:"variants"`
	Evaluators     list[evaluator] `json:"evaluators"`
}

type target struct {
	Number      int             `json:"number"`
	Kind        db.TargetKind   `json:"kind"`
	Name        string          `json:"name"`
	Protocol    string          `json:"protocol"`
	URL         string          `json:"url"`
	Model       *string         `json:"model"`
	RateLimit   string          `json:"rate_limit"`
	RetryOn     list[retryKind] `json:"retry_on"`
	InputPrice  *string         `json:"input_price"`
	OutputPrice *string         `json:"output_price"`
	Currency    *string         `json:"currency"`
	// Poll describes how to poll the agent if it accepts jobs.
	Poll json.RawMessage `json:"poll,omitempty"`
}

type variant struct {
	Number int     `json:"number"`
	Target int     `json:"target"`
	Name   string  `json:"name"`
	System *string `json:"system"`
	User   *string `json:"user"`
}

type evaluator struct {
	Number  int             `json:"number"`
	ID      string          `json:"id"`
	Version int             `json:"version"`
	Name    string          `json:"name"`
	Kind    string          `json:"kind"`
	Config  json.RawMessage `json:"config"`
	Target  *int            `json:"target"`
}

type item struct {
	QuestionID     string      `json:"question_id"`
	Question       string      `json:"question"`
	StandardAnswer string      `json:"standard_answer"`
	SystemPrompt   *string     `json:"system_prompt"`
	UserContext    *string     `json:"user_context"`
	Series         *string     `json:"series"`
	Turn           *int        `json:"turn"`
	Variables      list[value] `json:"variables"`
	// PlannedRuns lists the number of runs of the question in each variant; absent if all have the task's runs_per_item.
	PlannedRuns list[plannedRuns] `json:"planned_runs,omitempty"`
	Meaning     *grouped          `json:"meaning,omitempty"`
	Corrections list[corrected]   `json:"corrections,omitempty"`
}

// grouped is a model's grouping of the answers to a question by meaning.
type grouped struct {
	Answers   list[groupedAnswer] `json:"answers"`
	Notes     list[groupNote]     `json:"notes"`
	IsDefault bool                `json:"is_default"`
}

// groupedAnswer assigns an answer, identified by its key in hexadecimal, to a group. Groups count from 0.
type groupedAnswer struct {
	Key      string `json:"key"`
	Group    int    `json:"group"`
	IsUnsure bool   `json:"is_unsure"`
}

// corrected is a person's grouping of a variant's answers by meaning.
type corrected struct {
	Variant   int                   `json:"variant"`
	Version   int                   `json:"version"`
	Reviewer  string                `json:"reviewer"`
	CreatedAt *moment               `json:"created_at"`
	Answers   list[correctedAnswer] `json:"answers"`
}

// correctedAnswer assigns an answer, identified by its key in hexadecimal, to a group. Groups count from 0. Answers
// with equal Content differ at most in format.
type correctedAnswer struct {
	Key     string `json:"key"`
	Group   int    `json:"group"`
	Content int    `json:"content"`
}

// The elements of lists of texts or numbers. Each is a type of its own, which can name its list (see listed).
type (
	variable string
	// plannedRuns is the number of runs planned for one variant.
	plannedRuns int
	retryKind   string
	value       string
	groupNote   string
)

func (target) listName() string          { return "targets" }
func (variant) listName() string         { return "variants" }
func (evaluator) listName() string       { return "evaluators" }
func (evaluationLine) listName() string  { return "evaluations" }
func (attemptLine) listName() string     { return "failed_attempts" }
func (variable) listName() string        { return "variable_names" }
func (retryKind) listName() string       { return "retry_on" }
func (value) listName() string           { return "variables" }
func (plannedRuns) listName() string     { return "planned_runs" }
func (groupedAnswer) listName() string   { return "answers" }
func (corrected) listName() string       { return "corrections" }
func (correctedAnswer) listName() string { return "answers" }
func (groupNote) listName() string       { return "notes" }

// Part is an additional file of an archive.
type Part struct {
	Name  string
	Write func(ctx context.Context, w io.Writer) error
}

// Write writes a task that has ended, with the events of its calls, the files that its agents produced, and additional
// parts, such as reports. Parts are streamed: only one line, and the names and hashes of the parts, are in memory.
func (a *Archiver) Write(ctx context.Context, task db.Task, w io.Writer, parts []Part) error {
	files := newMembers(w)
	if err := a.writeTask(ctx, task, files); err != nil {
		return err
	}
	if err := a.writeItems(ctx, task, files); err != nil {
		return err
	}
	runs, err := files.add(runsName)
	if err != nil {
		return err
	}
	err = upkeep.NewArchives(a.Store).EachRun(ctx, task.ID, func(line json.RawMessage) error {
		_, err := runs.Write(append(slices.Clip(line), '\n'))
		return err
	})
	if err != nil {
		return err
	}
	if err := a.writeCalls(ctx, task, files); err != nil {
		return err
	}
	for _, part := range parts {
		file, err := files.add(part.Name)
		if err == nil {
			err = part.Write(ctx, file)
		}
		if err != nil {
			return err
		}
	}
	if err := a.writeAssets(ctx, task, files); err != nil {
		return err
	}
	return files.finish(a.Version)
}

// writeTask writes a task's settings and the file of its questions: the uploaded one if it still exists.
func (a *Archiver) writeTask(ctx context.Context, task db.Task, files *members) error {
	content, questions, err := a.Tasks.DatasetFile(ctx, task)
	if err != nil {
		return err
	}
	defer content.Close() //nolint:errcheck // only read
	h := headerOf(task)
	if h.HasDataset = questions.IsOriginal; h.HasDataset {
		h.IDColumn, h.Encoding = task.IDColumn, task.DatasetEncoding
	}
	if err := files.addJSON(taskName, h); err != nil {
		return err
	}
	file, err := files.add(datasetName + questions.Extension)
	if err == nil {
		_, err = io.Copy(file, content)
	}
	return err
}

func (a *Archiver) writeItems(ctx context.Context, task db.Task, files *members) error {
	items, err := engine.NewAdditions(a.Store).Items(ctx, task.ID)
	if err != nil {
		return err
	}
	file, err := files.add(itemsName)
	if err != nil {
		return err
	}
	planned, err := a.Store.PlannedRuns(ctx, task)
	if err != nil {
		return err
	}
	said, corrections, err := upkeep.NewArchives(a.Store).Meanings(ctx, task.ID)
	if err != nil {
		return err
	}
	encoder := json.NewEncoder(file)
	for _, one := range items {
		line := item{
			one.QuestionID, one.Question, one.StandardAnswer, one.SystemPrompt, one.UserContext, one.Series, one.Turn,
			listOf[value](one.Variables),
			plannedOf(task, planned, one.ID), nil, correctedOf(corrections[one.ID]),
		}
		if of, isGrouped := said[one.ID]; isGrouped && len(of.Keys) <= maxList {
			line.Meaning = groupedOf(of)
		}
		if err := encoder.Encode(line); err != nil {
			return err
		}
	}
	return nil
}

func groupedOf(said meaning.Grouping) *grouped {
	line := &grouped{Notes: listOf[groupNote](said.Notes), IsDefault: said.IsDefault}
	for n, key := range said.Keys {
		line.Answers = append(line.Answers, groupedAnswer{hex.EncodeToString(key), int(said.Groups[n]), said.Unsure[n]})
	}
	return line
}

func correctedOf(said []meaning.Correction) (all list[corrected]) {
	for _, one := range said {
		line := corrected{one.Variant, one.Version, one.Reviewer, momentOf(&one.CreatedAt), nil}
		for n, key := range one.Keys {
			line.Answers = append(line.Answers,
				correctedAnswer{hex.EncodeToString(key), int(one.Groups[n]), int(one.Contents[n])})
		}
		all = append(all, line)
	}
	return all
}

// plannedOf returns the number of an item's runs in each variant; nil if all have the task's runs_per_item.
func plannedOf(task db.Task, planned db.Planned, itemID int64) (runs list[plannedRuns]) {
	hasOther := false
	for _, variant := range task.Variants {
		count := task.RunsOf(planned, itemID, variant.Number)
		runs, hasOther = append(runs, plannedRuns(count)), hasOther || count != task.RunsPerItem
	}
	if !hasOther {
		return nil
	}
	return runs
}

func headerOf(task db.Task) header {
	h := header{
		Name: task.Name, Status: task.Status, RunsPerItem: task.RunsPerItem, TimeoutSeconds: task.TimeoutSeconds,
		MaxRetries: task.MaxRetries,
		UseStream:  task.UseStream, Concurrency: task.Concurrency, OnTurnFailure: task.OnTurnFailure,
		ClusterBy: task.ClusterBy, Adaptive: task.Adaptive, MeaningTarget: task.MeaningTarget,
		AnswersFrom: task.AnswersFrom, IsBlindReview: task.IsBlindReview, HidesReviews: task.HidesReviews,
		ReviewersPerItem: task.ReviewersPerItem, MaxCost: task.MaxCost,
		DatasetName: task.DatasetName,
		Extension:   task.DatasetExtension, QuestionColumn: task.QuestionColumn, AnswerColumn: task.AnswerColumn,
		VariableNames: listOf[variable](task.VariableNames),
		CreatedAt:     momentOf(&task.CreatedAt), StartedAt: momentOf(task.StartedAt),
		CompletedAt: momentOf(task.CompletedAt),
	}
	for _, one := range slices.Concat(task.Targets, task.Judges) {
		h.Targets = append(h.Targets, target{
			one.Number, one.Kind, one.Name, one.Protocol, one.URL, one.Model, one.RateLimit, listOf[retryKind](one.RetryOn),
			one.InputPrice, one.OutputPrice, one.Currency,
			json.RawMessage(tasks.TextOf(one.Poll)),
		})
	}
	for _, one := range task.Variants {
		h.Variants = append(h.Variants, variant{one.Number, one.Target, one.Name, one.SystemTemplate, one.UserTemplate})
	}
	for _, one := range task.Evaluators {
		h.Evaluators = append(h.Evaluators, evaluator{one.Number, one.EvaluatorID.String(), one.Version, one.Name, one.Kind,
			one.Config, one.Target})
	}
	return h
}
