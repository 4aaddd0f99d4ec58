package db

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"wending/db/pg"
)

// TargetKind tells where the settings of a target come from.
type TargetKind string

// The kinds of targets: an address that somebody typed, a copy of a saved agent, a copy of a saved model, and a copy of
// a saved model that judges or groups answers.
const (
	TargetURL   TargetKind = "url"
	TargetAgent TargetKind = "agent"
	TargetModel TargetKind = "model"
	TargetJudge TargetKind = "judge"
)

// TargetKinds lists all kinds.
var TargetKinds = []TargetKind{TargetURL, TargetAgent, TargetModel, TargetJudge}

// Target is a row of task_targets: an agent or model that a task calls, as configured when the task was created.
type Target struct {
	TaskID uuid.UUID  `db:"task_id"`
	Number int        `db:"number"` // 1, 2, 3 …
	Kind   TargetKind `db:"kind"`
	// LibraryID is the saved agent or model that was copied; nil for a typed URL.
	LibraryID *uuid.UUID `db:"library_id"`
	Name      string     `db:"name"`
	Protocol  string     `db:"protocol"`
	// URL is the address without its query.
	URL   string  `db:"url"`
	Model *string `db:"model"`
	// SealedHeaders are the headers, SealedPayload is the JSON object merged into every request body, SealedQuery is the
	// query of the address, and SealedTemplate is the template that replaces the protocol's body. All are encrypted; nil
	// means none.
	SealedHeaders  []byte `db:"sealed_headers"`
	SealedPayload  []byte `db:"sealed_payload"`
	SealedQuery    []byte `db:"sealed_query"`
	SealedTemplate []byte `db:"sealed_template"`
	// Poll describes in JSON how to poll an agent that accepts jobs; nil means that the agent answers directly.
	Poll *string `db:"poll"`
	// RateLimit is N/s, N/m or unlimited.
	RateLimit string `db:"rate_limit"`
	// RetryOn lists the kinds of failures that are retried: timeout, network, 429, 5xx.
	RetryOn pq.StringArray `db:"retry_on"`
	// InputPrice and OutputPrice are decimal numbers, per million tokens; nil means unknown.
	InputPrice  *string `db:"input_price"`
	OutputPrice *string `db:"output_price"`
	Currency    *string `db:"currency"`
	// IsUnstreamed reports that the target refused to stream and is called without streaming.
	IsUnstreamed bool `db:"is_unstreamed"`
}

// SecretsOwner returns the owner for which the target's secrets are sealed. For the first target this is the task,
// because tasks once had only one target.
func (t Target) SecretsOwner() string {
	if t.Number == 1 {
		return t.TaskID.String()
	}
	return t.TaskID.String() + "/" + strconv.Itoa(t.Number)
}

// Variant is a row of task_variants: one target combined with one version of a prompt, or with none.
type Variant struct {
	TaskID uuid.UUID `db:"task_id"`
	Number int       `db:"number"` // 1, 2, 3 …
	// Target is the number of the variant's target.
	Target int    `db:"target"`
	Name   string `db:"name"`
	// PromptID and PromptVersion identify a saved prompt, and SystemTemplate and UserTemplate are its texts; nil means
	// none.
	PromptID       *uuid.UUID `db:"prompt_id"`
	PromptVersion  *int       `db:"prompt_version"`
	SystemTemplate *string    `db:"system_template"`
	UserTemplate   *string    `db:"user_template"`
}

const insertTarget = `
	INSERT INTO task_targets (
		task_id, number, kind, library_id, name, protocol, url, model, sealed_headers, sealed_payload, sealed_query,
		sealed_template,
		poll, rate_limit, retry_on, input_price, output_price, currency)
	VALUES (
		:task_id, :number, :kind, :library_id, :name, :protocol, :url, :model, :sealed_headers, :sealed_payload,
		:sealed_query, :sealed_template,
		:poll, :rate_limit, :retry_on, CAST(:input_price AS numeric), CAST(:output_price AS numeric), :currency)`

const insertVariant = `
	INSERT INTO task_variants (task_id, number, target, name, prompt_id, prompt_version, system_template, user_template)
	VALUES (:task_id, :number, :target, :name, :prompt_id, :prompt_version, :system_template, :user_template)`

// replaceTargets replaces the stored targets and variants of a task.
func replaceTargets(ctx context.Context, tx *sqlx.Tx, task Task) error {
	if _, err := tx.ExecContext(ctx, `DELETE FROM task_targets WHERE task_id = $1`, task.ID); err != nil {
		return pg.Classify("remove the targets", err)
	}
	if err := insertTargets(ctx, tx, task.ID, slices.Concat(task.Targets, task.Judges)); err != nil {
		return err
	}
	for _, variant := range task.Variants {
		variant.TaskID = task.ID
		if _, err := tx.NamedExecContext(ctx, insertVariant, variant); err != nil {
			return pg.Classify("store a variant", err)
		}
	}
	return replaceEvaluators(ctx, tx, task)
}

func insertTargets(ctx context.Context, tx *sqlx.Tx, taskID uuid.UUID, targets []Target) error {
	for _, target := range targets {
		target.TaskID = taskID
		if _, err := tx.NamedExecContext(ctx, insertTarget, target); err != nil {
			return pg.Classify("store a target", err)
		}
	}
	return nil
}

// readTargets fills in the tasks' targets, judges, variants and evaluators, each in the order of their numbers.
func readTargets(ctx context.Context, db sqlx.QueryerContext, tasks map[uuid.UUID]*Task) error {
	const read = `
		SELECT task_id, number, kind, library_id, name, protocol, url, model, sealed_headers, sealed_payload, sealed_query,
		sealed_template,
			poll, rate_limit, retry_on, input_price, output_price, currency, is_unstreamed
		FROM task_targets
		WHERE task_id = ANY ($1)
		ORDER BY task_id, number`
	const readVariants = `
		SELECT task_id, number, target, name, prompt_id, prompt_version, system_template, user_template
		FROM task_variants
		WHERE task_id = ANY ($1)
		ORDER BY task_id, number`
	ids := pq.Array(slices.Collect(maps.Keys(tasks)))
	var targets []Target
	if err := sqlx.SelectContext(ctx, db, &targets, read, ids); err != nil {
		return pg.Classify("read the targets", err)
	}
	var variants []Variant
	if err := sqlx.SelectContext(ctx, db, &variants, readVariants, ids); err != nil {
		return pg.Classify("read the variants", err)
	}
	for _, target := range targets {
		task := tasks[target.TaskID]
		if target.Kind == TargetJudge {
			task.Judges = append(task.Judges, target)
		} else {
			task.Targets = append(task.Targets, target)
		}
	}
	for _, variant := range variants {
		task := tasks[variant.TaskID]
		task.Variants = append(task.Variants, variant)
	}
	return readEvaluators(ctx, db, tasks)
}

// NoteUnstreamed records that a target of a task does not stream.
func (s *Store) NoteUnstreamed(ctx context.Context, taskID uuid.UUID, target int) error {
	const note = `
		UPDATE task_targets
		SET is_unstreamed = true
		WHERE task_id = $1 AND number = $2`
	_, err := s.db.ExecContext(ctx, note, taskID, target)
	return pg.Classify("record that a target does not stream", err)
}

// LaunchTarget is the rate limit of one target of a launch.
type LaunchTarget struct {
	// Number is the target's number.
	Number int `db:"number"`
	// Origin is scheme://host:port of the target, the key of the rate limit.
	Origin string `db:"origin"`
	// CallInterval is the minimum time between two calls to the origin; zero means unlimited.
	CallInterval time.Duration `db:"call_interval"`
}

// ShownURL returns the task's typed address as users see it: without the query, which often contains keys. A query is
// replaced by "?…".
func (t Task) ShownURL() string {
	target := t.TypedTarget()
	if target.SealedQuery != nil {
		return target.URL + "?…"
	}
	return target.URL
}
