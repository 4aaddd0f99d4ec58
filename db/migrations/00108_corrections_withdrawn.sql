-- +goose Up
-- Who withdrew a person's grouping; NULL while it stands. Its version stays that of the latest one.
ALTER TABLE corrections ADD COLUMN withdrawn_by text;

-- +goose Down
ALTER TABLE corrections DROP COLUMN withdrawn_by;
