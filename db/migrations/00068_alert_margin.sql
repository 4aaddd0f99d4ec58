-- +goose Up
-- By how much a metric may be worse than at the last firings before alerts_worse raises an alert.
ALTER TABLE schedules ADD COLUMN alert_margin float8 NOT NULL DEFAULT 0 CHECK (alert_margin >= 0);

-- +goose Down
ALTER TABLE schedules DROP COLUMN alert_margin;
