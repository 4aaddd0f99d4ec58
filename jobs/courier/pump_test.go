package courier_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"wending/jobs/courier"
)

// At most Places pieces are processed at once, Claim receives those in progress, and Run waits for them.
func TestAPumpKeepsToItsPlaces(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		var mu sync.Mutex
		next, under, most, finished, failures := 0, 0, 0, 0, 0
		p := courier.Pump[int]{
			Places: 3, Every: time.Second,
			Claim: func(_ context.Context, free int, working []int) ([]int, error) {
				mu.Lock()
				defer mu.Unlock()
				assert.Len(t, working, 3-free)
				assert.Len(t, working, under)
				if next == 6 {
					return nil, errors.New("the database is away")
				}
				var claimed []int
				for range min(free, 2) {
					claimed = append(claimed, next)
					next++
				}
				return claimed, nil
			},
			Failed: func(context.Context, error) {
				mu.Lock()
				defer mu.Unlock()
				failures++
			},
			Work: func(context.Context, int) {
				mu.Lock()
				under++
				most = max(most, under)
				mu.Unlock()
				time.Sleep(2500 * time.Millisecond)
				mu.Lock()
				under--
				finished++
				mu.Unlock()
			},
		}
		ended := make(chan struct{})
		go func() { p.Run(ctx); close(ended) }()
		time.Sleep(time.Minute)
		mu.Lock()
		require.Equal(t, 3, most)
		require.Equal(t, 6, finished)
		require.Greater(t, failures, 40)
		next = 4
		mu.Unlock()
		time.Sleep(time.Second)
		stop()
		<-ended
		require.Equal(t, 8, finished, "what was begun is finished")
	})
}
