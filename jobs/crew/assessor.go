package crew

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"
)

// assessEvery is the time between two rounds of assessment: assessing many questions at once costs little more than
// assessing one.
const assessEvery = 200 * time.Millisecond

// assessor assesses questions once the last of their runs is recorded. Questions that it leaves out are assessed
// when the launch is finished.
type assessor struct {
	// assess stores assessments of those questions that have all their runs, and ignores the others.
	assess  func(ctx context.Context, itemIDs []int64) error
	ctx     context.Context
	contain func(doing string, work func()) (panicked bool)
	log     *slog.Logger

	mu      sync.Mutex
	pending map[int64]bool
}

// note records the ids of questions whose results were recorded.
func (a *assessor) note(items []int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, item := range items {
		a.pending[item] = true
	}
}

// run assesses until done is closed, and once more after that.
func (a *assessor) run(done <-chan struct{}) {
	tick := time.NewTicker(assessEvery)
	defer tick.Stop()
	for isDone := false; !isDone; {
		select {
		case <-done:
			isDone = true
		case <-tick.C:
		}
		a.contain("assess questions", a.assessPending)
	}
}

func (a *assessor) assessPending() {
	a.mu.Lock()
	items := slices.Sorted(maps.Keys(a.pending))
	clear(a.pending)
	a.mu.Unlock()
	if len(items) == 0 {
		return
	}
	if err := a.assess(a.ctx, items); err != nil && a.ctx.Err() == nil {
		a.log.WarnContext(a.ctx, "questions not assessed, will be assessed when the launch ends", "questions", len(items),
			"error", err)
	}
}
