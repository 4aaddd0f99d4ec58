package courier

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Pump processes one kind of work that falls due in the database: it polls at regular intervals, and processes up to
// Places pieces at once. All fields must be set.
type Pump[T any] struct {
	// Places is the maximum number of pieces that are processed at once.
	Places int
	// Every is the interval at which Claim is called while places are free.
	Every time.Duration
	// Claim claims pieces that are due, at most as many as there are free places; working lists the pieces in progress.
	Claim func(ctx context.Context, free int, working []T) ([]T, error)
	// Failed is called with an error of Claim, which is retried at the next regular call.
	Failed func(ctx context.Context, err error)
	// Work processes a piece.
	Work func(ctx context.Context, piece T)
}

// Run processes work until ctx ends, and returns once all pieces that it began are done.
func (p Pump[T]) Run(ctx context.Context) {
	var working []*T
	done := make(chan *T, p.Places)
	var all sync.WaitGroup
	defer all.Wait()
	tick := time.NewTicker(p.Every)
	defer tick.Stop()
	for {
		for range len(done) {
			piece := <-done
			working = slices.DeleteFunc(working, func(one *T) bool { return one == piece })
		}
		if free := p.Places - len(working); free > 0 {
			for _, claimed := range p.claim(ctx, free, working) {
				working = append(working, &claimed)
				all.Go(func() {
					defer func() { done <- &claimed }()
					p.Work(ctx, claimed)
				})
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (p Pump[T]) claim(ctx context.Context, free int, working []*T) []T {
	pieces := make([]T, len(working))
	for n, piece := range working {
		pieces[n] = *piece
	}
	claimed, err := p.Claim(ctx, free, pieces)
	if err != nil && ctx.Err() == nil {
		p.Failed(ctx, err)
	}
	return claimed
}
