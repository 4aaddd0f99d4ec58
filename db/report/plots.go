package report

import (
	"context"
	"math"
	"time"

	"github.com/google/uuid"

	"wending/db/pg"
)

// Bar is one bar of a plot: the number of runs between From (inclusive) and To (exclusive).
type Bar struct {
	From      float64 `db:"from_value"`
	To        float64 `db:"to_value"`
	Succeeded int     `db:"succeeded"`
	Failed    int     `db:"failed"`
	// LaunchID is the launch that made the bar's runs, and Since and Until bound the times at which they ended; nil means
	// no bound. All are nil if the runs do not belong to one launch.
	LaunchID *uuid.UUID `db:"launch_id"`
	Since    *time.Time `db:"since"`
	Until    *time.Time `db:"until"`
}

// maxBars is the maximum number of bars in a plot.
const maxBars = 30

// LatencyBars returns the distribution of the latencies of a task's successful current runs, in at most maxBars
// bars whose bounds are whole milliseconds. Bars have equal width on a logarithmic scale, but at least 1 ms. It
// returns none if there are no such runs.
func (m Monitor) LatencyBars(ctx context.Context, taskID uuid.UUID) ([]Bar, error) {
	const count = `
		SELECT latency_ms AS latency, count(*) AS runs
		FROM evaluation_runs
		WHERE task_id = $1 AND is_current AND status = 'SUCCEEDED' AND latency_ms IS NOT NULL
		GROUP BY 1
		ORDER BY 1`
	var counts []struct{ Latency, Runs int }
	if err := m.db.SelectContext(ctx, &counts, count, taskID); err != nil {
		return nil, pg.Classify("count the latencies", err)
	}
	if len(counts) == 0 {
		return nil, nil
	}
	edges := latencyEdges(counts[0].Latency, counts[len(counts)-1].Latency)
	bars := make([]Bar, len(edges)-1)
	for n := range bars {
		bars[n].From, bars[n].To = float64(edges[n]), float64(edges[n+1])
	}
	bar := 0
	for _, c := range counts {
		for c.Latency >= edges[bar+1] {
			bar++
		}
		bars[bar].Succeeded += c.Runs
	}
	return bars, nil
}

// latencyEdges returns the bounds of bars that cover low to high, in whole milliseconds.
func latencyEdges(low, high int) []int {
	end := high + 1
	ratio := math.Pow(float64(end)/float64(max(1, low)), 1.0/maxBars)
	edges := []int{low}
	exact := float64(max(1, low))
	for last := low; last < end; {
		exact *= ratio
		next := min(end, max(last+1, int(math.Round(exact))))
		if len(edges) == maxBars {
			next = end
		}
		edges = append(edges, next)
		last = next
	}
	return edges
}

// countOutcomes counts ended runs or rated answers in bars of equal width, in whole seconds. Time starts with the
// launch's first call, so it does not include the wait in the queue.
const countOutcomes = `
	WITH launch AS (
		SELECT id, started_at, finished_at
		FROM launches
		WHERE task_id = $1 AND started_at IS NOT NULL
		ORDER BY number DESC
		LIMIT 1),
	judged AS ( -- for a launch that only ran judges
		SELECT e.created_at, e.latency_ms, NOT e.is_default AS is_rated
		FROM launch l
		JOIN units u ON u.launch_id = l.id AND u.evaluator <> 0 AND u.state = 'DONE'
		JOIN evaluations e ON e.run_id = u.subject_run_id AND e.evaluator = u.evaluator
		WHERE NOT EXISTS (SELECT FROM evaluation_runs WHERE launch_id = l.id)),
	first AS (
		SELECT greatest(l.started_at, min(r.created_at - coalesce(r.latency_ms, 0) * interval '1 millisecond')) AS call
		FROM launch l
		JOIN LATERAL (
			(SELECT created_at, latency_ms FROM evaluation_runs WHERE launch_id = l.id ORDER BY id LIMIT 64)
			UNION ALL
			SELECT created_at, latency_ms FROM judged) r ON true
		GROUP BY l.started_at),
	span AS (
		SELECT l.id, f.call, extract(epoch FROM greatest(coalesce(l.finished_at, now()) - f.call, interval '1 millisecond'))
		AS seconds
		FROM launch l, first f),
	width AS (
		SELECT id, call, greatest(1, ceil(seconds / $2)) AS seconds,
		ceil(seconds / greatest(1, ceil(seconds / $2)))::int AS bars
		FROM span),
	counts AS (
		SELECT least(w.bars - 1, greatest(0,
		floor(extract(epoch FROM r.created_at - w.call)::float8 / w.seconds::float8)))::int AS bar,
			count(*) FILTER (WHERE r.is_good) AS succeeded,
			count(*) FILTER (WHERE NOT r.is_good) AS failed
		FROM width w
		CROSS JOIN LATERAL (
			SELECT created_at, status = 'SUCCEEDED' AS is_good FROM evaluation_runs WHERE launch_id = w.id
			UNION ALL
			SELECT created_at, is_rated FROM judged) r
		GROUP BY 1)
	SELECT bar * w.seconds AS from_value, (bar + 1) * w.seconds AS to_value,
		coalesce(c.succeeded, 0) AS succeeded, coalesce(c.failed, 0) AS failed,
		CASE WHEN NOT EXISTS (SELECT FROM judged) THEN w.id END AS launch_id,
		CASE WHEN bar > 0 THEN w.call + bar * w.seconds * interval '1 second' END AS since,
		CASE WHEN bar < w.bars - 1 THEN w.call + (bar + 1) * w.seconds * interval '1 second' END AS until
	FROM width w
	CROSS JOIN generate_series(0, w.bars - 1) bar
	LEFT JOIN counts c USING (bar)
	ORDER BY bar`

// OutcomeBars returns a histogram of when the runs of the task's newest launch ended or, if the launch only ran judges,
// of when answers were rated: at most maxBars bars of equal width, bounded by whole seconds since its first call. It
// returns none if nothing has ended.
func (m Monitor) OutcomeBars(ctx context.Context, taskID uuid.UUID) ([]Bar, error) {
	var bars []Bar
	err := m.db.SelectContext(ctx, &bars, countOutcomes, taskID, maxBars)
	return bars, pg.Classify("count the outcomes over time", err)
}
