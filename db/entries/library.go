// Package entries stores the library: providers and their models, agents, prompts, datasets, evaluators, channels and
// schedules, with the outcome of each firing. Tasks keep copies of all entries except channels, so changing any other
// entry does not affect an existing task.
package entries

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"wending/db"
	"wending/db/pg"
)

// ErrNameTaken means that another unarchived entry of the same kind has the name.
var ErrNameTaken = errors.New("the name is taken")

// Entry holds the columns that all kinds have in common.
type Entry struct {
	ID        uuid.UUID `db:"id"`
	Name      string    `db:"name"`
	CreatedAt time.Time `db:"created_at"`
	UpdatedAt time.Time `db:"updated_at"`
	// ArchivedAt is set for an entry that is no longer offered, but kept because it was used.
	ArchivedAt *time.Time `db:"archived_at"`
}

// Test records how the last test call of a target ended.
type Test struct {
	TestedAt *time.Time `db:"tested_at"`
	// TestCode is the error code; nil means that the test succeeded or was never run.
	TestCode *string `db:"test_code"`
}

// HasFailed reports whether the last test failed.
func (t Test) HasFailed() bool { return t.TestCode != nil }

// Provider is a row of providers: an account through which models are called.
type Provider struct {
	Entry
	Protocol string `db:"protocol"`
	BaseURL  string `db:"base_url"`
	// SealedKey is the API key, and SealedHeaders are additional headers. Both are encrypted; nil means there are none.
	SealedKey     []byte `db:"sealed_key"`
	SealedHeaders []byte `db:"sealed_headers"`
	// RateLimit is N/s, N/m or unlimited; nil means the default.
	RateLimit *string        `db:"rate_limit"`
	RetryOn   pq.StringArray `db:"retry_on"`
}

// Prices are the prices of a target's tokens.
type Prices struct {
	// InputPrice and OutputPrice are decimal numbers, per million tokens; nil means unknown.
	InputPrice  *string `db:"input_price"`
	OutputPrice *string `db:"output_price"`
	Currency    *string `db:"currency"`
}

// Model is a row of models: a model that can be called through a provider.
type Model struct {
	Entry
	ProviderID uuid.UUID `db:"provider_id"`
	// ModelID is the provider's name for the model.
	ModelID string `db:"model_id"`
	// SealedParameters is a JSON object merged into every request, encrypted; nil means there is none.
	SealedParameters []byte `db:"sealed_parameters"`
	Prices
	// ProviderName and ProviderProtocol are read from the provider's row, and never written.
	ProviderName     string `db:"provider_name"`
	ProviderProtocol string `db:"provider_protocol"`
	Test
}

// Agent is a row of agents: an address that answers questions, and how to call it.
type Agent struct {
	Entry
	Protocol string `db:"protocol"`
	// URL lacks its query string, which is in SealedQuery.
	URL            string         `db:"url"`
	SealedQuery    []byte         `db:"sealed_query"`
	SealedHeaders  []byte         `db:"sealed_headers"`
	SealedPayload  []byte         `db:"sealed_payload"`
	SealedTemplate []byte         `db:"sealed_template"`
	Poll           *string        `db:"poll"` // how to poll accepted jobs, as JSON; nil for direct answers
	RateLimit      *string        `db:"rate_limit"`
	RetryOn        pq.StringArray `db:"retry_on"`
	Prices
	Test
}

// Prompt is a row of prompts with its newest version.
type Prompt struct {
	Entry
	Description string `db:"description"`
	PromptVersion
}

// PromptVersion is a row of prompt_versions; rows are never changed.
type PromptVersion struct {
	Version int    `db:"version"` // from 1
	System  string `db:"system_template"`
	User    string `db:"user_template"`
	Note    string `db:"note"`
	// SavedAt is when this version was saved; the prompt itself may be older.
	SavedAt time.Time `db:"saved_at"`
}

// Dataset is a row of datasets with its newest version.
type Dataset struct {
	Entry
	Description string `db:"description"`
	DatasetVersion
}

// DatasetVersion is a row of dataset_versions; rows are never changed.
type DatasetVersion struct {
	Version   int    `db:"version"` // from 1
	FileName  string `db:"file_name"`
	Extension string `db:"extension"`
	Size      int    `db:"size"`
	SHA256    []byte `db:"sha256"`
	// IDColumn, QuestionColumn and AnswerColumn are the columns used as question_id, question and
	// standard_answer; empty means the columns with those names. Encoding is the encoding of a CSV file; empty
	// means UTF-8.
	IDColumn       string         `db:"id_column"`
	QuestionColumn string         `db:"question_column"`
	AnswerColumn   string         `db:"answer_column"`
	Encoding       string         `db:"encoding"`
	Columns        pq.StringArray `db:"columns"`
	TotalItems     int            `db:"total_items"`
	Note           string         `db:"note"`
	SavedAt        time.Time      `db:"saved_at"`
}

// Evaluator is a row of evaluators with its newest version.
type Evaluator struct {
	Entry
	EvaluatorVersion
}

// EvaluatorVersion is a row of evaluator_versions; rows are never changed.
type EvaluatorVersion struct {
	Version int `db:"version"` // from 1
	// Rule is the kind of rule (evaluate.Kind), Config a JSON object that configures it.
	Rule    string          `db:"kind"`
	Config  json.RawMessage `db:"config"`
	SavedAt time.Time       `db:"saved_at"`
}

// Channel is a row of channels: an address at which people and programs are notified about tasks.
type Channel struct {
	Entry
	Kind string `db:"kind"`
	// URL is the part of the address that may be shown, and SealedURL the whole address; both are empty for an e-mail
	// channel.
	URL       string `db:"url"`
	SealedURL []byte `db:"sealed_url"`
	// Recipients are the addresses of an e-mail channel, joined by commas.
	Recipients   string         `db:"recipients"`
	SealedSecret []byte         `db:"sealed_secret"`
	Events       pq.StringArray `db:"events"`
	Lang         string         `db:"lang"`
	// IsDefault makes the channel receive messages about every new task that does not name its channels.
	IsDefault bool `db:"is_default"`
	Test
}

// Schedule is a row of schedules: a task that is copied and run at the times of a cron expression.
type Schedule struct {
	Entry
	// TaskID is the task that is copied; nil if it no longer exists.
	TaskID *uuid.UUID `db:"task_id"`
	// Cron has five fields, interpreted in Timezone (an IANA name).
	Cron      string `db:"cron"`
	Timezone  string `db:"timezone"`
	IsEnabled bool   `db:"is_enabled"`
	// Follow is what a firing copies.
	Follow Follow `db:"follow"`
	// Channels are the channels of the copies; nil means the task's own channels.
	Channels *pq.StringArray `db:"channels"`
	// AlertMetric is the watched metric; nil means none. AlertBelow is the limit, nil for none; AlertsWorse means
	// that a significant decline compared with the previous firings raises an alert.
	AlertMetric *string  `db:"alert_metric"`
	AlertBelow  *float64 `db:"alert_below"`
	AlertsWorse bool     `db:"alerts_worse"`
	// AlertMargin is by how much the metric may fall behind the previous firings without an alert; 0 or more.
	AlertMargin float64 `db:"alert_margin"`
	// NextAt is when the schedule fires next; nil while no firing is planned.
	NextAt *time.Time `db:"next_at"`
}

// Follow is what the firings of a schedule copy.
type Follow string

// FollowLatest copies the task with the current contents of the library: credentials, and the newest versions of
// prompts, evaluators and the dataset. FollowFrozen copies the task as it was created.
const (
	FollowLatest Follow = "latest"
	FollowFrozen Follow = "frozen"
)

// Follows lists both values.
var Follows = []Follow{FollowLatest, FollowFrozen}

// IDs returns ids as the value of an array column.
func IDs(ids []uuid.UUID) *pq.StringArray {
	list := make(pq.StringArray, len(ids))
	for n, id := range ids {
		list[n] = id.String()
	}
	return &list
}

// Recipients returns the addresses of an e-mail channel; nil for other kinds of channels.
func Recipients(c Channel) []string {
	if c.Recipients == "" {
		return nil
	}
	return strings.Split(c.Recipients, ",")
}

// table describes the table of one kind of entry: its name, its columns in addition to the columns of Entry, the FROM
// clause and the columns with which entries are read, and a subquery for the uses of the entry $1.
type table[T any] struct {
	name     string
	columns  []string
	from     string
	selected string
	uses     string
	// kept is a further condition under which an unused entry may not be removed; empty means there is none.
	kept string
	// limit is the maximum number of entries in a project; nil means no limit.
	limit *db.Cap
}

const newestVersion = ` JOIN LATERAL (
	SELECT *, created_at AS saved_at FROM %s WHERE entry_id = e.id ORDER BY version DESC LIMIT 1) v ON true`

const (
	entryColumns         = "e.id, e.name, e.created_at, e.updated_at, e.archived_at, "
	promptVersionColumns = "v.version, v.system_template, v.user_template, v.note, v.saved_at"
	datasetVersion       = `v.version, v.file_name, v.extension, v.size, v.sha256, v.id_column, v.question_column, v.answer_column, v.encoding, v.columns,
		v.total_items, v.note, v.saved_at`
	evaluatorVersion = "v.version, v.kind, v.config, v.saved_at"
	usedAsTarget     = taskUses + `(SELECT task_id FROM task_targets WHERE library_id = $1)`
	taskUses         = `SELECT id, task_name AS name, created_at FROM evaluation_tasks WHERE id IN `
)

// KindEntry is the kind that a db.NotFoundError names if an entry is missing.
const KindEntry db.Kind = "entry"

func newTable[T any](name string, columns []string, selected, from, uses string) table[T] {
	t := table[T]{name: name, columns: columns, from: name + " e" + from, selected: selected, uses: uses}
	if selected == "" {
		t.selected = "e." + strings.Join(columns, ", e.")
	}
	return t
}

// keptWhile sets a further condition under which the entry $1 may not be removed.
func (t table[T]) keptWhile(condition string) table[T] {
	t.kept = condition
	return t
}

const pricesOf = `trim_scale(e.input_price) AS input_price, trim_scale(e.output_price) AS output_price, e.currency`

// within sets the maximum number of the table's entries in a project.
func (t table[T]) within(limit db.Cap) table[T] {
	t.limit = &limit
	return t
}

var (
	providers = newTable[Provider]("providers",
		[]string{"protocol", "base_url", "sealed_key", "sealed_headers", "rate_limit", "retry_on"}, "", "",
		`SELECT id, name, created_at FROM models WHERE provider_id = $1`)
	models = newTable[Model]("models", []string{"provider_id", "model_id", "sealed_parameters", "input_price",
		"output_price", "currency", "tested_at", "test_code"},
		`e.provider_id, e.model_id, e.sealed_parameters, `+pricesOf+`,
			e.tested_at, e.test_code, p.name AS provider_name, p.protocol AS provider_protocol`, " JOIN providers p ON p.id = e.provider_id", usedAsTarget).
		keptWhile(`EXISTS (SELECT FROM evaluator_versions WHERE kind = 'judge' AND config ->> 'model_id' = CAST($1 AS text))`)
	agents = newTable[Agent]("agents", []string{"protocol", "url", "sealed_query", "sealed_headers", "sealed_payload",
		"sealed_template", "poll", "rate_limit", "retry_on",
		"input_price", "output_price", "currency", "tested_at", "test_code"},
		`e.protocol, e.url, e.sealed_query, e.sealed_headers, e.sealed_payload, e.sealed_template, e.poll, e.rate_limit, e.retry_on, `+pricesOf+`,
			e.tested_at, e.test_code`, "", usedAsTarget)
	prompts = newTable[Prompt]("prompts", []string{"description"}, "e.description, "+promptVersionColumns,
		strings.ReplaceAll(newestVersion, "%s", "prompt_versions"),
		taskUses+`(SELECT task_id FROM task_variants WHERE prompt_id = $1)`)
	datasets = newTable[Dataset]("datasets", []string{"description"}, "e.description, "+datasetVersion,
		strings.ReplaceAll(newestVersion, "%s", "dataset_versions"),
		`SELECT id, task_name AS name, created_at FROM evaluation_tasks WHERE dataset_id = $1`)
	evaluators = newTable[Evaluator]("evaluators", nil, evaluatorVersion,
		strings.ReplaceAll(newestVersion, "%s", "evaluator_versions"),
		taskUses+`(SELECT task_id FROM task_evaluators WHERE evaluator_id = $1)`)
	channels = newTable[Channel]("channels",
		[]string{"kind", "url", "sealed_url", "recipients", "sealed_secret", "events", "lang", "is_default", "tested_at",
			"test_code"},
		"", "", taskUses+`(SELECT task_id FROM task_channels WHERE channel_id = $1)`)
	schedules = newTable[Schedule]("schedules",
		[]string{"task_id", "cron", "timezone", "is_enabled", "follow", "channels", "alert_metric", "alert_below",
			"alerts_worse", "alert_margin", "next_at"},
		"", "", `SELECT id, task_name AS name, created_at FROM evaluation_tasks
			WHERE schedule_id = $1`).within(db.ScheduleCap)
)

// Library reads and writes entries.
type Library struct {
	db         *pg.Pool
	Providers  Kind[Provider]
	Models     Kind[Model]
	Agents     Kind[Agent]
	Prompts    Kind[Prompt]
	Datasets   Kind[Dataset]
	Evaluators Kind[Evaluator]
	Channels   Kind[Channel]
	Schedules  Kind[Schedule]
}

// New returns the library of a store.
func New(store *db.Store) Library {
	pool := store.Pool()
	return Library{
		pool, Kind[Provider]{pool, providers}, Kind[Model]{pool, models}, Kind[Agent]{pool, agents},
		Kind[Prompt]{pool, prompts}, Kind[Dataset]{pool, datasets},
		Kind[Evaluator]{pool, evaluators}, Kind[Channel]{pool, channels},
		Kind[Schedule]{pool, schedules},
	}
}

// Kind reads and writes the entries of one kind.
type Kind[T any] struct {
	db *pg.Pool
	table[T]
}

// Filter narrows a list; its zero value selects the entries that are offered.
type Filter struct {
	// NameContains matches anywhere in the name, without regard to case.
	NameContains string
	// Archived selects the archived entries instead of the offered ones.
	Archived bool
}

// List returns one page of the entries that match, newest first, and how many match in all.
func (k Kind[T]) List(ctx context.Context, scope db.Scope, filter Filter,
	page db.Page) (entries []T, total int, err error) {
	where := ` WHERE (e.archived_at IS NOT NULL) = $1 AND ($2 = '' OR e.name ILIKE $2)
		AND ` + db.Within("e.project_id", "$3")
	name := pg.Containing(filter.NameContains)
	if err := k.db.GetContext(ctx, &total, `SELECT count(*) FROM `+k.name+` e`+where, filter.Archived, name, scope); err !=
		nil {
		return nil, 0, pg.Classify("count "+k.name, err)
	}
	list := `SELECT ` + entryColumns + k.selected + ` FROM ` + k.from + where +
		` ORDER BY e.created_at DESC, e.id DESC LIMIT $4 OFFSET $5`
	err = k.db.SelectContext(ctx, &entries, list, filter.Archived, name, scope, page.Size, page.Offset())
	return entries, total, pg.Classify("list "+k.name, err)
}

// Get returns one entry, archived or not, or db.ErrNotFound.
func (k Kind[T]) Get(ctx context.Context, scope db.Scope, id uuid.UUID) (T, error) {
	var found T
	err := k.db.GetContext(ctx, &found, `SELECT `+entryColumns+k.selected+` FROM `+k.from+` WHERE e.id = $1 AND `+
		db.Within("e.project_id", "$2"), id, scope)
	return found, db.NotFound(KindEntry, pg.Classify("read "+k.name, err))
}

// Named returns the unarchived entry with the given name in the scope's own project, or db.ErrNotFound.
func (k Kind[T]) Named(ctx context.Context, scope db.Scope, name string) (T, error) {
	var found T
	err := k.db.GetContext(ctx, &found, `SELECT `+entryColumns+k.selected+` FROM `+k.from+
		` WHERE e.name = $1 AND e.project_id = $2 AND e.archived_at IS NULL`, name, scope.Home())
	return found, db.NotFound(KindEntry, pg.Classify("read "+k.name, err))
}

// Insert stores a new entry. It returns ErrNameTaken if another entry has its name, and a db.ProjectFullError if the
// project has reached its cap.
func (k Kind[T]) Insert(ctx context.Context, scope db.Scope, entry T) error {
	if k.limit == nil {
		return k.insert(ctx, k.db, scope, entry)
	}
	return k.db.InTx(ctx, "store into "+k.name, func(tx *sqlx.Tx) error {
		if err := k.limit.Admit(ctx, tx, scope.Home()); err != nil {
			return err
		}
		return k.insert(ctx, tx, scope, entry)
	})
}

func (k Kind[T]) insert(ctx context.Context, tx sqlx.ExtContext, scope db.Scope, entry T) error {
	columns := append([]string{"id", "name"}, k.columns...)
	statement := `INSERT INTO ` + k.name + ` (` + strings.Join(columns, ", ") + `, project_id) VALUES (:` +
		strings.Join(columns, ", :") + `, ?)`
	statement, arguments, err := sqlx.Named(casted(statement), entry)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, sqlx.Rebind(sqlx.DOLLAR, statement), append(arguments, scope.Home())...)
	return taken(pg.Classify("store into "+k.name, err))
}

// Update replaces the contents of an entry. It returns db.ErrNotFound if the entry is gone, and ErrNameTaken if another
// entry has its new name.
func (k Kind[T]) Update(ctx context.Context, scope db.Scope, entry T) error {
	set := []string{"name = :name", "updated_at = now()"}
	for _, column := range k.columns {
		set = append(set, column+" = :"+column)
	}
	statement := `UPDATE ` + k.name + ` SET ` + strings.Join(set, ", ") + ` WHERE id = :id AND ` +
		db.Within("project_id", "?")
	statement, arguments, err := sqlx.Named(casted(statement), entry)
	if err != nil {
		return err
	}
	result, err := k.db.ExecContext(ctx, sqlx.Rebind(sqlx.DOLLAR, statement), append(arguments, scope, scope)...)
	changed, err := pg.Affected("change "+k.name, result, err)
	if err == nil && changed == 0 {
		return &db.NotFoundError{Kind: KindEntry}
	}
	return taken(err)
}

// casted adds casts to the parameters that are numbers in text form.
func casted(statement string) string {
	for _, column := range []string{"input_price", "output_price"} {
		statement = strings.ReplaceAll(statement, ":"+column, "CAST(:"+column+" AS numeric)")
	}
	return statement
}

func taken(err error) error {
	if errors.Is(err, db.ErrConflict) {
		return ErrNameTaken
	}
	return err
}

// Remove removes an entry that was never used, and archives any other. isGone reports that it was removed.
func (k Kind[T]) Remove(ctx context.Context, scope db.Scope, id uuid.UUID) (isGone bool, err error) {
	err = k.db.InTx(ctx, "remove from "+k.name, func(tx *sqlx.Tx) error {
		used, isUsed := false, `EXISTS (`+k.uses+`)`
		if k.kept != "" {
			isUsed += ` OR ` + k.kept
		}
		if err := tx.GetContext(ctx, &used, `SELECT `+isUsed+` FROM `+k.name+` WHERE id = $1 AND `+
			db.Within("project_id", "$2")+` FOR UPDATE`, id, scope); err != nil {
			return db.NotFound(KindEntry, pg.Classify("read "+k.name, err))
		}
		statement := `DELETE FROM ` + k.name + ` WHERE id = $1`
		if isGone = !used; used {
			statement = `UPDATE ` + k.name + ` SET archived_at = coalesce(archived_at, now()), updated_at = now() WHERE id = $1`
		}
		_, err := tx.ExecContext(ctx, statement, id)
		return pg.Classify("remove from "+k.name, err)
	})
	return isGone && err == nil, err
}

// Restore offers an archived entry again. It returns db.ErrNotFound if there is no such entry, ErrNameTaken if another
// entry has taken its name, and a db.ProjectFullError if the project has reached its cap.
func (k Kind[T]) Restore(ctx context.Context, scope db.Scope, id uuid.UUID) error {
	return k.db.InTx(ctx, "restore in "+k.name, func(tx *sqlx.Tx) error {
		var of uuid.UUID
		if err := tx.GetContext(ctx, &of, `SELECT project_id FROM `+k.name+` WHERE id = $1 AND `+
			db.Within("project_id", "$2")+` FOR UPDATE`, id, scope); err != nil {
			return db.NotFound(KindEntry, pg.Classify("read "+k.name, err))
		}
		if k.limit != nil {
			if err := k.limit.Admit(ctx, tx, of); err != nil {
				return err
			}
		}
		_, err := tx.ExecContext(ctx, `UPDATE `+k.name+` SET archived_at = NULL, updated_at = now() WHERE id = $1`, id)
		return taken(pg.Classify("restore in "+k.name, err))
	})
}

// Use is a task that uses an entry. Tasks that use a model also count as uses of its provider.
type Use struct {
	ID        uuid.UUID `db:"id"`
	Name      string    `db:"name"`
	CreatedAt time.Time `db:"created_at"`
}

// Uses returns the newest uses of an entry, at most as many as given, and how many there are in all.
func (k Kind[T]) Uses(ctx context.Context, scope db.Scope, id uuid.UUID, most int) (uses []Use, total int, err error) {
	var found []struct {
		Use
		Total int `db:"total"`
	}
	list := `SELECT *, count(*) OVER () AS total FROM (` + k.uses + `) uses
		WHERE EXISTS (SELECT FROM ` + k.name + ` WHERE id = $1 AND ` + db.Within("project_id", "$3") + `)
		ORDER BY created_at DESC, id LIMIT $2`
	if err := k.db.SelectContext(ctx, &found, list, id, most, scope); err != nil {
		return nil, 0, pg.Classify("look up the uses of an entry of "+k.name, err)
	}
	for _, one := range found {
		uses, total = append(uses, one.Use), one.Total
	}
	return uses, total, nil
}

// NoteTest records how a test call of a target ended; an empty code means that it succeeded.
func (k Kind[T]) NoteTest(ctx context.Context, scope db.Scope, id uuid.UUID, code string) error {
	_, err := k.db.ExecContext(ctx, `UPDATE `+k.name+` SET tested_at = now(), test_code = nullif($2, '') WHERE id = $1
		AND `+db.Within("project_id", "$3"), id, code, scope)
	return pg.Classify("record a test", err)
}

// Measure is the duration and token usage of a call to a target.
type Measure struct {
	LatencyMS int
	// InputTokens and OutputTokens are nil if the target did not report them.
	InputTokens, OutputTokens *int
}

// NoteMeasure stores the measure of a successful test call to a model or an agent. It remains valid as long as the
// model's id or the agent's address is unchanged (Measured in package report).
func (k Kind[T]) NoteMeasure(ctx context.Context, scope db.Scope, id uuid.UUID, m Measure) error {
	called := map[string]string{"models": "model_id", "agents": "url"}[k.name]
	note := `UPDATE ` + k.name + ` SET measured_of = ` + called + `, measured_ms = $2, measured_input_tokens = $3,
		measured_output_tokens = $4 WHERE id = $1 AND ` + db.Within("project_id", "$5")
	_, err := k.db.ExecContext(ctx, note, id, m.LatencyMS, m.InputTokens, m.OutputTokens, scope)
	return pg.Classify("record a test's usage", err)
}
