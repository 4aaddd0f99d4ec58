package main

import (
	"context"
	"io"
	"log/slog"
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
	p, err := s.connect(ctx, log, endpoints{databaseURL: s.DatabaseURL, redisURL: s.RedisURL, listener: listener})
	if err != nil {
		return err
	}
	defer p.close()
	return p.serve(ctx, stdout)
}
