package db

import (
	"context"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/lib/pq"

	"wending/db/pg"
)

// RunStatus is the outcome of a run.
type RunStatus string

// The outcomes of runs. STOPPED is that of a run that never took place: no row is stored for it.
const (
	RunSucceeded RunStatus = "SUCCEEDED"
	RunFailed    RunStatus = "FAILED"
	RunTimeout   RunStatus = "TIMEOUT"
	RunStopped   RunStatus = "STOPPED"
)

// RunStatuses are all outcomes.
var RunStatuses = []RunStatus{RunSucceeded, RunFailed, RunTimeout, RunStopped}

// Run is a row of evaluation_runs: the outcome of one call.
type Run struct {
	ID       int64     `db:"id"`
	UnitID   int64     `db:"unit_id"`
	ItemID   int64     `db:"item_id"`
	Variant  int       `db:"variant"`
	RunIndex int       `db:"run_index"`
	Status   RunStatus `db:"status"`
	// Response is the answer as text. Bytes that PostgreSQL cannot hold (NUL, invalid UTF-8) are replaced visibly;
	// IsReplaced reports it, and RunResponse returns the exact bytes.
	Response   *string `db:"response_body"`
	IsReplaced bool    `db:"is_replaced"`
	// ResponseLength is the whole response's length in characters, also where Response was cut.
	ResponseLength int     `db:"response_length"`
	Reasoning      *string `db:"reasoning"`
	// ReasoningIsCut reports that Reasoning is only the beginning.
	ReasoningIsCut bool    `db:"reasoning_is_cut"`
	AnswerKey      []byte  `db:"answer_key"`
	LatencyMS      *int    `db:"latency_ms"`
	Attempts       int     `db:"attempts"`
	ErrorCode      *string `db:"error_code"`
	ErrorMessage   *string `db:"error_message"`
	Usage
	CreatedAt time.Time `db:"created_at"`
}

// Usage is what a call took, as the agent says; nil means that it does not say.
type Usage struct {
	InputTokens     *int `db:"input_tokens"`
	OutputTokens    *int `db:"output_tokens"`
	ReasoningTokens *int `db:"reasoning_tokens"`
	TotalTokens     *int `db:"total_tokens"`
	// Cost is a decimal number in the currency of the target, by its prices; nil means that they or the tokens are unknown.
	Cost *string `db:"cost"`
	// FirstTokenMS is when the first piece of a streamed answer came.
	FirstTokenMS *int `db:"first_token_ms"`
}

// WithMissing returns the runs of a question of a task in order of variant and run_index; runs that never took place are
// STOPPED and have only these.
func (t Task) WithMissing(taken []Run) []Run {
	runs := make([]Run, t.RunsOfItem())
	for i := range runs {
		runs[i] = Run{Variant: i/t.RunsPerItem + 1, RunIndex: i%t.RunsPerItem + 1, Status: RunStopped}
	}
	for _, run := range taken {
		if run.RunIndex <= t.RunsPerItem && run.Variant <= t.TotalVariants {
			runs[(run.Variant-1)*t.RunsPerItem+run.RunIndex-1] = run
		}
	}
	return runs
}

// Result is the outcome of a unit that a worker records.
type Result struct {
	Unit   Unit
	Status RunStatus
	// Response is what the agent answered, byte for byte; nil if nothing arrived.
	Response  []byte
	Reasoning []byte
	// AnswerKey is equal for answers that count as equal; nil unless the run succeeded.
	AnswerKey    []byte
	LatencyMS    int
	Attempts     int
	ErrorCode    string
	ErrorMessage string
	// InputTokens and the others are what the agent says of the call; nil means that it does not say.
	InputTokens, OutputTokens, ReasoningTokens, TotalTokens *int
	// FirstTokenMS is nil unless the answer was streamed.
	FirstTokenMS *int
}

// supersede takes is_current from the runs that those of the units "done" replace. The INSERT after it must join
// superseded, so that this comes first and the partial unique index is not violated.
const supersede = `
	older AS (
		UPDATE evaluation_runs r
		SET is_current = false
		FROM done d
		WHERE r.item_id = d.item_id AND r.variant = d.variant AND r.run_index = d.run_index AND r.is_current
		RETURNING r.id),
	superseded AS (
		SELECT count(*) FROM older)`

const recordResults = `
	WITH given AS (
		SELECT * FROM unnest(
			CAST(:units AS bigint[]), CAST(:epochs AS int[]), CAST(:statuses AS text[]),
			CAST(:bodies AS text[]), CAST(:has_body AS bool[]), CAST(:exact AS bytea[]), CAST(:reasonings AS text[]),
			CAST(:keys AS bytea[]), CAST(:latencies AS int[]), CAST(:attempts AS int[]),
			CAST(:codes AS text[]), CAST(:messages AS text[]),
			CAST(:inputs AS int[]), CAST(:outputs AS int[]), CAST(:thoughts AS int[]), CAST(:totals AS int[]), CAST(:first AS int[]))
		AS g (unit_id, epoch, status, body, has_body, exact, reasoning, answer_key, latency_ms, attempts, error_code, error_message,
			input_tokens, output_tokens, reasoning_tokens, total_tokens, first_token_ms)),
	done AS (
		UPDATE units u
		SET state = 'DONE', outcome = g.status, worker_id = NULL
		FROM given g
		WHERE u.id = g.unit_id AND u.state = 'RUNNING' AND u.epoch = g.epoch -- the claim still holds
		RETURNING u.id, u.launch_id, u.item_id, u.variant, u.target, u.run_index),` + supersede + `
	INSERT INTO evaluation_runs (
		unit_id, epoch, task_id, launch_id, item_id, variant, run_index, status, response_body, response_bytes, reasoning,
		answer_key, latency_ms, attempts, error_code, error_message,
		input_tokens, output_tokens, reasoning_tokens, total_tokens, first_token_ms, cost)
	SELECT d.id, g.epoch, CAST(:task AS uuid), d.launch_id, d.item_id, d.variant, d.run_index, g.status,
		CASE WHEN g.has_body THEN g.body END, nullif(g.exact, ''), nullif(g.reasoning, ''),
		nullif(g.answer_key, ''), g.latency_ms, g.attempts, nullif(g.error_code, ''), nullif(g.error_message, ''),
		g.input_tokens, g.output_tokens, g.reasoning_tokens, g.total_tokens, g.first_token_ms,
		(g.input_tokens * t.input_price + g.output_tokens * t.output_price) / 1000000
	FROM given g
	JOIN done d ON d.id = g.unit_id
	JOIN task_targets t ON t.task_id = CAST(:task AS uuid) AND t.number = d.target
	CROSS JOIN superseded
	RETURNING unit_id`

// RecordResults stores the outcomes of units of one task, each exactly once, all in one transaction. refused are
// the units that now belong to another worker: their results are dropped. Calling it again after an error is safe;
// if the first call's commit succeeded although its reply was lost, nothing is refused.
func (s *Store) RecordResults(ctx context.Context, taskID uuid.UUID, results []Result) (refused []Unit, err error) {
	const known = `
		SELECT r.unit_id
		FROM evaluation_runs r
		JOIN unnest($1::bigint[], $2::int[]) AS g (unit_id, epoch) ON r.unit_id = g.unit_id AND r.epoch = g.epoch`
	n := len(results)
	ids, epochs, latencies, attempts := make(pq.Int64Array, n), make(pq.Int64Array, n), make(pq.Int64Array, n), make(pq.Int64Array, n)
	statuses, bodies, reasonings := make(pq.StringArray, n), make(pq.StringArray, n), make(pq.StringArray, n)
	codes, messages := make(pq.StringArray, n), make(pq.StringArray, n)
	hasBody, exact, keys := make(pq.BoolArray, n), make(pq.ByteaArray, n), make(pq.ByteaArray, n)
	inputs, outputs, thoughts, totals, first := make([]*int, n), make([]*int, n), make([]*int, n), make([]*int, n), make([]*int, n)
	for n, r := range results {
		inputs[n], outputs[n], thoughts[n], totals[n], first[n] = r.InputTokens, r.OutputTokens, r.ReasoningTokens, r.TotalTokens, r.FirstTokenMS
		ids[n], epochs[n], statuses[n] = r.Unit.ID, int64(r.Unit.Epoch), string(r.Status)
		response := string(r.Response)
		bodies[n], hasBody[n] = storableText(response), r.Response != nil
		if bodies[n] != response {
			exact[n] = r.Response
		}
		reasonings[n], keys[n] = storableText(string(r.Reasoning)), r.AnswerKey
		latencies[n], attempts[n] = int64(r.LatencyMS), int64(r.Attempts)
		codes[n], messages[n] = r.ErrorCode, storableText(r.ErrorMessage)
	}
	var stored []int64
	err = pg.SelectNamed(ctx, s.db, &stored, recordResults, map[string]any{
		"task": taskID, "units": ids, "epochs": epochs, "statuses": statuses,
		"bodies": bodies, "has_body": hasBody, "exact": exact, "reasonings": reasonings,
		"keys": keys, "latencies": latencies, "attempts": attempts, "codes": codes, "messages": messages,
		"inputs": pq.Array(inputs), "outputs": pq.Array(outputs), "thoughts": pq.Array(thoughts), "totals": pq.Array(totals), "first": pq.Array(first),
	})
	if err != nil {
		return nil, pg.Classify("record results", err)
	}
	if len(stored) < n {
		var before []int64
		if err := s.db.SelectContext(ctx, &before, known, ids, epochs); err != nil {
			return nil, pg.Classify("look for recorded results", err)
		}
		stored = append(stored, before...)
	}
	for _, r := range results {
		if !slices.Contains(stored, r.Unit.ID) {
			refused = append(refused, r.Unit)
		}
	}
	return refused, nil
}

// storableText replaces what PostgreSQL's text cannot hold: NUL becomes ␀, an invalid byte of UTF-8 becomes �.
func storableText(text string) string {
	if !strings.ContainsRune(text, 0) && utf8.ValidString(text) {
		return text
	}
	return strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\u2400")
}
