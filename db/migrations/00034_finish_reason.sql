-- +goose Up
-- Why an answer ended, as the agent reports it; NULL means that the agent does not report it, or that an earlier
-- version stored the run.
ALTER TABLE evaluation_runs ADD COLUMN finish_reason text;
ALTER TABLE evaluation_runs ADD CONSTRAINT evaluation_runs_finish_reason_check
    CHECK (finish_reason IN ('stop', 'length', 'content_filter', 'refusal', 'tool_calls')) NOT VALID; -- existing rows have none

-- +goose Down
ALTER TABLE evaluation_runs DROP COLUMN finish_reason;
