-- +goose Up
ALTER TABLE units
    ADD COLUMN claimed_at timestamptz,
    ADD COLUMN progress smallint;             -- of a call that takes longer than a second, in per cent, -1 where the agent reports none; NULL: of no such call
ALTER TABLE evaluation_runs ADD COLUMN longest_silence_ms integer;

-- What agents reported during calls: parts of up to a second (package event). Rows of a unit's earlier epochs stay: they are the last that is
-- known of a call whose worker died. There is no reference to units, which are removed earlier.
CREATE TABLE run_events (
    unit_id   bigint NOT NULL,
    epoch     integer NOT NULL,
    first_seq integer NOT NULL,
    item_id   bigint NOT NULL,
    task_id   uuid NOT NULL REFERENCES evaluation_tasks ON DELETE CASCADE,
    events    bytea NOT NULL,
    PRIMARY KEY (unit_id, epoch, first_seq)
);
ALTER TABLE run_events ALTER COLUMN events SET STORAGE EXTERNAL; -- they are compressed
CREATE INDEX run_events_of_task ON run_events (task_id);

-- The record of a tool's call (spec/003).
CREATE TABLE tool_executions (
    unit_id    bigint NOT NULL,
    epoch      integer NOT NULL,
    number     integer NOT NULL,              -- within the unit's epoch, from 1
    item_id    bigint NOT NULL,
    task_id    uuid NOT NULL REFERENCES evaluation_tasks ON DELETE CASCADE,
    tool       text NOT NULL,
    tool_id    text NOT NULL,                 -- by which the agent tells its calls apart; may be empty
    provider   text NOT NULL,
    asset_type text NOT NULL,
    status     text NOT NULL CHECK (status IN ('started', 'generating', 'completed', 'failed')),
    progress   double precision,              -- per cent; NULL: not reported
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
