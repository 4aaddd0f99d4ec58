-- +goose Up
ALTER TABLE evaluation_tasks DROP CONSTRAINT evaluation_tasks_timeout_seconds_check;
ALTER TABLE evaluation_tasks ADD CONSTRAINT evaluation_tasks_timeout_seconds_check CHECK (timeout_seconds BETWEEN 1 AND 3600) NOT VALID; -- existing rows have at most 600
-- How to poll an agent that accepts jobs and answers later; NULL means that it answers directly.
ALTER TABLE agents ADD COLUMN poll json;
ALTER TABLE task_targets ADD COLUMN poll json;
ALTER TABLE units ADD COLUMN resume json; -- the accepted job: the next worker that claims the unit continues to poll it instead of asking again

-- +goose Down
ALTER TABLE units DROP COLUMN resume;
ALTER TABLE task_targets DROP COLUMN poll;
ALTER TABLE agents DROP COLUMN poll;
ALTER TABLE evaluation_tasks DROP CONSTRAINT evaluation_tasks_timeout_seconds_check;
ALTER TABLE evaluation_tasks ADD CONSTRAINT evaluation_tasks_timeout_seconds_check CHECK (timeout_seconds BETWEEN 1 AND 600) NOT VALID;
