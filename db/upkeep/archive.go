package upkeep

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"wending/db"
	"wending/db/meaning"
	"wending/db/measure"
	"wending/db/pg"
	"wending/db/report"
)

// Archives reads and stores whole tasks.
type Archives struct{ db *pg.Pool }

// NewArchives returns the Archives of a store.
func NewArchives(store *db.Store) Archives { return Archives{store.Pool()} }

// Meanings returns models' groupings of the answers to a task's questions by meaning, and people's corrections of them,
// both keyed by item.
func (a Archives) Meanings(ctx context.Context, taskID uuid.UUID) (said map[int64]meaning.Grouping,
	corrections map[int64][]meaning.Correction, err error) {
	if said, err = meaning.Current(ctx, a.db, taskID); err != nil {
		return nil, nil, err
	}
	corrections, err = meaning.Corrections(ctx, a.db, taskID)
	return said, corrections, err
}

// EachRun calls yield with the current runs of a task as JSON objects, one at a time: they include the question_id
// of their questions and the evaluators' verdicts, but no database ids.
func (a Archives) EachRun(ctx context.Context, taskID uuid.UUID, yield func(json.RawMessage) error) error {
	const read = `
		SELECT row_to_json(line) AS line
		FROM (
			SELECT i.question_id, r.variant, r.run_index, r.status, r.response_body,
			encode(r.response_bytes, 'base64') AS response_bytes, r.reasoning,
				encode(r.answer_key, 'hex') AS answer_key, r.latency_ms, r.attempts, r.error_code, r.error_message, r.finish_reason,
				r.trace_id, r.agent_trace_id, r.failed_attempts, r.created_at,
				r.input_tokens, r.output_tokens, r.reasoning_tokens, r.total_tokens, CAST(r.cost AS text) AS cost, r.first_token_ms,
				r.passed, r.score,
				r.conversation_id, r.longest_silence_ms,
				(SELECT json_agg(json_build_object('evaluator', e.evaluator, 'status', e.status, 'score', e.score, 'passed',
				e.passed, 'reason', e.reason,
						'error_code', e.error_code, 'error_message', e.error_message, 'ratings', e.ratings, 'is_default', e.is_default,
						'raw', e.raw,
						'latency_ms', e.latency_ms, 'input_tokens', e.input_tokens, 'output_tokens', e.output_tokens, 'total_tokens',
						e.total_tokens,
						'cost', CAST(e.cost AS text), 'version', e.version, 'votes', e.votes) ORDER BY e.evaluator)
				FROM evaluations e
				WHERE e.run_id = r.id) AS evaluations
			FROM evaluation_runs r
			JOIN evaluation_items i ON i.id = r.item_id
			WHERE r.task_id = $1 AND r.is_current
			ORDER BY r.item_id, r.variant, r.run_index) line`
	return pg.EachRow(ctx, a.db, "read a task's runs", read, []any{taskID}, func(row struct {
		Line json.RawMessage `db:"line"`
	},
	) error {
		return yield(row.Line)
	})
}

// ArchivedRun is a run read from an archive; every value has been checked against its limits.
type ArchivedRun struct {
	QuestionID    string       `json:"question_id"`
	Variant       int          `json:"variant"`
	RunIndex      int          `json:"run_index"`
	Status        db.RunStatus `json:"status"`
	ResponseBody  *string      `json:"response_body"`
	ResponseBytes []byte       `json:"response_bytes"`
	Reasoning     *string      `json:"reasoning"`
	// AnswerKey is in hexadecimal.
	AnswerKey       *string    `json:"answer_key"`
	LatencyMS       *int       `json:"latency_ms"`
	Attempts        *int       `json:"attempts"`
	ErrorCode       *string    `json:"error_code"`
	ErrorMessage    *string    `json:"error_message"`
	FinishReason    *string    `json:"finish_reason"`
	TraceID         *string    `json:"trace_id"`
	AgentTraceID    *string    `json:"agent_trace_id"`
	CreatedAt       *time.Time `json:"created_at"`
	InputTokens     *int       `json:"input_tokens"`
	OutputTokens    *int       `json:"output_tokens"`
	ReasoningTokens *int       `json:"reasoning_tokens"`
	TotalTokens     *int       `json:"total_tokens"`
	Cost            *string    `json:"cost"`
	FirstTokenMS    *int       `json:"first_token_ms"`
	Passed          *bool      `json:"passed"`
	Score           *float64   `json:"score"`
	ConversationID  *string    `json:"conversation_id"`
	// LongestSilence is in milliseconds.
	LongestSilence *int                 `json:"longest_silence_ms"`
	FailedAttempts db.FailedAttempts    `json:"failed_attempts,omitempty"`
	Evaluations    []ArchivedEvaluation `json:"evaluations"`
}

// ArchivedEvaluation is an evaluator's verdict on a run of an archive.
type ArchivedEvaluation struct {
	Evaluator    int                `json:"evaluator"`
	Status       string             `json:"status"`
	Score        *float64           `json:"score"`
	Passed       *bool              `json:"passed"`
	Reason       *string            `json:"reason"`
	ErrorCode    *string            `json:"error_code"`
	ErrorMessage *string            `json:"error_message"`
	Ratings      map[string]float64 `json:"ratings"`
	IsDefault    *bool              `json:"is_default"`
	Raw          *string            `json:"raw"`
	LatencyMS    *int               `json:"latency_ms"`
	InputTokens  *int               `json:"input_tokens"`
	OutputTokens *int               `json:"output_tokens"`
	TotalTokens  *int               `json:"total_tokens"`
	Cost         *string            `json:"cost"`
	Version      *int               `json:"version"`
	// Votes are the individual scores of a judge that votes several times.
	Votes []float64 `json:"votes"`
}

// SetAnswer sets the run's answer and, if the run succeeded, its key. Characters that cannot be stored are replaced,
// and the exact bytes kept.
func (r *ArchivedRun) SetAnswer(text string) {
	body, isSame := pg.StorableBytes([]byte(text))
	stored, key := string(body), hex.EncodeToString(measure.Key([]byte(text)))
	r.ResponseBody, r.ResponseBytes = &stored, nil
	if !isSame {
		r.ResponseBytes = []byte(text)
	}
	if r.AnswerKey = nil; r.Status == db.RunSucceeded {
		r.AnswerKey = &key
	}
}

// SetTexts sets the run's reasoning and error message, empty for none. Characters that cannot be stored are replaced.
func (r *ArchivedRun) SetTexts(reasoning, message string) {
	if reasoning = pg.StorableText(reasoning); reasoning != "" {
		r.Reasoning = &reasoning
	}
	if message = pg.StorableText(message); message != "" {
		r.ErrorMessage = &message
	}
}

// archivedAtOnce is how many runs one statement stores, and batchBytes is approximately how many bytes it stores.
const (
	archivedAtOnce = 500
	batchBytes     = 8 << 20
)

const insertRuns = `
	WITH line AS (
		SELECT *
		FROM json_to_recordset($1) AS line (
			question_id text, variant int, run_index int, status text, response_body text, response_bytes text, reasoning text,
			answer_key text, latency_ms int,
			attempts int, error_code text, error_message text, finish_reason text, trace_id text,
			agent_trace_id text, created_at timestamptz, input_tokens int,
			output_tokens int, reasoning_tokens int,
			total_tokens int, cost numeric, first_token_ms int, passed bool, score float8, conversation_id text,
			failed_attempts jsonb, longest_silence_ms int, evaluations json)),
	stored AS (
		INSERT INTO evaluation_runs (
			unit_id, epoch, task_id, launch_id, item_id, variant, run_index, status, response_body, response_bytes, reasoning,
			answer_key, latency_ms, attempts,
			error_code, error_message, finish_reason, trace_id, agent_trace_id, created_at,
			input_tokens, output_tokens, reasoning_tokens, total_tokens,
			cost, first_token_ms, passed, score, conversation_id, failed_attempts, longest_silence_ms)
		SELECT nextval(pg_get_serial_sequence('units', 'id')), 1, t.id, $3, i.id, line.variant, line.run_index, line.status,
		line.response_body,
			decode(line.response_bytes, 'base64'), line.reasoning, decode(line.answer_key, 'hex'), line.latency_ms,
			coalesce(line.attempts, 1),
			line.error_code, line.error_message, line.finish_reason, line.trace_id, line.agent_trace_id,
			coalesce(line.created_at, now()), line.input_tokens,
			line.output_tokens, line.reasoning_tokens,
			line.total_tokens, line.cost, line.first_token_ms, line.passed, line.score, line.conversation_id,
			line.failed_attempts, line.longest_silence_ms
		FROM line
		JOIN evaluation_tasks t ON t.id = $2
		JOIN evaluation_items i ON i.task_id = t.id AND i.question_id = line.question_id
		WHERE line.variant BETWEEN 1 AND t.total_variants AND line.run_index BETWEEN 1 AND coalesce(
			(SELECT p.runs FROM planned_runs p WHERE p.item_id = i.id AND p.variant = line.variant), t.runs_per_item)
		RETURNING id, item_id, variant, run_index),
	judged AS (
		INSERT INTO evaluations (
			run_id, evaluator, task_id, status, score, passed, reason, error_code, error_message, ratings, is_default, raw,
			latency_ms, input_tokens, output_tokens,
			total_tokens, cost, version, votes)
		SELECT stored.id, e.evaluator, $2, e.status, e.score, e.passed, e.reason, e.error_code, e.error_message, e.ratings,
		coalesce(e.is_default, false), e.raw,
			e.latency_ms, e.input_tokens, e.output_tokens, e.total_tokens, e.cost, e.version, e.votes
		FROM line
		JOIN evaluation_items i ON i.task_id = $2 AND i.question_id = line.question_id
		JOIN stored ON stored.item_id = i.id AND stored.variant = line.variant AND stored.run_index = line.run_index
		CROSS JOIN json_to_recordset(coalesce(line.evaluations, '[]')) AS e (
			evaluator int, status text, score float8, passed bool, reason text, error_code text, error_message text,
			ratings json, is_default bool, raw text,
			latency_ms int, input_tokens int, output_tokens int, total_tokens int, cost numeric, version int, votes float8[])
		JOIN task_evaluators known ON known.task_id = $2 AND known.number = e.evaluator)
	SELECT count(*) FROM stored`

// Imported is a task that ended on another installation, with everything to store for it.
type Imported struct {
	Task   db.NewTask
	Status db.TaskStatus
	// CreatedAt and the fields that follow are nil if unknown.
	CreatedAt, StartedAt, CompletedAt *time.Time
	// Next returns the next run and its approximate size in bytes, and nil after the last run. Runs belong to
	// questions and variants of the task, and no two have the same question, variant and run_index.
	Next func() (run *ArchivedRun, size int, err error)
	// NextPart and NextTool return the parts of events and the tool calls of these runs in the same way; nil means that
	// there are none.
	NextPart func() (part *ArchivedPart, size int, err error)
	NextTool func() (tool *ArchivedTool, size int, err error)
	// Assets returns the files of these runs, whose copies are in the store already; nil means that there are none. It
	// is called after Next, NextPart and NextTool have returned everything.
	Assets func() ([]ArchivedAsset, error)
	// Corrections are people's groupings of answers by meaning, keyed by question id.
	Corrections map[string][]meaning.Correction
	Samples     []ArchivedSample
	Pairs       []ArchivedPair
	// Assess assesses the task's items that have the given ids.
	Assess func(ctx context.Context, results report.Assessor, itemIDs []int64) error
}

// Import stores a task with its results and statistics, completely or not at all.
func (a Archives) Import(ctx context.Context, imported Imported) error {
	const insertLaunch = `
		INSERT INTO launches (id, task_id, number, kind, status, concurrency, total_units, requested_by, requested_via,
		created_at, started_at, finished_at, is_settled, is_imported)
		SELECT $1, id, 1, 'SUBMIT', $3, concurrency, $4, $5, $6,
			created_at, started_at, completed_at, true, true
		FROM evaluation_tasks
		WHERE id = $2`
	const end = `
		UPDATE evaluation_tasks
		SET status = $2, created_at = coalesce($3, created_at), started_at = coalesce($4, $3, now()),
		completed_at = coalesce($5, now()), is_assessed = true
		WHERE id = $1`
	n, task, launchID := imported.Task, imported.Task.Task, uuid.New()
	return a.db.InLongTx(ctx, "import a task", func(tx *sqlx.Tx) error {
		if _, err := db.CreateTaskIn(ctx, tx, n); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, end, task.ID, imported.Status, imported.CreatedAt, imported.StartedAt,
			imported.CompletedAt); err != nil {
			return pg.Classify("end the task", err)
		}
		extra, err := planRuns(ctx, tx, n)
		if err != nil {
			return err
		}
		total := len(n.Items)*task.RunsPerItem*len(task.Variants) + extra
		if _, err := tx.ExecContext(ctx, insertLaunch, launchID, task.ID, imported.Status, total, n.By.Who(),
			n.By.Via); err != nil {
			return pg.Classify("store the launch", err)
		}
		if err := storeRuns(ctx, tx, task.ID, launchID, imported.Next); err != nil {
			return err
		}
		if err := storeCalls(ctx, tx, imported); err != nil {
			return err
		}
		if err := storeDrawn(ctx, tx, task.ID, imported); err != nil {
			return err
		}
		said := map[string]meaning.Grouping{}
		for _, item := range n.Items {
			if item.Meaning != nil {
				said[item.QuestionID] = *item.Meaning
			}
		}
		if err := meaning.Import(ctx, tx, task.ID, said); err != nil {
			return err
		}
		if err := meaning.ImportCorrections(ctx, tx, task.ID, imported.Corrections); err != nil {
			return err
		}
		if err := assess(ctx, tx, task.ID, imported.Assess); err != nil {
			return err
		}
		if err := db.StoreStatistics(ctx, tx, launchID, task.ID); err != nil {
			return err
		}
		return db.Notify(ctx, tx, task.ID)
	})
}

// planRuns records the questions whose number of runs differs from the task's runs_per_item, and returns by how many
// runs they exceed runs_per_item in total; the number is negative if they have fewer.
func planRuns(ctx context.Context, tx *sqlx.Tx, n db.NewTask) (extra int, err error) {
	const store = `
		INSERT INTO planned_runs (item_id, variant, runs)
		SELECT i.id, given.variant, given.runs
		FROM unnest($2::text[], $3::int[], $4::int[]) AS given (question_id, variant, runs)
		JOIN evaluation_items i ON i.task_id = $1 AND i.question_id = given.question_id`
	const count = `UPDATE evaluation_tasks SET extra_runs = $2 WHERE id = $1`
	var ids pq.StringArray
	var variants, runs pq.Int64Array
	for _, item := range n.Items {
		for place, planned := range item.Planned {
			if planned != n.Task.RunsPerItem {
				ids, variants, runs = append(ids, item.QuestionID), append(variants, int64(place+1)), append(runs, int64(planned))
				extra += planned - n.Task.RunsPerItem
			}
		}
	}
	if len(ids) == 0 {
		return 0, nil
	}
	if _, err := tx.ExecContext(ctx, store, n.Task.ID, ids, variants, runs); err != nil {
		return 0, pg.Classify("store the planned runs", err)
	}
	_, err = tx.ExecContext(ctx, count, n.Task.ID, extra)
	return extra, pg.Classify("count the planned runs", err)
}

func storeRuns(ctx context.Context, tx *sqlx.Tx, taskID, launchID uuid.UUID,
	next func() (*ArchivedRun, int, error)) error {
	return inBatches(next, func(runs []*ArchivedRun) error {
		text, err := json.Marshal(runs)
		if err != nil {
			return fmt.Errorf("write the runs: %w", err)
		}
		_, err = tx.ExecContext(ctx, insertRuns, text, taskID, launchID)
		return pg.Classify("store runs", err)
	})
}

// assessedAtOnce is how many questions are assessed between two statements: the server aborts transactions that
// stay idle for long.
const assessedAtOnce = 10

func assess(ctx context.Context, tx *sqlx.Tx, taskID uuid.UUID,
	work func(context.Context, report.Assessor, []int64) error) error {
	const find = `
		SELECT id
		FROM evaluation_items i
		WHERE task_id = $1 AND EXISTS (SELECT FROM evaluation_runs r WHERE r.item_id = i.id AND r.is_current)
		ORDER BY id`
	var ids []int64
	if err := pg.PreferIndexes(ctx, tx); err != nil {
		return err
	}
	if err := tx.SelectContext(ctx, &ids, find, taskID); err != nil {
		return pg.Classify("find the questions", err)
	}
	for some := range slices.Chunk(ids, assessedAtOnce) {
		if err := work(ctx, report.AssessorIn(tx), some); err != nil {
			return err
		}
	}
	return nil
}
