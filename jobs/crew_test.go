package jobs

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"wending/db"
)

// A claimed unit's call begins only while its launch is known to run and its claim is fresh: a process that was
// frozen in between must not begin what others run by now.
func TestACallBeginsOnlyUnderAFreshClaimOfARunningLaunch(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		claimedAgo, confirmedAgo, wait time.Duration
		hasEnded, isLeaving            bool
		later                          func(*crew)
		may                            bool
	}{
		"fresh":                          {may: true},
		"the launch has ended":           {hasEnded: true},
		"the worker leaves":              {isLeaving: true},
		"claimed before a freeze":        {claimedAgo: beginWithin},
		"waited for its moment":          {claimedAgo: beginWithin, wait: beginWithin, may: true},
		"confirmed again while it waits": {confirmedAgo: trustFor, later: func(c *crew) { c.confirm(time.Now()) }, may: true},
		"ended while it waits":           {confirmedAgo: trustFor, later: (*crew).end},
		"nobody confirms":                {claimedAgo: beginWithin - 50*time.Millisecond, confirmedAgo: trustFor},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := &Worker{leaving: make(chan struct{})}
			if test.isLeaving {
				close(w.leaving)
			}
			now := time.Now()
			c := &crew{w: w, hasEnded: test.hasEnded, confirmed: now.Add(-test.confirmedAgo), confirmation: make(chan struct{}), over: make(chan struct{})}
			var acting sync.WaitGroup
			if test.later != nil {
				acting.Go(func() {
					c.mu.Lock()
					defer c.mu.Unlock()
					test.later(c)
				})
			}
			require.Equal(t, test.may, c.mayBegin(claimed{db.Unit{Wait: test.wait}, now.Add(-test.claimedAgo)}))
			acting.Wait()
		})
	}
}
