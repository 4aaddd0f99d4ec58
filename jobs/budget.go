package jobs

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"

	"wending/db"
	"wending/db/engine"
	"wending/jobs/tasks"
)

// Budget watches what launches cost. Several may work at once.
type Budget struct {
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

// Watch notes what launches that have ended spent, stops those at work that have reached a ceiling, and says how many calls the
// others may begin until it looks again. Calls in flight finish, and are paid for, too.
func (k *Budget) Watch(ctx context.Context) error {
	for settled := 1; settled > 0; {
		var err error
		if settled, err = engine.New(k.Store).Settle(ctx); err != nil {
			return err
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	began := time.Now()
	if began.Before(k.next) {
		return nil
	}
	reached, err := k.look(ctx)
	k.next = time.Now().Add(time.Since(began) * share)
	if err != nil {
		return err
	}
	var failures []error
	for _, one := range reached {
		failures = append(failures, k.stop(ctx, one))
	}
	return errors.Join(failures...)
}

// look sets what launches may claim, and returns the ceilings that were reached, one of a launch.
func (k *Budget) look(ctx context.Context) (map[uuid.UUID]engine.Standing, error) {
	standings, err := engine.New(k.Store).Standings(ctx, k.Month)
	if err != nil {
		return nil, err
	}
	allowed, reached := Allow(standings)
	return reached, engine.New(k.Store).Allow(ctx, allowed)
}

// Admits reports whether a launch that is about to begin may: otherwise it is stopped. A launch with a ceiling has its allowance
// from then on.
func (k *Budget) Admits(ctx context.Context, launchID uuid.UUID) (bool, error) {
	k.mu.Lock()
	reached, err := k.look(ctx)
	k.mu.Unlock()
	if err != nil {
		return false, err
	}
	one, isReached := reached[launchID]
	if !isReached {
		return true, nil
	}
	return false, k.stop(ctx, one)
}

func (k *Budget) stop(ctx context.Context, reached engine.Standing) error {
	task, err := k.Store.Task(ctx, reached.TaskID)
	if err != nil {
		return err
	}
	if err := engine.New(k.Store).NoteReason(ctx, *reached.LaunchID, reached.Reason); err != nil {
		return err
	}
	k.Log.InfoContext(ctx, "launch has reached its budget", "task_id", reached.TaskID, "launch_id", reached.LaunchID, "reason", reached.Reason)
	if _, err := k.Tasks.Stop(ctx, db.Actor{}, task); err != nil && !errors.Is(err, db.ErrConflict) {
		return err
	}
	return nil
}
