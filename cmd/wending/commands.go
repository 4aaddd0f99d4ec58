package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"time"

	"github.com/getsentry/sentry-go"
	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/sync/errgroup"

	"wending/db"
	"wending/db/embedded"
	"wending/handlers"
	"wending/jobs"
	"wending/jobs/agent"
)

type commands struct {
	Settings

	Up          upCommand          `cmd:"" help:"Run everything: web, workers, and PostgreSQL and Redis where no URL is given."`
	Serve       serveCommand       `cmd:"" help:"Run the web pages and the API."`
	Worker      workerCommand      `cmd:"" help:"Run a worker."`
	Migrate     migrateCommand     `cmd:"" help:"Bring the database's schema up to date."`
	DemoAgent   demoAgentCommand   `cmd:"" help:"Run a small fake agent with unsteady answers."`
	Healthcheck healthcheckCommand `cmd:"" help:"Ask the web for its health; exit code 0: it is well."`
}

type (
	upCommand        struct{}
	serveCommand     struct{}
	workerCommand    struct{}
	migrateCommand   struct{}
	demoAgentCommand struct {
		Listen string `from:"DEMO_LISTEN_ADDR" default:"127.0.0.1:8081" help:"Address of the agent ($DEMO_LISTEN_ADDR)."`
	}
	healthcheckCommand struct {
		URL string `name:"url" help:"Address to ask; default: /healthz at LISTEN_ADDR, or at METRICS_ADDR where it is set."`
	}
)

// poolSize is how many connections a process keeps to the database; lanes share them.
const poolSize = 15

// Run runs web and workers in one process, on servers of its own where none are given.
func (upCommand) Run(ctx context.Context, s *Settings, log *slog.Logger, stdout io.Writer) error {
	lock, err := embedded.LockDataDir(s.DataDir)
	if err != nil {
		return err
	}
	defer lock.Close() //nolint:errcheck // the lock ends with the process
	databaseURL, redisURL, ownsDatabase := s.DatabaseURL, s.RedisURL, s.DatabaseURL == ""
	var databaseExited, redisExited <-chan struct{} // nil, so never, where they are not ours
	if ownsDatabase {
		server, err := embedded.StartPostgres(ctx, filepath.Join(s.DataDir, "postgres"))
		if err != nil {
			return err
		}
		defer server.Stop()
		databaseURL, databaseExited = server.URL(), server.Exited()
	}
	if redisURL == "" {
		server, err := embedded.StartRedis(ctx, filepath.Join(s.DataDir, "redis"))
		if err != nil {
			return err
		}
		defer server.Stop()
		redisURL, redisExited = server.URL(), server.Exited()
		if server.IsInProcess() {
			log.Info("no redis-server on this machine: the queue lives in this process; results do not depend on it")
		}
	}
	demo, err := startDemoAgentAgain(filepath.Join(s.DataDir, "demo.address"))
	if err != nil {
		return err
	}
	defer demo.Close() //nolint:errcheck // nothing is kept there
	listener, err := s.listen()
	if err != nil {
		return err
	}
	p, err := s.connect(ctx, log, databaseURL, redisURL, listener, demo)
	if err != nil {
		return err
	}
	defer p.close()
	if ownsDatabase {
		// Nobody else can be at work on this database: whatever a worker held is free now.
		if err := p.store.RemoveAllWorkers(ctx); err != nil {
			return err
		}
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return p.worker().Run(ctx) })
	group.Go(func() error { return p.serve(ctx, stdout) })
	group.Go(func() error { // whoever started this program starts it again, and it goes on where it was
		select {
		case <-databaseExited:
			return errors.New("the embedded PostgreSQL ended by itself; see postgres.log in the data folder")
		case <-redisExited:
			return errors.New("the embedded Redis ended by itself; see redis/redis.log in the data folder")
		case <-ctx.Done():
			return nil
		}
	})
	return group.Wait()
}

// Run serves the pages and the API.
func (serveCommand) Run(ctx context.Context, s *Settings, log *slog.Logger, stdout io.Writer) error {
	if err := s.requireServers(); err != nil {
		return err
	}
	listener, err := s.listen()
	if err != nil {
		return err
	}
	p, err := s.connect(ctx, log, s.DatabaseURL, s.RedisURL, listener, nil)
	if err != nil {
		return err
	}
	defer p.close()
	return p.serve(ctx, stdout)
}

// Run runs a worker, with its metrics where METRICS_ADDR says so.
func (workerCommand) Run(ctx context.Context, s *Settings, log *slog.Logger) error {
	if err := s.requireServers(); err != nil {
		return err
	}
	p, err := s.connect(ctx, log, s.DatabaseURL, s.RedisURL, nil, nil)
	if err != nil {
		return err
	}
	defer p.close()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return p.worker().Run(ctx) })
	if s.MetricsAddr != "" {
		listener, err := net.Listen("tcp", s.MetricsAddr)
		if err != nil {
			return fmt.Errorf("METRICS_ADDR: %w", err)
		}
		mux := http.NewServeMux()
		mux.Handle("GET /metrics", promhttp.HandlerFor(p.registry, promhttp.HandlerOpts{}))
		mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, r *http.Request) {
			if err := p.store.Ping(r.Context()); err != nil {
				http.Error(w, "the database does not answer", http.StatusServiceUnavailable)
			}
		})
		group.Go(func() error { return serveUntil(ctx, listener, mux) })
	}
	return group.Wait()
}

// Run migrates the schema.
func (migrateCommand) Run(ctx context.Context, s *Settings) error {
	if s.DatabaseURL == "" {
		return errors.New("DATABASE_URL is not set; 'up' migrates its embedded database by itself")
	}
	return db.Migrate(ctx, s.directURL(s.DatabaseURL))
}

// Run asks for the health of a process on this machine.
func (h healthcheckCommand) Run(ctx context.Context, s *Settings) error {
	if h.URL == "" {
		address := s.ListenAddr
		if s.MetricsAddr != "" {
			address = s.MetricsAddr
		}
		host, port, err := net.SplitHostPort(address)
		if err != nil {
			return fmt.Errorf("%q is no host:port", address)
		}
		if ip := net.ParseIP(host); host == "" || (ip != nil && ip.IsUnspecified()) {
			host = "127.0.0.1"
		}
		h.URL = "http://" + net.JoinHostPort(host, port) + "/healthz"
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, h.URL, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close() //nolint:errcheck // not read
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", h.URL, response.Status)
	}
	return nil
}

// program is a process's parts, connected.
type program struct {
	settings Settings
	defaults handlers.Defaults
	listener net.Listener
	store    *db.Store
	// directURL leads to the database itself, past a pooler.
	directURL string
	queue     *jobs.Queue
	guard     *agent.Guard
	agents    *agent.Client
	sealer    *agent.Sealer
	registry  *prometheus.Registry
	metrics   *jobs.Metrics
	demoURL   string
	log       *slog.Logger
}

// requireServers fails unless PostgreSQL and Redis are given.
func (s *Settings) requireServers() error {
	if s.DatabaseURL == "" || s.RedisURL == "" {
		return errors.New("DATABASE_URL and REDIS_URL must be set; 'wending up' brings its own servers")
	}
	return nil
}

// directURL is the address of the database itself: databaseURL, unless that leads to a pooler.
func (s *Settings) directURL(databaseURL string) string {
	if s.DirectURL != "" {
		return s.DirectURL
	}
	return databaseURL
}

func (s *Settings) listen() (net.Listener, error) {
	listener, err := net.Listen("tcp", s.ListenAddr)
	if err != nil {
		return nil, fmt.Errorf("LISTEN_ADDR: %w", err)
	}
	return listener, nil
}

// connect connects a process's parts. listener is where the pages will be served; nil: this process
// serves none. It is closed with the program. demo is the demo agent; nil: none runs.
func (s *Settings) connect(ctx context.Context, log *slog.Logger, databaseURL, redisURL string, listener net.Listener, demo *demoAgent) (_ *program, err error) {
	p := &program{settings: *s, log: log, registry: prometheus.NewRegistry(), listener: listener}
	defer func() {
		if err != nil {
			p.close()
		}
	}()
	if p.defaults, err = s.defaults(); err != nil {
		return nil, err
	}
	if s.SentryDSN != "" {
		if err := sentry.Init(sentry.ClientOptions{Dsn: s.SentryDSN}); err != nil {
			return nil, fmt.Errorf("SENTRY_DSN: %w", err)
		}
	}
	address := s.ListenAddr
	if listener != nil {
		address = listener.Addr().String() // the port may have been chosen by the system
	}
	guard := agent.GuardConfig{Allowlist: s.Allowlist, AllowLoopback: listensOnLoopback(s.ListenAddr), Own: ownAddresses(address, databaseURL, s.directURL(databaseURL), redisURL)}
	if demo != nil {
		guard.Always = []string{demo.address()}
		p.demoURL = demo.url()
	}
	if p.guard, err = agent.NewGuard(guard); err != nil {
		return nil, err
	}
	p.agents = agent.NewClient(p.guard, s.AgentAPIKey)
	secret, err := s.secret()
	if err != nil {
		return nil, err
	}
	if p.sealer, err = agent.NewSealer(secret); err != nil {
		return nil, err
	}
	if p.queue, err = jobs.NewQueue(redisURL); err != nil {
		return nil, err
	}
	p.directURL = s.directURL(databaseURL)
	if err := db.Migrate(ctx, p.directURL); err != nil {
		return nil, err
	}
	if p.store, err = db.Open(ctx, databaseURL, poolSize); err != nil {
		return nil, err
	}
	p.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	p.metrics = jobs.NewMetrics(p.registry, p.queue)
	return p, nil
}

func (p *program) close() {
	if p.agents != nil {
		p.agents.Close()
	}
	if p.queue != nil {
		_ = p.queue.Close()
	}
	if p.store != nil {
		_ = p.store.Close()
	}
	if p.listener != nil {
		_ = p.listener.Close()
	}
	sentry.Flush(2 * time.Second)
}

func (p *program) worker() *jobs.Worker {
	return jobs.NewWorker(jobs.WorkerConfig{Lanes: p.settings.Concurrency, Store: p.store, Queue: p.queue, Agents: p.agents,
		Sealer: p.sealer, Metrics: p.metrics, KeepHistory: time.Duration(p.settings.HistoryDays) * 24 * time.Hour, Log: p.log})
}

// serve answers requests until ctx ends, then lets those in flight finish.
func (p *program) serve(ctx context.Context, stdout io.Writer) error {
	changes := make(chan uuid.UUID)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		return db.ListenForChanges(ctx, p.directURL, func(id uuid.UUID) {
			select {
			case changes <- id:
			case <-ctx.Done():
			}
		})
	})
	handler, err := handlers.New(handlers.Config{Store: p.store, Queue: p.queue, Agents: p.agents, Guard: p.guard, Sealer: p.sealer,
		Uploads: filepath.Join(p.settings.DataDir, "uploads"), Defaults: p.defaults, DefaultLang: p.settings.DefaultLang, DemoURL: p.demoURL, Hosts: p.settings.hosts(),
		Changes: changes, Closing: ctx.Done(), Registry: p.registry, Log: p.log})
	if err != nil {
		return err
	}
	_, _ = fmt.Fprintf(stdout, "wending: http://%s\n", p.listener.Addr())
	group.Go(func() error { return serveUntil(ctx, p.listener, handler) })
	return group.Wait()
}

// serveUntil serves on a listener until ctx ends.
func serveUntil(ctx context.Context, listener net.Listener, handler http.Handler) error {
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 2 * time.Minute, IdleTimeout: 2 * time.Minute,
		MaxHeaderBytes: 64 << 10, BaseContext: func(net.Listener) context.Context { return context.WithoutCancel(ctx) }}
	stopped := make(chan error, 1)
	stop := context.AfterFunc(ctx, func() {
		draining, cancel := context.WithTimeout(context.Background(), 30*time.Second)
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
