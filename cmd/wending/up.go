package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"path/filepath"

	"golang.org/x/sync/errgroup"

	"wending/db/engine"
	"wending/db/pg/embedded"
)

type upCommand struct{}

// Run runs web and workers in one process, on its own servers if none are configured.
func (upCommand) Run(ctx context.Context, s *Settings, log *slog.Logger, stdout io.Writer) error {
	lock, err := embedded.LockDataDir(s.DataDir)
	if err != nil {
		return err
	}
	defer lock.Close() //nolint:errcheck // the lock ends with the process
	e := endpoints{databaseURL: s.DatabaseURL, redisURL: s.RedisURL}
	var databaseExited, redisExited <-chan struct{} // nil, and so never ready, if the servers are external
	if s.DatabaseURL == "" {
		server, err := embedded.StartPostgres(ctx, filepath.Join(s.DataDir, "postgres"))
		if err != nil {
			return err
		}
		defer server.Stop()
		e.databaseURL, databaseExited = server.URL(), server.Exited()
	}
	if s.RedisURL == "" {
		server, err := embedded.StartRedis(ctx, filepath.Join(s.DataDir, "redis"))
		if err != nil {
			return err
		}
		defer server.Stop()
		e.redisURL, redisExited = server.URL(), server.Exited()
		if server.IsInProcess() {
			log.Info("redis-server is not installed, running the queue in this process; this does not affect results")
		}
	}
	if e.demo, err = startDemoAgentAgain(s.DataDir); err != nil {
		return err
	}
	defer e.demo.Close() //nolint:errcheck // the data is discarded
	if e.listener, err = s.listen(); err != nil {
		return err
	}
	p, err := s.connect(ctx, log, e)
	if err != nil {
		return err
	}
	defer p.close()
	if s.DatabaseURL == "" {
		// No other process uses this database, so workers of earlier processes are dead.
		if err := engine.NewPresence(p.store).RemoveAll(ctx); err != nil {
			return err
		}
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return p.work(ctx) })
	group.Go(func() error { return p.serve(ctx, stdout) })
	group.Go(func() error { // exit and let the supervisor restart the program; work resumes from the database
		select {
		case <-databaseExited:
			return errors.New("the embedded PostgreSQL exited; see postgres.log in the data folder")
		case <-redisExited:
			return errors.New("the embedded Redis exited; see redis/redis.log in the data folder")
		case <-ctx.Done():
			return nil
		}
	})
	return group.Wait()
}
