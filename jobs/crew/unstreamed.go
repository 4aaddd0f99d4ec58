package crew

import (
	"sync"
	"time"

	"wending/db"
	"wending/db/event"
	"wending/jobs/agent/protocol"
)

// unstreamed is the set of a launch's targets that are known not to stream, by number.
type unstreamed struct {
	mu      sync.Mutex
	targets map[int]bool
}

func newUnstreamed(targets []db.Target) *unstreamed {
	u := &unstreamed{targets: map[int]bool{}}
	for _, target := range targets {
		u.targets[target.Number] = target.IsUnstreamed
	}
	return u
}

func (u *unstreamed) has(target int) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.targets[target]
}

// add adds a target, and reports whether it was not in the set before.
func (u *unstreamed) add(target int) (isNew bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	isNew = !u.targets[target]
	u.targets[target] = true
	return isNew
}

// fallsBack reports whether the target refused to stream. The target is then called once more without streaming, with
// its own rate-limit slot and without counting as a retry. A target that answers such a call is always called without
// streaming from then on.
func (a *asking) fallsBack(c *crew, unit *claimed, answer protocol.Answer, started time.Time) bool {
	switch {
	case answer.RefusesStream && !a.isUnstreamed:
		a.isUnstreamed = true
		a.tellEnd(unit, answer)
		a.attempts = a.attempts.With(failedAttempt(unit, answer, started))
		a.notes.Emit(event.Retry, event.Data{Attempt: unit.attempt + 1})
		return true
	case a.isUnstreamed && answer.IsRead() && c.unstreamed.add(unit.Target):
		if err := c.Store.NoteUnstreamed(c.calls, c.TaskID, unit.Target); err != nil {
			c.Log.WarnContext(c.calls, "target's refusal to stream not recorded, other workers will detect it themselves",
				"error", err)
		}
	}
	return false
}

// retries returns the number of retries, not counting an attempt that was made because the target does not stream.
func (a *asking) retries(unit *claimed) int {
	if a.isUnstreamed {
		return unit.attempt - 2
	}
	return unit.attempt - 1
}
