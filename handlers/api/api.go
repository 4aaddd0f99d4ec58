// Package api implements the endpoints under /api/v1: typed requests and responses, from which the OpenAPI
// document is generated.
package api

import (
	"context"
	"log/slog"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humaecho"
	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"wending/db"
	"wending/db/report"
	"wending/handlers/form"
	"wending/handlers/library"
	"wending/handlers/people"
	"wending/handlers/replay"
	"wending/handlers/request"
	"wending/handlers/rest"
	"wending/handlers/transfer"
	saved "wending/jobs/library"
	"wending/jobs/tasks"
	"wending/views/paths"
)

// Config holds the dependencies of the API.
type Config struct {
	Store    *db.Store
	Tasks    *tasks.Service
	Library  *saved.Service
	Progress *rest.Hub[uuid.UUID, report.Progress]
	// Defaults are the settings of a task whose creator does not set them.
	Defaults tasks.Settings
	Check    form.Check
	Transfer transfer.Config
	Replay   replay.Config
	Gallery  replay.FilesConfig
	People   people.Config
	// Closing is closed when the server shuts down and streams must end; nil means never.
	Closing <-chan struct{}
	// Failed logs and reports an internal error.
	Failed rest.Failed
	Log    *slog.Logger
}

// progressWatcher follows the progress of one task.
type progressWatcher = rest.Watcher[uuid.UUID, report.Progress]

// handler implements the endpoints.
type handler struct {
	Config
}

// Register adds the endpoints to the groups: those that stream to plain, and all others to compressed. It returns their
// OpenAPI document.
func Register(e *echo.Echo, compressed, plain *echo.Group, config Config) *huma.OpenAPI {
	rest.InstallErrors()
	h := &handler{Config: config}
	document := newDocument()
	whole := humaecho.NewWithGroup(e, compressed, apiConfig(document))
	stream := humaecho.NewWithGroup(e, plain, apiConfig(document))
	h.registerTasks(whole)
	h.registerActions(whole)
	h.registerItems(whole)
	h.registerLaunches(whole)
	h.registerRunInput(whole)
	h.registerReviews(whole)
	h.registerSamples(whole)
	h.registerMeaning(whole)
	h.registerCarry(whole)
	h.registerComparison(whole)
	h.registerConfirm(whole)
	h.registerFacts(whole)
	h.registerStreams(stream)
	h.registerComparisonExport(stream)
	replay.RegisterAPI(whole, stream, h.Replay)
	replay.RegisterFilesAPI(whole, stream, h.Gallery)
	transfer.RegisterAPI(stream, h.Transfer)
	people.RegisterAPI(whole, h.People)
	library.RegisterAPI(whole, stream, library.Config{Library: h.Library, Check: h.Check, Failed: h.Failed})
	for _, unused := range []string{"ErrorModel", "ErrorDetail"} { // huma's own schemas, which no response uses
		delete(document.Components.Schemas.Map(), unused)
	}
	rest.CompleteSchemas(document.Components.Schemas, enums()...)
	return document
}

func newDocument() *huma.OpenAPI {
	return &huma.OpenAPI{
		OpenAPI: "3.1.0",
		Info: &huma.Info{
			Title: "Wending", Version: "1",
			Description: "Measures how stable an LLM agent's answers are. Times are RFC 3339 in +08:00. Every error is `{code, message}`, with " +
				"`details` for rows of a dataset; messages are in the language of the `lang` cookie. HEAD is answered like GET, without a body; OPTIONS is answered with 204 " +
				"and `Allow`; a 405 also has `Allow`.",
		},
		Servers: []*huma.Server{{URL: "/", Description: "This server"}},
		Tags: []*huma.Tag{{Name: "tasks", Description: "Tasks and their results"},
			{Name: "launches", Description: "The history of a task's launches"},
			{Name: "reviews", Description: "People's verdicts"}, {Name: "comparison", Description: "Two tasks side by side"},
			{Name: "library",
				Description: "Objects saved for use in tasks: providers, models, agents, prompts, datasets, evaluators, channels " +
					"and schedules"}, {Name: "people", Description: "Accounts, projects, tokens, links and the audit log"}},
		Components: &huma.Components{Schemas: huma.NewMapRegistry("#/components/schemas/", huma.DefaultSchemaNamer),
			SecuritySchemes: map[string]*huma.SecurityScheme{
				"token": {Type: "http", Scheme: "bearer", BearerFormat: "wnd_…",
					Description: "A token of a project. `X-Wending-Project` or `?project=` with an id or a name selects another project that the caller is in."},
			}},
		// Without accounts (AUTH=off) no credentials are required.
		Security: []map[string][]string{{"token": {}}, {}},
	}
}

func apiConfig(document *huma.OpenAPI) huma.Config {
	return huma.Config{
		OpenAPI: document, DefaultFormat: "application/json",
		Formats: map[string]huma.Format{"application/json": huma.DefaultJSONFormat, "json": huma.DefaultJSONFormat},
	}
}

// tasksPath is the path of the list of tasks.
const tasksPath = paths.APITasks

// resultsTask is like request.Task, but returns TASK_NOT_FINISHED if the task has no results yet, unless isPartial is
// true.
func (h *handler) resultsTask(ctx context.Context, id string, isPartial bool) (db.Task, error) {
	task, err := request.Task(ctx, h.Store, id)
	if err == nil && !task.HasResults && !isPartial {
		err = request.NewFault(request.CodeTaskNotFinished)
	}
	return task, err
}

// TaskPath is the path parameter with a task's id.
type TaskPath struct {
	TaskID string `path:"task_id" doc:"Id of the task" example:"6f0d3c1e-2b7a-4c55-9a60-0f4b8f6a1d21"`
}
