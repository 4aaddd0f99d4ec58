package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/sync/errgroup"

	"wending/handlers"
	"wending/views/paths"
)

type workerCommand struct{}

// Run runs a worker, with its metrics if METRICS_ADDR is set.
func (workerCommand) Run(ctx context.Context, s *Settings, log *slog.Logger) error {
	if err := s.requireServers(); err != nil {
		return err
	}
	p, err := s.connect(ctx, log, endpoints{command: "worker", databaseURL: s.DatabaseURL, redisURL: s.RedisURL})
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
		probes := handlers.Probes{Store: p.store, Version: buildVersion()}
		mux.HandleFunc("GET "+paths.Live, probes.Live)
		mux.HandleFunc("GET "+paths.Ready, probes.Ready)
		mux.HandleFunc("GET "+paths.Health, probes.Ready)
		group.Go(func() error { return serveUntil(ctx, listener, mux, s.drainTime()) })
	}
	return group.Wait()
}
