package crew

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"wending/db"
)

// A claimed unit's call begins only while its launch is known to be running and its claim is recent: a process that
// was frozen in between must not begin a unit that another worker is running by now.
func TestACallBeginsOnlyUnderAFreshClaimOfARunningLaunch(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		claimedAgo, confirmedAgo, wait time.Duration
		isLimited, isClosed, isLeaving bool
		later                          func(*gate)
		may                            bool
	}{
		"fresh":                          {may: true},
		"the launch has ended":           {isClosed: true},
		"the worker leaves":              {isLeaving: true},
		"claimed before a freeze":        {claimedAgo: claimFreshFor},
		"its rate-limit slot has passed": {claimedAgo: limitedClaimFreshFor, isLimited: true},
		"waited for its slot":            {claimedAgo: claimFreshFor, wait: claimFreshFor, may: true},
		"confirmed again while it waits": {confirmedAgo: gateFreshFor, later: func(g *gate) {
			g.confirm(time.Now())
		}, may: true},
		"ended while it waits":  {confirmedAgo: gateFreshFor, later: (*gate).close},
		"not confirmed in time": {claimedAgo: claimFreshFor - 50*time.Millisecond, confirmedAgo: gateFreshFor},
		"an older confirmation counts less": {confirmedAgo: 0, later: func(g *gate) {
			g.confirm(time.Now().Add(-time.Hour))
		}, may: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			now, leaving, g := time.Now(), make(chan struct{}), newGate()
			g.confirm(now.Add(-test.confirmedAgo))
			if test.isClosed {
				g.close()
			}
			if test.isLeaving {
				close(leaving)
			}
			var acting sync.WaitGroup
			if test.later != nil {
				acting.Go(func() { test.later(g) })
			}
			unit := claimed{Unit: db.Unit{Wait: test.wait}, at: now.Add(-test.claimedAgo), isLimited: test.isLimited}
			require.Equal(t, test.may, g.await(unit.mustBeginBy(), leaving))
			acting.Wait()
		})
	}
}

func TestAGateClosesOnce(t *testing.T) {
	t.Parallel()
	g := newGate()
	g.close()
	g.close()
	g.confirm(time.Now())
	require.False(t, g.await(time.Now().Add(time.Hour), nil))
}
