package api

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humaecho"

	"wending/db"
	"wending/db/report"
	"wending/handlers/live"
	"wending/handlers/request"
	"wending/jobs/stability"
)

// Run is one answer. One that never took place is STOPPED, with null everywhere else but run_index.
type Run struct {
	RunID        *int64       `json:"run_id" doc:"/runs/{run_id} has the exact text; null if the run never took place" example:"4711"`
	UnitID       *int64       `json:"unit_id" example:"4708"`
	RunIndex     int          `json:"run_index" doc:"1, 2, 3 …" example:"1"`
	Status       db.RunStatus `json:"status" enum:"SUCCEEDED,FAILED,TIMEOUT,STOPPED" example:"SUCCEEDED"`
	ResponseBody *string      `json:"response_body" example:"北京"`
	Reasoning    *string      `json:"reasoning"`
	LatencyMS    *int         `json:"latency_ms" doc:"Of the last attempt" example:"812"`
	Attempts     *int         `json:"attempts" example:"1"`
	ErrorCode    *string      `json:"error_code" example:"HTTP_502"`
	ErrorMessage *string      `json:"error_message"`
	CreatedAt    *moment      `json:"created_at"`
}

func newRun(r db.Run) Run {
	if r.Status == db.RunStopped {
		return Run{RunIndex: r.RunIndex, Status: r.Status}
	}
	return Run{
		RunID: &r.ID, UnitID: &r.UnitID, RunIndex: r.RunIndex, Status: r.Status, ResponseBody: r.Response, Reasoning: r.Reasoning,
		LatencyMS: r.LatencyMS, Attempts: &r.Attempts, ErrorCode: r.ErrorCode, ErrorMessage: r.ErrorMessage, CreatedAt: momentOf(&r.CreatedAt),
	}
}

// Item is one question.
type Item struct {
	QuestionID     string            `json:"question_id" example:"q1"`
	Question       string            `json:"question" example:"中国的首都是哪里？"`
	StandardAnswer string            `json:"standard_answer" example:"北京"`
	SystemPrompt   *string           `json:"system_prompt"`
	UserContext    *string           `json:"user_context"`
	Variables      map[string]string `json:"variables,omitempty" doc:"The dataset's further columns"`
}

func newItem(i db.Item, variableNames []string) Item {
	described := Item{
		QuestionID: i.QuestionID, Question: i.Question, StandardAnswer: i.StandardAnswer, SystemPrompt: i.SystemPrompt, UserContext: i.UserContext,
	}
	if len(i.Variables) > 0 {
		described.Variables = make(map[string]string, len(i.Variables))
	}
	for n, value := range i.Variables[:min(len(i.Variables), len(variableNames))] {
		described.Variables[variableNames[n]] = value
	}
	return described
}

// Likeness says how alike the answers to a question are; null until all its runs have ended.
type Likeness struct {
	Number     int              `json:"number" doc:"1, 2, 3 …: the question's place on the pages" example:"1"`
	Level      *stability.Level `json:"level" enum:"identical,format_only,wording,different,empty,unknown" example:"wording"`
	Agreement  *float64         `json:"agreement" doc:"Share of pairs of runs that gave equal answers; null with one run, or where a run is missing" example:"0.4"`
	Similarity *float64         `json:"similarity" doc:"Mean over pairs of answers of 1 − edit distance / length of the longer" example:"0.93"`
	Distinct   *int             `json:"distinct" doc:"Number of different answers" example:"3"`
	Letters    *string          `json:"letters" doc:"One per run: equal answers have the same letter, A the most common; - is a run without an answer" example:"ABBBC"`
}

func newLikeness(q report.Question) Likeness {
	return Likeness{Number: q.Number, Level: q.Level, Agreement: q.Agreement, Similarity: q.Similarity, Distinct: q.Answers, Letters: q.Letters}
}

// itemWithRuns is a question with its answers.
type itemWithRuns struct {
	Item
	Likeness
	Runs []Run `json:"runs" doc:"One per run_index, in order"`
}

// resultsTask is what results say of their task.
type resultsTask struct {
	Created
	TaskName       string `json:"task_name" example:"A模型V1.2稳定性测试"`
	RunsPerItem    int    `json:"runs_per_item" example:"5"`
	TimeoutSeconds int    `json:"timeout_seconds" example:"30"`
}

// results are a page of a task's answers.
type results struct {
	Task       resultsTask    `json:"task"`
	IsFinal    bool           `json:"is_final" doc:"False while a later launch is active, so that results may still change"`
	Items      []itemWithRuns `json:"items" doc:"Ordered by question_id"`
	Pagination pagination     `json:"pagination"`
}

type resultsInput struct {
	TaskPath
	PageQuery
	QuestionID string `query:"question_id" doc:"Only the question with this id" example:"q1"`
	Partial    bool   `query:"partial" doc:"1: before the first launch has ended, the questions whose runs have all ended"`
}

// getResults streams a page of results, one answer at a time: a hundred questions with twenty answers of megabytes
// would not fit into memory.
func (h *handler) getResults(ctx context.Context, input *resultsInput) (*huma.StreamResponse, error) {
	task, err := h.resultsTask(ctx, input.TaskID, input.Partial)
	if err != nil {
		return nil, err
	}
	items, total, err := report.New(h.Store).Items(ctx, task.ID, request.SearchText(input.QuestionID), !task.HasResults, input.page())
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
	return h.stream(func(ctx huma.Context) error {
		c := humaecho.Unwrap(ctx)
		c.Response().Header().Set("Content-Type", "application/json")
		c.Response().WriteHeader(http.StatusOK)
		stream := live.NewStream(c.Response())
		head := results{Task: resultsTask{newCreated(task), task.Name, task.RunsPerItem, task.TimeoutSeconds}, IsFinal: !task.Status.IsActive()}
		stream.Text(`{"task":`)
		stream.Value(head.Task)
		stream.Text(`,"is_final":`)
		stream.Value(head.IsFinal)
		stream.Text(`,"items":[`)
		for n, item := range items {
			if n > 0 {
				stream.Text(",")
			}
			if err := h.streamItem(ctx.Context(), stream, task, item, questions[item.ID]); err != nil {
				return err
			}
		}
		stream.Text(`],"pagination":`)
		stream.Value(newPagination(input.page(), total))
		stream.Text("}\n")
		return stream.Err()
	}), nil
}

// streamItem writes a question with its runs. Runs that never took place fill the gaps.
func (h *handler) streamItem(ctx context.Context, stream *live.Stream, task db.Task, i db.Item, q report.Question) error {
	stream.Open(struct {
		Item
		Likeness
	}{newItem(i, task.VariableNames), newLikeness(q)})
	stream.Text(`,"runs":[`)
	index := 0
	write := func(r db.Run) {
		if index++; index > 1 {
			stream.Text(",")
		}
		stream.Value(newRun(r))
	}
	fillTo := func(end int) {
		for index+1 < end {
			write(db.Run{RunIndex: index + 1, Status: db.RunStopped})
		}
	}
	err := report.New(h.Store).EachCurrentRun(ctx, i.ID, func(r db.Run) error {
		fillTo(r.RunIndex)
		write(r)
		return stream.Err()
	})
	fillTo(task.RunsPerItem + 1)
	stream.Text("]}")
	return err
}

// RunPath is the ids of a run and its task in a path.
type RunPath struct {
	TaskPath
	RunID string `path:"run_id" doc:"Id of the run" example:"4711"`
}

type runTextOutput struct {
	ContentType string `header:"Content-Type"`
	Policy      string `header:"Content-Security-Policy"`
	Body        []byte
}
