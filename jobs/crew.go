package jobs

import (
	"context"
	"errors"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"wending/db"
)

// crew is what a launch's lanes in this process share. Units are claimed and results stored for all of them
// together: one transaction serves as many lanes as are ready when it begins, so that throughput is a matter
// of batch size and not of the database's time for a commit. A lane begins its next call when its result is
// committed: what a crash can cost is one call a lane. Only where calls are quicker than commits it is a
// little ahead, and the next units are claimed while calls run.
type crew struct {
	w     *Worker
	call  db.Call
	lease db.Lease
	// headers are the agent's, in clear.
	headers map[string]string
	// calls ends when calls in flight must be given up.
	calls context.Context
	cut   context.CancelFunc

	mu       sync.Mutex
	lanes    int
	waiting  []chan supply
	buffer   []claimed
	hasEnded bool          // the launch does not run any more, or the lease has passed: nothing may begin
	over     chan struct{} // closed then
	// confirmed is a moment at which the launch was known to run and the lease to hold; confirmation is
	// closed with the next one, or with the end.
	confirmed    time.Time
	confirmation chan struct{}
	// uncounted are questions with results since the last count.
	uncounted map[int64]bool
	// claimTime and callTime are running means of how long a claim and a lane's call take.
	claimTime, callTime time.Duration

	wake      chan struct{} // tells the feeder that there may be something to claim
	outcomes  chan outcome
	closing   chan struct{} // closed when the last lane has left
	supplying sync.WaitGroup
	storing   sync.WaitGroup
}

// outcome is a result with the lane that waits until it is stored.
type outcome struct {
	result db.Result
	stored chan struct{}
}

// claimed is a unit with the moment its claim returned.
type claimed struct {
	db.Unit
	at time.Time
}

// supply is what a lane gets when it asks for a unit.
type supply struct {
	unit *claimed
	// retryAfter is set when the agent's rate leaves no moment soon.
	retryAfter time.Duration
	err        error
}

const (
	// watchEvery is the time between two looks at the launch's state.
	watchEvery = 300 * time.Millisecond
	// trustFor is how long such a look may be relied on: no call begins later than this after a stop.
	trustFor = 800 * time.Millisecond
	// beginWithin is the time from a claim to the call's beginning; far less than it takes a silent worker
	// to lose its units, so that a process that was frozen meanwhile does not begin what others run now.
	beginWithin = 5 * time.Second
	// limitedBeginWithin is that where the agent's rate is limited: after it the moment has passed.
	limitedBeginWithin = 250 * time.Millisecond
	// bufferFor is how long a unit claimed ahead may wait before other workers shall have it.
	bufferFor = 2 * time.Second
	// maxBatch and maxBatchBytes bound what one transaction stores.
	maxBatch      = 256
	maxBatchBytes = 4 << 20
	// quickCall is how short a call is that a lane does not wait for the commit of.
	quickCall = 25 * time.Millisecond
	// countEvery is the time between two looks at which questions are processed.
	countEvery = 100 * time.Millisecond
)

// joinCrew adds a lane to the launch's crew, and makes the crew when there is none under this lease.
func (w *Worker) joinCrew(call db.Call, headers map[string]string, lease db.Lease) *crew {
	w.crewsMu.Lock()
	defer w.crewsMu.Unlock()
	if c := w.crews[call.LaunchID]; c != nil && c.lease == lease && c.join() {
		return c
	}
	c := &crew{w: w, call: call, lease: lease, headers: headers, lanes: 1, confirmation: make(chan struct{}), over: make(chan struct{}), uncounted: map[int64]bool{},
		wake: make(chan struct{}, 1), outcomes: make(chan outcome, maxBatch), closing: make(chan struct{})}
	c.calls, c.cut = context.WithCancel(w.calls)
	w.crews[call.LaunchID] = c
	c.supplying.Go(c.feed)
	c.supplying.Go(c.watch)
	c.supplying.Go(c.count)
	c.storing.Go(c.store)
	return c
}

func (c *crew) join() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lanes == 0 || c.hasEnded {
		return false
	}
	c.lanes++
	return true
}

// leave takes a lane out. The last one waits until all results are stored, gives back what was claimed ahead
// and closes the launch when nothing of it is left to run.
func (c *crew) leave() error {
	c.mu.Lock()
	c.lanes--
	isLast := c.lanes == 0
	c.mu.Unlock()
	if !isLast {
		return nil
	}
	c.w.crewsMu.Lock()
	if c.w.crews[c.call.LaunchID] == c {
		delete(c.w.crews, c.call.LaunchID)
	}
	c.w.crewsMu.Unlock()
	close(c.closing)
	close(c.outcomes)
	c.supplying.Wait()
	c.giveBack(c.takeBuffer(0))
	c.storing.Wait()
	c.cut()
	return c.w.finish(c.w.calls, c.call.LaunchID)
}

// next gives the lane a unit, and waits for one as long as that takes.
func (c *crew) next() supply {
	c.mu.Lock()
	if len(c.buffer) > 0 && !c.hasEnded {
		unit := c.buffer[0]
		c.buffer = c.buffer[1:]
		isLow := 2*len(c.buffer) < c.ahead()
		c.mu.Unlock()
		if isLow {
			c.signal()
		}
		return supply{unit: &unit}
	}
	if c.hasEnded {
		c.mu.Unlock()
		return supply{}
	}
	reply := make(chan supply, 1)
	c.waiting = append(c.waiting, reply)
	c.mu.Unlock()
	c.signal()
	return <-reply
}

// signal tells the feeder to look whether somebody wants a unit.
func (c *crew) signal() {
	select {
	case c.wake <- struct{}{}:
	default: // it has been told already
	}
}

// ahead is how many units to have ready: those that will be begun while the next claim is under way, four
// times over so that claims are few; none where the agent's rate decides.
func (c *crew) ahead() int {
	if c.call.IntervalMicros > 0 || c.callTime == 0 {
		return 0
	}
	return min(4*c.lanes, int(math.Round(4*float64(c.lanes)*float64(c.claimTime)/float64(c.callTime))))
}

// feed claims units for the lanes that wait, until the crew is closed. No lane waits when it is: the last
// one has left.
func (c *crew) feed() {
	leaving := c.w.leaving
	for {
		select {
		case <-c.closing:
			return
		case <-c.wake:
		case <-leaving:
			leaving = nil // is told once
		}
		c.mu.Lock()
		want := len(c.waiting) + c.ahead() - len(c.buffer)
		if c.hasEnded || c.w.isLeaving() {
			c.dismiss(supply{})
			want = 0
		}
		c.mu.Unlock()
		if want <= 0 {
			continue
		}
		start := time.Now()
		claim, err := c.claim(want)
		now := time.Now()
		c.mu.Lock()
		c.claimTime = mean(c.claimTime, now.Sub(start))
		if len(claim.Units) > 0 {
			c.confirm(start)
		}
		for _, unit := range claim.Units {
			c.buffer = append(c.buffer, claimed{unit, now})
		}
		for len(c.waiting) > 0 && len(c.buffer) > 0 {
			unit := c.buffer[0]
			c.buffer = c.buffer[1:]
			c.waiting[0] <- supply{unit: &unit}
			c.waiting = c.waiting[1:]
		}
		switch {
		case err != nil, claim.RetryAfter > 0, len(claim.Units) == 0:
			c.dismiss(supply{retryAfter: claim.RetryAfter, err: err})
		case len(c.waiting) > 0: // the agent's rate gave fewer than were asked for
			c.signal()
		}
		c.mu.Unlock()
	}
}

// dismiss answers every lane that waits.
func (c *crew) dismiss(answer supply) {
	for _, reply := range c.waiting {
		reply <- answer
	}
	c.waiting = nil
}

// claim takes units and notes that this worker holds them.
func (c *crew) claim(want int) (db.Claim, error) {
	c.w.claiming.RLock()
	defer c.w.claiming.RUnlock()
	claim, err := c.w.store.ClaimUnits(c.calls, c.call, c.lease, want)
	if err != nil {
		// The claim may have been committed although its reply was lost.
		c.w.mayHaveStrays.Store(true)
		return claim, err
	}
	for _, unit := range claim.Units {
		c.w.held.Store(unit.ID, unit.Epoch)
	}
	return claim, nil
}

// mean moves a running mean towards a new value.
func mean(old, value time.Duration) time.Duration {
	if old == 0 {
		return value
	}
	return (7*old + value) / 8
}

// watch looks after the launch's state while the crew is at work, also while all its calls are long.
func (c *crew) watch() {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		select {
		case <-c.closing:
			return
		case <-tick.C:
		}
		asked := time.Now()
		state, err := c.w.store.LaunchState(c.calls, c.call.LaunchID, c.lease)
		if err != nil && !errors.Is(err, db.ErrNotFound) {
			continue // nothing begins unconfirmed
		}
		c.mu.Lock()
		if err == nil && state.Status == db.LaunchRunning && state.HoldsLease {
			c.confirm(asked)
		} else if !c.hasEnded {
			c.end()
			c.signal()
		}
		c.mu.Unlock()
		if time.Duration(state.StoppingMicros)*time.Microsecond >= db.StopFor {
			c.cut()
		}
		c.giveBack(c.takeBuffer(bufferFor))
	}
}

// end notes that nothing may begin any more.
func (c *crew) end() {
	c.hasEnded = true
	close(c.over)
	close(c.confirmation)
}

// confirm notes that the launch was running at a moment.
func (c *crew) confirm(at time.Time) {
	if c.hasEnded || !at.After(c.confirmed) {
		return
	}
	c.confirmed = at
	close(c.confirmation)
	c.confirmation = make(chan struct{})
}

// mayBegin says whether a claimed unit's call may begin now: its launch is known to run, and it was claimed a
// moment ago. It waits for that knowledge when it is old.
func (c *crew) mayBegin(unit claimed) bool {
	for {
		c.mu.Lock()
		hasEnded, isConfirmed, confirmation := c.hasEnded, time.Since(c.confirmed) < trustFor, c.confirmation
		c.mu.Unlock()
		within := beginWithin
		if c.call.IntervalMicros > 0 { // or several would begin at one moment
			within = limitedBeginWithin
		}
		left := within + unit.Wait - time.Since(unit.at)
		switch {
		case hasEnded || left <= 0 || c.w.isLeaving():
			return false
		case isConfirmed:
			return true
		}
		select {
		case <-confirmation:
		case <-c.w.leaving:
		case <-time.After(left):
		}
	}
}

// takeBuffer takes what was claimed ahead longer ago than age, or all when nothing may begin any more.
func (c *crew) takeBuffer(age time.Duration) []db.Unit {
	c.mu.Lock()
	defer c.mu.Unlock()
	var old []db.Unit
	for len(c.buffer) > 0 && (c.hasEnded || c.w.isLeaving() || time.Since(c.buffer[0].at) >= age) {
		old = append(old, c.buffer[0].Unit)
		c.buffer = c.buffer[1:]
	}
	return old
}

// giveBack returns units that were not begun, or whose call was cut.
func (c *crew) giveBack(units []db.Unit) {
	if len(units) == 0 {
		return
	}
	// Whatever ended meanwhile, the units must not wait for this worker's death.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.calls), 5*time.Second)
	defer cancel()
	err := c.w.store.ReturnUnits(ctx, units)
	for _, unit := range units {
		c.w.held.CompareAndDelete(unit.ID, unit.Epoch)
	}
	if err != nil { // only now: a look at what is held must not find them again
		c.w.mayHaveStrays.Store(true)
	}
}

// record hands a result over to be stored, together with those of other lanes that are ready. The channel is
// closed when it is stored.
func (c *crew) record(result db.Result) (stored <-chan struct{}) {
	o := outcome{result, make(chan struct{})}
	c.outcomes <- o
	return o.stored
}

// mayBeUnstored is how many results a lane may leave behind that are not stored yet when it begins its next
// call: none, or a few where calls take no longer than commits do.
func (c *crew) mayBeUnstored() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.callTime > 0 && c.callTime < quickCall {
		return 2
	}
	return 0
}

// store stores outcomes in batches until the last is stored.
func (c *crew) store() {
	for first := range c.outcomes {
		batch, bytes := []outcome{first}, sizeOf(first.result)
	gather:
		for len(batch) < maxBatch && bytes < maxBatchBytes {
			select {
			case next, isOpen := <-c.outcomes:
				if !isOpen {
					break gather
				}
				batch, bytes = append(batch, next), bytes+sizeOf(next.result)
			default:
				break gather
			}
		}
		results := make([]db.Result, len(batch))
		for n, o := range batch {
			results[n] = o.result
		}
		c.storeBatch(results)
		for _, o := range batch {
			close(o.stored)
		}
	}
}

// sizeOf is how much of maxBatchBytes a result takes.
func sizeOf(result db.Result) int { return len(result.Response) + len(result.Reasoning) }

// storeBatch stores results, as often as it takes: an answer in hand must not be lost to a database that is
// away for a while. It gives up when the worker's time to leave is over.
func (c *crew) storeBatch(batch []db.Result) {
	ctx := c.w.calls
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, 2*time.Second) {
		refused, err := c.w.store.RecordResults(ctx, c.call.Task.ID, batch)
		if err == nil {
			c.stored(batch, refused)
			return
		}
		c.w.log.WarnContext(ctx, "results not stored yet", "task_id", c.call.Task.ID, "launch_id", c.call.LaunchID, "results", len(batch), "error", err)
		if !errors.Is(err, db.ErrUnavailable) && len(batch) > 1 {
			for _, result := range batch { // one that the database refuses must not keep the others
				c.storeBatch([]db.Result{result})
			}
			return
		}
		isRefused := !errors.Is(err, db.ErrUnavailable) && ctx.Err() == nil
		if isRefused && batch[0].ErrorCode != codeInternal { // no answer may block its launch
			batch[0] = notStored(batch[0])
			continue
		}
		select {
		case <-ctx.Done():
			units := make([]db.Unit, len(batch))
			for n, result := range batch {
				units[n] = result.Unit
			}
			c.giveBack(units)
			return
		case <-time.After(wait):
		}
	}
}

// stored lets go of a batch and notes the questions that it may complete.
func (c *crew) stored(batch []db.Result, refused []db.Unit) {
	ctx := c.w.calls
	c.mu.Lock()
	for _, result := range batch {
		c.w.held.CompareAndDelete(result.Unit.ID, result.Unit.Epoch)
		c.uncounted[result.Unit.Item.ID] = true
	}
	c.mu.Unlock()
	for _, unit := range refused {
		c.w.metrics.lateResults.Inc()
		c.w.log.WarnContext(ctx, "late result refused: another worker has the unit", "task_id", c.call.Task.ID, "unit_id", unit.ID, "epoch", unit.Epoch)
	}
}

// count counts the questions that are processed, every now and then until the crew is closed.
func (c *crew) count() {
	tick := time.NewTicker(countEvery)
	defer tick.Stop()
	for isOpen := true; isOpen; {
		select {
		case <-c.closing:
			c.storing.Wait() // the last results count too
			isOpen = false
		case <-tick.C:
		}
		c.mu.Lock()
		items := slices.Collect(maps.Keys(c.uncounted))
		clear(c.uncounted)
		c.mu.Unlock()
		if len(items) == 0 {
			continue
		}
		if err := c.w.store.CountProcessed(c.w.calls, c.call.LaunchID, c.call.Task.ID, items); err != nil {
			c.w.log.WarnContext(c.w.calls, "progress not counted yet", "task_id", c.call.Task.ID, "error", err) // reconcile does
		}
	}
}

// notStored is what is kept of a result that the database refuses.
func notStored(result db.Result) db.Result {
	return db.Result{Unit: result.Unit, Status: db.RunFailed, LatencyMS: result.LatencyMS, Attempts: result.Attempts,
		ErrorCode: codeInternal, ErrorMessage: "The answer could not be stored because of an internal error"}
}
