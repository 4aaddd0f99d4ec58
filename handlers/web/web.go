// Package web has the pages.
package web

import (
	"context"
	"crypto/rand"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/a-h/templ"
	"github.com/labstack/echo/v4"

	"wending/db"
	"wending/db/history"
	"wending/db/monitor"
	"wending/db/report"
	"wending/db/review"
	"wending/handlers/admission"
	"wending/handlers/fault"
	"wending/handlers/form"
	"wending/handlers/reading"
	"wending/handlers/request"
	"wending/jobs/agent"
	"wending/jobs/library"
	"wending/jobs/secret"
	"wending/jobs/tasks"
	"wending/views/paths"
	"wending/views/text"
	"wending/views/ui"
)

// Config is what the pages need.
type Config struct {
	Store   *db.Store
	Tasks   *tasks.Service
	Staging form.Staging
	Library *library.Service
	Agents  *agent.Client
	Sealer  *secret.Sealer
	// CheckURL refuses agents that may not be called.
	CheckURL func(*url.URL) error
	// Defaults are the settings of a task whose creator does not set them.
	Defaults tasks.Settings
	// DemoURL is the demo agent's address; empty means none runs.
	DemoURL string
	Version string
	// Failed logs and reports an internal error.
	Failed func(ctx context.Context, err error)
	Log    *slog.Logger
}

// Pages answers the requests for pages.
type Pages struct {
	Config
	monitor monitor.Monitor
	report  report.Report
	history history.History
	reviews review.Reviews
	reader  reading.Reader
}

// Register adds the routes: pages to compressed, files to plain. It returns the pages, which also show errors.
func Register(compressed, plain *echo.Group, config Config) *Pages {
	p := &Pages{config, monitor.New(config.Store), report.New(config.Store), history.New(config.Store), review.New(config.Store), reading.New(config.Store)}
	get := func(path string, handler echo.HandlerFunc) {
		compressed.Match([]string{http.MethodGet, http.MethodHead}, path, handler)
	}
	get(paths.Create, p.newTask)
	get(paths.Tasks, p.listTasks)
	get("/tasks/:taskId", p.showTask)
	get("/tasks/:taskId/launches", p.listLaunches)
	get("/tasks/:taskId/launches/:launchId", p.showLaunch)
	get("/tasks/:taskId/results", p.showReport)
	get("/tasks/:taskId/results/print", p.printReport)
	get("/tasks/:taskId/results/:number", p.findQuestion)
	get("/tasks/:taskId/results/:number/reviews", p.listVersions)
	get("/tasks/:taskId/news", p.news)
	get("/tasks/:taskId/variants", p.showVariants)
	get("/tasks/:taskId/review", p.nextReview)
	get("/tasks/:taskId/review/:number", p.reviewQuestion)
	get("/tasks/:taskId/sign-off", p.showSignOff)
	compressed.POST("/tasks/:taskId/sign-off", p.signOff)
	compressed.POST("/tasks/:taskId/assignments", p.assign)
	get("/tasks/:taskId/runs/:runId", p.showRun)
	get(paths.Comparison, p.compare)
	get(paths.Workers, p.listWorkers)
	compressed.GET(paths.TaskRows, p.taskRows)
	compressed.GET("/tasks/:taskId/live", p.liveTask)
	compressed.POST(paths.Tasks, p.createTask)
	compressed.POST(paths.Preview, p.previewDataset)
	compressed.POST(paths.Probe, p.probeAgent)
	compressed.POST(paths.Language, p.switchLanguage)
	compressed.POST(paths.Settings, p.saveSettings)
	compressed.POST(paths.Demo, p.startDemo)
	p.registerActions(compressed)
	compressed.POST("/tasks/:taskId/delete", p.deleteTask)
	plain.GET("/tasks/:taskId/runs/:runId/text", p.runText)
	plain.GET("/tasks/:taskId/dataset", p.downloadDataset)
	return p
}

// task returns the task that the path names.
func (p *Pages) task(c echo.Context) (db.Task, error) { return p.taskByID(c, c.Param("taskId")) }

func (p *Pages) taskByID(c echo.Context, id string) (db.Task, error) {
	parsed, err := request.ID(id, db.KindTask)
	if err != nil {
		return db.Task{}, err
	}
	return p.Store.Task(c.Request().Context(), parsed)
}

func locale(c echo.Context) text.Locale { return request.From(c.Request().Context()).Locale }

func gates(c echo.Context) *admission.Gates { return request.From(c.Request().Context()).Gates }

func actor(c echo.Context) db.Actor { return request.From(c.Request().Context()).Actor }

// toasts are the allowed values of ?done=.
var toasts = []string{"created", "saved", "run", "stop", "retry", "resume", "extend", "deleted", "signed", "assigned"}

// done redirects to a page that says what was done.
func done(c echo.Context, path, what string) error {
	return c.Redirect(http.StatusSeeOther, path+"?done="+what)
}

// frame is what a page has around its content.
func (p *Pages) frame(c echo.Context, title string, section ui.Section, crumbs ...ui.Crumb) ui.Frame {
	here := c.Request().URL.RequestURI()
	if c.Request().Method != http.MethodGet {
		here = paths.Create
	}
	frame := ui.Frame{Title: title, Section: section, Here: here, Crumbs: crumbs, Version: p.Version}
	if what := c.QueryParam("done"); slices.Contains(toasts, what) {
		frame.Toast = locale(c).Text("done." + what)
	}
	return frame
}

// taskCrumbs lead from the list over a task to a page of it.
func taskCrumbs(c echo.Context, task db.Task, more ...ui.Crumb) []ui.Crumb {
	crumbs := []ui.Crumb{{Text: locale(c).Text("nav.tasks"), Href: paths.Tasks}, {Text: task.Name}}
	if len(more) > 0 {
		crumbs[1].Href = paths.Task(task.ID)
	}
	return append(crumbs, more...)
}

func render(c echo.Context, status int, component templ.Component) error {
	header := c.Response().Header()
	header.Set(echo.HeaderContentType, echo.MIMETextHTMLCharsetUTF8)
	header.Add("Vary", "HX-Request")
	if status == http.StatusServiceUnavailable {
		header.Set(echo.HeaderRetryAfter, fault.RetryAfter)
	}
	c.Response().WriteHeader(status)
	return component.Render(c.Request().Context(), c.Response())
}

const defaultPageSize = 20

// pageOf reads page and page_size.
func pageOf(c echo.Context) (db.Page, error) {
	page := db.Page{Number: 1, Size: defaultPageSize}
	for _, parameter := range []struct {
		name string
		most int
		to   *int
	}{{"page", 1_000_000, &page.Number}, {"page_size", 100, &page.Size}} {
		value := strings.TrimSpace(c.QueryParam(parameter.name))
		if value == "" {
			continue
		}
		number, err := strconv.Atoi(value)
		if err != nil || number < 1 || number > parameter.most {
			return page, fault.Parameter(parameter.name, fault.Between(1, parameter.most))
		}
		*parameter.to = number
	}
	return page, nil
}

// newPager returns the pager of a list; query is the list's query without its page.
func newPager(path string, query url.Values, page db.Page, total int) ui.Pager {
	if page.Size != defaultPageSize {
		query.Set("page_size", strconv.Itoa(page.Size))
	}
	return ui.Pager{Path: path, Query: query, Page: page.Number, Size: page.Size, Total: total}
}

// redirectPastEnd redirects from a page beyond the end of a list to its last page.
func redirectPastEnd(c echo.Context, pager ui.Pager) (redirected bool, err error) {
	if pager.Page <= pager.Pages() {
		return false, nil
	}
	return true, c.Redirect(http.StatusSeeOther, pager.Href(pager.Pages()))
}

// ShowError shows a fault as a page.
func (p *Pages) ShowError(c echo.Context, f *fault.Fault) error {
	message := f.Message(locale(c))
	if fault.IsOurs(f) && c.Request().Method == http.MethodGet {
		switch c.Path() {
		case paths.Tasks, paths.TaskRows:
			message = locale(c).Text("error.page.tasks")
		case "/tasks/:taskId/results":
			message = locale(c).Text("error.page.results")
		}
	}
	task := ""
	if id, err := request.ID(c.Param("taskId"), db.KindTask); err == nil && f.Status() == http.StatusConflict {
		task = paths.Task(id)
	}
	frame := p.frame(c, locale(c).Text("error.title"), "")
	return render(c, f.Status(), ui.ErrorPage(frame, message, paths.Tasks, task))
}

// switchLanguage sets the language and shows the form that the switch carried, with all that was typed.
func (p *Pages) switchLanguage(c echo.Context) error {
	submitted, err := form.Read(c.Response(), c.Request(), gates(c).Files)
	if err != nil {
		return err
	}
	lang := submitted.Values["lang"]
	if !slices.Contains(text.Languages, lang) {
		return fault.Parameter("lang", fault.OneOf(text.Languages...))
	}
	setCookie(c, request.LanguageCookie, lang)
	info := request.From(c.Request().Context())
	info.Locale = info.Locale.In(lang)
	c.SetRequest(c.Request().WithContext(request.With(c.Request().Context(), info)))
	return p.showForm(c, submitted, http.StatusOK)
}

// saveSettings sets language or theme and returns to the page.
func (p *Pages) saveSettings(c echo.Context) error {
	submitted, err := form.Read(c.Response(), c.Request(), gates(c).Files)
	if err != nil {
		return err
	}
	for name, choices := range map[string][]string{request.LanguageCookie: text.Languages, request.ThemeCookie: request.Themes} {
		if choice := submitted.Values[name]; slices.Contains(choices, choice) {
			setCookie(c, name, choice)
		}
	}
	back := submitted.Values["back"]
	if !strings.HasPrefix(back, "/") || strings.HasPrefix(back, "//") || strings.ContainsAny(back, "\\\r\n\t") {
		back = paths.Tasks
	}
	return c.Redirect(http.StatusSeeOther, back)
}

// browserCookie names the browser to which staged files belong.
const browserCookie = "browser"

// browser returns the id of the request's browser, which gets one with its first file.
func browser(c echo.Context) string {
	if id, isKnown := c.Get(browserCookie).(string); isKnown {
		return id
	}
	id := rand.Text()
	if cookie, err := c.Cookie(browserCookie); err == nil && form.IsToken(cookie.Value) {
		id = cookie.Value
	} else {
		setCookie(c, browserCookie, id)
	}
	c.Set(browserCookie, id)
	return id
}

func setCookie(c echo.Context, name, value string) {
	c.SetCookie(&http.Cookie{
		Name: name, Value: value, Path: "/", MaxAge: int((365 * 24 * time.Hour).Seconds()), HttpOnly: true, SameSite: http.SameSiteLaxMode,
	})
}
