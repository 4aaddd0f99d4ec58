package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/sync/errgroup"
)

type workerCommand struct{}

// Run runs a worker, with its metrics if METRICS_ADDR is set.
func (workerCommand) Run(ctx context.Context, s *Settings, log *slog.Logger) error {
	if err := s.requireServers(); err != nil {
		return err
	}
	p, err := s.connect(ctx, log, endpoints{databaseURL: s.DatabaseURL, redisURL: s.RedisURL})
	if err != nil {
		return err
	}
	defer p.close()
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return p.work(ctx) })
	group.Go(func() error { p.collect(ctx, false); return nil })
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
