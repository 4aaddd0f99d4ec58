package crew

import (
	"context"
	"time"

	"wending/db"
	"wending/db/engine"
	"wending/jobs/agent/protocol"
)

// errand is the purpose of a unit's calls: to send the unit's question to an agent, to have a judge rate an answer,
// or to have a model group the question's answers. A unit keeps its errand through all its attempts.
type errand interface {
	// prepare reads the data for the next call. If the data cannot be read now, prepare parks the unit. If the call
	// may not be made for any other reason, the unit must be returned.
	prepare(c *crew, unit *claimed) (may, isParked bool)
	// call makes one call to the unit's target and returns its answer.
	call(ctx context.Context, c *crew, unit *claimed) protocol.Answer
	// cut records that the last call was cut off and has no outcome.
	cut(c *crew, unit *claimed)
	// fallsBack reports whether the target will be called again in another way, immediately and without counting as a
	// retry.
	fallsBack(c *crew, unit *claimed, answer protocol.Answer, started time.Time) bool
	// retries returns how many of the attempts so far were retries.
	retries(unit *claimed) int
	// failed records an attempt that will be retried after a wait.
	failed(c *crew, unit *claimed, answer protocol.Answer, started time.Time, wait time.Duration)
	// end returns the outcome that follows from the answer to the last attempt; nil if it parked the unit for another
	// call.
	end(c *crew, unit *claimed, answer protocol.Answer) (result *engine.Result, isParked bool)
	// close ends the recording of the calls.
	close()
}

// newErrand returns the errand of a claimed unit.
func newErrand(unit db.Unit) errand {
	switch unit.Evaluator {
	case 0:
		return &asking{}
	case db.Grouping:
		return &grouping{}
	}
	return &judging{}
}
