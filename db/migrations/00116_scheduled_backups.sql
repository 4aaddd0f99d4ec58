-- +goose Up
-- Scheduled backups (BACKUP_CRON): when one was last tried, or planned for the first time; when one last failed; and the
-- size of the last backup, for the page of storage and the metrics.
ALTER TABLE installation
    ADD COLUMN backup_tried_at timestamptz,
    ADD COLUMN backup_failed_at timestamptz,
    ADD COLUMN last_backup_bytes bigint NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE installation
    DROP COLUMN backup_tried_at,
    DROP COLUMN backup_failed_at,
    DROP COLUMN last_backup_bytes;
