package crew

import (
	"context"
	"time"

	"wending/db"
	"wending/db/engine"
	"wending/jobs/agent/protocol"
)

// errand is what a unit's calls are for: an agent is asked the unit's question, or a judge about an answer. A unit keeps
// its errand over all its attempts.
type errand interface {
	// prepare reads what the next call needs. If that cannot be read now, the unit was parked; otherwise a unit that may
	// not be called is to be returned.
	prepare(c *crew, unit *claimed) (may, isParked bool)
	// call makes one call.
	call(ctx context.Context, c *crew, unit *claimed) protocol.Answer
	// cut takes note that the last call was cut and has no outcome.
	cut(c *crew, unit *claimed)
	// fallsBack reports that the target is asked again in another way, at once and besides the retries.
	fallsBack(c *crew, unit *claimed, answer protocol.Answer, started time.Time) bool
	// retries is how many of the attempts so far were retries.
	retries(unit *claimed) int
	// failed takes note of an attempt that is made again after a wait.
	failed(c *crew, unit *claimed, answer protocol.Answer, started time.Time, wait time.Duration)
	// end returns the outcome that the last attempt's answer decides; nil where it parked the unit for a further call.
	end(c *crew, unit *claimed, answer protocol.Answer) (result *engine.Result, isParked bool)
	// close ends what is noted of the calls.
	close()
}

// newErrand returns what a unit is claimed for.
func newErrand(unit db.Unit) errand {
	if unit.Evaluator != 0 {
		return &judging{}
	}
	return &asking{}
}
