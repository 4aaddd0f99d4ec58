-- +goose Up
-- A value that only SECRET_KEY opens: a process with another key must not start, because it could open nobody's secrets.
ALTER TABLE installation ADD COLUMN sealed_check bytea;

-- +goose Down
ALTER TABLE installation DROP COLUMN sealed_check;
