// Package crew runs a launch's units in one process: lanes that call the agent one unit after another, and the parts
// that a launch's lanes share: the supply of claimed units, the gate that every call passes, the recorder of results
// and the scribe of events.
//
// Units are claimed and results recorded for all lanes of a crew together: one transaction serves all lanes that are
// ready when it begins, so throughput depends on the batch size, not on the duration of a commit. A lane begins its
// next call once its last result is committed, so a crash costs at most one call per lane. Only if calls are shorter
// than commits does a lane run slightly ahead.
package crew

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"go.opentelemetry.io/otel/trace"

	"wending/db"
	"wending/db/engine"
	"wending/jobs/agent"
	"wending/jobs/agent/protocol"
	"wending/jobs/tasks"
)

// Config holds the dependencies that all crews of a worker share.
type Config struct {
	Store *db.Store
	// Agents calls agents and Models calls models: the rules for allowed addresses differ.
	Agents   *agent.Client
	Models   *agent.Client
	Holdings *Holdings
	Observer Observer
	// Tracer exports spans of calls; nil means that calls are not traced.
	Tracer trace.Tracer
	// Scribe records what agents report.
	Scribe *Scribe
	// AssetURL returns an address on this site from which an agent can fetch a task's file until the given time; nil if
	// the site's own address is unknown.
	AssetURL func(taskID, assetID uuid.UUID, until time.Time) string
	// Leaving is closed when no further unit may be claimed.
	Leaving <-chan struct{}
	// Calls is the context of calls: it ends when calls in flight must be cut off.
	Calls context.Context
	// Report reports an internal error to the operators; nil means errors are only logged.
	Report func(error)
	Log    *slog.Logger
}

// Observer counts the calls of crews.
type Observer interface {
	CallEnded(db.Target, protocol.Answer)
	LateResult()
}

// Crews holds a worker's crews, one for each launch on which its lanes work.
type Crews struct {
	config Config
	mu     sync.Mutex
	active map[uuid.UUID]*crew
}

// New returns an empty set of crews for a worker.
func New(config Config) *Crews {
	if config.Report == nil {
		config.Report = func(error) {}
	}
	return &Crews{config: config, active: map[uuid.UUID]*crew{}}
}

// watchEvery is the interval at which a crew checks the launch's state.
const watchEvery = 300 * time.Millisecond

// Launch is a launch that lanes can work on.
type Launch struct {
	db.Call
	// Targets maps target numbers to targets whose secrets have been decrypted.
	Targets map[int]tasks.Target
	// Rules judge the answers as they arrive, Judges rate them in separate calls.
	Rules  tasks.Rules
	Judges tasks.Judges
	// Screen decides which texts judges and models that group answers may see.
	Screen tasks.Screen
}

// crew is the set of lanes that work on one launch in this process.
type crew struct {
	Config
	lease db.Lease
	Launch
	// calls is the context of the crew's calls: it ends when calls in flight must be cut off.
	calls context.Context
	cut   context.CancelFunc

	// unstreamed are the targets that do not stream.
	unstreamed *unstreamed

	gate     *gate
	supply   *supply
	recorder *recorder
	assessor *assessor

	// surplus is how many lanes must leave once their calls end, to make room for waiting launches. takesShifts reports
	// that every lane must leave at the end of its shift.
	surplus     atomic.Int64
	takesShifts atomic.Bool

	lanes     atomic.Int64  // changed under Crews.mu
	closing   chan struct{} // closed when the last lane has left
	supplying sync.WaitGroup
	recording sync.WaitGroup
	// recorded is closed when every result is recorded, so that no further question becomes due for assessment.
	recorded  chan struct{}
	assessing sync.WaitGroup
}

// join adds a lane to the launch's crew. If there is no crew under this lease, it creates one.
func (s *Crews) join(launch Launch, lease db.Lease) *crew {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.active[launch.LaunchID]; c != nil && c.lease == lease && !c.gate.isClosed() {
		c.lanes.Add(1)
		return c
	}
	c := &crew{Config: s.config, Launch: launch, lease: lease, gate: newGate(), closing: make(chan struct{}),
		recorded: make(chan struct{})}
	c.unstreamed = newUnstreamed(launch.Task.Targets)
	c.Log = s.config.Log.With("task_id", launch.TaskID, "launch_id", launch.LaunchID)
	c.calls, c.cut = context.WithCancel(c.Calls)
	c.supply = newSupply(slices.Sorted(maps.Keys(launch.Targets)))
	c.supply.claim, c.supply.gate, c.supply.lanes, c.supply.leaving, c.supply.contain = c.claim, c.gate, &c.lanes,
		c.Leaving, c.contain
	c.recorder = &recorder{
		store: engine.NewRecorder(s.config.Store), taskID: launch.TaskID, log: c.Log, ctx: c.Calls, contain: c.contain,
		onStored: c.stored, onAbandoned: c.returnUnits, outcomes: make(chan outcome, maxBatch),
	}
	c.assessor = &assessor{
		assess: func(ctx context.Context, itemIDs []int64) error {
			if err := tasks.AssessWhole(ctx, s.config.Store, launch.Task, itemIDs); err != nil {
				return err
			}
			c.planGroupings(itemIDs)
			return nil
		},
		ctx: c.Calls, contain: c.contain, log: c.Log, pending: map[int64]bool{},
	}
	c.lanes.Store(1)
	s.active[launch.LaunchID] = c
	c.supplying.Go(func() { c.supply.feed(c.closing) })
	c.supplying.Go(c.watch)
	c.recording.Go(c.recorder.run)
	c.assessing.Go(func() { c.assessor.run(c.recorded) })
	return c
}

// leave removes a lane. If it was the last one, leave returns unused units and waits until every result is
// recorded.
func (s *Crews) leave(c *crew) (wasLast bool) {
	s.mu.Lock()
	if wasLast = c.lanes.Add(-1) == 0; wasLast && s.active[c.LaunchID] == c {
		delete(s.active, c.LaunchID)
	}
	s.mu.Unlock()
	if !wasLast {
		return false
	}
	close(c.closing)
	close(c.recorder.outcomes)
	c.supplying.Wait()
	c.returnUnits(c.supply.takeUnused(0))
	c.recording.Wait()
	close(c.recorded)
	c.assessing.Wait()
	c.cut()
	return true
}

// Contain runs work and turns a panic into an error, which it logs and reports: no launch,
// however malformed, may crash the process and the other launches with it.
func Contain(log *slog.Logger, report func(error), doing string, work func() error) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			log.Error("panic recovered", "doing", doing, "panic", cause, "stack", string(debug.Stack()))
			err = fmt.Errorf("panic: %s: %v", doing, cause)
			report(err)
		}
	}()
	return work()
}

// contain is like the function Contain, but only reports whether work panicked.
func (c *crew) contain(doing string, work func()) (panicked bool) {
	return Contain(c.Log, c.Report, doing, func() error { work(); return nil }) != nil
}

// claim claims units and records that this worker holds them.
func (c *crew) claim(wants []db.Want) (db.Claim, error) {
	return c.Holdings.claim(func() (db.Claim, error) {
		return c.Store.ClaimUnits(c.calls, c.Call, c.lease, wants)
	})
}

// watch confirms the gate while the launch runs, closes it when the launch stops, and cuts off calls that are still
// in flight long after a stop.
func (c *crew) watch() {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		select {
		case <-c.closing:
			return
		case <-tick.C:
			c.contain("watch the launch", c.lookAtLaunch)
		}
	}
}

func (c *crew) lookAtLaunch() {
	asked := time.Now()
	state, err := engine.NewLanes(c.Store).State(c.calls, c.LaunchID, c.lease)
	switch {
	case err != nil && !errors.Is(err, db.ErrNotFound):
		return // without a confirmation, the gate soon stops calls
	case err == nil && state.Status == db.LaunchRunning && state.HoldsLease:
		c.gate.confirm(asked)
		c.surplus.Store(int64(state.Surplus))
		c.takesShifts.Store(state.TakesShifts)
	default:
		c.gate.close()
		c.supply.signal()
	}
	if time.Duration(state.StoppingMicros)*time.Microsecond >= db.StopFor {
		c.cut()
	}
	age := unusedFor
	if c.isLeaving() {
		age = 0
	}
	c.returnUnits(c.supply.takeUnused(age))
}

func (c *crew) isLeaving() bool {
	select {
	case <-c.Leaving:
		return true
	default:
		return false
	}
}

// pause waits for the given time; it returns false early if the worker begins to shut down.
func (c *crew) pause(wait time.Duration) bool {
	if wait <= 0 {
		return !c.isLeaving()
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-c.Leaving:
		return false
	case <-timer.C:
		return true
	}
}

// returnUnits returns units that were not begun, or whose call was cut off.
func (c *crew) returnUnits(units []db.Unit) {
	if len(units) == 0 {
		return
	}
	// This also happens during shutdown: the units must not wait until this worker is considered dead.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.calls), 5*time.Second)
	defer cancel()
	c.Holdings.release(units, c.Store.ReturnUnits(ctx, units))
}

// planRounds plans the next round of those questions whose units have ended, if the task is adaptive.
func (c *crew) planRounds(ended []db.Unit) {
	if c.Task.Adaptive == nil {
		return
	}
	var items []int64
	for _, unit := range ended {
		if unit.Evaluator == 0 {
			items = append(items, unit.Item.ID)
		}
	}
	planned, err := c.Store.PlanRounds(c.Calls, c.LaunchID, items)
	if err != nil {
		c.Log.WarnContext(c.Calls, "next round not planned, will retry when the launch would end", "error", err)
	}
	if planned {
		c.supply.refill(c.Task.Targets)
	}
}

// planGroupings plans the grouping by meaning for those questions that have all their runs and are assessed.
func (c *crew) planGroupings(itemIDs []int64) {
	grouper := c.Task.Grouper()
	if grouper == nil {
		return
	}
	planned, err := c.Store.PlanGroupings(c.Calls, c.LaunchID, itemIDs)
	if err != nil {
		c.Log.WarnContext(c.Calls, "groupings not planned, will retry when the launch would end", "error", err)
	}
	if planned {
		c.supply.refill([]db.Target{*grouper})
	}
}

// stored releases units whose results were recorded or refused, except units of conversations with further turns.
func (c *crew) stored(results []engine.Result, refused []db.Unit) {
	var ended []db.Unit
	var items []int64
	hasJudges := false
	for _, result := range results {
		hasJudges = hasJudges || result.HasJudges
		items = append(items, result.Unit.Item.ID)
		items = append(items, result.Turn.NotReached()...)
		if !result.Turn.HasMore() {
			ended = append(ended, result.Unit)
		}
	}
	c.Holdings.release(ended, nil)
	c.planRounds(ended)
	c.assessor.note(items)
	if hasJudges {
		c.supply.refill(c.Task.Judges)
	}
	for _, unit := range refused {
		c.Observer.LateResult()
		c.Log.WarnContext(c.Calls, "late result rejected, another worker has claimed the unit", "unit_id", unit.ID,
			"epoch", unit.Epoch)
	}
}
