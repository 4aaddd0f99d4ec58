package crew

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/google/uuid"

	"wending/db"
	"wending/db/engine"
)

// Holdings are the units and lanes that a worker knows it holds. Anything else that the database assigns to it is
// the result of a transaction whose reply was lost, and is returned.
type Holdings struct {
	// claiming blocks claims while the holdings are compared with the database.
	claiming  sync.RWMutex
	mayDiffer atomic.Bool

	mu    sync.Mutex
	units map[int64]int // maps the ids of units to their epochs
	lanes map[uuid.UUID]bool
}

// NewHoldings returns empty holdings.
func NewHoldings() *Holdings {
	return &Holdings{units: map[int64]int{}, lanes: map[uuid.UUID]bool{}}
}

// claim calls the function claim, and records the units that it returns.
func (h *Holdings) claim(claim func() (db.Claim, error)) (db.Claim, error) {
	h.claiming.RLock()
	defer h.claiming.RUnlock()
	got, err := claim()
	if err != nil { // the claim may have been committed although its reply was lost
		h.mayDiffer.Store(true)
		return got, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, unit := range got.Units {
		h.units[unit.ID] = unit.Epoch
	}
	return got, nil
}

// release forgets units that are recorded or returned. If returning them failed, they are later found as strays.
func (h *Holdings) release(units []db.Unit, failed error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, unit := range units {
		if h.units[unit.ID] == unit.Epoch {
			delete(h.units, unit.ID)
		}
	}
	if failed != nil { // not before h.mu is locked: a comparison could still find the units in h.units
		h.mayDiffer.Store(true)
	}
}

// enterLanes requests up to n of a launch's lanes by calling enter and returns the ids of those admitted.
func (h *Holdings) enterLanes(n int, enter func(lanes []uuid.UUID) ([]uuid.UUID, error)) ([]uuid.UUID, error) {
	h.claiming.RLock()
	defer h.claiming.RUnlock()
	lanes := make([]uuid.UUID, n)
	for i := range lanes {
		lanes[i] = uuid.New()
		h.setLane(lanes[i], true)
	}
	admitted, err := enter(lanes)
	for _, lane := range lanes {
		if !slices.Contains(admitted, lane) {
			h.setLane(lane, false)
		}
	}
	if err != nil {
		h.mayDiffer.Store(true)
	}
	return admitted, err
}

// leaveLane releases a lane by calling leave.
func (h *Holdings) leaveLane(lane uuid.UUID, leave func() error) {
	h.setLane(lane, false)
	if leave() != nil {
		h.mayDiffer.Store(true)
	}
}

func (h *Holdings) setLane(lane uuid.UUID, isHeld bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if isHeld {
		h.lanes[lane] = true
	} else {
		delete(h.lanes, lane)
	}
}

// ReleaseStrays releases units and lanes that the database assigns to the worker without its knowledge. It returns
// how many units were released. It does nothing unless a transaction's reply may have been lost.
func (h *Holdings) ReleaseStrays(ctx context.Context, store *db.Store, workerID uuid.UUID) (released int, err error) {
	if !h.mayDiffer.Swap(false) {
		return 0, nil
	}
	h.claiming.Lock()
	defer h.claiming.Unlock()
	h.mu.Lock()
	units, known := slices.Collect(maps.Keys(h.units)), slices.Collect(maps.Keys(h.lanes))
	h.mu.Unlock()
	if released, err = store.ReleaseStrays(ctx, workerID, units); err == nil {
		err = engine.NewLanes(store).RemoveStrays(ctx, workerID, known)
	}
	if err != nil {
		h.mayDiffer.Store(true)
	}
	return released, err
}
