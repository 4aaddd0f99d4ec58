package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"

	"golang.org/x/sync/errgroup"

	"wending/db/engine"
	"wending/db/pg/embedded"
)

type upCommand struct{}

// Run runs web and workers in one process. It starts PostgreSQL and Redis itself if no address is configured for them.
func (upCommand) Run(ctx context.Context, s *Settings, log *slog.Logger, stdout io.Writer) error {
	lock, err := embedded.LockDataDir(s.DataDir)
	if err != nil {
		return err
	}
	defer lock.Close() //nolint:errcheck // the lock ends with the process
	e := endpoints{command: "up", databaseURL: s.DatabaseURL, redisURL: s.RedisURL}
	var own ownServers
	if s.DatabaseURL == "" {
		server, err := embedded.StartPostgres(ctx, filepath.Join(s.DataDir, "postgres"))
		if err != nil {
			return unlessStopped(ctx, err)
		}
		defer server.Stop()
		e.databaseURL, own.database = server.URL(), server
	}
	if s.RedisURL == "" {
		server, err := embedded.StartRedis(ctx, filepath.Join(s.DataDir, "redis"))
		if err != nil {
			return unlessStopped(ctx, err)
		}
		defer server.Stop()
		e.redisURL, own.redis = server.URL(), server
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
	return own.wait(group)
}

// ownServers are the servers that the process itself runs; nil means that a server is external.
type ownServers struct {
	database *embedded.Postgres
	redis    *embedded.Redis
}

// wait waits until the group or a server ends. If a server ends, it does not wait for the group, which could not finish
// its work without that server: the process exits, its supervisor starts it again, and work resumes from the database.
func (o ownServers) wait(group *errgroup.Group) error {
	var databaseExited, redisExited <-chan struct{} // nil, and so never ready, if the servers are external
	if o.database != nil {
		databaseExited = o.database.Exited()
	}
	if o.redis != nil {
		redisExited = o.redis.Exited()
	}
	ended := make(chan error, 1)
	go func() { ended <- group.Wait() }()
	select {
	case <-databaseExited:
		return fmt.Errorf("the embedded PostgreSQL exited: %s; see postgres.log in the data folder", o.database.Cause())
	case <-redisExited:
		return errors.New("the embedded Redis exited; see redis/redis.log in the data folder")
	case err := <-ended:
		return err
	}
}
