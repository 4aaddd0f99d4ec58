-- +goose Up
-- Why an answer ended, as the agent says; NULL: it does not say, or the run is of an earlier version.
ALTER TABLE evaluation_runs ADD COLUMN finish_reason text;
ALTER TABLE evaluation_runs ADD CONSTRAINT evaluation_runs_finish_reason_check
    CHECK (finish_reason IN ('stop', 'length', 'content_filter', 'refusal', 'tool_calls')) NOT VALID; -- what is there has none

-- +goose Down
ALTER TABLE evaluation_runs DROP COLUMN finish_reason;
