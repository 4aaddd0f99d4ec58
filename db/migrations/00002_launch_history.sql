-- +goose Up
-- A task can be started several times: it is stopped and resumed, or its failures are retried. Each start is a
-- launch with its own units and runs; pages show the current runs.
ALTER TABLE evaluation_tasks
    ADD COLUMN statistics json,                          -- of the current runs; NULL while the task is active
    ADD COLUMN is_pruned boolean NOT NULL DEFAULT false; -- whether nothing of its history is left to remove
CREATE INDEX evaluation_tasks_to_prune ON evaluation_tasks (completed_at) WHERE NOT is_pruned;
UPDATE evaluation_tasks t SET statistics = l.statistics FROM launches l WHERE l.task_id = t.id;

ALTER TABLE launches
    DROP CONSTRAINT launches_kind_check,
    DROP CONSTRAINT launches_status_check,
    ADD CONSTRAINT launches_kind_check CHECK (kind IN ('SUBMIT', 'RETRY_FAILED', 'RESUME')),
    ADD CONSTRAINT launches_status_check
        CHECK (status IN ('PENDING', 'RUNNING', 'STOPPING', 'SUCCEEDED', 'STOPPED', 'FAILED')),
    ADD COLUMN number integer NOT NULL DEFAULT 1,       -- 1, 2, 3 … within the task
    ADD COLUMN item_id bigint,                          -- the one question that is retried; NULL means all
    ADD COLUMN requested_by text NOT NULL DEFAULT '',   -- the address that requested it
    ADD COLUMN requested_via text NOT NULL DEFAULT '' CHECK (requested_via IN ('', 'page', 'api')),
    ADD COLUMN total_units integer NOT NULL DEFAULT 0,
    ADD COLUMN kept_succeeded integer NOT NULL DEFAULT 0, -- current runs that this launch does not repeat
    ADD COLUMN kept_failed integer NOT NULL DEFAULT 0,
    ADD COLUMN stop_requested_at timestamptz,
    ADD COLUMN stopped_by text NOT NULL DEFAULT '';
UPDATE launches l SET total_units = (SELECT count(*) FROM units u WHERE u.launch_id = l.id);
DROP INDEX launches_one_active, launches_active;
CREATE UNIQUE INDEX launches_one_active ON launches (task_id) WHERE status IN ('PENDING', 'RUNNING', 'STOPPING');
CREATE INDEX launches_active ON launches (created_at) WHERE status IN ('PENDING', 'RUNNING', 'STOPPING');
CREATE UNIQUE INDEX launches_of_task ON launches (task_id, number);

-- The outcome is stored beside the state, so that counting never reads the large table of runs.
ALTER TABLE units ADD COLUMN outcome text CHECK (outcome IN ('SUCCEEDED', 'FAILED', 'TIMEOUT'));
UPDATE units u SET outcome = r.status FROM evaluation_runs r WHERE r.unit_id = u.id;
DROP INDEX units_queued, units_running;
CREATE INDEX units_open ON units (launch_id, state, id) WHERE state IN ('QUEUED', 'RUNNING');

-- Units and runs are removed by launch when their task is deleted. Foreign keys would require a look-up for each row,
-- and make every insert lock the launch or the task.
ALTER TABLE units DROP CONSTRAINT units_launch_id_fkey;
ALTER TABLE evaluation_runs DROP CONSTRAINT evaluation_runs_task_id_fkey;
DROP INDEX evaluation_runs_of_launch;
CREATE INDEX evaluation_runs_of_launch ON evaluation_runs (launch_id, id);

-- A worker that was silent for too long gets a new lease; units that it held under the old one are lost.
CREATE SEQUENCE worker_leases;
ALTER TABLE workers ADD COLUMN lease bigint NOT NULL DEFAULT nextval('worker_leases');

-- +goose Down
ALTER TABLE workers DROP COLUMN lease;
DROP SEQUENCE worker_leases;
DELETE FROM evaluation_runs WHERE NOT is_current;
ALTER TABLE evaluation_runs ADD FOREIGN KEY (task_id) REFERENCES evaluation_tasks ON DELETE CASCADE;
DROP INDEX units_open;
ALTER TABLE units ADD FOREIGN KEY (launch_id) REFERENCES launches ON DELETE CASCADE;
CREATE INDEX units_queued ON units (launch_id, id) WHERE state = 'QUEUED';
CREATE INDEX units_running ON units (launch_id) WHERE state = 'RUNNING';
ALTER TABLE units DROP COLUMN outcome;
DROP INDEX launches_one_active, launches_active, launches_of_task;
UPDATE launches SET kind = 'SUBMIT', status = CASE WHEN status IN ('STOPPING', 'STOPPED') THEN 'FAILED' ELSE status END;
ALTER TABLE launches
    DROP CONSTRAINT launches_kind_check, DROP CONSTRAINT launches_status_check,
    ADD CONSTRAINT launches_kind_check CHECK (kind IN ('SUBMIT')),
    ADD CONSTRAINT launches_status_check CHECK (status IN ('PENDING', 'RUNNING', 'SUCCEEDED', 'FAILED')),
    DROP COLUMN number, DROP COLUMN item_id, DROP COLUMN requested_by, DROP COLUMN requested_via, DROP COLUMN total_units,
    DROP COLUMN kept_succeeded, DROP COLUMN kept_failed, DROP COLUMN stop_requested_at, DROP COLUMN stopped_by;
CREATE UNIQUE INDEX launches_one_active ON launches (task_id) WHERE status IN ('PENDING', 'RUNNING');
CREATE INDEX launches_active ON launches (created_at) WHERE status IN ('PENDING', 'RUNNING');
ALTER TABLE evaluation_tasks DROP COLUMN statistics, DROP COLUMN is_pruned;
