package upkeep

import (
	"context"
	"database/sql"
	"time"

	"wending/db"
	"wending/db/pg"
)

// Monitor reads the figures of an installation that operators watch.
type Monitor struct{ db *pg.Pool }

// NewMonitor returns the Monitor of a store.
func NewMonitor(store *db.Store) Monitor { return Monitor{store.Pool()} }

// Figures describe the state of an installation.
type Figures struct {
	// Tasks counts tasks by status.
	Tasks map[string]int
	// Firings counts the firings of schedules within the last hour, by outcome.
	Firings map[string]int
	// QueuedUnits and RunningUnits count the units of active launches. WaitingSeconds is the longest time for which an
	// active launch has been waiting without any lane; 0 if none is waiting.
	QueuedUnits    int     `db:"queued_units"`
	RunningUnits   int     `db:"running_units"`
	WaitingSeconds float64 `db:"waiting_seconds"`
	// PendingDeliveries counts the deliveries that wait to be sent, and FailedDeliveries those that were given up within
	// the last hour.
	PendingDeliveries int `db:"pending_deliveries"`
	FailedDeliveries  int `db:"failed_deliveries"`
	// MissedFirings is the number of planned times that schedules have missed within the last hour.
	MissedFirings int `db:"missed_firings"`
	Workers       int `db:"workers"`
	Lanes         int `db:"lanes"`
	AuditEntries  int `db:"audit_entries"`
	Backups
}

// Backups describe the backups made by 'wending backup' and BACKUP_CRON.
type Backups struct {
	// LastBackupAt is when the last backup finished, nil for never; LastBackupBytes is its size.
	LastBackupAt    *time.Time `db:"last_backup_at"`
	LastBackupBytes int64      `db:"last_backup_bytes"`
	// BackupFailedAt is when a scheduled backup last failed; nil means never.
	BackupFailedAt *time.Time `db:"backup_failed_at"`
}

// HasFailed reports whether the last scheduled backup failed and none was made since.
func (b Backups) HasFailed() bool {
	return b.BackupFailedAt != nil && (b.LastBackupAt == nil || b.LastBackupAt.Before(*b.BackupFailedAt))
}

const readFigures = `
	WITH active AS (
		SELECT l.id, l.waits_since,
			(SELECT count(*) FROM units WHERE launch_id = l.id AND state = 'QUEUED') AS queued,
			(SELECT count(*) FROM units WHERE launch_id = l.id AND state = 'RUNNING') AS running,
			EXISTS (SELECT FROM lanes WHERE launch_id = l.id) AS has_lane
		FROM launches l
		WHERE l.status IN ('PENDING', 'RUNNING', 'STOPPING'))
	SELECT
		coalesce((SELECT sum(queued) FROM active), 0) AS queued_units,
		coalesce((SELECT sum(running) FROM active), 0) AS running_units,
		coalesce((SELECT extract(epoch FROM now() - min(waits_since)) FROM active WHERE NOT has_lane), 0) AS waiting_seconds,
		(SELECT count(*) FROM deliveries WHERE state = 'PENDING') AS pending_deliveries,
		(SELECT count(*) FROM deliveries WHERE state = 'FAILED' AND ended_at > now() - interval '1 hour')
			AS failed_deliveries,
		coalesce((SELECT sum(f.missed) FROM schedules s JOIN firings f ON f.schedule_id = s.id
			AND f.planned_at > now() - interval '1 hour'), 0) AS missed_firings,
		(SELECT count(*) FROM workers WHERE beat_at > now() - $1 * interval '1 second') AS workers,
		coalesce((SELECT sum(lanes) FROM workers WHERE beat_at > now() - $1 * interval '1 second'), 0) AS lanes,
		(SELECT last_seq - first_seq FROM audit_chain) AS audit_entries,
		last_backup_at, last_backup_bytes, backup_failed_at
	FROM installation`

// Figures returns the current figures.
func (m Monitor) Figures(ctx context.Context) (figures Figures, err error) {
	if err := m.db.GetContext(ctx, &figures, readFigures, db.WorkerDeadAfter.Seconds()); err != nil {
		return figures, pg.Classify("read the figures", err)
	}
	if figures.Tasks, err = m.counts(ctx, `SELECT status AS name, count(*) FROM evaluation_tasks GROUP BY status`); err != nil {
		return figures, err
	}
	figures.Firings, err = m.counts(ctx, `
		SELECT f.outcome AS name, count(*)
		FROM schedules s
		JOIN firings f ON f.schedule_id = s.id AND f.planned_at > now() - interval '1 hour'
		GROUP BY f.outcome`)
	return figures, err
}

func (m Monitor) counts(ctx context.Context, query string) (map[string]int, error) {
	var rows []struct {
		Name  string `db:"name"`
		Count int    `db:"count"`
	}
	if err := m.db.SelectContext(ctx, &rows, query); err != nil {
		return nil, pg.Classify("read the figures", err)
	}
	counts := make(map[string]int, len(rows))
	for _, row := range rows {
		counts[row.Name] = row.Count
	}
	return counts, nil
}

// Connections describes the pool's connections.
func (m Monitor) Connections() sql.DBStats { return m.db.Stats() }

// BackedUp records that a backup has finished; bytes is its size, and isScheduled means that BACKUP_CRON planned it.
func (m Monitor) BackedUp(ctx context.Context, bytes int64, isScheduled bool) error {
	const record = `
		UPDATE installation
		SET last_backup_at = now(), last_backup_bytes = $1,
			backup_tried_at = CASE WHEN $2 THEN now() ELSE backup_tried_at END`
	_, err := m.db.ExecContext(ctx, record, bytes, isScheduled)
	return pg.Classify("record the backup", err)
}

// BackupFailed records that a scheduled backup has failed.
func (m Monitor) BackupFailed(ctx context.Context) error {
	_, err := m.db.ExecContext(ctx, `UPDATE installation SET backup_tried_at = now(), backup_failed_at = now()`)
	return pg.Classify("record the failed backup", err)
}

// PlanOfBackups holds the times that decide whether a scheduled backup is due, by the database's clock.
type PlanOfBackups struct {
	// TriedAt is when a scheduled backup was last tried or, before the first try, when PlanOfBackups was first called.
	TriedAt time.Time `db:"tried_at"`
	Now     time.Time `db:"now"`
}

// PlanOfBackups returns the times that decide whether a scheduled backup is due. Its first call on an installation
// stores the current time as TriedAt.
func (m Monitor) PlanOfBackups(ctx context.Context) (plan PlanOfBackups, err error) {
	const begin = `UPDATE installation SET backup_tried_at = now() WHERE backup_tried_at IS NULL`
	const read = `SELECT coalesce(backup_tried_at, now()) AS tried_at, now() AS now FROM installation`
	if _, err := m.db.ExecContext(ctx, begin); err != nil {
		return plan, pg.Classify("plan the backups", err)
	}
	err = m.db.GetContext(ctx, &plan, read)
	return plan, pg.Classify("read the plan of backups", err)
}

// backupLock is the key of the advisory lock that elects the process that makes a scheduled backup.
const backupLock = 0x6261636b7570 // "backup" in ASCII

// backupTakes is how long a process whose machine has vanished keeps others from making a backup. A backup that takes
// longer continues without the lock: two backups at once do no harm.
const backupTakes = 6 * time.Hour

// AsBackup runs work unless another process is making a backup. It returns whether work ran, and the error of work.
func (m Monitor) AsBackup(ctx context.Context, work func() error) (ran bool, err error) {
	return m.db.WithLock(ctx, backupLock, backupTakes, work)
}

// SavedAddress is an address that calls go to.
type SavedAddress struct {
	// Kind is AddressOfAgent or AddressOfProvider.
	Kind string `db:"kind"`
	// URL has no query.
	URL string `db:"url"`
}

// Kinds of saved addresses.
const (
	AddressOfAgent    = "agent"
	AddressOfProvider = "provider"
)

// SavedAddresses returns the addresses of the agents and providers of all projects, except archived ones.
func (m Monitor) SavedAddresses(ctx context.Context) (saved []SavedAddress, err error) {
	const list = `
		SELECT 'agent' AS kind, url FROM agents WHERE archived_at IS NULL
		UNION
		SELECT 'provider', base_url FROM providers WHERE archived_at IS NULL`
	err = m.db.SelectContext(ctx, &saved, list)
	return saved, pg.Classify("list the saved addresses", err)
}

// Server describes the database server.
type Server struct {
	// Version is complete, such as 15.18.
	Version        string    `db:"version"`
	Major          int       `db:"major"`
	Now            time.Time `db:"now"`
	IsStandby      bool      `db:"is_standby"`
	Connections    int       `db:"connections"`
	MaxConnections int       `db:"max_connections"`
}

// Server describes the server that the pool is connected to.
func (m Monitor) Server(ctx context.Context) (server Server, err error) {
	const describe = `
		SELECT current_setting('server_version') AS version,
			current_setting('server_version_num')::int / 10000 AS major,
			clock_timestamp() AS now,
			pg_is_in_recovery() AS is_standby,
			(SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend') AS connections,
			current_setting('max_connections')::int AS max_connections`
	err = m.db.GetContext(ctx, &server, describe)
	return server, pg.Classify("describe the server", err)
}
