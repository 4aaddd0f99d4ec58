package tools

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strconv"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"wending/views/paths"
)

// inProject holds the argument that all tools have.
type inProject struct {
	Project string `json:"project,omitempty" jsonschema:"id or name of the project; absent means the token's own"`
}

// ofTask holds the arguments of tools about one task.
type ofTask struct {
	inProject
	TaskID string `json:"task_id" jsonschema:"id of the task"`
}

type listInput struct {
	inProject
	Query    string `json:"query,omitempty" jsonschema:"only tasks whose name contains this"`
	Status   string `json:"status,omitempty" jsonschema:"only tasks in one of these states, comma-separated: PENDING, RUNNING, SUCCEEDED, FAILED, STOPPED"`
	Page     int    `json:"page,omitempty" jsonschema:"page number, from 1"`
	PageSize int    `json:"page_size,omitempty" jsonschema:"tasks per page, 1 to 50; default 20"`
}

type startInput struct {
	inProject
	TaskID string         `json:"task_id,omitempty" jsonschema:"id of a draft to start; leave it out to create a task"`
	Task   map[string]any `json:"task,omitempty" jsonschema:"a task to create and start: the JSON body of POST /api/v1/evaluation-tasks, such as {task_name, agents: [id], prompts: [id], evaluators: [id], dataset: id, runs_per_item}"`
}

// add adds all tools to a server.
func (c client) add(server *mcp.Server) {
	add(server, "list_tasks", "List evaluation tasks, newest first.", true, c.listTasks)
	add(server, "get_task", "Get a task's settings, variants, progress and statistics.", true, c.getTask)
	add(server, "get_report", "Get the numbers of a task's report: agreement, pass rates and latency of each variant "+
		"with intervals, and the results of each evaluator.", true, c.getReport)
	add(server, "worst_questions", "List the questions of a task in the order in which people should look at them: "+
		"contradicting facts first. Each comes with its level, agreement and the facts on which its answers differ.", true,
		c.worstQuestions)
	add(server, "read_answers", "Read the answers to a task's questions, with their evaluation results.", true,
		c.readAnswers)
	add(server, "compare", "Compare two tasks, or two variants, on the questions that both have, and list the questions "+
		"that became worse or changed, the most serious first.", true, c.compare)
	add(server, "start_task", "Start a draft, or create a task and start it. This calls agents and models, which may "+
		"cost money. It needs the role of an editor.", false, c.startTask)
}

// add adds one tool to a server. Errors of the API become errors of the tool, with the API's code and message.
func add[In any](server *mcp.Server, name, description string, isReading bool,
	handle func(context.Context, In) (any, error)) {
	isOpen, isDestructive := true, false
	tool := &mcp.Tool{Name: name, Description: description, Annotations: &mcp.ToolAnnotations{
		ReadOnlyHint: isReading, DestructiveHint: &isDestructive, OpenWorldHint: &isOpen,
	}}
	mcp.AddTool(server, tool, func(ctx context.Context, _ *mcp.CallToolRequest, input In) (*mcp.CallToolResult, any,
		error) {
		output, err := handle(ctx, input)
		if refused := (*refusal)(nil); errors.As(err, &refused) {
			return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: refused.Error()}}},
				refused, nil
		}
		return nil, output, err
	})
}

// paged adds the parameters for a page to a query, and returns the query. A size of 0 stands for the usual size; most
// is the maximum size.
func paged(query url.Values, page, size, usual, most int) url.Values {
	if page != 0 {
		query.Set("page", strconv.Itoa(page))
	}
	if size == 0 {
		size = usual
	}
	query.Set("page_size", strconv.Itoa(min(size, most)))
	return query
}

func (c client) listTasks(ctx context.Context, input listInput) (any, error) {
	query := url.Values{}
	if input.Query != "" {
		query.Set("query", input.Query)
	}
	if input.Status != "" {
		query.Set("status", input.Status)
	}
	var output map[string]any
	err := c.ask(ctx, call{method: http.MethodGet, path: paths.APITasks, project: input.Project,
		query: paged(query, input.Page, input.PageSize, 20, 50)}, &output)
	if err != nil {
		return nil, err
	}
	return marked(output), nil
}

func (c client) getTask(ctx context.Context, input ofTask) (any, error) {
	var output map[string]any
	err := c.ask(ctx, call{method: http.MethodGet, path: ofTasks(input.TaskID), project: input.Project},
		&output)
	if err != nil {
		return nil, err
	}
	return marked(output), nil
}

func (c client) getReport(ctx context.Context, input ofTask) (any, error) {
	var output map[string]any
	err := c.ask(ctx, call{method: http.MethodGet, path: ofTasks(input.TaskID, "statistics"),
		project: input.Project}, &output)
	if err != nil {
		return nil, err
	}
	return marked(output), nil
}

func (c client) startTask(ctx context.Context, input startInput) (any, error) {
	of := call{method: http.MethodPost, path: paths.APITasks, project: input.Project}
	if input.TaskID != "" {
		of.path = ofTasks(input.TaskID, "run")
	} else {
		if input.Task == nil { // the API's error names what is missing
			input.Task = map[string]any{}
		}
		var err error
		if of.body, err = json.Marshal(input.Task); err != nil {
			return nil, err
		}
	}
	var output map[string]any
	if err := c.ask(ctx, of, &output); err != nil {
		return nil, err
	}
	return marked(output), nil
}
