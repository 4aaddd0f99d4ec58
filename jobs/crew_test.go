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
	now := time.Now()
	for name, test := range map[string]struct {
		claimedAt, confirmed time.Time
		wait                 time.Duration
		hasEnded, isLeaving  bool
		later                func(*crew)
		may                  bool
	}{
		"fresh":                              {claimedAt: now, confirmed: now, may: true},
		"the launch has ended":               {claimedAt: now, confirmed: now, hasEnded: true},
		"the worker leaves":                  {claimedAt: now, confirmed: now, isLeaving: true},
		"claimed before a freeze":            {claimedAt: now.Add(-beginWithin), confirmed: now},
		"waited for its moment":              {claimedAt: now.Add(-beginWithin), wait: beginWithin, confirmed: now, may: true},
		"confirmed again while it waits":     {claimedAt: now, confirmed: now.Add(-trustFor), later: func(c *crew) { c.confirm(time.Now()) }, may: true},
		"ended while it waits":               {claimedAt: now, confirmed: now.Add(-trustFor), later: func(c *crew) { c.hasEnded = true; close(c.confirmation) }},
		"nobody confirms (a frozen lookout)": {claimedAt: now.Add(-beginWithin + 50*time.Millisecond), confirmed: now.Add(-trustFor)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := &Worker{leaving: make(chan struct{})}
			if test.isLeaving {
				close(w.leaving)
			}
			c := &crew{w: w, hasEnded: test.hasEnded, confirmed: test.confirmed, confirmation: make(chan struct{})}
			var acting sync.WaitGroup
			if test.later != nil {
				acting.Go(func() {
					c.mu.Lock()
					defer c.mu.Unlock()
					test.later(c)
				})
			}
			require.Equal(t, test.may, c.mayBegin(claimed{db.Unit{Wait: test.wait}, test.claimedAt}))
			acting.Wait()
		})
	}
}
