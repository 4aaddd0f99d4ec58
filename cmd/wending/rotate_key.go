package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"wending/db"
	"wending/db/people"
	"wending/db/pg/embedded"
	"wending/db/report"
	"wending/db/upkeep"
	"wending/jobs"
	"wending/jobs/library"
	"wending/jobs/secret"
	"wending/jobs/tasks"
)

type rotateKeyCommand struct {
	LostKey bool `help:"The previous key is lost: list the secrets that can no longer be decrypted; with --confirm, discard them and use the current key."`
	Confirm bool `help:"With --lost-key: discard the secrets."`
}

// Run seals the secrets of all tasks and of the library with the current key: SECRET_KEY, or a fresh one in the
// data folder. It can be run again after an interruption: no key is removed before all secrets are sealed with the
// new one.
func (c rotateKeyCommand) Run(ctx context.Context, s *Settings, log *slog.Logger, stdout io.Writer) error {
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
	if c.LostKey {
		return c.giveUp(ctx, s, store, stdout)
	}
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
	sealing := people.NewAuditLog(store, sealer).Seal(ctx)
	unsealed := (*people.AuditSealError)(nil)
	if sealing != nil && !errors.As(sealing, &unsealed) {
		return sealing
	}
	changed, values, err := resealAll(ctx, store, sealer, log)
	if err != nil {
		return err
	}
	if s.SecretKey == "" { // the previous key stays for a process that has not been restarted yet
		if err := s.writeKeys(append([]string{keys.Current}, keys.Previous[:1]...), os.Rename); err != nil {
			return err
		}
	}
	if unsealed != nil {
		_, _ = fmt.Fprintf(stdout, "wending: %v; see 'wending audit verify'\n", unsealed)
	}
	_, _ = fmt.Fprintf(stdout, "wending: tasks whose secrets are sealed with the new key: %d\n", changed)
	if values > 0 {
		_, _ = fmt.Fprintf(stdout, "wending: secrets of the library sealed with the new key: %d\n", values)
	}
	return nil
}

// resealAll seals the secrets of all tasks and of the library with the current key, and returns how many tasks and
// library values it sealed. It returns an error if some of them cannot be opened with any known key.
func resealAll(ctx context.Context, store *db.Store, sealer *secret.Sealer,
	log *slog.Logger) (changed, values int, err error) {
	left, valuesLeft := 0, 0
	err = tasks.Reseal(ctx, store, sealer, func(changedNow, leftNow int) {
		changed, left = changedNow, leftNow
		log.InfoContext(ctx, "sealed with the new key", "tasks", changed)
	})
	if err == nil {
		err = library.Reseal(ctx, store, sealer, func(changedNow, leftNow int) {
			values, valuesLeft = changedNow, leftNow
			log.InfoContext(ctx, "sealed with the new key", "library", values)
		})
	}
	if err != nil {
		return 0, 0,
			fmt.Errorf("%w (sealed with the new key so far: %d tasks, %d library values; run the command again to continue)",
				err, changed, values)
	}
	if left+valuesLeft > 0 {
		return 0, 0,
			fmt.Errorf("sealed with the new key: %d tasks and %d library values; left unchanged, because they were sealed with "+
				"neither SECRET_KEY nor SECRET_KEY_PREVIOUS: %d tasks and %d library values", changed, values, left, valuesLeft)
	}
	return changed, values, nil
}

// giveUp lists the secrets sealed with a lost key and, once confirmed, gives them up.
func (c rotateKeyCommand) giveUp(ctx context.Context, s *Settings, store *db.Store, stdout io.Writer) error {
	if err := s.requireStopped(ctx, store,
		"a running worker may still have the lost key: before you stop it, "+
			"try to read SECRET_KEY from its environment"); err != nil {
		return err
	}
	keys, err := s.secretKeys()
	if err != nil {
		return err
	}
	loss, err := tasks.FindLoss(ctx, store, keys)
	if err != nil {
		return err
	}
	if !loss.IsForeign && len(loss.Lost) == 0 {
		_, err := fmt.Fprintln(stdout,
			"wending: nothing is lost: SECRET_KEY is this database's key and decrypts all its secrets")
		return err
	}
	listLoss(stdout, loss)
	if !c.Confirm {
		return errors.New("nothing was changed. If you find the key, start with it; otherwise make a backup and run the " +
			"command again with --confirm")
	}
	log, unsealed := people.NewAuditLog(store, loss.Sealer), (*people.AuditSealError)(nil)
	err = log.Seal(ctx)
	if loss.IsForeign && errors.As(err, &unsealed) {
		err = log.SealAgain(ctx, people.AuditEntry{Actor: commander(), Via: people.ViaCommand})
	}
	if err != nil && !errors.As(err, &unsealed) {
		return err
	}
	after, err := json.Marshal(map[string]any{"given_up": described(loss.Lost)})
	if err != nil {
		return err
	}
	entry := people.AuditEntry{Actor: commander(), Via: people.ViaCommand,
		Action: "key.lost", Object: people.ObjectOfAction("key.lost"),
		Status: http.StatusOK, After: string(after)}
	begun, err := log.Begin(ctx, entry)
	if err != nil {
		return err
	}
	if err := loss.GiveUp(ctx, jobs.FailureSecretKey); err != nil {
		return err // the audit will record that the outcome is unknown
	}
	if _, err := log.Complete(ctx, begun, entry); err != nil {
		return err
	}
	_, err = fmt.Fprintln(stdout,
		"wending: secrets discarded. SECRET_KEY is now this installation's key; start Wending and enter the secrets listed "+
			"above again in the library")
	return err
}

// listLoss prints which secrets are lost and which are not.
func listLoss(stdout io.Writer, loss tasks.Loss) {
	if loss.IsForeign {
		_, _ = fmt.Fprintln(stdout,
			"wending: SECRET_KEY is not the key of this database. Without that key, these secrets can never be decrypted:")
	} else {
		_, _ = fmt.Fprintln(stdout, "wending: no key decrypts these secrets:")
	}
	for _, line := range described(loss.Lost) {
		_, _ = fmt.Fprintln(stdout, "  "+line)
	}
	if loss.IsForeign {
		_, _ = fmt.Fprintln(stdout, "  the audit log's seal: the log is sealed in its current state, which adds an entry")
	}
	_, _ = fmt.Fprintln(stdout,
		"Providers, models, agents and channels are kept without these secrets, and their last test counts as failed. "+
			"Tasks keep their results, but must be created again to be run again.\n"+
			"Accounts, passwords, passkeys, tokens, results, files and reports are kept; every browser counts as unknown once.")
}

// described returns a line for each object whose secrets are lost.
func described(lost []upkeep.Lost) (lines []string) {
	for _, one := range lost {
		line := fmt.Sprintf("%s %q: %s", one.Kind, one.Name, strings.Join(one.Places, ", "))
		switch {
		case one.Kind == "session":
			line = fmt.Sprintf("session of %q: ends; a new one begins at the next sign-in", one.Name)
		case len(one.Models) > 0:
			line += fmt.Sprintf(" (of the models %s)", strings.Join(one.Models, ", "))
		case one.Number > 1:
			line += fmt.Sprintf(" (target %d)", one.Number)
		}
		lines = append(lines, line)
	}
	return lines
}

// requireStopped returns an error with the given reason if a worker is running.
func (s Settings) requireStopped(ctx context.Context, store *db.Store, why string) error {
	if s.DatabaseURL == "" { // this process holds the lock of the data folder, so no other process is running
		return nil
	}
	workers, err := report.NewMonitor(store).Workers(ctx)
	if err == nil && slices.ContainsFunc(workers, func(w report.Worker) bool { return w.IsAlive }) {
		err = errors.New(why)
	}
	return err
}

// addFreshKey adds a fresh key in front of those in the data folder. The program must be stopped, because running
// processes would not have the new key.
func (s Settings) addFreshKey(ctx context.Context, store *db.Store) error {
	if err := s.requireStopped(ctx, store, "stop all processes first: they would go on using the old key"); err != nil {
		return err
	}
	if _, err := s.secretKeys(); err != nil { // if there is no key yet, this creates the first one
		return err
	}
	kept, err := s.keptKeys()
	if err != nil {
		return err
	}
	return s.writeKeys(append([]string{freshKey()}, kept...), os.Rename)
}
