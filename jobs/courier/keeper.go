package courier

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"regexp"
	"slices"
	"time"

	"wending/db"
	"wending/db/upkeep"
	"wending/jobs/blob"
	"wending/jobs/cron"
)

// BackupKeeper makes scheduled backups, and keeps the newest ones. Any number of processes may have one: each planned
// backup is made by one of them.
type BackupKeeper struct {
	Store  *db.Store
	Backup Backup
	// Place is where backups are kept, and Keep how many of them.
	Place blob.Store
	Keep  int
	// Next returns the first planned time after the given one.
	Next func(time.Time) time.Time
	Log  *slog.Logger
}

// BackupTimes returns the planned times of a cron expression, which is read in Beijing time.
func BackupTimes(expression string) (next func(time.Time) time.Time, err error) {
	plan, err := cron.Parse(expression, "Asia/Shanghai")
	if err != nil {
		return nil, err
	}
	return plan.Next, nil
}

// Round makes a backup if one is due and no other process is making it. The first one is due at the first planned time
// after the first round. A backup that was due while no process ran, or whose process died, is made once, late.
func (k BackupKeeper) Round(ctx context.Context) error {
	monitor := upkeep.NewMonitor(k.Store)
	isDue := func() (bool, error) {
		plan, err := monitor.PlanOfBackups(ctx)
		return err == nil && !k.Next(plan.TriedAt).After(plan.Now), err
	}
	if due, err := isDue(); err != nil || !due {
		return err
	}
	_, err := monitor.AsBackup(ctx, func() error {
		if due, err := isDue(); err != nil || !due { // another process has just made it
			return err
		}
		return k.keep(ctx, monitor)
	})
	return err
}

// keep makes, checks and records a backup, then removes older ones. A failure is recorded, too, and ends the attempt.
func (k BackupKeeper) keep(ctx context.Context, monitor upkeep.Monitor) error {
	begun := time.Now()
	name, size, err := k.make(ctx)
	if ctx.Err() != nil { // the process is being stopped; the next one makes the backup
		return ctx.Err()
	}
	if err != nil {
		k.Log.ErrorContext(ctx, "backup failed, will try again at the next planned time",
			"next", k.Next(time.Now()).Format(time.RFC3339), "error", err)
		return monitor.BackupFailed(ctx)
	}
	if err := monitor.BackedUp(ctx, size, true); err != nil {
		return err
	}
	removed, err := k.removeOld(ctx)
	if err != nil {
		k.Log.WarnContext(ctx, "older backups not removed, will retry after the next one", "error", err)
	}
	k.Log.InfoContext(ctx, "backup made and checked", "file", name, "bytes", size, "removed", removed,
		"took", time.Since(begun).Round(time.Millisecond).String())
	return nil
}

// make stores a backup, and checks what is stored.
func (k BackupKeeper) make(ctx context.Context) (name string, size int64, err error) {
	name = "wending-" + time.Now().UTC().Format("20060102T150405Z") + ".tar.gz"
	file, err := blob.Unnamed(k.Backup.TempDir)
	if err != nil {
		return name, 0, err
	}
	defer file.Close() //nolint:errcheck // it disappears
	written, err := k.Backup.Write(ctx, file)
	if err != nil {
		return name, 0, err
	}
	if size, err = file.Seek(0, io.SeekCurrent); err != nil {
		return name, 0, err
	}
	if _, err = file.Seek(0, io.SeekStart); err != nil {
		return name, 0, err
	}
	if err := k.Place.Put(ctx, name, file, size); err != nil {
		return name, 0, err
	}
	if err := k.check(ctx, name, written); err != nil {
		return name, 0, errors.Join(fmt.Errorf("%s: %w", name, err), k.Place.Delete(ctx, name))
	}
	return name, size, nil
}

// check reads a stored backup as a whole, and fails if it is damaged or lacks files.
func (k BackupKeeper) check(ctx context.Context, name string, written BackupContent) error {
	stored, err := k.Place.Open(ctx, name)
	if err != nil {
		return err
	}
	defer stored.Close() //nolint:errcheck // only read
	found, err := CheckBackup(ctx, stored)
	if err == nil && found.Files != written.Files {
		err = fmt.Errorf("it has %d files of %d", found.Files, written.Files)
	}
	return err
}

// backupName matches the names of scheduled backups. Other files in the same place are never removed.
var backupName = regexp.MustCompile(`^wending-\d{8}T\d{6}Z\.tar\.gz$`)

// removeOld removes all but the newest k.Keep backups, and returns how many it removed.
func (k BackupKeeper) removeOld(ctx context.Context) (removed int, err error) {
	var names []string
	err = k.Place.Walk(ctx, func(one blob.Entry) error {
		if backupName.MatchString(one.Key) {
			names = append(names, one.Key)
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	slices.Sort(names)
	for _, name := range names[:max(0, len(names)-k.Keep)] {
		if err := k.Place.Delete(ctx, name); err != nil {
			return removed, err
		}
		removed++
	}
	return removed, nil
}
