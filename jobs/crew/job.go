package crew

import (
	"context"
	"encoding/json"
	"time"

	"wending/db/engine"
	"wending/jobs/agent/protocol"
)

// acceptedJob is a job that an agent has accepted for a unit, as the database stores it.
type acceptedJob struct {
	protocol.Job
	// ItemID is the question that the job answers; in a conversation, the turn.
	ItemID  int64 `json:"item_id"`
	request protocol.Request
}

// followJob prepares a request to an agent that accepts jobs. If an earlier holder of the unit has started a job, the
// request continues it. Otherwise the job that the agent accepts is stored, so that another worker can wait for it
// instead of repeating the question.
func (a *asking) followJob(c *crew, unit *claimed, request *protocol.Request) {
	request.Leaving = c.Leaving
	if a.job == nil && unit.Resume != nil {
		var kept acceptedJob
		if err := json.Unmarshal(*unit.Resume, &kept); err == nil && kept.ItemID == unit.Item.ID && kept.StatusURL != "" {
			a.job = &kept
		}
		unit.Resume = nil
	}
	if a.job != nil && a.job.ItemID == unit.Item.ID {
		a.job.request = *request
		request.Job = &a.job.Job
		return
	}
	request.Accepted = func(job protocol.Job) {
		a.job = &acceptedJob{Job: job, ItemID: unit.Item.ID, request: *request}
		kept, err := json.Marshal(a.job)
		if err == nil {
			err = engine.NewJournal(c.Store).KeepJob(c.calls, unit.ID, unit.Epoch, kept)
		}
		if err != nil {
			c.Log.WarnContext(c.calls, "accepted job not stored, the agent will be called again if this worker is lost",
				"unit_id", unit.ID, "error", err)
		}
	}
}

// forgetJob removes the job of a failed attempt, because the next attempt sends the question again.
func (a *asking) forgetJob(c *crew, unit *claimed) {
	if a.job == nil {
		return
	}
	a.job = nil
	if err := engine.NewJournal(c.Store).KeepJob(c.calls, unit.ID, unit.Epoch, nil); err != nil {
		c.Log.WarnContext(c.calls, "failed job not cleared", "unit_id", unit.ID, "error", err)
	}
}

// cancelJob cancels the job of a unit, if the agent supports that, once the launch is stopped or the time is up. A
// worker that is shutting down cancels nothing, because another worker will wait for the job.
func (a *asking) cancelJob(c *crew, unit *claimed) {
	if a.job == nil || c.isLeaving() {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.calls), 10*time.Second)
	defer cancel()
	if err := c.Agents.Cancel(ctx, a.job.request, a.job.Job); err != nil {
		c.Log.WarnContext(ctx, "job cancellation not delivered to the agent", "unit_id", unit.ID, "error", err)
	}
}
