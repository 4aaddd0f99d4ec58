-- +goose Up
ALTER TABLE units
    ADD COLUMN claimed_at timestamptz,
    ADD COLUMN progress smallint;             -- of a call that takes longer than a second, in per cent; -1 means that the agent reports none, NULL that there is no such call
ALTER TABLE evaluation_runs ADD COLUMN longest_silence_ms integer;

-- The events that agents reported during calls, in parts of up to a second (package event). Rows of a unit's
-- earlier epochs stay: they are the last known events of a call whose worker died. There is no foreign key to
-- units, which are removed earlier.
CREATE TABLE run_events (
    unit_id   bigint NOT NULL,
    epoch     integer NOT NULL,
    first_seq integer NOT NULL,
    item_id   bigint NOT NULL,
    task_id   uuid NOT NULL REFERENCES evaluation_tasks ON DELETE CASCADE,
    events    bytea NOT NULL,
    PRIMARY KEY (unit_id, epoch, first_seq)
);
ALTER TABLE run_events ALTER COLUMN events SET STORAGE EXTERNAL; -- the parts are compressed already
CREATE INDEX run_events_of_task ON run_events (task_id);

-- The record of a tool call (spec/003).
CREATE TABLE tool_executions (
    unit_id    bigint NOT NULL,
    epoch      integer NOT NULL,
    number     integer NOT NULL,              -- within the unit's epoch, from 1
    item_id    bigint NOT NULL,
    task_id    uuid NOT NULL REFERENCES evaluation_tasks ON DELETE CASCADE,
    tool       text NOT NULL,
    tool_id    text NOT NULL,                 -- the agent's id of the tool call; may be empty
    provider   text NOT NULL,
    asset_type text NOT NULL,
    status     text NOT NULL CHECK (status IN ('started', 'generating', 'completed', 'failed')),
    progress   double precision,              -- per cent; NULL means not reported
    input      json,
    output     json,
    error      text,
    started_ms integer NOT NULL,              -- since the call's start
    ended_ms   integer,
    started_at timestamptz NOT NULL DEFAULT now(),
    ended_at   timestamptz,
    PRIMARY KEY (unit_id, epoch, number)
);
CREATE INDEX tool_executions_of_task ON tool_executions (task_id);
CREATE INDEX tool_executions_open ON tool_executions (started_at) WHERE ended_at IS NULL;

-- +goose Down
DROP TABLE tool_executions, run_events;
ALTER TABLE evaluation_runs DROP COLUMN longest_silence_ms;
ALTER TABLE units DROP COLUMN claimed_at, DROP COLUMN progress;
