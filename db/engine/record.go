package engine

import (
	"context"
	"slices"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"wending/db"
	"wending/db/pg"
)

// Recorder stores the results of units.
type Recorder struct{ db *pg.Pool }

// NewRecorder returns the Recorder of a store.
func NewRecorder(store *db.Store) Recorder { return Recorder{store.Pool()} }

// Result is the outcome of a unit that a worker records; for a conversation, the outcome of one of its turns.
type Result struct {
	// Unit is the recorded unit, with its item.
	Unit   db.Unit
	Status db.RunStatus
	// Response is the agent's answer, byte for byte; nil if nothing arrived.
	Response  []byte
	Reasoning []byte
	// AnswerKey is the same for answers that are considered equal; nil unless the run succeeded.
	AnswerKey []byte
	LatencyMS int
	Attempts  int
	// FailedAttempts holds all attempts before the last one.
	FailedAttempts db.FailedAttempts
	ErrorCode      string
	ErrorMessage   string
	// FinishReason is why the answer ended; empty means that the agent did not report it.
	FinishReason string
	// TraceID and AgentTraceID identify the last call in our traces and in the agent's; empty means none.
	TraceID, AgentTraceID string
	// InputTokens and the counts that follow are reported by the agent; nil means that it reported none.
	InputTokens, OutputTokens, ReasoningTokens, TotalTokens *int
	// FirstTokenMS is nil unless the answer was streamed.
	FirstTokenMS *int
	// LongestSilenceMS is the longest time in which the last attempt received no data; nil if unknown.
	LongestSilenceMS *int
	// Judgement is a judge's verdict; nil unless the unit called a judge. If it is set, only Judgement and Unit are
	// used.
	Judgement *Judgement
	// Grouping is a model's grouping of the question's answers; nil unless the unit requested one. If it is set, only
	// Grouping and Unit are used.
	Grouping *Grouping
	// HasJudges means that judges still have to rate the answer.
	HasJudges bool
	// Turn is the next state of the conversation; nil for a single question.
	Turn *Turn
	// Evaluations are the verdicts of the task's rules on the answer; a failed answer has none.
	Evaluations []db.Evaluation
	// Assets are files that the agent reported and that may not be stored yet.
	Assets []AnnouncedAsset
	// Passed and Score sum up the evaluations.
	Passed *bool
	Score  *float64
}

// Turn is the state of a conversation after one of its turns.
type Turn struct {
	// ConversationID is the agent's own id for the conversation; empty if it returned none.
	ConversationID string
	// Later holds the items of the turns after this one. If the conversation stops, they are not reached.
	Later []int64
	Stops bool
}

// HasMore reports whether the worker will ask another turn; if not, the unit is done.
func (t *Turn) HasMore() bool { return t != nil && len(t.Later) > 0 && !t.Stops }

// NotReached returns the items of the turns that will no longer be asked.
func (t *Turn) NotReached() []int64 {
	if t == nil || !t.Stops {
		return nil
	}
	return t.Later
}

// Results without evaluations or turns, which most tasks produce, are recorded by a shorter statement: statements are
// planned at each execution, and a shorter one takes less time to plan.
const (
	recordResults = ofUnits + doneUnits + db.Supersede + insertRuns + `
	RETURNING unit_id`
	recordJudged = ofUnits + doneUnits + db.Supersede + `,` + storeJudged
	recordTurns  = ofUnits + doneTurns + db.Supersede + `,` + storeJudged
	storeJudged  = `
	stored AS (` + insertRuns + `
	RETURNING id, unit_id),
	judged AS (
	INSERT INTO evaluations (run_id, evaluator, task_id, status, score, passed, reason, error_code, error_message)
	SELECT stored.id, e.evaluator, CAST(:task AS uuid), e.status, e.score, e.passed, nullif(e.reason, ''),
	nullif(e.code, ''), nullif(e.message, '')
	FROM unnest(
		CAST(:e_units AS bigint[]), CAST(:e_evaluators AS int[]), CAST(:e_statuses AS text[]), CAST(:e_scores AS float8[]),
		CAST(:e_passed AS bool[]),
		CAST(:e_reasons AS text[]), CAST(:e_codes AS text[]), CAST(:e_messages AS text[]))
		AS e (unit_id, evaluator, status, score, passed, reason, code, message)
	JOIN stored ON stored.unit_id = e.unit_id)
	SELECT unit_id FROM stored`
)

const ofUnits = `
	WITH given AS (
		SELECT * FROM unnest(
			CAST(:units AS bigint[]), CAST(:epochs AS int[]), CAST(:statuses AS text[]),
			CAST(:bodies AS text[]), CAST(:exact AS bytea[]), CAST(:reasonings AS text[]),
			CAST(:keys AS bytea[]), CAST(:latencies AS int[]), CAST(:attempts AS int[]),
			CAST(:codes AS text[]), CAST(:messages AS text[]), CAST(:finishes AS text[]),
			CAST(:traces AS text[]), CAST(:agent_traces AS text[]),
			CAST(:inputs AS int[]), CAST(:outputs AS int[]), CAST(:thoughts AS int[]), CAST(:totals AS int[]),
			CAST(:first AS int[]), CAST(:silences AS int[]),
			CAST(:passed AS bool[]), CAST(:scores AS float8[]), CAST(:failed AS text[]))
		AS g (unit_id, epoch, status, body, exact, reasoning, answer_key, latency_ms, attempts, error_code, error_message,
		finish_reason, trace_id, agent_trace_id,
			input_tokens, output_tokens, reasoning_tokens, total_tokens, first_token_ms, longest_silence_ms, passed, score,
			failed_attempts)),`

const doneUnits = `
	done AS (
		UPDATE units u
		SET state = 'DONE', outcome = g.status, worker_id = NULL, resume = NULL
		FROM given g
		WHERE u.id = g.unit_id AND u.state = 'RUNNING' AND u.epoch = g.epoch -- if the claim still holds
		RETURNING u.id, u.launch_id, u.item_id, u.variant, u.target, u.run_index, CAST(NULL AS text) AS conversation_id),`

// doneTurns skips turns that an earlier attempt stored although its reply was lost; the units of such turns still
// belong to the worker.
const doneTurns = `
	turn AS (
		SELECT * FROM unnest(
			CAST(:units AS bigint[]), CAST(:items AS bigint[]), CAST(:conversations AS text[]), CAST(:more AS bool[]),
			CAST(:unreached AS int[]))
		AS t (unit_id, item_id, conversation_id, has_more, unreached)),
	done AS (
		UPDATE units u
		SET state = CASE WHEN t.has_more THEN 'RUNNING' ELSE 'DONE' END,
			worker_id = CASE WHEN t.has_more THEN u.worker_id END,
			outcome = CASE WHEN t.has_more THEN NULL WHEN u.turns_failed > 0 THEN 'FAILED' ELSE g.status END,
			losses = 0,
			resume = NULL,
			turns_done = u.turns_done + 1 + t.unreached,
			turns_failed = u.turns_failed + CAST(g.status <> 'SUCCEEDED' AS int) + t.unreached
		FROM given g
		JOIN turn t ON t.unit_id = g.unit_id
		WHERE u.id = g.unit_id AND u.state = 'RUNNING' AND u.epoch = g.epoch
		  AND NOT EXISTS (SELECT FROM evaluation_runs r WHERE r.unit_id = t.unit_id AND r.item_id = t.item_id)
		RETURNING u.id, u.launch_id, t.item_id, u.variant, u.target, u.run_index,
		nullif(t.conversation_id, '') AS conversation_id),`

const insertRuns = `
	INSERT INTO evaluation_runs (
		unit_id, epoch, task_id, launch_id, item_id, variant, run_index, status, response_body, response_bytes, reasoning,
		answer_key, latency_ms, attempts, error_code, error_message, finish_reason, trace_id, agent_trace_id,
		input_tokens, output_tokens, reasoning_tokens, total_tokens, first_token_ms, longest_silence_ms, cost, passed, score,
		conversation_id, failed_attempts)
	SELECT d.id, g.epoch, CAST(:task AS uuid), d.launch_id, d.item_id, d.variant, d.run_index, g.status,
		g.body, nullif(g.exact, ''), nullif(g.reasoning, ''),
		nullif(g.answer_key, ''), g.latency_ms, g.attempts, nullif(g.error_code, ''), nullif(g.error_message, ''),
		nullif(g.finish_reason, ''), nullif(g.trace_id, ''), nullif(g.agent_trace_id, ''),
		g.input_tokens, g.output_tokens, g.reasoning_tokens, g.total_tokens, g.first_token_ms, g.longest_silence_ms,
		(g.input_tokens * t.input_price + g.output_tokens * t.output_price) / 1000000, g.passed, g.score, d.conversation_id,
		CAST(nullif(g.failed_attempts, '') AS jsonb)
	FROM given g
	JOIN done d ON d.id = g.unit_id
	JOIN task_targets t ON t.task_id = CAST(:task AS uuid) AND t.number = d.target
	CROSS JOIN superseded`

// Record stores the outcomes of units of one task, each exactly once: the outcomes of questions in one transaction, the
// judges' verdicts in another, groupings in a third. refused lists the units that now belong to another worker; their
// results are dropped. Calling it again after an error is safe; if the first call's commit succeeded although its reply
// was lost, nothing is refused.
func (r Recorder) Record(ctx context.Context, taskID uuid.UUID, results []Result) (refused []db.Unit, err error) {
	var runs, judged, grouped []Result
	for _, result := range results {
		switch {
		case result.Judgement != nil:
			judged = append(judged, result)
		case result.Grouping != nil:
			grouped = append(grouped, result)
		default:
			runs = append(runs, result)
		}
	}
	var stored []int64
	if len(runs) > 0 {
		if stored, err = r.runs(ctx, taskID, runs); err != nil {
			return nil, err
		}
	}
	if len(judged) > 0 {
		of, err := r.judgements(ctx, taskID, judged)
		if err != nil {
			return nil, err
		}
		stored = append(stored, of...)
	}
	if len(grouped) > 0 {
		of, err := r.groupings(ctx, taskID, grouped)
		if err != nil {
			return nil, err
		}
		stored = append(stored, of...)
	}
	for _, result := range results {
		if !slices.Contains(stored, result.Unit.ID) {
			refused = append(refused, result.Unit)
		}
	}
	return refused, nil
}

// recorded selects the units whose results are already stored, among the units $1, which were claimed under the epochs
// $2 for the items $3.
const recorded = `
	SELECT r.unit_id
	FROM evaluation_runs r
	JOIN unnest($1::bigint[], $2::int[], $3::bigint[]) AS g (unit_id, epoch, item_id)
		ON r.unit_id = g.unit_id AND r.epoch = g.epoch AND r.item_id = g.item_id`

// runs stores the outcomes of questions, and returns the units whose claims still held.
func (r Recorder) runs(ctx context.Context, taskID uuid.UUID, results []Result) (stored []int64, err error) {
	n := len(results)
	var ofTurns turns
	ids, epochs := make(pq.Int64Array, n), make(pq.Int64Array, n)
	latencies, attempts := make(pq.Int64Array, n), make(pq.Int64Array, n)
	statuses, bodies, reasonings := make(pq.StringArray, n), make(pg.Texts, n), make(pg.Texts, n)
	codes, messages := make(pq.StringArray, n), make(pq.StringArray, n)
	finishes, failed := make(pq.StringArray, n), make(pq.StringArray, n)
	traces, agentTraces := make(pq.StringArray, n), make(pq.StringArray, n)
	exact, keys := make(pq.ByteaArray, n), make(pq.ByteaArray, n)
	inputs, outputs, thoughts := make([]*int, n), make([]*int, n), make([]*int, n)
	totals, first, silences := make([]*int, n), make([]*int, n), make([]*int, n)
	passed, scores, judged := make([]*bool, n), make([]*float64, n), verdicts{}
	for n, result := range results {
		inputs[n], outputs[n], thoughts[n] = result.InputTokens, result.OutputTokens, result.ReasoningTokens
		totals[n], first[n], silences[n] = result.TotalTokens, result.FirstTokenMS, result.LongestSilenceMS
		ids[n], epochs[n], statuses[n] = result.Unit.ID, int64(result.Unit.Epoch), string(result.Status)
		var isSame bool
		if bodies[n], isSame = pg.StorableBytes(result.Response); !isSame {
			exact[n] = result.Response
		}
		reasonings[n], _ = pg.StorableBytes(result.Reasoning)
		keys[n] = result.AnswerKey
		latencies[n], attempts[n] = int64(result.LatencyMS), int64(result.Attempts)
		codes[n], messages[n], finishes[n] = result.ErrorCode, pg.StorableText(result.ErrorMessage), result.FinishReason
		traces[n], agentTraces[n] = result.TraceID, result.AgentTraceID
		passed[n], scores[n], failed[n] = result.Passed, result.Score, result.FailedAttempts.Text()
		judged.add(result)
		ofTurns.add(result)
	}
	arguments := map[string]any{
		"task": taskID, "units": ids, "epochs": epochs, "statuses": statuses,
		"bodies": bodies, "exact": exact, "reasonings": reasonings, "keys": keys, "latencies": latencies,
		"attempts": attempts, "codes": codes, "messages": messages, "finishes": finishes, "traces": traces,
		"agent_traces": agentTraces, "inputs": pq.Array(inputs),
		"outputs": pq.Array(outputs), "thoughts": pq.Array(thoughts), "totals": pq.Array(totals),
		"first": pq.Array(first), "silences": pq.Array(silences), "passed": pq.Array(passed),
		"scores": pq.Array(scores), "failed": failed,
	}
	switch {
	case ofTurns.any || ofTurns.hasJudges || hasAssets(results):
		stored, err = r.recordTurns(ctx, taskID, results, judged, ofTurns, arguments)
	case len(judged.units) > 0:
		judged.bind(arguments)
		err = pg.SelectNamed(ctx, r.db, &stored, recordJudged, arguments)
	default:
		err = pg.SelectNamed(ctx, r.db, &stored, recordResults, arguments)
	}
	if err != nil {
		return nil, pg.Classify("record results", err)
	}
	if len(stored) < n {
		var before []int64
		if err := r.db.SelectContext(ctx, &before, recorded, ids, epochs, ofTurns.items); err != nil {
			return nil, pg.Classify("look for recorded results", err)
		}
		stored = append(stored, before...)
	}
	return stored, nil
}

// recordTurns stores a batch that contains turns, or answers that judges have to rate. It also records the turns
// that will no longer be reached, and creates the judges' units.
func (r Recorder) recordTurns(ctx context.Context, taskID uuid.UUID, results []Result, judged verdicts, turns turns,
	arguments map[string]any) (stored []int64, err error) {
	judged.bind(arguments)
	turns.bind(arguments)
	err = r.db.InTx(ctx, "record turns", func(tx *sqlx.Tx) error {
		stored = nil
		if err := pg.SelectNamed(ctx, tx, &stored, recordTurns, arguments); err != nil {
			return err
		}
		var ended []int64
		for _, result := range results {
			if len(result.Turn.NotReached()) > 0 && slices.Contains(stored, result.Unit.ID) {
				ended = append(ended, result.Unit.ID)
			}
		}
		if turns.hasJudges && len(stored) > 0 {
			if _, err := tx.ExecContext(ctx, askJudges, pq.Int64Array(stored), turns.items); err != nil {
				return pg.Classify("create the judges' units", err)
			}
		}
		if err := InsertAssets(ctx, tx, assetsOf(taskID, results, stored)); err != nil || len(ended) == 0 {
			return err
		}
		return db.EndOpenTurns(ctx, tx, ended, "", "")
	})
	return stored, err
}

func hasAssets(results []Result) bool {
	return slices.ContainsFunc(results, func(result Result) bool { return len(result.Assets) > 0 })
}

// assetsOf returns the files of the results that were stored.
func assetsOf(taskID uuid.UUID, results []Result, stored []int64) (found []FoundAsset) {
	for _, result := range results {
		if !slices.Contains(stored, result.Unit.ID) {
			continue
		}
		source := AssetSource{TaskID: taskID, UnitID: result.Unit.ID, Epoch: result.Unit.Epoch,
			ItemID: result.Unit.Item.ID, Target: result.Unit.Target}
		for _, one := range result.Assets {
			found = append(found, FoundAsset{AssetSource: source, AnnouncedAsset: one})
		}
	}
	return found
}

// askJudges creates judge units for the answers of units ($1) to items ($2).
const askJudges = `
	INSERT INTO units (launch_id, item_id, variant, target, run_index, evaluator, subject_run_id)
	SELECT r.launch_id, r.item_id, r.variant, e.target, r.run_index, e.number, r.id
	FROM evaluation_runs r
	JOIN task_evaluators e ON e.task_id = r.task_id AND e.target IS NOT NULL
	WHERE r.unit_id = ANY ($1) AND r.item_id = ANY ($2) AND r.status = 'SUCCEEDED'
	ORDER BY r.id, e.number
	ON CONFLICT DO NOTHING`

// verdicts are the evaluations of a batch of results, column by column.
type verdicts struct {
	units, evaluators                  pq.Int64Array
	statuses, reasons, codes, messages pq.StringArray
	scores                             []*float64
	passed                             []*bool
}

func (v *verdicts) add(result Result) { v.addTo(result.Unit.ID, result.Evaluations) }

// addTo adds the evaluations of the unit, or of the run, with the given id.
func (v *verdicts) addTo(id int64, evaluations []db.Evaluation) {
	for _, one := range evaluations {
		v.units, v.evaluators, v.statuses = append(v.units, id), append(v.evaluators, int64(one.Number)),
			append(v.statuses, one.Status)
		v.scores, v.passed = append(v.scores, one.Score), append(v.passed, one.Passed)
		v.reasons, v.codes, v.messages = append(v.reasons, pg.StorableText(one.Reason)), append(v.codes, one.ErrorCode),
			append(v.messages, pg.StorableText(one.ErrorMessage))
	}
}

func (v *verdicts) bind(arguments map[string]any) {
	for name, column := range map[string]any{
		"e_units": v.units, "e_evaluators": v.evaluators, "e_statuses": v.statuses, "e_scores": pq.Array(v.scores),
		"e_passed":  pq.Array(v.passed),
		"e_reasons": v.reasons, "e_codes": v.codes, "e_messages": v.messages,
	} {
		arguments[name] = column
	}
}

// turns holds the new states of the conversations in a batch of results, column by column; a single question is treated
// as a conversation that ends.
type turns struct {
	any           bool
	hasJudges     bool
	items         pq.Int64Array
	conversations pq.StringArray
	more          pq.BoolArray
	unreached     pq.Int64Array
}

func (t *turns) add(result Result) {
	conversation := ""
	if result.Turn != nil {
		t.any, conversation = true, pg.StorableText(result.Turn.ConversationID)
	}
	t.hasJudges = t.hasJudges || result.HasJudges
	t.items, t.conversations = append(t.items, result.Unit.Item.ID), append(t.conversations, conversation)
	t.more, t.unreached = append(t.more, result.Turn.HasMore()), append(t.unreached, int64(len(result.Turn.NotReached())))
}

func (t *turns) bind(arguments map[string]any) {
	arguments["items"], arguments["conversations"], arguments["more"], arguments["unreached"] = t.items, t.conversations,
		t.more, t.unreached
}
