package jobs

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"

	"wending/db"
	"wending/db/engine"
	"wending/jobs/tasks"
)

// Budget watches the cost of launches. Several processes may each run one.
type Budget struct {
	Store *db.Store
	// Month is the maximum cost of a month in each currency, a decimal number; empty means no limit.
	Month string
	Log   *slog.Logger

	mu sync.Mutex
	// next is when the costs of active launches are next added up, which takes longer the more runs they have.
	next time.Time
}

// share limits the time spent adding up costs: the pause after it is share times as long.
const share = 20

// Watch stores the spending of launches that have ended, stops active launches that have reached a ceiling, and sets
// how many calls the others may begin until the next round. Calls in flight finish, and their cost also counts.
func (k *Budget) Watch(ctx context.Context) error {
	for settled := 1; settled > 0; {
		var err error
		if settled, err = engine.NewSpending(k.Store).Settle(ctx); err != nil {
			return err
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	began := time.Now()
	if began.Before(k.next) {
		return nil
	}
	_, err := k.keep(ctx)
	k.next = time.Now().Add(time.Since(began) * share)
	return err
}

// Admits reports whether a launch that is about to begin may do so; otherwise it stops the launch. If the launch has
// a ceiling, it has an allowance from then on.
func (k *Budget) Admits(ctx context.Context, launchID uuid.UUID) (bool, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	reached, err := k.keep(ctx)
	_, isReached := reached[launchID]
	return err == nil && !isReached, err
}

// keep sets the allowances of launches, stops the launches that have reached a ceiling, and returns these ceilings,
// keyed by launch.
func (k *Budget) keep(ctx context.Context) (map[uuid.UUID]engine.Standing, error) {
	stopped, verdict, err := engine.NewSpending(k.Store).Keep(ctx, k.Month, Allow)
	if err != nil {
		return nil, err
	}
	for _, id := range stopped {
		one := verdict.Reached[id]
		k.Log.InfoContext(ctx, "launch stopped at its budget", "task_id", one.TaskID, "launch_id", id, "reason", one.Reason)
		if _, err := tasks.FinishLaunch(ctx, k.Store, id); err != nil {
			k.Log.WarnContext(ctx, "stopped launch not finished, a worker will finish it", "task_id", one.TaskID,
				"launch_id", id, "error", err)
		}
	}
	return verdict.Reached, nil
}
