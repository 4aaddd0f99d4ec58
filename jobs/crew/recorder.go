package crew

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/cenkalti/backoff/v5"
	"github.com/google/uuid"

	"wending/db"
	"wending/db/engine"
)

// maxBatch and maxBatchBytes limit what one transaction records: the number of results, and their size.
const (
	maxBatch      = 256
	maxBatchBytes = 4 << 20
)

// recorder records results in batches: one transaction for all lanes that are ready when it begins.
type recorder struct {
	store  resultStore
	taskID uuid.UUID
	log    *slog.Logger
	// ctx ends when results that could not be recorded have to be abandoned.
	ctx     context.Context
	contain func(doing string, work func()) (panicked bool)
	// onStored is called with the results that were recorded and the units whose results were refused; onAbandoned
	// is called with units whose results were abandoned.
	onStored    func(results []engine.Result, refused []db.Unit)
	onAbandoned func([]db.Unit)
	outcomes    chan outcome
}

// resultStore is the part of the store that a recorder needs.
type resultStore interface {
	Record(ctx context.Context, taskID uuid.UUID, results []engine.Result) (refused []db.Unit, err error)
}

// outcome is a result and the channel on which its lane waits until the result is recorded.
type outcome struct {
	result   engine.Result
	recorded chan struct{}
}

// record queues a result. The returned channel is closed once the result is recorded or abandoned.
func (r *recorder) record(result engine.Result) (recorded <-chan struct{}) {
	o := outcome{result, make(chan struct{})}
	r.outcomes <- o
	return o.recorded
}

// run records outcomes until the channel is closed and empty.
func (r *recorder) run() {
	for first := range r.outcomes {
		batch := r.gather(first)
		results := make([]engine.Result, len(batch))
		for n, o := range batch {
			results[n] = o.result
		}
		if r.contain("record results", func() { r.recordBatch(results) }) {
			r.onAbandoned(unitsOf(results))
		}
		for _, o := range batch {
			close(o.recorded)
		}
	}
}

// gather collects the outcomes that are ready after first, within the limits of one transaction.
func (r *recorder) gather(first outcome) []outcome {
	batch, bytes := []outcome{first}, sizeOf(first.result)
	for len(batch) < maxBatch && bytes < maxBatchBytes {
		select {
		case next, isOpen := <-r.outcomes:
			if !isOpen {
				return batch
			}
			batch, bytes = append(batch, next), bytes+sizeOf(next.result)
		default:
			return batch
		}
	}
	return batch
}

// sizeOf returns the number of bytes of a result that count towards maxBatchBytes.
func sizeOf(result engine.Result) int { return len(result.Response) + len(result.Reasoning) }

// recordBatch records results, retrying as long as the database is unavailable, because an outage must not lose
// answers that have arrived. If the database refuses a batch, its results are recorded one by one; a result that is
// refused again is recorded as a failure, so that no answer blocks its launch. recordBatch gives up when the worker's
// time for shutting down is over.
func (r *recorder) recordBatch(batch []engine.Result) {
	retry := backoff.NewExponentialBackOff()
	retry.InitialInterval, retry.MaxInterval = 100*time.Millisecond, 2*time.Second
	for {
		refused, err := r.store.Record(r.ctx, r.taskID, batch)
		if err == nil {
			r.onStored(batch, refused)
			return
		}
		r.log.WarnContext(r.ctx, "results not recorded, will retry", "results", len(batch), "error", err)
		isRefused := !errors.Is(err, db.ErrUnavailable) && r.ctx.Err() == nil
		switch {
		case isRefused && len(batch) > 1:
			for _, result := range batch {
				r.recordBatch([]engine.Result{result})
			}
			return
		case isRefused && !isReplaced(batch[0]):
			batch[0] = unrecordable(batch[0])
			continue
		}
		select {
		case <-r.ctx.Done():
			r.onAbandoned(unitsOf(batch))
			return
		case <-time.After(retry.NextBackOff()):
		}
	}
}

// isReplaced reports whether a result was replaced by unrecordable.
func isReplaced(result engine.Result) bool {
	switch {
	case result.Judgement != nil:
		return result.Judgement.ErrorCode == codeInternal
	case result.Grouping != nil:
		return result.Grouping.ErrorCode == codeInternal
	}
	return result.ErrorCode == codeInternal
}

// unrecordable replaces a result that the database refuses with a failure.
func unrecordable(result engine.Result) engine.Result {
	if said := result.Grouping; said != nil {
		failed := *said
		failed.IsDefault, failed.Notes, failed.Raw = true, nil, ""
		failed.ErrorCode, failed.ErrorMessage = codeInternal, "The grouping could not be stored because of an internal error"
		return engine.Result{Unit: result.Unit, Grouping: &failed}
	}
	if said := result.Judgement; said != nil {
		return engine.Result{Unit: result.Unit, Judgement: &engine.Judgement{
			Score: said.Score, Ratings: map[string]float64{}, IsDefault: true, ErrorCode: codeInternal,
			ErrorMessage: "The judgement could not be stored because of an internal error",
		}}
	}
	if result.Turn != nil { // otherwise later turns would be asked as if this one had been answered
		result.Turn.Stops = true
	}
	return engine.Result{
		Unit: result.Unit, Turn: result.Turn, Status: db.RunFailed, LatencyMS: result.LatencyMS, Attempts: result.Attempts,
		ErrorCode: codeInternal, ErrorMessage: "The answer could not be stored because of an internal error",
	}
}

func unitsOf(batch []engine.Result) []db.Unit {
	units := make([]db.Unit, len(batch))
	for n, result := range batch {
		units[n] = result.Unit
	}
	return units
}
