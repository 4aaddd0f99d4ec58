-- +goose Up
-- The failed attempts of a run before its last one: a list of objects of type db.FailedAttempt; NULL means that
-- there were none.
ALTER TABLE evaluation_runs ADD COLUMN failed_attempts jsonb;

-- +goose Down
ALTER TABLE evaluation_runs DROP COLUMN failed_attempts;
