package people

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/google/uuid"

	"wending/db"
	"wending/db/engine"
	"wending/db/pg"
)

// The quotas that can be exhausted.
const (
	QuotaUploads = "uploads"
	QuotaDisk    = "disk"
	QuotaCalls   = "calls"
	QuotaCost    = "cost"
)

// QuotaExceededError means that a project has exhausted a quota.
type QuotaExceededError struct {
	// What is QuotaUploads, QuotaDisk or QuotaCalls.
	What string
	// Most is the quota, and Used the part that is already used; both are formatted for people.
	Most, Used string
}

func (e *QuotaExceededError) Error() string {
	return fmt.Sprintf("the project's quota of %s is used up: %s of %s", e.What, e.Used, e.Most)
}

// QuotaUsed is the usage of a project; days and months are in Beijing time.
type QuotaUsed struct {
	Uploads int   `db:"uploads"`
	Bytes   int64 `db:"used_bytes"`
	// MeasuredAt is when Bytes were measured; nil means never.
	MeasuredAt *time.Time `db:"measured_at"`
	// Calls counts the calls of launches that began today.
	Calls int64 `db:"calls"`
	// Lanes counts the active lanes.
	Lanes int `db:"lanes"`
	// Cost is this month's spending, by currency.
	Cost []engine.Sum `db:"-"`
}

// nearly is the percentage from which a quota is considered nearly exhausted.
const nearly = 80

// QuotaNear is a quota that is nearly or completely exhausted.
type QuotaNear struct {
	// What is QuotaCalls, QuotaUploads, QuotaDisk or QuotaCost.
	What string
	// Percent is the used part of the quota, rounded down.
	Percent int
}

// Near returns the quotas that are nearly exhausted. Once a quota is exhausted, work is refused or, for the cost
// quota, stopped.
func (u QuotaUsed) Near(most Quota) (near []QuotaNear) {
	add := func(what string, used, most float64) {
		if percent := int(used / most * 100); most > 0 && percent >= nearly {
			near = append(near, QuotaNear{what, percent})
		}
	}
	if most.CallsPerDay != nil {
		add(QuotaCalls, float64(u.Calls), float64(*most.CallsPerDay))
	}
	if most.UploadsPerDay != nil {
		add(QuotaUploads, float64(u.Uploads), float64(*most.UploadsPerDay))
	}
	if most.DiskBytes != nil {
		add(QuotaDisk, float64(u.Bytes), float64(*most.DiskBytes))
	}
	if most.CostPerMonth != nil {
		ceiling, highest := amount(*most.CostPerMonth), 0.0
		for _, sum := range u.Cost { // the ceiling applies to each currency separately
			highest = max(highest, amount(sum.Cost))
		}
		add(QuotaCost, highest, ceiling)
	}
	return near
}

// amount parses a decimal number from the database.
func amount(text string) float64 {
	number, _ := strconv.ParseFloat(text, 64)
	return number
}

// Near returns the quotas of a project that are nearly exhausted. It counts nothing if the project has no quotas.
func (q Quotas) Near(ctx context.Context, projectID uuid.UUID) ([]QuotaNear, error) {
	project, err := New(q.store).Project(ctx, projectID)
	if err != nil || project.CallsPerDay == nil && project.UploadsPerDay == nil && project.DiskBytes == nil &&
		project.CostPerMonth == nil {
		return nil, err
	}
	used, err := q.Used(ctx, projectID)
	return used.Near(project.Quota), err
}

// Quotas reads and counts the usage of projects.
type Quotas struct{ store *db.Store }

// NewQuotas returns the Quotas of a store.
func NewQuotas(store *db.Store) Quotas { return Quotas{store} }

const readUsed = `
	SELECT p.used_bytes, p.measured_at,
		coalesce((SELECT uploads FROM project_uploads WHERE project_id = p.id
		AND day = CAST(now() AT TIME ZONE 'Asia/Shanghai' AS date)), 0) AS uploads,
		` + db.CallsToday + ` AS calls,
		(SELECT count(*)
			FROM lanes
			JOIN launches l ON l.id = lanes.launch_id
			JOIN evaluation_tasks t ON t.id = l.task_id
			WHERE t.project_id = p.id) AS lanes
	FROM projects p
	WHERE p.id = $1`

// Used returns the usage of a project, or db.ErrNotFound.
func (q Quotas) Used(ctx context.Context, projectID uuid.UUID) (used QuotaUsed, err error) {
	if err := q.store.Pool().GetContext(ctx, &used, readUsed, projectID); err != nil {
		return used, db.NotFound(KindProject, pg.Classify("read a project's usage", err))
	}
	used.Cost, err = engine.NewSpending(q.store).ThisMonthOf(ctx, projectID)
	return used, err
}

// Admits returns a QuotaExceededError if a project has used up its space, or may not make additional calls. count
// returns the number of these calls; it is called only if the project has a quota of calls.
func (q Quotas) Admits(ctx context.Context, projectID uuid.UUID, count func() (calls int, err error)) error {
	project, err := New(q.store).Project(ctx, projectID)
	if err != nil || project.DiskBytes == nil && project.CallsPerDay == nil {
		return err
	}
	used, err := q.Used(ctx, projectID)
	if err != nil {
		return err
	}
	if most := project.DiskBytes; most != nil && used.Bytes >= *most {
		return &QuotaExceededError{QuotaDisk, fmt.Sprint(*most>>20, " MB"), fmt.Sprint(used.Bytes>>20, " MB")}
	}
	if project.CallsPerDay == nil {
		return nil
	}
	calls, err := count()
	if err != nil {
		return err
	}
	if most := project.CallsPerDay; calls > 0 && used.Calls+int64(calls) > *most {
		return &QuotaExceededError{QuotaCalls, fmt.Sprint(*most), fmt.Sprint(used.Calls, " + ", calls)}
	}
	return nil
}

// TakeUpload counts an upload against a project's quota, or returns a QuotaExceededError.
func (q Quotas) TakeUpload(ctx context.Context, projectID uuid.UUID) error {
	const take = `
		WITH taken AS (
			INSERT INTO project_uploads AS u (project_id, day, uploads)
			SELECT id, CAST(now() AT TIME ZONE 'Asia/Shanghai' AS date), 1 FROM projects WHERE id = $1
			ON CONFLICT (project_id, day) DO UPDATE SET uploads = u.uploads + 1
			WHERE u.uploads < coalesce((SELECT uploads_per_day FROM projects WHERE id = $1), 2147483646)
			RETURNING uploads)
		SELECT (SELECT uploads FROM taken) IS NOT NULL AS is_taken, p.uploads_per_day, p.disk_bytes, p.used_bytes
		FROM projects p
		WHERE p.id = $1`
	var found struct {
		IsTaken       bool   `db:"is_taken"`
		UploadsPerDay *int   `db:"uploads_per_day"`
		DiskBytes     *int64 `db:"disk_bytes"`
		UsedBytes     int64  `db:"used_bytes"`
	}
	if err := q.store.Pool().GetContext(ctx, &found, take, projectID); err != nil {
		return pg.Classify("count an upload", err)
	}
	if !found.IsTaken && found.UploadsPerDay != nil {
		return &QuotaExceededError{QuotaUploads, fmt.Sprint(*found.UploadsPerDay), fmt.Sprint(*found.UploadsPerDay)}
	}
	if most := found.DiskBytes; most != nil && found.UsedBytes >= *most {
		return &QuotaExceededError{QuotaDisk, fmt.Sprint(*most>>20, " MB"), fmt.Sprint(found.UsedBytes>>20, " MB")}
	}
	return nil
}

// TakeDisk counts bytes that a project is about to store, or returns a QuotaExceededError; a negative number releases
// bytes. The next measurement corrects the sum.
func (q Quotas) TakeDisk(ctx context.Context, projectID uuid.UUID, bytes int64) error {
	const take = `
		WITH taken AS (
			UPDATE projects
			SET used_bytes = greatest(0, used_bytes + $2)
			WHERE id = $1 AND ($2 < 0 OR disk_bytes IS NULL OR used_bytes + $2 <= disk_bytes)
			RETURNING id)
		SELECT (SELECT id FROM taken) IS NOT NULL AS is_taken, disk_bytes, used_bytes
		FROM projects
		WHERE id = $1`
	var found struct {
		IsTaken   bool   `db:"is_taken"`
		DiskBytes *int64 `db:"disk_bytes"`
		UsedBytes int64  `db:"used_bytes"`
	}
	if err := q.store.Pool().GetContext(ctx, &found, take, projectID, bytes); err != nil {
		return pg.Classify("measure a project's storage", err)
	}
	if !found.IsTaken && found.DiskBytes != nil {
		return &QuotaExceededError{QuotaDisk, fmt.Sprint(*found.DiskBytes>>20, " MB"),
			fmt.Sprint(found.UsedBytes>>20, " + ", bytes>>20, " MB")}
	}
	return nil
}

// measureAge is the age at which a measurement is renewed.
const measureAge = 10 * time.Minute

// Measure measures the project whose last measurement is oldest, and reports whether there may be another to
// measure. It reads every row of the project's runs, though not their texts.
func (q Quotas) Measure(ctx context.Context) (found bool, err error) {
	const measure = `
		WITH p AS (
			SELECT id FROM projects
			WHERE coalesce(measured_at < now() - $1 * interval '1 second', true)
			ORDER BY measured_at NULLS FIRST LIMIT 1),
		sizes AS (
			SELECT
				(SELECT coalesce(sum(coalesce(pg_column_size(r.response_body), 0) + coalesce(pg_column_size(r.reasoning),
				0) + coalesce(pg_column_size(r.response_bytes), 0) + 250), 0)
					FROM evaluation_runs r WHERE r.task_id IN (SELECT id FROM evaluation_tasks WHERE project_id = p.id))
				+ (SELECT coalesce(sum(pg_column_size(i.question) + pg_column_size(i.standard_answer) + 250), 0)
					FROM evaluation_items i WHERE i.task_id IN (SELECT id FROM evaluation_tasks WHERE project_id = p.id))
				+ (SELECT coalesce(sum(pg_column_size(e.events)), 0)
					FROM run_events e WHERE e.task_id IN (SELECT id FROM evaluation_tasks WHERE project_id = p.id))
				+ (SELECT coalesce(sum(s.size), 0)
					FROM run_spans s WHERE s.task_id IN (SELECT id FROM evaluation_tasks WHERE project_id = p.id))
				+ (SELECT coalesce(sum(size), 0) FROM (
					SELECT a.storage_key, max(a.size) AS size FROM assets a
					WHERE a.state = 'STORED' AND a.task_id IN (SELECT id FROM evaluation_tasks WHERE project_id = p.id)
					GROUP BY a.task_id, a.storage_key) files)
				+ (SELECT coalesce(sum(v.size), 0) FROM dataset_versions v JOIN datasets d ON d.id = v.entry_id
				WHERE d.project_id = p.id) AS bytes
			FROM p)
		UPDATE projects SET used_bytes = (SELECT bytes FROM sizes), measured_at = now() WHERE id = (SELECT id FROM p)`
	result, err := q.store.Pool().ExecContext(ctx, measure, measureAge.Seconds())
	changed, err := pg.Affected("measure what a project takes", result, err)
	return changed > 0, err
}

// MeasureAll measures all projects whose measurements are out of date.
func (q Quotas) MeasureAll(ctx context.Context) error {
	for {
		if found, err := q.Measure(ctx); err != nil || !found {
			return err
		}
	}
}
