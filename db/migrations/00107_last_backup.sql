-- +goose Up
-- When 'wending backup' last finished, for the page of storage and the metrics.
ALTER TABLE installation ADD COLUMN last_backup_at timestamptz;
-- For the metrics, which count the messages that were given up recently.
CREATE INDEX deliveries_given_up ON deliveries (ended_at) WHERE state = 'FAILED';

-- +goose Down
DROP INDEX deliveries_given_up;
ALTER TABLE installation DROP COLUMN last_backup_at;
