// Package budget stops launches that have reached what their task, or the month, may cost.
package budget

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"

	"wending/db"
	"wending/db/spending"
	"wending/jobs/tasks"
)

// Keeper watches what launches cost. Several may work at once.
type Keeper struct {
	Store *db.Store
	Tasks *tasks.Service
	// Month is what a month may cost in each currency, a decimal number; empty means any amount.
	Month string
	Log   *slog.Logger

	mu sync.Mutex
	// next is when the costs of launches at work are added up again: that takes longer the more runs they have.
	next time.Time
}

// share is which part of the time is spent on adding up at most.
const share = 20

// Watch notes what launches that have ended spent, and stops those at work that have reached a ceiling. Calls in flight finish,
// and are paid for, too.
func (k *Keeper) Watch(ctx context.Context) error {
	for settled := 1; settled > 0; {
		var err error
		if settled, err = spending.New(k.Store).Settle(ctx); err != nil {
			return err
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	began := time.Now()
	if began.Before(k.next) {
		return nil
	}
	found, err := spending.New(k.Store).Reached(ctx, k.Month)
	k.next = time.Now().Add(time.Since(began) * share)
	if err != nil {
		return err
	}
	var failures []error
	for _, one := range found {
		failures = append(failures, k.stop(ctx, one))
	}
	return errors.Join(failures...)
}

// Admits reports whether a launch that is about to begin may: otherwise it is stopped.
func (k *Keeper) Admits(ctx context.Context, launchID uuid.UUID) (bool, error) {
	reached, err := spending.New(k.Store).ReachedBy(ctx, launchID, k.Month)
	if err != nil || reached == nil {
		return err == nil, err
	}
	return false, k.stop(ctx, *reached)
}

func (k *Keeper) stop(ctx context.Context, reached spending.Reached) error {
	task, err := k.Store.Task(ctx, reached.TaskID)
	if err != nil {
		return err
	}
	if err := spending.New(k.Store).NoteReason(ctx, reached.LaunchID, reached.Reason); err != nil {
		return err
	}
	k.Log.InfoContext(ctx, "launch has reached its budget", "task_id", reached.TaskID, "launch_id", reached.LaunchID, "reason", reached.Reason)
	if _, err := k.Tasks.Stop(ctx, db.Actor{}, task); err != nil && !errors.Is(err, db.ErrConflict) {
		return err
	}
	return nil
}
