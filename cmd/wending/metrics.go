package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"wending/db"
	"wending/db/entries"
	"wending/db/upkeep"
)

// scrapeTime is how long a scrape of the metrics may wait for the database.
const scrapeTime = 3 * time.Second

// vitals are the metrics of a process's connection to the database.
type vitals struct{ store *db.Store }

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("wending_"+name, help, labels, nil)
}

var (
	postgresUp     = describe("postgres_up", "1 if the database answers, 0 if it does not.")
	connections    = describe("database_connections", "Connections of this process to the database, by state.", "state")
	maxConnections = describe("database_connections_max", "DATABASE_MAX_CONNECTIONS of this process.")
	waits          = describe("database_waits_total", "Statements that waited for a connection.")
	waitSeconds    = describe("database_wait_seconds_total", "Time that statements waited for a connection.")
)

// Describe implements prometheus.Collector.
func (v vitals) Describe(all chan<- *prometheus.Desc) { prometheus.DescribeByCollect(v, all) }

// Collect implements prometheus.Collector.
func (v vitals) Collect(all chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTime)
	defer cancel()
	up := 1.0
	if err := v.store.Ready(ctx); errors.Is(err, db.ErrUnavailable) || ctx.Err() != nil {
		up = 0
	}
	pool := upkeep.NewMonitor(v.store).Connections()
	all <- prometheus.MustNewConstMetric(postgresUp, prometheus.GaugeValue, up)
	all <- prometheus.MustNewConstMetric(connections, prometheus.GaugeValue, float64(pool.InUse), "in_use")
	all <- prometheus.MustNewConstMetric(connections, prometheus.GaugeValue, float64(pool.Idle), "idle")
	all <- prometheus.MustNewConstMetric(maxConnections, prometheus.GaugeValue, float64(pool.MaxOpenConnections))
	all <- prometheus.MustNewConstMetric(waits, prometheus.CounterValue, float64(pool.WaitCount))
	all <- prometheus.MustNewConstMetric(waitSeconds, prometheus.CounterValue, pool.WaitDuration.Seconds())
}

// installation are the metrics of the whole installation, which every process with pages exports. They are reused for
// figuresAreFresh, and are missing while the database does not respond.
type installation struct {
	store *db.Store
	mu    sync.Mutex
	read  upkeep.Figures
	at    time.Time
}

// figuresAreFresh is how long figures are reused.
const figuresAreFresh = 10 * time.Second

var (
	tasksByStatus = describe("tasks", "Tasks, by status.", "status")
	units         = describe("units", "Units of active launches, by state.", "state")
	oldestWaiting = describe("oldest_waiting_seconds", "How long a launch has waited for a worker, at most.")
	deliveries    = describe("deliveries_pending", "Messages that wait to be sent to channels.")
	failures      = describe("deliveries_failed_last_hour", "Messages that were given up within the last hour.")
	firings       = describe("schedule_firings_last_hour", "Firings within the last hour, by outcome.", "outcome")
	missed        = describe("schedule_misses_last_hour",
		"Planned times of schedules that passed without a firing within the last hour.")
	workers         = describe("workers", "Workers that are alive.")
	lanes           = describe("lanes", "Calls that all workers together can make at once.")
	auditEntries    = describe("audit_entries", "Entries in the audit log.")
	backupTimestamp = describe("last_backup_timestamp_seconds",
		"When the last backup finished, in seconds since 1970; 0 means never.")
	backupBytes  = describe("last_backup_bytes", "Size of the last backup.")
	backupFailed = describe("last_backup_failure_timestamp_seconds",
		"When a scheduled backup last failed, in seconds since 1970; 0 means never.")
)

// Describe implements prometheus.Collector.
func (i *installation) Describe(all chan<- *prometheus.Desc) {
	for _, one := range []*prometheus.Desc{tasksByStatus, units, oldestWaiting, deliveries, failures, firings, missed,
		workers, lanes, auditEntries, backupTimestamp, backupBytes, backupFailed} {
		all <- one
	}
}

// Collect implements prometheus.Collector.
func (i *installation) Collect(all chan<- prometheus.Metric) {
	now, err := i.figures()
	if err != nil { // wending_postgres_up reports the outage
		return
	}
	gauge := func(what *prometheus.Desc, value float64, labels ...string) {
		all <- prometheus.MustNewConstMetric(what, prometheus.GaugeValue, value, labels...)
	}
	for _, status := range db.TaskStatuses {
		gauge(tasksByStatus, float64(now.Tasks[string(status)]), string(status))
	}
	gauge(units, float64(now.QueuedUnits), "QUEUED")
	gauge(units, float64(now.RunningUnits), "RUNNING")
	gauge(oldestWaiting, now.WaitingSeconds)
	gauge(deliveries, float64(now.PendingDeliveries))
	gauge(failures, float64(now.FailedDeliveries))
	for _, outcome := range entries.FiringOutcomes {
		gauge(firings, float64(now.Firings[string(outcome)]), string(outcome))
	}
	gauge(missed, float64(now.MissedFirings))
	gauge(workers, float64(now.Workers))
	gauge(lanes, float64(now.Lanes))
	gauge(auditEntries, float64(now.AuditEntries))
	seconds := func(at *time.Time) float64 {
		if at == nil {
			return 0
		}
		return float64(at.Unix())
	}
	gauge(backupTimestamp, seconds(now.LastBackupAt))
	gauge(backupBytes, float64(now.LastBackupBytes))
	gauge(backupFailed, seconds(now.BackupFailedAt))
}

func (i *installation) figures() (upkeep.Figures, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if time.Since(i.at) < figuresAreFresh {
		return i.read, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTime)
	defer cancel()
	read, err := upkeep.NewMonitor(i.store).Figures(ctx)
	if err == nil {
		i.read, i.at = read, time.Now()
	}
	return read, err
}
