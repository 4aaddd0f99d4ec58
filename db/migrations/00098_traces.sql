-- +goose Up
-- The W3C trace id with which a run's agent was called, in hexadecimal, and the agent's own id for the last call.
-- Both are NULL for a run without a call or of an earlier version; the second is also NULL if the agent named none.
ALTER TABLE evaluation_runs
    ADD COLUMN trace_id text,
    ADD COLUMN agent_trace_id text;
-- The template of addresses in the agents' tracing, with {trace_id} or {agent_trace_id}; NULL means no links.
ALTER TABLE projects ADD COLUMN trace_url text;

-- +goose Down
ALTER TABLE projects DROP COLUMN trace_url;
ALTER TABLE evaluation_runs DROP COLUMN trace_id, DROP COLUMN agent_trace_id;
