package main

import (
	"context"
	"io"
	"log/slog"

	"golang.org/x/sync/errgroup"
)

type serveCommand struct{}

// Run serves the pages and the API.
func (serveCommand) Run(ctx context.Context, s *Settings, log *slog.Logger, stdout io.Writer) error {
	if err := s.requireServers(); err != nil {
		return err
	}
	listener, err := s.listen()
	if err != nil {
		return err
	}
	p, err := s.connect(ctx, log, endpoints{command: "serve", databaseURL: s.DatabaseURL, redisURL: s.RedisURL,
		listener: listener})
	if err != nil {
		return err
	}
	defer p.close()
	p.retired = make(chan struct{})
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { p.retire(ctx); return nil })
	group.Go(func() error { return p.serve(ctx, stdout) })
	return group.Wait()
}
