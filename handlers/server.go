// Package handlers is the product's HTTP side: it binds, validates, makes one call of the store,
// enqueues and renders.
package handlers

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/a-h/templ"
	"github.com/getsentry/sentry-go"
	"github.com/google/uuid"
	"github.com/labstack/echo-contrib/echoprometheus"
	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"wending/db"
	"wending/jobs"
	"wending/jobs/agent"
	"wending/static"
	"wending/views"
)

// Config is what a Server is made from.
type Config struct {
	Store  *db.Store
	Queue  *jobs.Queue
	Agents *agent.Client
	Guard  *agent.Guard
	Sealer *agent.Sealer
	// Uploads is the folder for dataset files.
	Uploads string
	// Defaults are the settings of a task whose creator says nothing else.
	Defaults Defaults
	// DefaultLang is the language of who has not chosen one.
	DefaultLang string
	// DemoURL is the demo agent's address; empty: none runs.
	DemoURL string
	// Hosts are the names this site is known by, besides local ones and IP addresses. Empty: requests that
	// do not come over loopback may use any name.
	Hosts []string
	// Changes carries the id of every task whose state changed, in whatever process; uuid.Nil: any may have.
	// Nil: nobody tells, and live pages are a little slower.
	Changes <-chan uuid.UUID
	// Closing is closed when the server shuts down and streams must end. Nil: never.
	Closing  <-chan struct{}
	Registry *prometheus.Registry
	Log      *slog.Logger
}

// Defaults are settings of tasks.
type Defaults struct {
	RunsPerItem, TimeoutSeconds, MaxRetries, Concurrency int
	UseStream                                            bool
	RateLimit                                            string
}

// Server answers requests.
type Server struct {
	Config
	catalogue *views.Catalogue
	progress  *progressBoard
	// streams has an entry for each response that holds a connection of the database while a client reads it.
	streams chan struct{}
}

// maxStreams is how many there may be, so that slow readers leave connections to everybody else.
const maxStreams = 5

// contentSecurityPolicy forbids everything inline and everything from elsewhere. Icons of the style sheet
// are data: URLs.
const contentSecurityPolicy = "default-src 'self'; img-src 'self' data: blob:; style-src 'self'; script-src 'self'; " +
	"object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"

// New returns the handler of all routes.
func New(config Config) (http.Handler, error) {
	catalogue, err := views.NewCatalogue()
	if err != nil {
		return nil, err
	}
	if err := prepareUploads(config.Uploads); err != nil {
		return nil, err
	}
	s := &Server{Config: config, catalogue: catalogue, progress: newProgressBoard(config.Store), streams: make(chan struct{}, maxStreams)}
	if config.Changes != nil {
		go s.progress.follow(config.Changes, config.Closing)
	}
	e := echo.New()
	e.HideBanner, e.HidePort = true, true
	e.HTTPErrorHandler = s.answerError
	e.IPExtractor = echo.ExtractIPDirect()
	e.Pre(middleware.RemoveTrailingSlashWithConfig(middleware.TrailingSlashConfig{RedirectCode: http.StatusPermanentRedirect}))
	e.Use(middleware.RequestID(), s.logRequests, recoverPanics)
	if config.Registry != nil {
		e.Use(echoprometheus.NewMiddlewareWithConfig(echoprometheus.MiddlewareConfig{Subsystem: "wending", Registerer: config.Registry,
			Skipper: func(c echo.Context) bool { return strings.HasPrefix(c.Path(), static.Prefix) }}))
		e.GET("/metrics", echo.WrapHandler(promhttp.HandlerFor(config.Registry, promhttp.HandlerOpts{})))
	}
	e.Use(middleware.SecureWithConfig(middleware.SecureConfig{
		ContentTypeNosniff: "nosniff", XFrameOptions: "DENY", ReferrerPolicy: "same-origin", ContentSecurityPolicy: contentSecurityPolicy,
	}), s.refuseOtherSites, middleware.GzipWithConfig(middleware.GzipConfig{MinLength: 1024, Skipper: isStream}))
	s.routes(e)
	return e, nil
}

func (s *Server) routes(e *echo.Echo) {
	get := func(path string, handler echo.HandlerFunc) {
		e.Match([]string{http.MethodGet, http.MethodHead}, path, handler)
	}
	get("/healthz", s.health)
	get(static.Prefix+"*", echo.WrapHandler(static.Handler()))
	e.POST("/settings", s.saveSettings)

	get("/", s.createPage)
	e.POST("/tasks", s.createTask)
	e.POST("/tasks/preview", s.previewDataset)
	e.POST("/tasks/probe", s.probeAgent)
	e.POST("/demo", s.startDemo)
	get("/tasks", s.tasksPage)
	e.GET("/tasks/:taskId/row", s.taskRow)
	get("/tasks/:taskId", s.taskPage)
	e.GET("/tasks/:taskId/live", s.taskLive)
	get("/tasks/:taskId/launches", s.launchesPage)
	get("/tasks/:taskId/launches/:launchId", s.launchPage)
	for action := range actions {
		e.POST("/tasks/:taskId/"+action, s.actOnPage(action))
		e.POST(apiPrefix+"/:taskId/"+action, s.actByAPI(action))
	}
	e.POST("/tasks/:taskId/delete", s.deleteOnPage)
	get("/workers", s.workersPage)
	get("/tasks/:taskId/results", s.resultsPage)
	e.GET("/tasks/:taskId/runs/:runId", s.runText)
	e.GET("/tasks/:taskId/dataset", s.downloadDataset)

	e.GET("/api/openapi.json", s.openAPI)
	api := e.Group(apiPrefix)
	api.POST("", s.apiCreateTask)
	api.GET("", s.apiListTasks)
	api.GET("/:taskId", s.apiTask)
	api.GET("/:taskId/results", s.apiResults, s.inTurn)
	api.GET("/:taskId/export", s.exportResults, s.inTurn)
	api.GET("/:taskId/progress", s.streamProgress)
	api.GET("/:taskId/launches", s.apiLaunches)
	api.GET("/:taskId/launches/:launchId", s.apiLaunch)
	api.GET("/:taskId/launches/:launchId/runs", s.apiLaunchRuns)
	api.GET("/:taskId/runs/:runId", s.runText)
	api.POST("/:taskId/clone", s.apiClone)
	api.DELETE("/:taskId", s.apiDelete)
}

const apiPrefix = "/api/v1/evaluation-tasks"

func isAPI(c echo.Context) bool { return strings.HasPrefix(c.Request().URL.Path+"/", "/api/") }

// isStream knows responses that are written as they come, and files that are compressed already.
func isStream(c echo.Context) bool {
	return strings.HasSuffix(c.Path(), "/export") || strings.HasSuffix(c.Path(), "/dataset") || strings.HasSuffix(c.Path(), "/results") && isAPI(c) ||
		c.Path() == "/metrics" || strings.HasSuffix(c.Path(), "/progress")
}

// inTurn lets a response that streams from the database wait for one of maxStreams.
func (s *Server) inTurn(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		select {
		case s.streams <- struct{}{}:
		case <-c.Request().Context().Done():
			return c.Request().Context().Err()
		}
		defer func() { <-s.streams }()
		return next(c)
	}
}

// refuseOtherSites refuses requests that change something and come from another site's page, and any
// request to a name that this site is not known by: a foreign name that resolves to our address would make
// another site's page look like our own.
func (s *Server) refuseOtherSites(next echo.HandlerFunc) echo.HandlerFunc {
	protection := http.NewCrossOriginProtection()
	return func(c echo.Context) error {
		request := c.Request()
		if err := protection.Check(request); err != nil {
			return &Fault{Status: http.StatusForbidden, Code: "FORBIDDEN", Cause: err}
		}
		host, _, err := net.SplitHostPort(request.Host)
		if err != nil {
			host = request.Host
		}
		local, _ := request.Context().Value(http.LocalAddrContextKey).(net.Addr)
		address, isTCP := local.(*net.TCPAddr)
		isChecked := len(s.Hosts) > 0 || (isTCP && address.IP.IsLoopback())
		if isChecked && !isLocalName(host) && !slices.Contains(s.Hosts, strings.ToLower(host)) {
			return &Fault{Status: http.StatusForbidden, Code: "FORBIDDEN", Cause: errors.New("not a name of this site (ALLOWED_HOSTS): " + host)}
		}
		return next(c)
	}
}

func isLocalName(host string) bool {
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return ip != nil || host == "localhost" || strings.HasSuffix(host, ".localhost")
}

func (s *Server) logRequests(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		start := time.Now()
		err := next(c)
		if err != nil {
			c.Error(err)
		}
		request, response := c.Request(), c.Response()
		level := slog.LevelInfo
		if request.Method == http.MethodGet && response.Status < 400 {
			level = slog.LevelDebug // polling would drown the rest
		}
		attributes := []any{"method", request.Method, "path", request.URL.Path, "status", response.Status,
			"bytes", response.Size, "duration_ms", time.Since(start).Milliseconds(), "request_id", requestID(c)}
		if id := c.Param("taskId"); id != "" {
			attributes = append(attributes, "task_id", id)
		}
		s.Log.Log(request.Context(), level, "request", attributes...)
		return nil
	}
}

// recoverPanics turns a panic into an error, but for the one that breaks off a response on purpose.
func recoverPanics(next echo.HandlerFunc) echo.HandlerFunc {
	return middleware.Recover()(next)
}

func requestID(c echo.Context) string { return c.Response().Header().Get(echo.HeaderXRequestID) }

// report sends an error to Sentry, when it was set up.
func (s *Server) report(c echo.Context, err error) {
	if hub := sentry.CurrentHub(); hub.Client() != nil {
		hub.WithScope(func(scope *sentry.Scope) {
			scope.SetTag("request_id", requestID(c))
			scope.SetTag("route", c.Path())
			hub.CaptureException(err)
		})
	}
}

func (s *Server) health(c echo.Context) error {
	ctx, cancel := context.WithTimeout(c.Request().Context(), 3*time.Second)
	defer cancel()
	if err := s.Store.Ping(ctx); err != nil {
		return &Fault{Status: http.StatusServiceUnavailable, Code: "SERVICE_UNAVAILABLE", Cause: err}
	}
	return c.JSON(http.StatusOK, map[string]string{"status": "ok"})
}

// Cookies that keep a browser's choices.
const (
	langCookie  = "lang"
	themeCookie = "theme"
)

// locale is the request's language and theme. Accept-Language is not consulted: the product's users read
// Chinese, whatever their browser says.
func (s *Server) locale(c echo.Context) views.Locale {
	lang, theme := s.DefaultLang, ""
	if cookie, err := c.Cookie(langCookie); err == nil && slices.Contains(views.Languages, cookie.Value) {
		lang = cookie.Value
	}
	if cookie, err := c.Cookie(themeCookie); err == nil && (cookie.Value == "dark" || cookie.Value == "light") {
		theme = cookie.Value
	}
	return s.catalogue.Locale(lang, theme)
}

// saveSettings keeps a switch of language or theme and returns to the page.
func (s *Server) saveSettings(c echo.Context) error {
	c.Request().Body = http.MaxBytesReader(c.Response(), c.Request().Body, 16<<10)
	set := func(name, choice string, choices []string) {
		if slices.Contains(choices, choice) {
			c.SetCookie(&http.Cookie{Name: name, Value: choice, Path: "/", MaxAge: 365 * 24 * 3600, HttpOnly: true, SameSite: http.SameSiteLaxMode})
		}
	}
	set(langCookie, c.FormValue("lang"), views.Languages)
	set(themeCookie, c.FormValue("theme"), []string{"dark", "light"})
	back := c.FormValue("back")
	if !strings.HasPrefix(back, "/") || strings.HasPrefix(back, "//") || strings.ContainsAny(back, "\\\r\n") {
		back = "/tasks"
	}
	return c.Redirect(http.StatusSeeOther, back)
}

func (s *Server) frame(c echo.Context, title string, crumbs ...views.Crumb) views.Frame {
	here := c.Request().URL.RequestURI()
	if c.Request().Method != http.MethodGet {
		here = "/"
	}
	frame := views.Frame{Title: title, Here: here, Crumbs: crumbs}
	if what := c.QueryParam("done"); slices.Contains(doings, what) {
		frame.Toast = s.locale(c).Text("done." + what)
	}
	return frame
}

// doings are what a page may say was done, right after it was.
var doings = []string{"created", "saved", "run", "stop", "retry", "resume", "deleted"}

// done leads to a page that says what was done.
func done(c echo.Context, path, what string) error {
	return c.Redirect(http.StatusSeeOther, path+"?done="+what)
}

func (s *Server) render(c echo.Context, status int, component templ.Component) error {
	c.Response().Header().Set(echo.HeaderContentType, echo.MIMETextHTMLCharsetUTF8)
	c.Response().Header().Set("Cache-Control", "no-store")
	c.Response().Header().Add("Vary", "HX-Request")
	c.Response().WriteHeader(status)
	return component.Render(views.WithLocale(c.Request().Context(), s.locale(c)), c.Response())
}

func isFragment(c echo.Context) bool { return c.Request().Header.Get("HX-Request") == "true" }

// task returns the task that the path names.
func (s *Server) task(c echo.Context) (db.Task, error) { return s.taskByID(c, c.Param("taskId")) }

func (s *Server) taskByID(c echo.Context, text string) (db.Task, error) {
	id, err := uuid.Parse(text)
	if err != nil || len(text) != 36 {
		return db.Task{}, taskNotFound()
	}
	return s.Store.Task(c.Request().Context(), id)
}

// requester is who a request comes from.
func requester(c echo.Context) db.Requester {
	by := db.Requester{Address: c.RealIP(), Via: "page"}
	if isAPI(c) {
		by.Via = "api"
	}
	return by
}

// finishedTask is task for one whose results may be viewed.
func (s *Server) finishedTask(c echo.Context) (db.Task, error) {
	task, err := s.task(c)
	if err == nil && !task.Status.HasResults() {
		err = fault(http.StatusConflict, "TASK_NOT_FINISHED")
	}
	return task, err
}
