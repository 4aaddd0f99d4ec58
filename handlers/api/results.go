package api

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humaecho"

	"wending/db"
	"wending/db/meaning"
	"wending/db/measure"
	"wending/db/measure/facts"
	"wending/db/report"
	"wending/handlers/request"
	"wending/handlers/rest"
	"wending/jobs/agent/protocol"
	"wending/jobs/export"
	"wending/jobs/tasks"
	"wending/views/text"
)

// Run is a run of a question, with its answer. A run that never took place has the status STOPPED and only its variant,
// run_index and turn; its lists are empty, and all other fields are null.
type Run struct {
	turn
	SessionID       *string                `json:"session_id,omitempty" doc:"Id of the conversation; new for each launch, variant and run_index; absent for a single question" example:"d9ab1b8a-b6ef-5caf-a599-8c15a7de3969"`
	RunID           *int64                 `json:"run_id" doc:"Id of the run, for /runs/{run_id}, which returns the exact text; null if the run never took place" example:"4711"`
	UnitID          *int64                 `json:"unit_id" doc:"Id of the call, for its events; null if the run never took place" example:"4708"`
	Variant         int                    `json:"variant" doc:"Number of the variant; 1 for plain tasks" example:"1"`
	RunIndex        int                    `json:"run_index" doc:"Number, from 1" example:"1"`
	Status          db.RunStatus           `json:"status" example:"SUCCEEDED"`
	ResponseBody    *string                `json:"response_body" doc:"The answer as text; null if there is none" example:"北京"`
	Reasoning       *string                `json:"reasoning" doc:"The reasoning that the agent sent with the answer; null if there is none"`
	LatencyMS       *int                   `json:"latency_ms" doc:"Latency of the last attempt in milliseconds" example:"812"`
	Attempts        *int                   `json:"attempts" doc:"Number of calls made, including retries; null if the run never took place" example:"1"`
	ErrorCode       *string                `json:"error_code" doc:"Why the run failed; null if it succeeded or never took place" example:"HTTP_502"`
	ErrorMessage    *string                `json:"error_message"`
	FinishReason    *string                `json:"finish_reason" enum:"stop,length,content_filter,refusal,tool_calls" doc:"Why the answer ended; null if the agent does not report it" example:"stop"`
	TraceID         *string                `json:"trace_id" doc:"W3C trace id that the calls carried in traceparent, 32 hexadecimal digits; null if no call was made" example:"4bf92f3577b34da6a3ce929d0e0e4736"`
	AgentTraceID    *string                `json:"agent_trace_id" doc:"The agent's own id for the last call: the header x-request-id or x-trace-id, or log_id, trace_id or request_id in its answer; null if it named none" example:"20261126-7f3a"`
	CreatedAt       *rest.Moment           `json:"created_at"`
	InputTokens     *int                   `json:"input_tokens" doc:"As reported by the agent; null if it does not report tokens" example:"120"`
	OutputTokens    *int                   `json:"output_tokens" example:"35"`
	ReasoningTokens *int                   `json:"reasoning_tokens"`
	TotalTokens     *int                   `json:"total_tokens" example:"155"`
	Cost            *string                `json:"cost" doc:"Decimal number, at the prices in force when the task was created; null if unknown" example:"0.00065"`
	Currency        *string                `json:"currency" doc:"Currency of cost; null if cost is unknown" example:"USD"`
	FirstTokenMS    *int                   `json:"first_token_ms" doc:"Milliseconds to the first token of the answer; null unless the answer was streamed" example:"310"`
	FailedAttempts  []export.FailedAttempt `json:"failed_attempts" doc:"The failed attempts before the last attempt; at most the first ten"`
	Evaluations     []export.Evaluation    `json:"evaluations" doc:"Evaluations by the task's evaluators; empty for a failed run"`
}

// turn says which turn of which conversation a question is; both fields are absent for a single question.
type turn struct {
	Series *string `json:"series,omitempty" doc:"Name of the conversation to which the question belongs; absent for a single question" example:"mt-81"`
	Turn   *int    `json:"turn,omitempty" doc:"Number of the turn within the conversation, from 1; absent for a single question" example:"2"`
}

// newRun returns a run of a task as the API describes it.
func newRun(ctx context.Context, r db.Run, task db.Task, turn turn) Run {
	r.Variant = max(1, r.Variant)
	if r.Status == db.RunStopped {
		return Run{turn: turn, Variant: r.Variant, RunIndex: r.RunIndex, Status: r.Status,
			FailedAttempts: []export.FailedAttempt{}, Evaluations: []export.Evaluation{}}
	}
	var currency *string
	if r.Cost != nil && r.Variant <= len(task.Variants) {
		currency = task.Targets[task.Variants[r.Variant-1].Target-1].Currency
	}
	var session *string
	if turn.Turn != nil {
		id := tasks.SessionID(r.LaunchID, r.UnitID)
		session = &id
	}
	return Run{
		turn: turn, SessionID: session, InputTokens: r.InputTokens, OutputTokens: r.OutputTokens,
		ReasoningTokens: r.ReasoningTokens, TotalTokens: r.TotalTokens,
		Cost: r.Cost, Currency: currency, FirstTokenMS: r.FirstTokenMS,
		Evaluations: tasks.Verdicts(r.Evaluations, task.Evaluators, text.LocaleOf(ctx).Reason), Variant: r.Variant,
		RunID: &r.ID, UnitID: &r.UnitID, RunIndex: r.RunIndex, Status: r.Status, ResponseBody: r.Response,
		Reasoning: r.Reasoning,
		LatencyMS: r.LatencyMS, Attempts: &r.Attempts, ErrorCode: r.ErrorCode, ErrorMessage: r.ErrorMessage,
		FinishReason: r.FinishReason, TraceID: r.TraceID, AgentTraceID: r.AgentTraceID,
		FailedAttempts: tasks.FailedAttempts(r.FailedAttempts), CreatedAt: rest.MomentOf(&r.CreatedAt),
	}
}

// Item is a question of a task's dataset.
type Item struct {
	turn
	QuestionID     string            `json:"question_id" example:"q1"`
	Question       string            `json:"question" example:"中国的首都是哪里？"`
	StandardAnswer string            `json:"standard_answer" example:"北京"`
	SystemPrompt   *string           `json:"system_prompt"`
	UserContext    *string           `json:"user_context"`
	Variables      map[string]string `json:"variables,omitempty" doc:"Values of the dataset's other columns, by column name"`
}

func newItem(i db.Item, variableNames []string) Item {
	described := Item{
		turn: turn{i.Series, i.Turn}, QuestionID: i.QuestionID, Question: i.Question, StandardAnswer: i.StandardAnswer,
		SystemPrompt: i.SystemPrompt, UserContext: i.UserContext,
	}
	if len(i.Variables) > 0 {
		described.Variables = make(map[string]string, len(i.Variables))
	}
	for n, value := range i.Variables[:min(len(i.Variables), len(variableNames))] {
		described.Variables[variableNames[n]] = value
	}
	return described
}

// Likeness describes how alike the answers to a question are; null until all its runs have ended.
type Likeness struct {
	Number     int            `json:"number" doc:"Position of the question on the task's pages, from 1" example:"1"`
	Level      *measure.Level `json:"level" example:"wording"`
	Agreement  *float64       `json:"agreement" doc:"Share of pairs of runs with equal answers; null with one run or if a run is missing" example:"0.4"`
	Similarity *float64       `json:"similarity" doc:"Mean over pairs of answers of 1 − edit distance / length of the longer answer" example:"0.93"`
	Distinct   *int           `json:"distinct" doc:"Number of distinct answers" example:"3"`
	Letters    *string        `json:"letters" doc:"One letter per run, the same for equal answers; A is the most common answer, - a run without an answer" example:"ABBBC"`
	Novelty    *float64       `json:"novelty" doc:"Estimated chance that one more run gives a new answer: answers given once / answered runs (Good–Turing). If meanings are known, they count instead of answers; null without answered runs" example:"0.4"`
	FactsOfAnswers
}

// ItemMeaning says which answers to a question mean the same, over all variants.
type ItemMeaning struct {
	Groups [][][2]int `json:"groups" nullable:"false" doc:"Groups of answers that say the same thing, largest first, each answer as [variant, run_index]" example:"[[[1, 1], [1, 3]], [[1, 2]]]"`
	Unsure [][2]int   `json:"unsure" nullable:"false" doc:"The answers whose group is not certain"`
	meaning.Meaning
}

// newItemMeaning returns the groups of answers to a question over all variants; nil while those of a variant are
// unknown.
func newItemMeaning(q report.Question) *ItemMeaning {
	notes, by := q.Notes(), meaning.Equal
	all := &ItemMeaning{Groups: make([][][2]int, len(notes)), Unsure: [][2]int{}}
	for _, variant := range q.Variants {
		one, groups := variant.Known.OfVariant(notes)
		if one == nil {
			return nil
		}
		isUnsure := all.IsUnsure || one.IsUnsure
		if by == meaning.Equal || one.By == meaning.Person {
			by = one.By
		}
		all.Meaning = one.Meaning
		all.By, all.IsUnsure, all.Notes = by, isUnsure, append([]string{}, notes...)
		for n, group := range groups {
			for _, run := range one.Groups[n] {
				all.Groups[group] = append(all.Groups[group], [2]int{variant.Variant, run})
			}
		}
		for _, run := range one.Unsure {
			all.Unsure = append(all.Unsure, [2]int{variant.Variant, run})
		}
	}
	if len(q.Variants) == 0 {
		return nil
	}
	return all
}

// FactsOfAnswers lists the facts on which the answers to a question differ.
type FactsOfAnswers struct {
	FactsDiffer *facts.Differ  `json:"facts_differ" doc:"conflict: two answers contradict each other on a fact; omission: only some answers state a fact; none: neither; null with fewer than two answers" example:"conflict"`
	Facts       []measure.Fact `json:"facts" nullable:"false" doc:"The facts on which the answers differ, conflicts first"`
	// Expected are the facts of the standard answer that answers contradict.
	Expected []measure.ExpectedFact `json:"expected_facts" nullable:"false" doc:"Facts of the standard answer that some answers contradict"`
}

func newFacts(differ *facts.Differ, stated []measure.Fact, expected []measure.ExpectedFact) FactsOfAnswers {
	if stated == nil {
		stated = []measure.Fact{}
	}
	if expected == nil {
		expected = []measure.ExpectedFact{}
	}
	return FactsOfAnswers{differ, stated, expected}
}

// newLikeness returns the likeness of the answers to a question. With several variants, each variant has a likeness of
// its own, and here only Number is set.
func newLikeness(q report.Question, variants int) Likeness {
	if variants > 1 {
		return Likeness{Number: q.Number, FactsOfAnswers: newFacts(nil, nil, nil)}
	}
	one := q.Likeness(1)
	return Likeness{
		Number: q.Number, Level: one.Level, Agreement: one.Agreement, Similarity: one.Similarity, Distinct: one.Answers,
		Letters: one.Letters, Novelty: one.Novelty(),
		FactsOfAnswers: newFacts(one.FactsDiffer, one.Facts, one.Expected),
	}
}

// VariantLikeness describes how alike the answers of one variant to a question are. Equal answers have the same letter
// in all variants.
type VariantLikeness struct {
	Number     int              `json:"number" doc:"Number of the variant" example:"1"`
	Level      *measure.Level   `json:"level" example:"wording"`
	Agreement  *float64         `json:"agreement" doc:"Share of pairs of runs with equal answers; null with one run or if a run is missing" example:"0.4"`
	Similarity *float64         `json:"similarity" doc:"Mean over pairs of answers of 1 − edit distance / length of the longer answer" example:"0.93"`
	Distinct   *int             `json:"distinct" doc:"Number of distinct answers" example:"3"`
	Letters    *string          `json:"letters" doc:"One letter per run, the same for equal answers of all variants; - is a run without an answer" example:"ABBBC"`
	Consensus  measure.Interval `json:"consensus_interval" doc:"95 % interval of the share of runs that gave the most common answer; null if the agreement is unknown" example:"[0.566,1]"`
	Novelty    *float64         `json:"novelty" doc:"Estimated chance that one more run gives a new answer: answers given once / answered runs (Good–Turing). If meanings are known, they count instead of answers; null without answered runs" example:"0.4"`
	FactsOfAnswers
	PassShare *float64                `json:"pass_share" doc:"Share of the judged runs that passed; null without evaluators"`
	PassRange measure.Interval        `json:"pass_interval" doc:"95 % interval of pass_share: five passes of five prove no more than 57 %" example:"[0.566,1]"`
	Meaning   *meaning.VariantMeaning `json:"meaning" doc:"The groups of answers that say the same thing; null while they are unknown"`
}

func newVariantLikeness(q report.Question, variants []db.Variant, passes map[int]report.Passes) []VariantLikeness {
	list, notes := make([]VariantLikeness, len(variants)), q.Notes()
	for n, variant := range variants {
		one := q.Likeness(variant.Number)
		said, _ := one.Known.OfVariant(notes)
		list[n] = VariantLikeness{
			variant.Number, one.Level, one.Agreement, one.Similarity, one.Answers, one.Letters, one.ConsensusInterval(),
			one.Novelty(), newFacts(one.FactsDiffer, one.Facts, one.Expected), nil, nil, said,
		}
		if judged, isJudged := passes[variant.Number]; isJudged {
			share := judged.Share()
			list[n].PassShare, list[n].PassRange = &share, judged.Interval()
		}
	}
	return list
}

// itemWithRuns is a question with all its answers.
type itemWithRuns struct {
	Item
	Likeness
	Meaning  *ItemMeaning      `json:"meaning" doc:"The groups of answers that say the same thing, over all variants; null while they are unknown"`
	Variants []VariantLikeness `json:"variants"`
	Runs     []Run             `json:"runs" doc:"One per variant and run_index, in that order"`
}

// resultsTask is the part of a task that results contain.
type resultsTask struct {
	Created
	TaskName       string `json:"task_name" example:"A模型V1.2稳定性测试"`
	RunsPerItem    int    `json:"runs_per_item" example:"5"`
	TimeoutSeconds int    `json:"timeout_seconds" example:"30"`
}

// results is a page of a task's answers.
type results struct {
	Task       resultsTask     `json:"task"`
	IsFinal    bool            `json:"is_final" doc:"False while a later launch is active, so that results may still change"`
	Items      []itemWithRuns  `json:"items" doc:"Ordered by question_id; the turns of a conversation follow one another"`
	Pagination rest.Pagination `json:"pagination"`
}

// FilterQuery holds the query parameters that select questions of a task.
type FilterQuery struct {
	QuestionID string   `query:"question_id" doc:"Only the question with this id" example:"q1"`
	Variant    int      `query:"variant" minimum:"1" maximum:"20" doc:"Only runs of the variant with this number" example:"2"`
	Status     []string `query:"status,explode" doc:"Only questions with a run in one of these states; repeatable or comma-separated" example:"FAILED"`
	Finish     []string `query:"finish_reason,explode" doc:"Only questions with a run that ended for one of these reasons: stop, length, content_filter, refusal, tool_calls; repeatable or comma-separated" example:"length"`
	ErrorCode  []string `query:"error_code,explode" doc:"Only questions with a run that ended with one of these error codes; repeatable or comma-separated" example:"REFUSED"`
	TraceID    string   `query:"trace_id" doc:"Only questions with a run that has this trace_id or agent_trace_id" example:"4bf92f3577b34da6a3ce929d0e0e4736"`
	Level      []string `query:"level,explode" doc:"Only questions at one of these levels in at least one variant; repeatable or comma-separated" example:"facts"`
	Facts      []string `query:"facts,explode" doc:"Only questions whose answers differ in their facts in one of these ways: conflict, omission, none; repeatable or comma-separated" example:"conflict"`
	Unstable   bool     `query:"unstable" doc:"Only questions to which a variant gave more than one distinct answer"`
	Passed     string   `query:"passed" enum:"true,false" doc:"true: only questions with a run that passed; false: only questions with a run that did not pass" example:"false"`
	Evaluator  string   `query:"evaluator" doc:"Id of one of the task's evaluators; passed, min_score and max_score then refer to it alone; without them, only questions on which it reached a verdict"`
	MinScore   string   `query:"min_score" doc:"Only questions with a run that has at least this score, 0–1" example:"0.5"`
	MaxScore   string   `query:"max_score" doc:"Only questions with a run that has at most this score, 0–1" example:"1"`
	SlicingQuery
}

// isSet reports whether the query selects only some of the questions.
func (q *FilterQuery) isSet() bool {
	return q.QuestionID+q.TraceID+q.Passed+q.Evaluator+q.MinScore+q.MaxScore != "" || q.Variant != 0 || q.Unstable ||
		len(q.Status)+len(q.Finish)+len(q.ErrorCode)+len(q.Level)+len(q.Facts) > 0 || request.HasSlice(q.values)
}

type resultsInput struct {
	TaskPath
	rest.PageQuery
	FilterQuery
	Sort    string `query:"sort" doc:"question_id, risk (contradicting facts first), agreement, pass_rate or latency; prefix with - for descending order" example:"-agreement"`
	Partial bool   `query:"partial" doc:"1 also returns results before the first launch has ended: the questions whose runs have all ended"`
}

// filter returns the filter that the query describes, or the fault of an invalid parameter.
func (q *FilterQuery) filter(task db.Task) (report.Filter, error) {
	filter := report.Filter{
		QuestionID: request.SearchText(q.QuestionID), OnlyAssessed: !task.HasResults, Variant: q.Variant,
		Unstable: q.Unstable, TraceID: request.SearchText(q.TraceID),
	}
	if err := request.HasVariant(task, q.Variant); err != nil {
		return filter, err
	}
	for _, name := range listed(q.Status) {
		if !slices.Contains(db.RunStatuses, db.RunStatus(name)) {
			return filter, request.ParameterFault("status", request.OneOf("SUCCEEDED", "FAILED", "TIMEOUT", "STOPPED"))
		}
		filter.Statuses = append(filter.Statuses, db.RunStatus(name))
	}
	for _, name := range listed(q.Level) {
		if !slices.Contains(measure.Levels, measure.Level(name)) {
			return filter, request.ParameterFault("level", request.OneOf(names(measure.Levels)...))
		}
		filter.Levels = append(filter.Levels, measure.Level(name))
	}
	for _, name := range listed(q.Facts) {
		if !slices.Contains(facts.Differs, facts.Differ(name)) {
			return filter, request.ParameterFault("facts", request.OneOf(names(facts.Differs)...))
		}
		filter.Facts = append(filter.Facts, facts.Differ(name))
	}
	filter.ErrorCodes = listed(q.ErrorCode)
	filter.FinishReasons = listed(q.Finish)
	for _, reason := range filter.FinishReasons {
		if !slices.Contains(protocol.Finishes, reason) {
			return filter, request.ParameterFault("finish_reason", request.OneOf(protocol.Finishes...))
		}
	}
	if err := q.verdicts(task, &filter); err != nil {
		return filter, err
	}
	var err error
	if filter.Slicing, err = q.slicing(task); err != nil {
		return filter, err
	}
	return filter, nil
}

// names converts values of a string type to strings.
func names[T ~string](values []T) []string {
	list := make([]string, len(values))
	for n, value := range values {
		list[n] = string(value)
	}
	return list
}

// listed returns the values of a parameter that may be repeated, and may contain several values separated by commas.
func listed(given []string) (values []string) {
	for _, list := range given {
		for value := range strings.SplitSeq(list, ",") {
			if value = strings.TrimSpace(value); value != "" {
				values = append(values, value)
			}
		}
	}
	return values
}

// verdicts adds the conditions on evaluators' verdicts to the filter, or returns the fault of an invalid parameter.
func (q *FilterQuery) verdicts(task db.Task, filter *report.Filter) error {
	if q.Passed != "" {
		passed := q.Passed == "true"
		filter.Passed = &passed
	}
	for name, of := range map[string]struct {
		text string
		to   **float64
	}{"min_score": {q.MinScore, &filter.MinScore}, "max_score": {q.MaxScore, &filter.MaxScore}} {
		if of.text == "" {
			continue
		}
		score, err := strconv.ParseFloat(of.text, 64)
		if err != nil || !(score >= 0 && score <= 1) {
			return request.ParameterFault(name, request.ValidRuleValue("share"))
		}
		*of.to = &score
	}
	if q.Evaluator == "" {
		return nil
	}
	at := slices.IndexFunc(task.Evaluators, func(e db.Evaluator) bool { return e.EvaluatorID.String() == q.Evaluator })
	if at < 0 {
		return request.ParameterFault("evaluator", request.ValidEntries())
	}
	filter.Evaluator = task.Evaluators[at].Number
	return nil
}

// getResults streams a page of results, one answer at a time, because a hundred questions with twenty answers of
// several megabytes each would not fit into memory.
func (h *handler) getResults(ctx context.Context, input *resultsInput) (*huma.StreamResponse, error) {
	task, err := h.resultsTask(ctx, input.TaskID, input.Partial)
	if err != nil {
		return nil, err
	}
	filter, err := input.filter(task)
	if err != nil {
		return nil, err
	}
	filter.Sort = input.Sort
	if !slices.Contains(report.Sorts, strings.TrimPrefix(cmp.Or(input.Sort, "question_id"), "-")) {
		return nil, request.ParameterFault("sort", request.OneOf(report.Sorts...))
	}
	items, total, err := report.New(h.Store).Items(ctx, task.ID, filter, input.Window())
	if err != nil {
		return nil, err
	}
	ids := make([]int64, len(items))
	for n, item := range items {
		ids[n] = item.ID
	}
	questions, err := report.New(h.Store).Questions(ctx, task.ID, ids)
	if err != nil {
		return nil, err
	}
	var passes map[int64]map[int]report.Passes
	if len(task.Evaluators) > 0 {
		if passes, err = report.New(h.Store).Passes(ctx, ids); err != nil {
			return nil, err
		}
	}
	planned, err := h.Store.PlannedRuns(ctx, task)
	if err != nil {
		return nil, err
	}
	return rest.Stream(h.Failed, func(ctx huma.Context) error {
		c := humaecho.Unwrap(ctx)
		c.Response().Header().Set("Content-Type", "application/json")
		c.Response().WriteHeader(http.StatusOK)
		stream := rest.NewStreamWriter(c.Response())
		stream.Text(`{"task":`)
		stream.Value(resultsTask{newCreated(task), task.Name, task.RunsPerItem, task.TimeoutSeconds})
		stream.Text(`,"is_final":`)
		stream.Value(!task.Status.IsActive())
		stream.Text(`,"items":[`)
		for n, item := range items {
			if n > 0 {
				stream.Text(",")
			}
			one := streamedItem{item, questions[item.ID], passes[item.ID], task.WithMissing(item.ID, nil, planned)}
			if err := h.streamItem(ctx.Context(), stream, one, task, input.Variant); err != nil {
				return err
			}
		}
		stream.Text(`],"pagination":`)
		stream.Value(rest.NewPagination(input.Window(), total))
		stream.Text("}\n")
		return stream.Err()
	}), nil
}

// streamedItem is a question to be written to a page of results.
type streamedItem struct {
	db.Item
	question report.Question
	// passes counts the runs that passed, by the number of the variant.
	passes map[int]report.Passes
	// due contains a run for each planned run of the question, to be written if that run never took place.
	due []db.Run
}

// streamItem writes a question with its runs or, if variant is not 0, only that variant's. Planned runs that never took
// place are taken from i.due.
func (h *handler) streamItem(ctx context.Context, stream *rest.StreamWriter, i streamedItem, task db.Task,
	variant int) error {
	stream.Open(struct {
		Item
		Likeness
		Meaning  *ItemMeaning      `json:"meaning"`
		Variants []VariantLikeness `json:"variants"`
	}{newItem(i.Item, task.VariableNames), newLikeness(i.question, task.TotalVariants), newItemMeaning(i.question),
		newVariantLikeness(i.question, task.Variants, i.passes)})
	stream.Text(`,"runs":[`)
	place, isFirst := 0, true // place counts the planned runs up to the present one
	write := func(r db.Run) {
		if place++; variant != 0 && r.Variant != variant {
			return
		}
		if !isFirst {
			stream.Text(",")
		}
		isFirst = false
		stream.Value(newRun(ctx, r, task, turn{i.Series, i.Turn}))
	}
	err := report.New(h.Store).EachCurrentRun(ctx, i.ID, func(r db.Run) error {
		for place < len(i.due) && (i.due[place].Variant < r.Variant || i.due[place].Variant == r.Variant &&
			i.due[place].RunIndex < r.RunIndex) {
			write(i.due[place])
		}
		write(r)
		return stream.Err()
	})
	for place < len(i.due) {
		write(i.due[place])
	}
	stream.Text("]}")
	return err
}

// RunPath holds the path parameters with the ids of a run and its task.
type RunPath struct {
	TaskPath
	RunID string `path:"run_id" doc:"Id of the run" example:"4711"`
}

// runInput is the request that was sent for a run.
type runInput struct {
	RunID      int64           `json:"run_id" example:"4711"`
	QuestionID string          `json:"question_id" example:"q1"`
	Variant    int             `json:"variant" example:"1"`
	RunIndex   int             `json:"run_index" example:"1"`
	Protocol   string          `json:"protocol" example:"openai"`
	URL        string          `json:"url" doc:"Address without its query, which may contain a secret" example:"https://api.openai.com/v1/chat/completions"`
	Body       json.RawMessage `json:"body" doc:"The JSON object that was sent"`
	TraceID    *string         `json:"trace_id" doc:"W3C trace id that the calls carried in traceparent; null if no call was made" example:"4bf92f3577b34da6a3ce929d0e0e4736"`
	// AgentTraceID is not part of the request, but is needed together with TraceID.
	AgentTraceID *string `json:"agent_trace_id" doc:"The agent's own id for the last call; null if it named none" example:"20261126-7f3a"`
	// OmitsPayload reports that Body is not complete.
	OmitsPayload bool `json:"omits_extra_payload" doc:"True if the extra payload of a typed URL, which may be secret, was left out of the body"`
}

type runInputOutput struct{ Body runInput }

func (h *handler) registerRunInput(api huma.API) {
	rest.Register(api, h.Failed, rest.Endpoint{
		Method: http.MethodGet, Path: tasksPath + "/{task_id}/runs/{run_id}/input", ID: "get-run-input", Tag: "tasks",
		Summary:     "Get the request that was sent for one run",
		Description: "Headers and other parts that may be secret are left out.",
		Faults:      []string{request.CodeTaskNotFound, request.CodeRunNotFound},
	}, func(ctx context.Context, input *RunPath) (*runInputOutput, error) {
		task, err := request.Task(ctx, h.Store, input.TaskID)
		if err != nil {
			return nil, err
		}
		id, err := request.RunID(input.RunID)
		if err != nil {
			return nil, err
		}
		run, err := report.New(h.Store).Run(ctx, task.ID, id, 0)
		if err != nil {
			return nil, err
		}
		sent, err := h.Tasks.Input(ctx, task, run)
		return &runInputOutput{runInput{run.ID, run.QuestionID, run.Variant, run.RunIndex, sent.Protocol, sent.URL, sent.Body,
			run.TraceID, run.AgentTraceID, sent.OmitsPayload}}, err
	})
}
