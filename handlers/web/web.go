// Package web implements the pages of tasks, reports and the system.
package web

import (
	"context"
	"log/slog"
	"net/http"
	"slices"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"wending/db"
	"wending/db/engine"
	"wending/db/people"
	"wending/db/report"
	"wending/db/review"
	"wending/handlers/form"
	"wending/handlers/library"
	"wending/handlers/pages"
	"wending/handlers/reading"
	"wending/handlers/request"
	"wending/handlers/web/create"
	saved "wending/jobs/library"
	"wending/jobs/tasks"
	"wending/views/paths"
	"wending/views/ui"
)

// Config holds the dependencies of the pages.
type Config struct {
	Store   *db.Store
	Tasks   *tasks.Service
	Staging form.Staging
	Library *saved.Service
	Keeper  form.Keeper
	Check   form.Check
	// Defaults are the settings of a task whose creator does not set them.
	Defaults tasks.Settings
	// DemoURL is the demo agent's address, DemoModelsURL is the base URL of the models that it imitates, and DemoTicket is
	// the ticket that lets the demo's tasks call them. All are empty if no demo agent is running.
	DemoURL, DemoModelsURL, DemoTicket string
	Version                            string
	// Failed logs and reports an internal error.
	Failed func(ctx context.Context, err error)
	Log    *slog.Logger
}

// Pages implements the pages of tasks, reports and the system.
type Pages struct {
	Config
	monitor   report.Monitor
	report    report.Report
	history   engine.History
	reviews   review.Reviews
	reader    reading.Reader
	assets    engine.Assets
	people    people.People
	questions pages.Questions
	forms     *create.Forms
}

// Register registers the pages in the group compressed, and the downloads in the group plain. It returns the pages,
// because they also show errors.
func Register(compressed, plain *echo.Group, config Config) *Pages {
	questions := pages.Questions{Staging: config.Staging, Log: config.Log}
	p := &Pages{
		config, report.NewMonitor(config.Store), report.New(config.Store), engine.NewHistory(config.Store),
		review.New(config.Store), reading.New(config.Store, config.Tasks.Assets),
		engine.NewAssets(config.Store),
		people.New(config.Store), questions,
		create.Register(compressed, create.Config{
			Store: config.Store, Tasks: config.Tasks, Staging: config.Staging, Library: config.Library,
			Keeper: config.Keeper, Questions: questions, Check: config.Check,
			Defaults: config.Defaults, DemoURL: config.DemoURL, DemoModelsURL: config.DemoModelsURL,
			DemoTicket: config.DemoTicket, Version: config.Version, Failed: config.Failed,
		}),
	}
	compressed.GET(paths.Tasks, p.listTasks)
	p.registerTask(compressed, plain)
	compressed.GET(paths.Comparison, p.compare)
	compressed.GET(paths.PrintComparison, p.printComparison)
	compressed.GET(paths.Workers, p.listWorkers)
	compressed.GET(paths.Help, p.showGuide)
	compressed.GET(paths.Help+"/:chapter", p.showChapter)
	compressed.GET(paths.TaskRows, p.taskRows)
	compressed.POST(paths.TaskColumns, p.saveColumns)
	compressed.GET(paths.TaskHistory, p.showHistory)
	compressed.POST(paths.Settings, p.saveSettings)
	library.RegisterPages(compressed, plain, library.Config{
		Library: config.Library, Questions: p.questions, Keeper: config.Keeper, Check: config.Check,
		HasDemo: config.DemoModelsURL != "", Version: config.Version, Failed: config.Failed,
	})
	return p
}

// registerTask registers the pages of a single task.
func (p *Pages) registerTask(compressed, plain *echo.Group) {
	compressed.GET("/tasks/:taskId", p.showTask)
	compressed.GET("/tasks/:taskId/settings", p.showSettings)
	compressed.GET("/tasks/:taskId/presence", p.showPresence)
	compressed.GET("/tasks/:taskId/launches", p.moved(launchesMoved))
	compressed.GET("/tasks/:taskId/results", p.showReport)
	compressed.GET("/tasks/:taskId/results/map", p.showMap)
	compressed.GET("/tasks/:taskId/results/print", p.printReport)
	plain.GET("/tasks/:taskId/results/export", p.exportShown)
	compressed.GET("/tasks/:taskId/results/:number", p.findQuestion)
	compressed.GET("/tasks/:taskId/results/:number/reviews", p.listVersions)
	compressed.GET("/tasks/:taskId/results/:number/meaning", p.showMeaning)
	compressed.POST("/tasks/:taskId/results/:number/meaning", p.regroup)
	compressed.GET("/tasks/:taskId/results/:number/standard", p.showStandard)
	compressed.POST("/tasks/:taskId/results/:number/standard", p.correctStandard)
	compressed.GET("/tasks/:taskId/news", p.news)
	compressed.GET("/tasks/:taskId/variants", p.showVariants)
	compressed.GET("/tasks/:taskId/report", p.showSummary)
	compressed.GET("/tasks/:taskId/review", p.showReview)
	compressed.GET("/tasks/:taskId/review/next", p.nextReview)
	compressed.GET("/tasks/:taskId/review/same", p.listSame)
	compressed.POST("/tasks/:taskId/review/same", p.passSame)
	compressed.POST("/tasks/:taskId/review/same/undo", p.undoSame)
	compressed.GET("/tasks/:taskId/review/carry", p.listCarriable)
	compressed.POST("/tasks/:taskId/review/carry", p.carryReviews)
	compressed.POST("/tasks/:taskId/review/carry/undo", p.undoCarry)
	compressed.POST("/tasks/:taskId/review/workbook", p.takeWorkbook)
	compressed.GET("/tasks/:taskId/review/:number", p.reviewQuestion)
	compressed.GET("/tasks/:taskId/sign-off", p.moved(signOffMoved))
	compressed.POST("/tasks/:taskId/sign-off", p.signOff)
	compressed.POST("/tasks/:taskId/ceiling", p.setCeiling)
	compressed.POST("/tasks/:taskId/samples", p.drawSample)
	compressed.GET("/tasks/:taskId/pairs", p.showPairs)
	compressed.POST("/tasks/:taskId/pairs", p.drawPairs)
	compressed.GET("/tasks/:taskId/pairs/next", p.nextPair)
	compressed.GET("/tasks/:taskId/pairs/:number", p.showBlindPair)
	compressed.POST("/tasks/:taskId/pairs/:number", p.judgePair)
	compressed.POST("/tasks/:taskId/assignments", p.assign)
	compressed.POST("/tasks/:taskId/review/settings", p.setReview)
	compressed.GET("/tasks/:taskId/runs/:runId", p.showRun)
	compressed.GET("/tasks/:taskId/live", p.liveTask)
	p.registerActions(compressed)
	compressed.POST("/tasks/:taskId/delete", p.deleteTask)
	plain.GET("/tasks/:taskId/runs/:runId/text", p.runText)
	plain.GET("/tasks/:taskId/dataset", p.downloadDataset)
}

// task returns the task whose id is in the path.
func (p *Pages) task(c echo.Context) (db.Task, error) {
	return request.Task(c.Request().Context(), p.Store, c.Param("taskId"))
}

// ShowError shows a fault as a page. For a fault of one query parameter it redirects to the nearest valid page instead,
// and for content that must be confirmed it asks for the confirmation.
func (p *Pages) ShowError(c echo.Context, f *request.Fault) error {
	if isNear, err := pages.Nearest(c, f); isNear {
		return err
	}
	if c.Request().Method == http.MethodPost {
		if found := pages.Disclosure(c, f, c.Request().URL.Path, c.QueryParams()); found != nil {
			found.Values = c.Request().PostForm
			return p.askToConfirm(c, *found)
		}
	}
	message := f.Message(pages.Locale(c))
	if request.IsInternal(f) && c.Request().Method == http.MethodGet {
		switch c.Path() {
		case paths.Tasks, paths.TaskRows:
			message = pages.Locale(c).Text("error.page.tasks")
		case "/tasks/:taskId/results":
			message = pages.Locale(c).Text("error.page.results")
		}
	}
	task := ""
	if id, err := request.ID(c.Param("taskId"), db.KindTask); err == nil && f.Status() == http.StatusConflict {
		task = paths.Task(id)
	}
	frame := pages.Frame(c, p.Version, pages.Locale(c).Text("error.title"), "")
	return pages.Render(c, f.Status(), ui.ErrorPage(frame, message, paths.Tasks, task))
}

// askToConfirm shows the sensitive content that an action would send, with a button that repeats the action. If htmx
// made the request, this replaces the page on which the action was chosen.
func (p *Pages) askToConfirm(c echo.Context, found ui.Disclosure) error {
	back := paths.Tasks
	if id, err := request.ID(c.Param("taskId"), db.KindTask); err == nil {
		back = paths.Task(id)
	}
	if request.IsFragment(c.Request()) {
		for name, value := range map[string]string{"HX-Retarget": "#main", "HX-Reselect": "#main", "HX-Reswap": "outerHTML"} {
			c.Response().Header().Set(name, value)
		}
	}
	frame := pages.Frame(c, p.Version, pages.Locale(c).Text("disclosure.heading"), ui.SectionTasks)
	frame.Styles = []string{"form.css"}
	return pages.Render(c, http.StatusUnprocessableEntity, ui.DisclosurePage(frame, found, back))
}

// saveSettings stores the language, theme or project in cookies, and redirects back to the page.
func (p *Pages) saveSettings(c echo.Context) error {
	submitted, err := form.ReadText(c.Response(), c.Request())
	if err != nil {
		return err
	}
	for name, choices := range request.Settings {
		if choice := submitted.Values[name]; slices.Contains(choices, choice) {
			pages.SetCookie(c, name, choice, pages.Year)
		}
	}
	if id, err := uuid.Parse(submitted.Values["project"]); err == nil {
		pages.SetCookie(c, request.ProjectCookie, id.String(), pages.Year)
	}
	return c.Redirect(http.StatusSeeOther, request.LocalPath(submitted.Values["back"], paths.Tasks))
}
