// Package create implements the forms that create tasks: for one agent, for a comparison of prompts, models and agents,
// and from a file of answers.
package create

import (
	"context"

	"github.com/labstack/echo/v4"

	"wending/db"
	"wending/db/report"
	"wending/handlers/form"
	"wending/handlers/pages"
	saved "wending/jobs/library"
	"wending/jobs/tasks"
	"wending/views/paths"
)

// Config holds the dependencies of the forms.
type Config struct {
	Store     *db.Store
	Tasks     *tasks.Service
	Staging   form.Staging
	Library   *saved.Service
	Keeper    form.Keeper
	Questions pages.Questions
	Check     form.Check
	// Defaults are the settings of a task whose creator does not set them.
	Defaults tasks.Settings
	// DemoURL is the demo agent's address, DemoModelsURL is the base URL of the models that it imitates, and DemoTicket is
	// the ticket that lets the demo's tasks call them. All are empty if no demo agent is running.
	DemoURL, DemoModelsURL, DemoTicket string
	Version                            string
	// Failed logs and reports an internal error.
	Failed func(ctx context.Context, err error)
}

// Forms implements the forms that create tasks.
type Forms struct {
	Config
	monitor report.Monitor
}

// Register registers the forms in the group compressed.
func Register(compressed *echo.Group, config Config) *Forms {
	h := &Forms{config, report.NewMonitor(config.Store)}
	compressed.GET(paths.Create, h.newTask)
	compressed.GET(paths.NewComparison, h.newTask)
	compressed.POST(paths.EstimateComparison, h.estimateComparison)
	compressed.POST(paths.Tasks, h.createTask)
	compressed.POST(paths.Preview, h.previewDataset)
	compressed.GET(paths.ImportAnswers, h.answersForm)
	compressed.POST(paths.ImportAnswers, h.importAnswers)
	compressed.POST(paths.PreviewAnswers, h.previewAnswers)
	compressed.GET(paths.DatasetTemplate, pages.DatasetTemplate)
	compressed.POST(paths.Probe, h.probeAgent)
	compressed.POST(paths.SaveAgent, h.saveTypedAgent)
	compressed.POST(paths.Language, h.switchLanguage)
	compressed.POST(paths.Demo, h.startDemo)
	compressed.POST(paths.DemoComparison, h.startDemoComparison)
	compressed.POST("/tasks/:taskId/agent", h.saveAgentOf)
	return h
}

// switchLanguage stores the chosen language, and shows the form in it with all values that were typed.
func (h *Forms) switchLanguage(c echo.Context) error {
	submitted, err := form.Read(c.Response(), c.Request(), pages.Gates(c).Files)
	if err != nil {
		return err
	}
	if err := pages.SwitchLanguage(c, submitted.Values["lang"]); err != nil {
		return err
	}
	return h.showForm(c, submitted, nil)
}
