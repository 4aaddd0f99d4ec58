-- +goose Up
-- Launches without a lane take turns: the one that has waited longest is first.
ALTER TABLE launches ADD COLUMN waits_since timestamptz NOT NULL DEFAULT now();

-- +goose Down
ALTER TABLE launches DROP COLUMN waits_since;
