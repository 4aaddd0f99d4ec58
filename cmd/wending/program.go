package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"github.com/getsentry/sentry-go"
	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/sync/errgroup"

	"wending/db"
	"wending/db/engine"
	"wending/db/entries"
	"wending/db/people"
	"wending/db/pg"
	"wending/handlers"
	"wending/jobs"
	"wending/jobs/agent"
	"wending/jobs/agent/guard"
	"wending/jobs/blob"
	"wending/jobs/courier"
	"wending/jobs/courier/notify"
	"wending/jobs/crew"
	"wending/jobs/library"
	"wending/jobs/secret"
	"wending/jobs/tasks"
	"wending/views/notice"
	"wending/views/paths"
	"wending/views/text"
)

// program holds a process's parts, connected to each other.
type program struct {
	settings Settings
	defaults tasks.Settings
	// listener is where the pages are served; nil means that this process serves no pages.
	listener net.Listener
	// retired is closed when a newer version has migrated the database; nil means that the process ends instead.
	retired chan struct{}
	store   *db.Store
	// directURL is the address of the database itself, bypassing any pooler.
	directURL string
	queue     *jobs.Queue
	guard     *guard.Guard
	// modelGuard and models are the guard and client for saved models.
	modelGuard *guard.Guard
	models     *agent.Client
	agents     *agent.Client
	// notifyGuard and sender are the guard and sender for channels, and texts is the catalogue of their messages.
	notifyGuard *guard.Guard
	sender      *notify.Sender
	assets      blob.Store
	fetcher     *courier.Fetcher
	texts       *text.Catalogue
	publicURL   string
	sealer      *secret.Sealer
	registry    *prometheus.Registry
	metrics     *jobs.Metrics
	tracer      trace.Tracer
	flushSpans  func()
	demoURL     string
	// demoModelsURL is the base URL of the demo's models.
	demoModelsURL string
	// demoTicket gives the demo's tasks access to the demo agent.
	demoTicket string
	log        *slog.Logger
}

// endpoints are the servers and sockets that a process uses.
type endpoints struct {
	// command is what the process runs: up, serve or worker.
	command               string
	databaseURL, redisURL string
	// listener is where the pages will be served; nil means that this process serves no pages. It is closed
	// with the program.
	listener net.Listener
	// demo is the demo agent; nil means that none is running.
	demo *demoAgent
}

// requireServers returns an error unless PostgreSQL and Redis are configured.
func (s *Settings) requireServers() error {
	if s.DatabaseURL == "" || s.RedisURL == "" {
		return errors.New("DATABASE_URL and REDIS_URL must be set; 'wending up' starts its own servers")
	}
	return nil
}

// directURL returns the address of the database itself: DATABASE_DIRECT_URL or, if that is not set, databaseURL.
func (s *Settings) directURL(databaseURL string) string {
	if s.DirectURL != "" {
		return s.DirectURL
	}
	return databaseURL
}

// listen opens the listener for the pages, with HTTPS if there is a certificate.
func (s *Settings) listen() (net.Listener, error) {
	if err := s.checkExposure(); err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", s.ListenAddr)
	if err != nil {
		return nil, fmt.Errorf("LISTEN_ADDR: %w", err)
	}
	if s.TLSCert == "" {
		return listener, nil
	}
	pair, err := tls.LoadX509KeyPair(s.TLSCert, s.TLSKey)
	if err != nil {
		_ = listener.Close()
		return nil, fmt.Errorf("TLS_CERT_FILE, TLS_KEY_FILE: %w", err)
	}
	return tls.NewListener(listener, &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}), nil
}

// connect connects a process's parts.
func (s *Settings) connect(ctx context.Context, log *slog.Logger, e endpoints) (_ *program, err error) {
	p := &program{settings: *s, log: log, registry: prometheus.NewRegistry(), listener: e.listener,
		directURL: s.directURL(e.databaseURL), flushSpans: func() {}}
	defer func() {
		if err != nil {
			p.close()
		}
		err = unlessStopped(ctx, err)
	}()
	log.InfoContext(ctx, "starting wending", "version", buildVersion(), "memory_limit_mib", limitMemory()>>20)
	if p.defaults, err = s.defaults(); err != nil {
		return nil, err
	}
	if s.SentryDSN != "" {
		if err := sentry.Init(sentry.ClientOptions{Dsn: s.SentryDSN, Release: buildVersion()}); err != nil {
			return nil, fmt.Errorf("SENTRY_DSN: %w", err)
		}
	}
	if p.tracer, p.flushSpans, err = jobs.NewTracer(ctx, jobs.TracingConfig{Endpoint: s.OTLPEndpoint,
		Headers: s.OTLPHeaders, Version: buildVersion(), Log: log}); err != nil {
		return nil, err
	}
	if p.publicURL, err = s.publicURL(); err != nil {
		return nil, err
	}
	if p.texts, err = text.NewCatalogue(); err != nil {
		return nil, err
	}
	if p.assets, err = s.assetFiles(); err != nil {
		return nil, err
	}
	if err := p.connectAgents(e); err != nil {
		return nil, err
	}
	keys, err := s.secretKeys()
	if err != nil {
		return nil, err
	}
	if p.queue, err = jobs.NewQueue(e.redisURL); err != nil {
		return nil, err
	}
	if err := db.Migrate(ctx, p.directURL); err != nil {
		return nil, err
	}
	if p.store, err = db.Open(ctx, e.databaseURL, s.MaxConns); err != nil {
		return nil, err
	}
	if p.sealer, err = newSealer(ctx, p.store, keys, e.command); err != nil {
		return nil, err
	}
	if err := p.sealStored(ctx); err != nil {
		return nil, err
	}
	p.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		newBuildInfo(), vitals{p.store})
	p.metrics = jobs.NewMetrics(p.registry, p.queue)
	if e.listener != nil {
		s.registerDisk(p.registry)
		p.registry.MustRegister(&installation{store: p.store})
	}
	return p, nil
}

// sealStored seals the audit log, and the secrets that early versions stored in plain text.
func (p *program) sealStored(ctx context.Context) error {
	if p.listener != nil { // only processes with pages write the audit
		unsealed := (*people.AuditSealError)(nil)
		if err := people.NewAuditLog(p.store, p.sealer).Seal(ctx); errors.As(err, &unsealed) {
			p.log.ErrorContext(ctx, "the audit log's seal is broken, see 'wending audit verify'", "error", err)
		} else if err != nil {
			return err
		}
	}
	if sealed, err := tasks.SealPlain(ctx, p.store, p.sealer); err != nil {
		return err
	} else if sealed > 0 {
		p.log.InfoContext(ctx, "payloads and queries stored in plain text sealed", "tasks", sealed)
	}
	return nil
}

// errStopped means that a process was stopped before it had started, which is not a failure.
var errStopped = errors.New("stopped before it had started")

// unlessStopped returns err or, if the process is being stopped, errStopped: stopping interrupts what the start is
// waiting for, such as another process's migration, and so causes an error.
func unlessStopped(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return errStopped
	}
	return err
}

// newSealer returns the sealer with the process's keys. If they do not match the database, it records the refusal for
// the page of workers, and returns an error with the remedy.
func newSealer(ctx context.Context, store *db.Store, keys secret.Keys, command string) (*secret.Sealer, error) {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	sealer, err := tasks.NewSealer(ctx, store, keys)
	switch {
	case errors.Is(err, tasks.ErrForeignKey):
		return nil, errors.Join(err, engine.NewPresence(store).Refused(ctx, host, command))
	case err != nil:
		return nil, err
	}
	return sealer, engine.NewPresence(store).Accepted(ctx, host, command)
}

// limitMemory makes the garbage collector work harder as the process approaches the memory limit of the machine or
// its container: under heavy load it is better to respond slowly than to be killed. GOMEMLIMIT, if set, takes
// precedence. It returns the limit in bytes.
func limitMemory() int64 {
	const share = 0.8 // leaves room for the embedded servers on the same machine
	_, _ = memlimit.Set(memlimit.WithRatio(share),
		memlimit.WithProvider(memlimit.ApplyFallback(memlimit.FromCgroup, memlimit.FromSystem)))
	return debug.SetMemoryLimit(-1)
}

// connectAgents sets up the guards and the clients for agents and models. Loopback is allowed by default only
// in a process that itself serves on loopback, without accounts: elsewhere loopback may belong to another
// machine, and people with accounts must not reach other services on the server. The demo's tasks may call the
// demo's own address.
func (p *program) connectAgents(e endpoints) (err error) {
	s := p.settings
	config := guard.Config{AllowLoopback: e.listener != nil && listensOnLoopback(s.ListenAddr) && s.Auth == "off"}
	config.Own = s.ownAddresses(e.databaseURL, p.directURL, e.redisURL)
	if e.listener != nil {
		config.Own = append(config.Own, e.listener.Addr().String()) // the system may have chosen the port
	}
	if e.demo != nil {
		config.Demo, config.Ticket = e.demo.address(), e.demo.ticket
		p.demoURL, p.demoModelsURL, p.demoTicket = e.demo.url(), e.demo.modelsURL(), e.demo.ticket
	}
	config.Variable, config.Allowlist = "AGENT_API_ALLOWLIST", s.Allowlist
	if p.guard, err = guard.New(config); err != nil {
		return err
	}
	p.agents = agent.NewClient(p.guard, s.AgentAPIKey)
	config.Variable, config.Allowlist = "MODEL_API_ALLOWLIST", s.ModelList
	if p.modelGuard, err = guard.New(config); err != nil {
		return err
	}
	p.models = agent.NewClient(p.modelGuard, "")
	config.Variable, config.Allowlist = "ASSET_ALLOWLIST", s.AssetList
	assets, err := guard.New(config)
	if err != nil {
		return err
	}
	p.fetcher = courier.NewFetcher(assets)
	config.Variable, config.Allowlist, config.Demo = "NOTIFY_ALLOWLIST", s.NotifyList, ""
	if p.notifyGuard, err = guard.New(config); err != nil {
		return err
	}
	p.sender, err = notify.NewSender(p.notifyGuard, s.SMTPURL, s.SMTPFrom)
	return err
}

func (p *program) close() {
	p.agents.Close()
	p.models.Close()
	p.sender.Close()
	p.fetcher.Close()
	if p.queue != nil {
		_ = p.queue.Close()
	}
	if p.store != nil {
		_ = p.store.Close()
	}
	if p.listener != nil {
		_ = p.listener.Close()
	}
	p.flushSpans()
	sentry.Flush(2 * time.Second)
}

// reportError sends an internal error to Sentry, if that is set up.
func reportError(err error, tags map[string]string) {
	if hub := sentry.CurrentHub(); hub.Client() != nil {
		hub.WithScope(func(scope *sentry.Scope) {
			scope.SetTags(tags)
			hub.CaptureException(err)
		})
	}
}

// scheduler returns a scheduler with the settings of this process. files are the installation's datasets; nil in a
// process that has none.
func (p *program) scheduler(files *blob.Disk) *library.Scheduler {
	service := &tasks.Service{
		Store: p.store, Queue: p.queue, Sealer: p.sealer, RateCeiling: p.settings.RateCeiling,
		DefaultRate: p.defaults.RateLimit, SensitivePatterns: p.settings.sensitivePatterns(), Log: p.log,
	}
	if p.listener != nil { // a separate worker stores nothing on its disk
		service.Space = p.settings.space
	}
	return &library.Scheduler{
		Store: p.store, Tasks: service, CheckURL: p.guard.CheckRequest, Log: p.log,
		Library: &library.Service{Entries: entries.New(p.store), Files: files, Sealer: p.sealer, Tasks: service,
			DefaultRate: p.defaults.RateLimit, Log: p.log},
	}
}

// firesLate is how long a process with pages leaves a due schedule to the workers, which can only fire it if it needs
// no dataset.
const firesLate = 5 * time.Second

// fireLate fires the schedules that no worker has fired, until ctx ends.
func (p *program) fireLate(ctx context.Context, files *blob.Disk) {
	scheduler := p.scheduler(files)
	scheduler.Late = firesLate
	tick := time.NewTicker(firesLate)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if err := scheduler.Fire(ctx); err != nil && ctx.Err() == nil {
			p.log.WarnContext(ctx, "schedules not fired, will retry", "error", err)
		}
	}
}

// work runs launches, fires schedules and notifies channels, until ctx ends.
func (p *program) work(ctx context.Context) error {
	scheduler := p.scheduler(nil)
	notices := notice.Writer{Store: p.store, Texts: p.texts, PublicURL: p.publicURL}
	messenger := &courier.Courier{Store: p.store, Sealer: p.sealer, Sender: p.sender, Write: notices.Message, Log: p.log}
	announcer := &courier.Announcer{Courier: messenger}
	quotas := people.NewQuotas(p.store)
	budget := &jobs.Budget{Store: p.store, Month: p.settings.MonthCost, Log: p.log}
	events := crew.EventPruner{Journal: engine.NewJournal(p.store), Keep: p.keepEvents()}
	var assetURL func(taskID, assetID uuid.UUID, until time.Time) string
	if p.publicURL != "" {
		assetURL = func(taskID, assetID uuid.UUID, until time.Time) string {
			path := paths.File(taskID, assetID)
			return p.publicURL + path + "?ticket=" + p.sealer.Ticket(path, until)
		}
	}
	worker := jobs.NewWorker(jobs.WorkerConfig{
		Admits: budget.Admits, Chores: []jobs.Chore{
			{Name: "end lost tool calls", Do: events.Journal.CloseLost, Every: time.Minute},
			{Name: "remove old events", Do: events.Prune, Every: time.Hour},
			{Name: "watch the budgets", Do: budget.Watch},
			{Name: "measure the projects", Do: quotas.MeasureAll, Every: time.Minute},
			{Name: "fire schedules", Do: scheduler.Fire}, {Name: "summarise firings", Do: scheduler.Summarise},
			{Name: "announce results", Do: announcer.Round},
		},
		Lanes: p.settings.Concurrency, Store: p.store, Queue: p.queue, Agents: p.agents, Models: p.models, Sealer: p.sealer,
		Metrics: p.metrics, Tracer: p.tracer,
		AssetURL: assetURL, MaxActiveTasks: p.settings.MaxActive, SensitivePatterns: p.settings.sensitivePatterns(),
		KeepHistory: time.Duration(p.settings.HistoryDays) * 24 * time.Hour, DrainTime: p.settings.drainTime(),
		Report: reportError, Log: p.log,
	})
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return p.watchSchema(ctx) })
	group.Go(func() error { return worker.Run(ctx) })
	group.Go(func() error { messenger.Run(ctx); return nil })
	return group.Wait()
}

// watchSchema returns an error once a newer version of the program has migrated the database. This process then
// finishes its calls and stops, because it must not write to tables whose structure it does not support.
func (p *program) watchSchema(ctx context.Context) error {
	tick := time.NewTicker(5 * time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if newer := (*pg.NewerSchemaError)(nil); errors.As(p.store.Ready(ctx), &newer) {
			return newer
		}
	}
}

// retire waits until a newer version of the program has migrated the database. From then on the process changes
// nothing, and refuses every request except probes with request.ErrRetired, until it is stopped.
func (p *program) retire(ctx context.Context) {
	if err := p.watchSchema(ctx); err != nil {
		p.log.ErrorContext(ctx, "no more requests are answered, stop this process", "error", err)
		close(p.retired)
	}
}

// keepEvents returns how long events and previews are kept; 0 means permanently.
func (p *program) keepEvents() time.Duration {
	return time.Duration(p.settings.EventDays) * 24 * time.Hour
}

// tidyFiles removes agents' files that no asset refers to, now and every hour, until ctx ends. It runs in the
// process that owns the file store, because a worker may have no access to it.
func (p *program) tidyFiles(ctx context.Context) {
	sweeper := courier.Sweeper{Store: p.store, Files: p.assets, Keep: p.keepEvents(), Log: p.log}
	tick := time.NewTicker(time.Hour)
	defer tick.Stop()
	for {
		if err := sweeper.Sweep(ctx); err != nil && ctx.Err() == nil {
			p.log.WarnContext(ctx, "files not tidied up, will retry in an hour", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// collect copies the files that agents produce, until ctx ends. isOwner reports that this process owns the file
// store.
func (p *program) collect(ctx context.Context, isOwner bool) {
	copying := &courier.Collector{
		Store: p.store, Files: p.assets, Client: p.fetcher, Sealer: p.sealer, MaxBytes: p.settings.AssetBytes,
		IsOwner: isOwner, Log: p.log,
	}
	copying.Run(ctx)
}

// serve answers requests until ctx ends, then lets those in flight finish.
func (p *program) serve(ctx context.Context, stdout io.Writer) error {
	files, err := blob.NewDisk(filepath.Join(p.settings.DataDir, "uploads"))
	if err != nil {
		return err
	}
	access, err := p.settings.access(p.listener.Addr().String())
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	changing, stopChanging := context.WithCancel(ctx)
	defer stopChanging()
	server, err := handlers.New(handlers.Config{
		Store: p.store, Queue: p.queue, Agents: p.agents, Models: p.models, Guard: p.guard, ModelGuard: p.modelGuard,
		Sender: p.sender, NotifyGuard: p.notifyGuard, Sealer: p.sealer, Files: files, Assets: p.assets,
		Space: p.settings.space, AssetBytes: p.settings.AssetBytes, SensitivePatterns: p.settings.sensitivePatterns(),
		Defaults: p.defaults, DefaultLang: p.settings.DefaultLang, RateCeiling: p.settings.RateCeiling,
		MaxActiveTasks: p.settings.MaxActive, ScheduleMinutes: p.settings.ScheduleMin, MonthCost: p.settings.MonthCost,
		HistoryDays: p.settings.HistoryDays, UploadDays: p.settings.UploadDays, NextBackup: p.settings.nextBackup(),
		DemoURL: p.demoURL, DemoModelsURL: p.demoModelsURL, DemoTicket: p.demoTicket, Hosts: p.settings.names(),
		Access: access, HasTools: p.settings.MCP == "on", HasSpans: p.settings.OTLPReceiver,
		DatabaseURL: p.directURL, Closing: changing.Done(), Retired: p.retired, Registry: p.registry, Tracer: p.tracer,
		Report: reportError, Version: buildVersion(), Log: p.log,
	})
	if err != nil {
		return err
	}
	group.Go(func() error { return server.Run(changing) })
	group.Go(func() error { p.collect(changing, true); return nil })
	group.Go(func() error { p.tidyFiles(changing); return nil })
	group.Go(func() error { p.fireLate(changing, files); return nil })
	group.Go(func() error { p.watchDisk(changing); return nil })
	group.Go(func() error { p.backUp(changing); return nil })
	group.Go(func() error {
		select {
		case <-p.retired:
			stopChanging()
		case <-ctx.Done():
		}
		return nil
	})
	_, _ = fmt.Fprintf(stdout, "wending: %s\n", p.address())
	if err := p.offerSetup(ctx, stdout); err != nil {
		return err
	}
	group.Go(func() error { return serveUntil(ctx, p.listener, server, p.settings.drainTime()) })
	return group.Wait()
}

// address returns the URL at which the pages are served.
func (p *program) address() string {
	if p.settings.TLSCert != "" {
		return "https://" + p.listener.Addr().String()
	}
	return "http://" + p.listener.Addr().String()
}

// serveUntil serves on a listener until ctx ends, then lets requests in flight finish for up to drainTime.
func serveUntil(ctx context.Context, listener net.Listener, handler http.Handler, drainTime time.Duration) error {
	server := &http.Server{
		Handler: handler, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 2 * time.Minute, IdleTimeout: 2 * time.Minute,
		MaxHeaderBytes: 256 << 10, BaseContext: func(net.Listener) context.Context { return context.WithoutCancel(ctx) },
	}
	stopped := make(chan error, 1)
	stop := context.AfterFunc(ctx, func() {
		draining, cancel := context.WithTimeout(context.Background(), drainTime)
		defer cancel()
		err := server.Shutdown(draining)
		if errors.Is(err, context.DeadlineExceeded) {
			err = server.Close()
		}
		stopped <- err
	})
	defer stop()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve: %w", err)
	}
	return <-stopped
}
