-- +goose Up
ALTER TABLE evaluation_tasks DROP CONSTRAINT evaluation_tasks_timeout_seconds_check;
ALTER TABLE evaluation_tasks ADD CONSTRAINT evaluation_tasks_timeout_seconds_check CHECK (timeout_seconds BETWEEN 1 AND 3600) NOT VALID; -- what is there has at most 600
-- How an agent is polled that accepts jobs and answers later; NULL: it answers at once.
ALTER TABLE agents ADD COLUMN poll json;
ALTER TABLE task_targets ADD COLUMN poll json;
ALTER TABLE units ADD COLUMN resume json; -- the accepted job: who has the unit next polls on instead of asking again

-- +goose Down
ALTER TABLE units DROP COLUMN resume;
ALTER TABLE task_targets DROP COLUMN poll;
ALTER TABLE agents DROP COLUMN poll;
ALTER TABLE evaluation_tasks DROP CONSTRAINT evaluation_tasks_timeout_seconds_check;
ALTER TABLE evaluation_tasks ADD CONSTRAINT evaluation_tasks_timeout_seconds_check CHECK (timeout_seconds BETWEEN 1 AND 600) NOT VALID;
