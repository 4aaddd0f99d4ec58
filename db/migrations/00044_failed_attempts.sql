-- +goose Up
-- The attempts of a run that failed and were made again: a list of objects, as db.FailedAttempt has them; NULL: there was none.
ALTER TABLE evaluation_runs ADD COLUMN failed_attempts jsonb;

-- +goose Down
ALTER TABLE evaluation_runs DROP COLUMN failed_attempts;
