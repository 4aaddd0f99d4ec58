-- +goose Up
-- A value that only the right SECRET_KEY opens: a process with another key must not start, because it could not
-- open any secret.
ALTER TABLE installation ADD COLUMN sealed_check bytea;

-- +goose Down
ALTER TABLE installation DROP COLUMN sealed_check;
