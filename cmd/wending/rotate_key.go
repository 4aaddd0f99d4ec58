package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"

	"wending/db"
	"wending/db/audit"
	"wending/db/pg/embedded"
	"wending/db/report"
	"wending/jobs/library"
	"wending/jobs/tasks"
)

type rotateKeyCommand struct{}

// Run seals the secrets of all tasks and of the library with the current key: SECRET_KEY, or a fresh one in the data
// folder. After an interruption it is run again: no key is forgotten before all secrets are sealed with the new one.
func (rotateKeyCommand) Run(ctx context.Context, s *Settings, log *slog.Logger, stdout io.Writer) error {
	databaseURL := s.DatabaseURL
	if databaseURL == "" {
		lock, err := embedded.LockDataDir(s.DataDir)
		if err != nil {
			return err
		}
		defer lock.Close() //nolint:errcheck // the lock ends with the process
		server, err := embedded.StartPostgres(ctx, filepath.Join(s.DataDir, "postgres"))
		if err != nil {
			return err
		}
		defer server.Stop()
		databaseURL = server.URL()
	}
	if err := db.Migrate(ctx, s.directURL(databaseURL)); err != nil {
		return err
	}
	store, err := db.Open(ctx, databaseURL, 2)
	if err != nil {
		return err
	}
	defer store.Close() //nolint:errcheck // nothing is pending
	if s.SecretKey == "" {
		if err := s.addFreshKey(ctx, store); err != nil {
			return err
		}
	}
	keys, err := s.secretKeys()
	if err != nil {
		return err
	}
	sealer, err := tasks.NewSealer(ctx, store, keys)
	if err != nil {
		return err
	}
	sealing := audit.New(store, sealer).Seal(ctx)
	unsealed := (*audit.SealError)(nil)
	if sealing != nil && !errors.As(sealing, &unsealed) {
		return sealing
	}
	changed, left := 0, 0
	err = tasks.Reseal(ctx, store, sealer, func(changedNow, leftNow int) {
		changed, left = changedNow, leftNow
		log.InfoContext(ctx, "sealed with the new key", "tasks", changed)
	})
	values, valuesLeft := 0, 0
	if err == nil {
		err = library.Reseal(ctx, store, sealer, func(changedNow, leftNow int) {
			values, valuesLeft = changedNow, leftNow
			log.InfoContext(ctx, "sealed with the new key", "library", values)
		})
	}
	if err != nil {
		return fmt.Errorf("%w (sealed with the new key so far: %d tasks, %d values of the library; run it again to continue)", err, changed, values)
	}
	if left+valuesLeft > 0 {
		return fmt.Errorf("tasks sealed with the new key: %d; left as they are: %d, sealed with a key that is neither SECRET_KEY nor SECRET_KEY_PREVIOUS "+
			"(of the library, %d values; left: %d)", changed, left, values, valuesLeft)
	}
	if s.SecretKey == "" { // the one before the fresh key stays for a process that has not been started again
		if err := s.writeKeys(append([]string{keys.Current}, keys.Previous[:1]...), os.Rename); err != nil {
			return err
		}
	}
	if unsealed != nil {
		_, _ = fmt.Fprintf(stdout, "wending: %v: see 'wending audit verify'\n", unsealed)
	}
	_, _ = fmt.Fprintf(stdout, "wending: tasks whose secrets are sealed with the new key: %d\n", changed)
	if values > 0 {
		_, _ = fmt.Fprintf(stdout, "wending: secrets of the library sealed with the new key: %d\n", values)
	}
	return nil
}

// addFreshKey puts a fresh key before those in the data folder. Processes that run would not know it.
func (s Settings) addFreshKey(ctx context.Context, store *db.Store) error {
	if s.DatabaseURL != "" { // otherwise the lock of the data folder is ours: none runs
		workers, err := report.NewMonitor(store).Workers(ctx)
		if err != nil {
			return err
		}
		if slices.ContainsFunc(workers, func(w report.Worker) bool { return w.IsAlive }) {
			return errors.New("stop all processes first: they would not know the new key in the data folder")
		}
	}
	if _, err := s.secretKeys(); err != nil { // there may be no key yet
		return err
	}
	kept, err := s.keptKeys()
	if err != nil {
		return err
	}
	return s.writeKeys(append([]string{freshKey()}, kept...), os.Rename)
}
