package courier

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/google/uuid"

	"wending/db"
	"wending/db/engine"
	"wending/jobs/blob"
	"wending/jobs/reason"
	"wending/jobs/secret"
)

// Collector copies files that agents produced: it downloads them, identifies their types, and stores them where the
// report can show them. It retries failed copies; the result of a run never depends on a copy. Each process has its own
// Collector, and several may work on the same file store at the same time.
type Collector struct {
	Store  *db.Store
	Files  blob.Store
	Client *Fetcher
	Sealer *secret.Sealer
	// MaxBytes is the maximum size of a file in bytes; larger files are not stored.
	MaxBytes int64
	// IsOwner reports that this process decides which file store belongs to the installation; other processes only
	// copy files if their store is the same.
	IsOwner bool
	Log     *slog.Logger
}

// places is the maximum number of files that a process copies at once.
const places = 16

// lookEvery is the interval at which a process looks for files to copy.
const lookEvery = 500 * time.Millisecond

// copyFor is the maximum duration of copying one file.
const copyFor = 10 * time.Minute

// attempts is the maximum number of times that a download is tried; the waits between attempts grow from seconds to
// half an hour.
const attempts = 8

// Run copies the files that are due until ctx ends.
func (c *Collector) Run(ctx context.Context) {
	for !c.mark(ctx) {
		select {
		case <-ctx.Done():
			return
		case <-time.After(lookEvery):
		}
	}
	Pump[engine.ClaimedAsset]{
		Places: places, Every: lookEvery,
		Claim: func(ctx context.Context, free int, copying []engine.ClaimedAsset) ([]engine.ClaimedAsset, error) {
			held := map[uuid.UUID]int{}
			for _, one := range copying {
				held[one.TaskID]++
			}
			return c.assets().Claim(ctx, free, held)
		},
		Failed: func(ctx context.Context, err error) {
			c.Log.WarnContext(ctx, "files to copy not claimed, will retry", "error", err)
		},
		Work: c.take,
	}.Run(ctx)
}

func (c *Collector) assets() engine.Assets { return engine.NewAssets(c.Store) }

// take makes one attempt to copy a file.
func (c *Collector) take(ctx context.Context, claimed engine.ClaimedAsset) {
	ctx, cancel := context.WithTimeout(ctx, copyFor)
	defer cancel()
	lost := make(chan struct{})
	renewing, stop := context.WithCancel(ctx)
	defer stop()
	var renewal sync.WaitGroup
	renewal.Go(func() {
		tick := time.NewTicker(engine.ClaimFor / 3)
		defer tick.Stop()
		for {
			select {
			case <-renewing.Done():
				return
			case <-tick.C:
				if err := c.assets().Renew(renewing, claimed); errors.Is(err, db.ErrConflict) {
					close(lost)
					cancel() // the file is gone, or another process has claimed it
					return
				}
			}
		}
	})
	err := c.copy(ctx, claimed)
	stop()
	renewal.Wait()
	if err == nil {
		return
	}
	after, cancelAfter := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancelAfter()
	select {
	case <-lost:
		return
	default:
	}
	if errors.Is(ctx.Err(), context.Canceled) { // this process is shutting down
		err = c.assets().Release(after, claimed)
	} else {
		wait := retryAfter(claimed.Attempts)
		fetching, last := (*fetchError)(nil), (*finalError)(nil)
		// A failing store does not count against the file.
		if errors.As(err, &last) || errors.As(err, &fetching) && claimed.Attempts >= attempts {
			wait = 0
		}
		c.Log.InfoContext(ctx, "file not copied", "asset_id", claimed.ID, "task_id", claimed.TaskID,
			"attempt", claimed.Attempts, "is_final", wait == 0, "error", err)
		err = c.assets().Fail(after, claimed, reasonOf(err), wait)
	}
	if err != nil {
		c.Log.WarnContext(after, "copy outcome not stored, will retry", "asset_id", claimed.ID, "error", err)
	}
}

// retryAfter returns how long to wait after a failed attempt; attempt counts from 1.
func retryAfter(attempt int) time.Duration {
	retry := backoff.NewExponentialBackOff()
	retry.InitialInterval, retry.Multiplier, retry.MaxInterval = 2*time.Second, 4, 30*time.Minute
	wait := retry.NextBackOff()
	for range attempt - 1 {
		wait = retry.NextBackOff()
	}
	return wait
}

// finalError is a failure that another attempt would not fix.
type finalError struct{ why string }

func (e *finalError) Error() string { return e.why }

func final(key string, values ...string) error { return &finalError{reason.Because(key, values...)} }

// reasonOf returns the reason of a failure in the form of reason.Because, for users: it leaves out details that
// only the operator may know.
func reasonOf(err error) string {
	if told := (*finalError)(nil); errors.As(err, &told) {
		return told.why
	}
	if told := (*fetchError)(nil); errors.As(err, &told) {
		return told.why
	}
	return reason.Because("file.store")
}

// markerKey names the file that identifies the installation to which a file store belongs.
const markerKey = ".wending"

// mark reports whether the file store belongs to the installation: the owner marks the store, and other processes
// look for the mark.
func (c *Collector) mark(ctx context.Context) bool {
	isOurs, err := markStore(ctx, c.Store, c.Files, c.IsOwner)
	switch {
	case err != nil && ctx.Err() == nil:
		c.Log.WarnContext(ctx, "file store unavailable, will retry", "error", err)
	case err == nil && !isOurs:
		c.Log.InfoContext(ctx, "BLOB_URL is not this installation's file store; this process copies no files",
			"is_owner", c.IsOwner)
		select { // the process that marks the store may not have started yet
		case <-ctx.Done():
		case <-time.After(10 * time.Second):
		}
	}
	return isOurs && err == nil
}

// Sweeper removes files that are no longer needed. It runs in the processes that own the file store.
type Sweeper struct {
	Store *db.Store
	Files blob.Store
	// Keep is how long previews are kept after their task's end; 0 means permanently.
	Keep time.Duration
	Log  *slog.Logger
}

// orphanAge is the age from which an unreferenced file is removed: a younger one may still be in use.
const orphanAge = time.Hour

// Sweep removes previews whose retention time has passed, removes files that no asset refers to, and records which
// files are missing.
func (s Sweeper) Sweep(ctx context.Context) error {
	isOurs, err := markStore(ctx, s.Store, s.Files, false)
	if err != nil || !isOurs {
		return err // in another installation's store, all files would seem to be lost
	}
	assets := engine.NewAssets(s.Store)
	if err := assets.PruneOld(ctx, s.Keep); err != nil {
		return err
	}
	stored, err := assets.Tasks(ctx)
	if err != nil {
		return err
	}
	known := map[uuid.UUID]map[string]bool{} // the keys of each task that have not been found in the store yet
	for _, id := range stored {
		if known[id], err = assets.Keys(ctx, id); err != nil {
			return err
		}
	}
	var orphans []string
	err = s.Files.Walk(ctx, func(entry blob.Entry) error {
		id, isOfTask := taskOf(entry.Key)
		switch {
		case known[id][entry.Key]:
			delete(known[id], entry.Key)
		case isOfTask && time.Since(entry.StoredAt) > orphanAge:
			orphans = append(orphans, entry.Key)
		}
		return nil
	})
	if err == nil {
		err = s.removeOrphans(ctx, assets, orphans)
	}
	if err == nil {
		err = s.noteLost(ctx, assets, known)
	}
	return err
}

// removeOrphans removes files that no asset refers to.
func (s Sweeper) removeOrphans(ctx context.Context, assets engine.Assets, orphans []string) error {
	for _, key := range orphans {
		id, _ := taskOf(key)
		keys, err := assets.Keys(ctx, id) // checked again, because another process may just have added a reference
		if err != nil {
			return err
		}
		if keys[key] {
			continue
		}
		if err := s.Files.Delete(ctx, key); err != nil {
			return err
		}
		s.Log.InfoContext(ctx, "unreferenced file removed", "key", key)
	}
	return nil
}

// noteLost records which files of tasks are missing from the store; missing maps each task to their keys.
func (s Sweeper) noteLost(ctx context.Context, assets engine.Assets, missing map[uuid.UUID]map[string]bool) error {
	for id, keys := range missing {
		for key := range keys {
			if file, err := s.Files.Open(ctx, key); err == nil { // it was stored in the meantime
				_ = file.Close()
				continue
			} else if !errors.Is(err, blob.ErrNotFound) {
				return err
			}
			if err := assets.Lost(ctx, id, key); err != nil {
				return err
			}
			s.Log.WarnContext(ctx, "file missing from the store", "task_id", id, "key", key)
		}
	}
	return nil
}
