// Package handlers serves the product over HTTP: it mounts the pages and the API, with the middleware that every
// request passes through.
package handlers

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/sync/errgroup"

	"wending/db"
	"wending/db/engine"
	"wending/db/entries"
	"wending/db/people"
	"wending/db/report"
	"wending/handlers/access"
	"wending/handlers/api"
	"wending/handlers/form"
	persons "wending/handlers/people"
	"wending/handlers/replay"
	"wending/handlers/request"
	"wending/handlers/rest"
	"wending/handlers/tools"
	"wending/handlers/transfer"
	"wending/handlers/web"
	"wending/jobs/agent"
	"wending/jobs/agent/guard"
	"wending/jobs/archive"
	"wending/jobs/blob"
	"wending/jobs/courier/notify"
	"wending/jobs/identity"
	"wending/jobs/library"
	"wending/jobs/secret"
	"wending/jobs/tasks"
	"wending/static"
	"wending/views/paths"
	"wending/views/text"
)

// Config holds the configuration and dependencies of a Server.
type Config struct {
	Store  *db.Store
	Queue  tasks.Waker
	Agents *agent.Client
	// Models calls saved models, whose addresses ModelGuard checks.
	Models     *agent.Client
	Guard      *guard.Guard
	ModelGuard *guard.Guard
	// Sender sends messages to channels if NotifyGuard allows the address.
	Sender      *notify.Sender
	NotifyGuard *guard.Guard
	Sealer      *secret.Sealer
	// Files stores datasets and uploads.
	Files *blob.Disk
	// Space measures the disk on which data is stored; nil means that it is not watched.
	Space func() (blob.Space, error)
	// SensitivePatterns match content that no launch may send, in the syntax of people.ParsePattern. They apply to
	// projects without a list of their own.
	SensitivePatterns []string
	// Assets are the files that agents produce, each of at most AssetBytes.
	Assets     blob.Store
	AssetBytes int64
	// Defaults are the settings of a task whose creator does not set them.
	Defaults tasks.Settings
	// RateCeiling is the rate limit that no task may exceed: N/s, N/m or unlimited.
	RateCeiling string
	// MaxActiveTasks is how many tasks may run at once; zero means no limit.
	MaxActiveTasks int
	// MonthCost is the maximum cost per month in each currency, as a decimal number; empty means no limit.
	MonthCost string
	// ScheduleMinutes is the minimum interval between two firings of a schedule, in minutes; 0 means no minimum.
	ScheduleMinutes int
	// HistoryDays is how many days replaced runs are kept, and UploadDays is how many days files are kept after their task
	// has ended; 0 means forever.
	HistoryDays, UploadDays int
	// NextBackup returns the time of the first scheduled backup after a given time; nil if no backups are scheduled.
	NextBackup func(after time.Time) time.Time
	// DefaultLang is used until a user picks a language.
	DefaultLang string
	// DemoURL is the demo agent's address, DemoModelsURL is the base URL of the models that it imitates, and DemoTicket is
	// the ticket that lets the demo's tasks call them. All are empty if no demo agent is running.
	DemoURL, DemoModelsURL, DemoTicket string
	// Hosts are the names of this site, in addition to local names and IP addresses. If Hosts is empty and the site has
	// accounts, requests that do not come over loopback may use any name.
	Hosts []string
	// DatabaseURL connects directly to the database, bypassing any pooler, because changes of tasks are announced by the
	// database itself. If it is empty, they are not announced, and live pages are updated a little later.
	DatabaseURL string
	// Closing is closed when the server shuts down and streams must end; nil means never.
	Closing <-chan struct{}
	// Retired is closed when a newer version of the program has migrated the database; from then on, only probes, metrics
	// and static files are served. nil means never.
	Retired  <-chan struct{}
	Registry *prometheus.Registry
	// Tracer exports spans of requests; nil means that requests are not traced.
	Tracer trace.Tracer
	// Report reports an internal error, with tags for its context, to the operators; nil means errors are only logged.
	Report  func(err error, tags map[string]string)
	Version string
	// Access configures sign-in and access control.
	Access Access
	// HasTools offers tools to assistants, at paths.MCP.
	HasTools bool
	// HasSpans receives agents' spans, at paths.Traces.
	HasSpans bool
	Log      *slog.Logger
}

// Access configures sign-in. Its zero value means that there are no accounts: every client may do everything.
type Access struct {
	// HasAccounts reports that people must sign in, with a password or a passkey or, if OpenID or Directory is set, with
	// that.
	HasAccounts bool
	OpenID      *access.OpenID
	Directory   *access.Directory
	Passkeys    *access.Passkeys
	// NeedsSecond reports that every account must have a passkey.
	NeedsSecond bool
	// Trusted are the networks of proxies that may report the client's address and protocol.
	Trusted []netip.Prefix
	// PublicURL is the public address of this site; if it is empty, the address of the request is used.
	PublicURL string
	// HSTSWithoutSubdomains excludes subdomains from HSTS.
	HSTSWithoutSubdomains bool
	// AuditDays is how many days audit entries are kept; 0 means forever.
	AuditDays int
}

// ParseTrusted parses TRUSTED_PROXIES: addresses and networks, separated by commas or spaces.
func ParseTrusted(list string) (trusted []netip.Prefix, err error) {
	for _, text := range strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' }) {
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			address, isNone := netip.ParseAddr(text)
			if isNone != nil {
				return nil, fmt.Errorf("TRUSTED_PROXIES has %q, which is neither an address nor a network such as 10.0.0.0/8", text)
			}
			prefix = netip.PrefixFrom(address, address.BitLen())
		}
		trusted = append(trusted, prefix.Masked())
	}
	return trusted, nil
}

// secureHost returns the site's host name for HTTPS; empty if its public address is not an HTTPS one.
func (a Access) secureHost() string {
	u, err := url.Parse(a.PublicURL)
	if err != nil || u.Scheme != "https" {
		return ""
	}
	return u.Host
}

// Server answers requests.
type Server struct {
	Config
	http.Handler
	catalogue *text.Catalogue
	pages     *web.Pages
	progress  *rest.Hub[uuid.UUID, report.Progress]
	gates     *request.Gates
	tasks     *tasks.Service
	library   *library.Service
	guard     *access.Guard
	signIns   access.SignInConfig
	// routes contains the method and path of every route, such as "GET /tasks".
	routes map[string]bool
	// document returns the OpenAPI document, which is generated once.
	document func() ([]byte, error)
}

// contentSecurityPolicy forbids inline scripts and styles, and loading anything from other sites. Icons in the
// style sheet are data: URLs.
const contentSecurityPolicy = "default-src 'self'; img-src 'self' data: blob:; style-src 'self'; script-src 'self'; " +
	"object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"

// New returns the server with all routes. Live pages are notified of changes immediately only while Run is running.
func New(config Config) (*Server, error) {
	catalogue, err := text.NewCatalogue()
	if err != nil {
		return nil, err
	}
	s := &Server{Config: config, catalogue: catalogue, progress: rest.NewHub(report.NewMonitor(config.Store).TaskProgress),
		gates: request.NewGates(config.Registry), routes: map[string]bool{}}
	s.tasks = &tasks.Service{Store: s.Store, Queue: s.Queue, Files: s.Files, Assets: s.Assets, Sealer: s.Sealer,
		RateCeiling: s.RateCeiling, MaxActiveTasks: s.MaxActiveTasks, DefaultRate: s.Defaults.RateLimit,
		MonthCost: s.MonthCost, SensitivePatterns: s.SensitivePatterns, Confirmed: request.Confirmed, Space: s.Space,
		Log: s.Log}
	s.library = &library.Service{
		Entries: entries.New(s.Store), Files: s.Files, Sealer: s.Sealer, Tasks: s.tasks, Agents: s.Agents, Models: s.Models,
		Sender: s.Sender, Outbox: s.Store.Outbox(), DefaultRate: s.Defaults.RateLimit, ScheduleMinutes: s.ScheduleMinutes,
		Log: s.Log,
	}
	if s.Report == nil {
		s.Report = func(error, map[string]string) {}
	}
	s.guard = access.NewGuard(access.Config{
		People: people.New(s.Store), HasAccounts: s.Access.HasAccounts, NeedsSecond: s.Access.NeedsSecond,
		Audit: people.NewAuditLog(s.Store, s.Sealer), Quotas: people.NewQuotas(s.Store), Failed: s.failed,
		Trusted: s.Access.Trusted, SecureHost: s.Access.secureHost(), Log: s.Log,
	})
	e := echo.New()
	s.Handler = e
	e.HideBanner, e.HidePort = true, true
	e.HTTPErrorHandler = s.answerError
	e.IPExtractor = s.addressOf()
	e.Pre(endStuckReaders, middleware.SecureWithConfig(middleware.SecureConfig{
		ContentTypeNosniff: "nosniff", XFrameOptions: "DENY", ReferrerPolicy: "same-origin",
		ContentSecurityPolicy: contentSecurityPolicy,
	}), middleware.RemoveTrailingSlashWithConfig(
		middleware.TrailingSlashConfig{RedirectCode: http.StatusPermanentRedirect}))
	e.Use(dropOddRequestID, middleware.RequestID(), s.identify, s.findMethods)
	if config.Tracer != nil {
		e.Use(traceRequests(config.Tracer))
	}
	e.Use(s.logRequests, middleware.Recover(),
		s.keepPrivate, refuseLargeHeaders, s.refuseOtherSites)
	if config.Registry != nil {
		e.Use(measureRequests(config.Registry))
	}
	e.Use(s.refuseRetired, s.guard.Check, nameMethods)
	s.mount(e)
	for _, route := range e.Routes() {
		s.routes[route.Method+" "+route.Path] = true
	}
	return s, s.guard.Require(e.Routes())
}

// addressOf returns the function that finds the client address of a request: the one that trusted proxies report or,
// without trusted proxies, the address of the connection.
func (s *Server) addressOf() echo.IPExtractor {
	if len(s.Access.Trusted) == 0 {
		return echo.ExtractIPDirect()
	}
	options := []echo.TrustOption{echo.TrustLoopback(false), echo.TrustLinkLocal(false), echo.TrustPrivateNet(false)}
	for _, prefix := range s.Access.Trusted {
		_, network, err := net.ParseCIDR(prefix.Masked().String())
		if err == nil {
			options = append(options, echo.TrustIPRange(network))
		}
	}
	return echo.ExtractIPFromXFFHeader(options...)
}

// mount adds the routes. Responses are compressed unless they are streams or files.
func (s *Server) mount(e *echo.Echo) {
	plain := e.Group("")
	compressed := e.Group("", middleware.GzipWithConfig(middleware.GzipConfig{MinLength: 1024}))
	check := form.Check{URL: s.Guard.CheckURL, Task: s.Guard.CheckRequest, Model: s.ModelGuard.CheckURL,
		Channel: s.NotifyGuard.CheckURL}

	probes := Probes{Store: s.Store, Version: s.Version}
	plain.GET(paths.Live, echo.WrapHandler(http.HandlerFunc(probes.Live)))
	plain.GET(paths.Ready, echo.WrapHandler(http.HandlerFunc(probes.Ready)))
	plain.GET(paths.Health, echo.WrapHandler(http.HandlerFunc(probes.Ready)))
	if s.Registry != nil {
		plain.GET(paths.Metrics, echo.WrapHandler(promhttp.HandlerFor(s.Registry, promhttp.HandlerOpts{})))
	}
	compressed.GET(static.Prefix+"*", echo.WrapHandler(static.Handler()))
	s.pages = web.Register(compressed, plain, web.Config{
		Store: s.Store, Tasks: s.tasks, Library: s.library, Staging: form.Staging{Files: s.Files},
		Keeper: form.Keeper{Sealer: s.Sealer}, Check: check,
		Defaults: s.Defaults, DemoURL: s.DemoURL, DemoModelsURL: s.DemoModelsURL, DemoTicket: s.DemoTicket,
		Version: s.Version, Failed: s.failed, Log: s.Log,
	})
	replays := replay.Config{Store: s.Store, Units: replay.NewHub(s.Store), Tools: engine.NewToolReports(s.Store),
		Version: s.Version, Closing: s.Closing, Failed: s.failed, HasSpans: s.HasSpans,
		Mask: func(task db.Task, variant int) (func(string) string, error) {
			return s.tasks.Mask(s.Agents, task, variant)
		}}
	replay.RegisterPages(compressed, replays)
	replay.RegisterSpans(plain, replays)
	galleries := replay.FilesConfig{Store: s.Store, Files: s.Assets, Version: s.Version, Failed: s.failed,
		Admits: s.Sealer.Admits}
	replay.RegisterFiles(plain, galleries)
	transfers := transfer.Config{Failed: s.failed,
		Archiver: &archive.Archiver{Store: s.Store, Tasks: s.tasks, Files: s.Assets, MaxFile: s.AssetBytes, Log: s.Log,
			Version: s.Version}}
	transfer.RegisterPages(compressed, transfers)
	web.RegisterStorage(compressed, web.StorageConfig{Store: s.Store, Files: s.Files, Space: s.Space,
		HistoryDays: s.HistoryDays, UploadDays: s.UploadDays, NextBackup: s.NextBackup, Version: s.Version})
	s.signIns = access.SignInConfig{
		People: people.New(s.Store), Cases: identity.New(s.Store), Guard: s.guard, Sealer: s.Sealer, OpenID: s.Access.OpenID,
		Directory: s.Access.Directory, Passkeys: s.Access.Passkeys, Version: s.Version, Log: s.Log,
	}
	access.RegisterSignIn(compressed, s.signIns)
	accounts := persons.Config{
		Store: s.Store, Files: s.Assets, Guard: s.guard, Audit: s.guard.Audit, Passkeys: s.Access.Passkeys,
		HasPasswords: s.Access.OpenID == nil && s.Access.Directory == nil, PublicURL: s.Access.PublicURL,
		AuditDays: s.Access.AuditDays, Version: s.Version, Failed: s.failed,
	}
	accounts.SensitivePatterns = s.SensitivePatterns
	shared := replay.NewShared(replays, galleries)
	accounts.PrepareReplay, accounts.SendFile, accounts.Choose = shared.Prepare, shared.Send, s.pages.Chosen
	persons.RegisterPages(compressed, accounts)
	document := api.Register(e, compressed, plain, api.Config{
		Store: s.Store, Tasks: s.tasks, Library: s.library, Progress: s.progress, Check: check, Transfer: transfers,
		Replay: replays, Gallery: galleries, People: accounts,
		Defaults: s.Defaults, Closing: s.Closing, Failed: s.failed, Log: s.Log,
	})
	if s.HasTools {
		answer := tools.New(tools.Config{API: e, Version: s.Version})
		plain.POST(paths.MCP, func(c echo.Context) error { return answer(c.Response(), c.Request()) })
	}
	s.document = sync.OnceValues(func() ([]byte, error) { return json.MarshalIndent(document, "", "  ") })
	compressed.GET(paths.OpenAPI, s.openAPI)
}

// Run announces changes of tasks to live pages, refreshes the rights of accounts that come from a provider or
// directory, and cleans up after crashes, until ctx ends.
func (s *Server) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.announce(ctx) })
	group.Go(func() error { s.sweep(ctx); return nil })
	group.Go(func() error { return s.guard.Run(ctx, s.DatabaseURL) })
	group.Go(func() error { access.RenewSessions(ctx, s.signIns); return nil })
	return group.Wait()
}

// sweep cleans up now and every hour. It keeps files that are less than an hour old, which may still be in use.
func (s *Server) sweep(ctx context.Context) {
	tick := time.NewTicker(time.Hour)
	defer tick.Stop()
	for {
		if err := s.tasks.Sweep(ctx, time.Hour); err != nil && ctx.Err() == nil {
			s.Log.WarnContext(ctx, "uploads not tidied up", "error", err)
		}
		if s.UploadDays > 0 {
			if err := s.tasks.PruneFiles(ctx, time.Duration(s.UploadDays)*24*time.Hour); err != nil && ctx.Err() == nil {
				s.Log.WarnContext(ctx, "old files not removed", "error", err)
			}
		}
		if s.Access.AuditDays > 0 {
			removed, err := s.guard.Audit.Prune(ctx, time.Duration(s.Access.AuditDays)*24*time.Hour)
			if err != nil && ctx.Err() == nil {
				s.Log.WarnContext(ctx, "old audit entries not removed", "error", err)
			} else if removed > 0 {
				s.Log.InfoContext(ctx, "audit entries older than AUDIT_RETENTION_DAYS removed", "entries", removed)
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

func (s *Server) announce(ctx context.Context) error {
	if s.DatabaseURL == "" {
		return nil
	}
	return report.ListenForChanges(ctx, s.DatabaseURL, func(id uuid.UUID) {
		if id == uuid.Nil {
			s.progress.AnnounceAll()
			return
		}
		s.progress.Announce(id)
	})
}

// Document returns the OpenAPI document that the API serves.
func (s *Server) Document() ([]byte, error) { return s.document() }

func (s *Server) openAPI(c echo.Context) error {
	document, err := s.Document()
	if err != nil {
		return err
	}
	return c.Blob(http.StatusOK, echo.MIMEApplicationJSON, document)
}

// answerError turns an error into a response; nothing else does.
func (s *Server) answerError(err error, c echo.Context) {
	r := c.Request()
	f := request.FaultOf(err)
	if request.IsInternal(err) {
		s.failed(r.Context(), err)
	}
	if c.Response().Committed { // a download failed midway, and must not look complete to the client
		panic(http.ErrAbortHandler)
	}
	if f.Status() == http.StatusServiceUnavailable {
		c.Response().Header().Set(echo.HeaderRetryAfter, request.RetryAfter)
	}
	var failure error
	if request.IsAPI(r) {
		status, body := rest.Failure(r.Context(), err)
		failure = c.JSON(status, body)
	} else {
		failure = s.pages.ShowError(c, f)
	}
	if failure != nil {
		s.Log.WarnContext(r.Context(), "error response not sent", "error", failure)
	}
}

// failed logs an internal error and reports it, unless the client has disconnected, which is not the server's fault.
func (s *Server) failed(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	info := request.From(ctx)
	id := info.ID
	s.Log.ErrorContext(ctx, "request failed", "request_id", id, "client", info.Actor.Address, "actor", info.Who.Name,
		"error", err)
	s.Report(err, map[string]string{"request_id": id})
}
