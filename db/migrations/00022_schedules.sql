-- +goose Up
-- A schedule copies a task and runs the copies at the times of a cron expression.
CREATE TABLE schedules (
    id uuid PRIMARY KEY,
    name text NOT NULL,
    task_id uuid REFERENCES evaluation_tasks ON DELETE SET NULL, -- the task that is copied
    cron text NOT NULL,
    timezone text NOT NULL,
    is_enabled boolean NOT NULL,
    channels uuid[],                    -- the channels of the copies; NULL means the task's channels
    alert_metric text,                  -- NULL means no alert
    alert_below double precision,       -- NULL means no limit
    alerts_worse boolean NOT NULL,      -- alert if it is significantly worse than at the last firings
    next_at timestamptz,                -- NULL means not planned yet
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    archived_at timestamptz
);
CREATE UNIQUE INDEX schedules_name ON schedules (name) WHERE archived_at IS NULL;
CREATE INDEX schedules_of_task ON schedules (task_id) WHERE task_id IS NOT NULL;

CREATE TABLE firings (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    schedule_id uuid NOT NULL REFERENCES schedules ON DELETE CASCADE,
    planned_at timestamptz NOT NULL,
    fired_at timestamptz NOT NULL DEFAULT now(),
    outcome text NOT NULL CHECK (outcome IN ('STARTED', 'SKIPPED', 'FAILED')),
    reason text,                        -- why nothing was started: a code
    missed integer NOT NULL DEFAULT 0,  -- how many later planned times had passed as well
    task_id uuid REFERENCES evaluation_tasks ON DELETE SET NULL,
    launch_id uuid,                     -- the last launch that the summary covers
    summary json,                       -- the numbers of the trend
    UNIQUE (schedule_id, planned_at)
);
CREATE INDEX firings_of_task ON firings (task_id) WHERE task_id IS NOT NULL;
ALTER TABLE evaluation_tasks ADD COLUMN schedule_id uuid REFERENCES schedules ON DELETE SET NULL; -- the firing that made the task
CREATE INDEX tasks_of_schedule ON evaluation_tasks (schedule_id, created_at) WHERE schedule_id IS NOT NULL;
ALTER TABLE launches
    DROP CONSTRAINT launches_requested_via_check,
    ADD CONSTRAINT launches_requested_via_check CHECK (requested_via IN ('', 'page', 'api', 'schedule'));

-- +goose Down
UPDATE launches SET requested_via = '' WHERE requested_via = 'schedule';
ALTER TABLE launches
    DROP CONSTRAINT launches_requested_via_check,
    ADD CONSTRAINT launches_requested_via_check CHECK (requested_via IN ('', 'page', 'api'));
ALTER TABLE evaluation_tasks DROP COLUMN schedule_id;
DROP TABLE firings, schedules;
