package crew

import (
	"context"
	"errors"
	"time"

	"github.com/cenkalti/backoff/v5"

	"wending/db"
	"wending/db/engine"
	"wending/jobs/agent"
	"wending/jobs/agent/protocol"
)

// maxPostpone caps how long an agent's Retry-After may hold back calls to its origin.
const maxPostpone = time.Minute

// codeInternal marks a run whose answer made the decoder panic or whose result the database rejected.
const codeInternal = "INTERNAL_ERROR"

// retryClock determines the waits between attempts; nil until the first attempt has failed.
type retryClock = *backoff.ExponentialBackOff

// newRetry returns the waits between attempts: about 1, 2, 4 … s, each up to a quarter longer, so that calls that
// failed together are not repeated together.
func newRetry() retryClock {
	retry := backoff.NewExponentialBackOff()
	retry.InitialInterval, retry.Multiplier, retry.MaxInterval = 1125*time.Millisecond, 2, time.Minute
	retry.RandomizationFactor = 1.0 / 9 // 1.125 s ± 1/9 is 1 to 1.25 s
	return retry
}

// attempt makes one call for a unit. It returns the outcome, or parks the unit for its next attempt. If it does
// neither, the call was cut off and the unit must be returned.
func (c *crew) attempt(unit *claimed) (result *engine.Result, isParked bool) {
	ctx, started := c.calls, time.Now()
	answer := unit.errand.call(ctx, c, unit)
	if ctx.Err() != nil && answer.Status != protocol.Succeeded {
		unit.errand.cut(c, unit)
		return nil, false
	}
	if answer.ErrorCode == protocol.CodeInterrupted {
		return nil, false // the accepted job is stored, so another worker will wait for it
	}
	target := c.Task.Target(unit.Target)
	c.Observer.CallEnded(target, answer)
	if answer.RetryAfter > 0 {
		if err := engine.NewLanes(c.Store).PostponeOrigin(ctx, c.Origins[unit.Target],
			min(answer.RetryAfter, maxPostpone)); err != nil {
			c.Log.WarnContext(ctx, "agent's Retry-After not stored, ignoring it", "error", err)
		}
	}
	if unit.errand.fallsBack(c, unit, answer, started) {
		unit.attempt++
		c.supply.park(*unit, 0)
		return nil, true
	}
	if !agent.MayRetry(answer, target.RetryOn) || unit.errand.retries(unit) >= c.Task.MaxRetries {
		return unit.errand.end(c, unit, answer)
	}
	if unit.retry == nil {
		unit.retry = newRetry()
	}
	wait := unit.retry.NextBackOff()
	unit.errand.failed(c, unit, answer, started, wait)
	unit.attempt++
	c.supply.park(*unit, wait)
	return nil, true
}

// begin prepares a unit for the first attempt of its next call to the same target.
func (c *claimed) begin() { c.attempt, c.retry = 1, nil }

// mayAttempt waits until a unit's call may begin, and reserves a rate-limit slot unless it is the unit's first call.
// If no slot is free soon, it parks the unit again. If the call may not begin for any other reason, the unit must be
// returned: the launch was stopped, the worker is shutting down, or the unit may already belong to another worker.
func (c *crew) mayAttempt(unit *claimed) (may, isParked bool) {
	if may, isParked := unit.errand.prepare(c, unit); !may {
		return false, isParked
	}
	if unit.isParked {
		asked := time.Now()
		wait, reserved, err := c.Store.ReserveCall(c.calls, c.Call, unit.Unit)
		switch {
		case errors.Is(err, db.ErrConflict):
			return false, false
		case err != nil:
			c.Log.WarnContext(c.calls, "rate-limit reservation failed, will retry", "error", err)
			wait, reserved = time.Second, false
		}
		if !reserved {
			c.supply.park(*unit, wait)
			return false, true
		}
		unit.at, unit.Wait = asked, wait
	}
	return c.pause(time.Until(unit.at.Add(unit.Wait))) && c.gate.await(unit.mustBeginBy(), c.Leaving), false
}

// send makes one call, with a span of the given name. A panic while decoding the answer makes the call fail; otherwise
// the unit would crash one worker after another.
func (c *crew) send(ctx context.Context, client *agent.Client, span string, unit *claimed,
	request protocol.Request) (answer protocol.Answer) {
	start := time.Now()
	ctx, end := c.beginSpan(ctx, span, unit, request)
	defer func() { end(answer) }()
	if c.contain("read an answer", func() { answer = client.Ask(ctx, request) }) {
		answer = protocol.Answer{
			Status: protocol.Failed, ErrorCode: codeInternal, Latency: time.Since(start),
			ErrorMessage: "The answer could not be read because of an internal error",
		}
	}
	return answer
}
