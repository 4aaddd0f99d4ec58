package report

import (
	"context"
	"time"

	"github.com/google/uuid"

	"wending/db"
	"wending/db/pg"
)

// Progress is a snapshot of a task's progress.
type Progress struct {
	TaskID     uuid.UUID     `db:"task_id"`
	TaskStatus db.TaskStatus `db:"task_status"`
	// FailureCode names the internal fault; nil unless the task FAILED.
	FailureCode *string `db:"failure_code"`
	// LaunchNumber is the newest launch's number; 0 means the task was never started.
	LaunchNumber int  `db:"launch_number"`
	IsStopping   bool `db:"is_stopping"`
	// Total is the number of runs that the task will have when it is complete. Completed counts runs that have ended,
	// Failed the unsuccessful ones among them, Running runs whose unit is claimed by a worker, and Queued runs that
	// wait. Stopped runs are included only in Total.
	Total     int `db:"total"`
	Completed int `db:"completed"`
	Failed    int `db:"failed"`
	Running   int `db:"running"`
	Queued    int `db:"queued"`
	// JudgeTotal is the number of calls to judges, Judged how many of them have ended, and JudgeFailed how many ended
	// without a rating.
	JudgeTotal  int `db:"judge_total"`
	Judged      int `db:"judged"`
	JudgeFailed int `db:"judge_failed"`
	// Prepared is the number of units created so far for the newest launch, while they are being created.
	Prepared int `db:"prepared"`
	// CallsPerSecond is the average rate over at most the last ten seconds.
	CallsPerSecond float64 `db:"calls_per_second"`
}

// Open returns how many runs have not ended yet.
func (p Progress) Open() int { return p.Running + p.Queued }

// TimeLeft returns the time until the task's last run ends, at the current rate; it is unknown while no run completes.
func (p Progress) TimeLeft() (left time.Duration, isKnown bool) {
	if !p.TaskStatus.IsActive() || p.CallsPerSecond <= 0 {
		return 0, false
	}
	return time.Duration(float64(p.Open()) / p.CallsPerSecond * float64(time.Second)), true
}

// recentRuns is the maximum number of recent runs from which the rate of calls is computed.
const recentRuns = 1000

const readProgress = `
	SELECT t.id AS task_id, t.status AS task_status, t.failure_code,
		coalesce(l.number, 0) AS launch_number,
		coalesce(l.status = 'STOPPING', false) AS is_stopping,
		` + db.RunsOfTask + ` AS total,
		CASE WHEN is_working THEN l.kept_succeeded + l.kept_failed + u.done ELSE r.runs END AS completed,
		CASE WHEN is_working THEN l.kept_failed + u.failed ELSE r.failed END AS failed,
		u.running, u.judge_total, u.judged, u.judge_failed,
		CASE
			WHEN l.status <> 'PENDING' THEN u.queued
			ELSE t.runs_per_item
				* CASE WHEN l.item_id IS NULL THEN t.total_items ELSE 1 END
				* CASE WHEN l.variant IS NULL THEN t.total_variants ELSE 1 END
				+ (SELECT coalesce(sum(p.runs - t.runs_per_item), 0)
					FROM planned_runs p
					JOIN evaluation_items i ON i.id = p.item_id AND i.task_id = t.id
					WHERE p.runs > t.runs_per_item AND (l.item_id IS NULL OR p.item_id = l.item_id)
					AND (l.variant IS NULL OR p.variant = l.variant))
				- r.of_scope
		END AS queued,
		coalesce(CASE WHEN l.status = 'PENDING' THEN l.total_units END, 0) AS prepared,
		coalesce(recent.runs / recent.seconds, 0) AS calls_per_second
	FROM evaluation_tasks t
	LEFT JOIN LATERAL ( -- the newest launch
		SELECT *, status IN ('RUNNING', 'STOPPING') AND started_at IS NOT NULL AS is_working
		FROM launches
		WHERE task_id = t.id
		ORDER BY number DESC
		LIMIT 1) l ON true
	LEFT JOIN LATERAL ( -- the units of the launch, counted in the thin table
		SELECT coalesce(sum(CASE WHEN state = 'DONE' THEN turns ELSE turns_done END) FILTER (WHERE evaluator = 0), 0) AS done,
			coalesce(sum(CASE WHEN turns > 1 THEN turns_failed
			ELSE CAST(outcome <> 'SUCCEEDED' AS int) END) FILTER (WHERE evaluator = 0), 0) AS failed,
			count(*) FILTER (WHERE state = 'RUNNING' AND evaluator = 0) AS running,
			coalesce(sum(turns - turns_done) FILTER (WHERE state IN ('QUEUED', 'RUNNING') AND evaluator = 0), 0)
				- count(*) FILTER (WHERE state = 'RUNNING' AND evaluator = 0) AS queued,
			count(*) FILTER (WHERE evaluator > 0) AS judge_total,
			count(*) FILTER (WHERE evaluator > 0 AND state = 'DONE') AS judged,
			count(*) FILTER (WHERE evaluator > 0 AND outcome <> 'SUCCEEDED') AS judge_failed
		FROM units
		WHERE launch_id = l.id) u ON true
	LEFT JOIN LATERAL ( -- current runs while no launch is active, without those that a waiting retry will repeat
		SELECT count(*) AS runs,
			count(*) FILTER (WHERE status <> 'SUCCEEDED') AS failed,
			count(*) FILTER (WHERE coalesce(item_id = l.item_id, true) AND coalesce(variant = l.variant, true)) AS of_scope
		FROM evaluation_runs
		WHERE task_id = t.id AND is_current AND NOT coalesce(is_working, false)
		  AND (coalesce(l.status, '') <> 'PENDING' OR l.kind <> 'RETRY_FAILED' OR status = 'SUCCEEDED' OR item_id <> l.item_id
		  OR variant <> l.variant)) r ON true
	LEFT JOIN LATERAL ( -- the last ten seconds, or the span of the newest $2 runs if that is shorter
		SELECT count(*) AS runs,
			greatest(0.5, extract(epoch FROM now() - greatest(
				now() - interval '10 seconds',
				l.started_at,
				CASE WHEN count(*) = $2 THEN min(created_at) END))) AS seconds
		FROM (
			SELECT created_at
			FROM evaluation_runs
			WHERE launch_id = l.id AND is_working
			ORDER BY id DESC
			LIMIT $2) newest
		WHERE created_at > now() - interval '10 seconds') recent ON true
	WHERE t.id = $1`

// TaskProgress returns a task's progress. While a launch is active, the counts cover its own runs and the
// earlier runs that it does not repeat; otherwise they cover the current runs.
func (m Monitor) TaskProgress(ctx context.Context, taskID uuid.UUID) (progress Progress, err error) {
	if err := m.db.GetContext(ctx, &progress, readProgress, taskID, recentRuns); pg.IsNoRows(err) {
		return progress, &db.NotFoundError{Kind: db.KindTask}
	} else if err != nil {
		return progress, pg.Classify("read the progress", err)
	}
	return progress, nil
}

// ListenForChanges calls changed with the id of every task whose state changes, in any process, until ctx ends. It
// calls changed with uuid.Nil when listening has begun and after every reconnect, because changes may have been
// missed. url must point to the server itself, not to a pooler.
func ListenForChanges(ctx context.Context, url string, changed func(taskID uuid.UUID)) error {
	return pg.Listen(ctx, url, db.ChangesChannel, func(payload string) {
		id, _ := uuid.Parse(payload) // uuid.Nil if the payload is empty
		changed(id)
	})
}
