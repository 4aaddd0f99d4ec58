-- +goose Up
-- A user creates tasks. A task's questions are evaluation_items, its starts are launches.
CREATE TABLE evaluation_tasks (
    id                 uuid PRIMARY KEY,
    task_name          text NOT NULL CHECK (char_length(task_name) BETWEEN 1 AND 64),
    agent_api_url      text NOT NULL,
    agent_api_headers  bytea,            -- sealed (AEAD; associated data: the task's id); NULL means none
    agent_model        text,
    extra_payload      json,             -- json and not jsonb: numbers and the order of keys reach the agent as they were typed
    status             text NOT NULL DEFAULT 'PENDING'
                       CHECK (status IN ('PENDING', 'RUNNING', 'SUCCEEDED', 'FAILED', 'STOPPED')),
    failure_code       text,             -- why the system gave up; only if FAILED
    runs_per_item      integer NOT NULL CHECK (runs_per_item BETWEEN 1 AND 20),
    timeout_seconds    integer NOT NULL CHECK (timeout_seconds BETWEEN 1 AND 600),
    max_retries        integer NOT NULL CHECK (max_retries BETWEEN 0 AND 5),
    use_stream         boolean NOT NULL,
    concurrency        integer NOT NULL CHECK (concurrency BETWEEN 1 AND 64),
    rate_limit         text NOT NULL,    -- N/s, N/m or unlimited
    dataset_name       text NOT NULL,    -- the name of the uploaded file
    dataset_extension  text NOT NULL,
    variable_names     text[] NOT NULL DEFAULT '{}',
    total_items        integer NOT NULL,
    progress_processed integer NOT NULL DEFAULT 0,
    created_by         text NOT NULL DEFAULT '',
    created_at         timestamptz NOT NULL DEFAULT now(),
    updated_at         timestamptz NOT NULL DEFAULT now(),
    started_at         timestamptz,
    completed_at       timestamptz
);
CREATE INDEX evaluation_tasks_newest ON evaluation_tasks (created_at DESC, id DESC);
CREATE INDEX evaluation_tasks_by_status ON evaluation_tasks (status, created_at DESC, id DESC);

-- A row of the dataset. question_id sorts by bytes, so that every machine shows the same order.
CREATE TABLE evaluation_items (
    id              bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    task_id         uuid NOT NULL REFERENCES evaluation_tasks ON DELETE CASCADE,
    question_id     text COLLATE "C" NOT NULL,
    question        text NOT NULL,
    standard_answer text NOT NULL,
    system_prompt   text,
    user_context    text,
    variables       json,
    processed       boolean NOT NULL DEFAULT false,
    UNIQUE (task_id, question_id)
);

-- One start of a task. This row contains everything that claiming a unit requires, so that a claim reads and locks
-- only one row.
CREATE TABLE launches (
    id            uuid PRIMARY KEY,
    task_id       uuid NOT NULL REFERENCES evaluation_tasks ON DELETE CASCADE,
    kind          text NOT NULL CHECK (kind IN ('SUBMIT')),
    status        text NOT NULL DEFAULT 'PENDING'
                  CHECK (status IN ('PENDING', 'RUNNING', 'SUCCEEDED', 'FAILED')),
    concurrency   integer NOT NULL,
    agent_origin  text NOT NULL,
    call_interval bigint NOT NULL,       -- microseconds between two calls to the origin; 0 means unlimited
    statistics    json,                  -- the final statistics; NULL until the launch is finished
    created_at    timestamptz NOT NULL DEFAULT now(),
    started_at    timestamptz,
    finished_at   timestamptz
);
CREATE UNIQUE INDEX launches_one_active ON launches (task_id) WHERE status IN ('PENDING', 'RUNNING');
CREATE INDEX launches_active ON launches (created_at) WHERE status IN ('PENDING', 'RUNNING');

-- A worker process; beat_at is the time of its last heartbeat.
CREATE TABLE workers (
    id         uuid PRIMARY KEY,
    host       text NOT NULL,
    process_id integer NOT NULL,
    lanes      integer NOT NULL,
    started_at timestamptz NOT NULL DEFAULT now(),
    beat_at    timestamptz NOT NULL DEFAULT now()
);

-- A job that runs a launch's units. A launch admits only as many as its concurrency, so that neither a slow rate
-- nor duplicate wake-ups fill the workers with lanes of one task.
CREATE TABLE lanes (
    id        uuid PRIMARY KEY,
    launch_id uuid NOT NULL REFERENCES launches ON DELETE CASCADE,
    worker_id uuid NOT NULL REFERENCES workers ON DELETE CASCADE
);
CREATE INDEX lanes_of_launch ON lanes (launch_id);

-- What workers claim and finish. The table is thin, so that scheduling stays cheap. epoch grows with every claim
-- and every loss; a result is accepted only under the epoch of its claim.
CREATE TABLE units (
    id        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    launch_id uuid NOT NULL REFERENCES launches ON DELETE CASCADE,
    item_id   bigint NOT NULL,
    run_index integer NOT NULL,
    state     text NOT NULL DEFAULT 'QUEUED' CHECK (state IN ('QUEUED', 'RUNNING', 'DONE', 'STOPPED')),
    epoch     integer NOT NULL DEFAULT 0,
    losses    integer NOT NULL DEFAULT 0,
    worker_id uuid,
    UNIQUE (launch_id, item_id, run_index)
);
CREATE INDEX units_queued ON units (launch_id, id) WHERE state = 'QUEUED';
CREATE INDEX units_running ON units (launch_id) WHERE state = 'RUNNING';
CREATE INDEX units_of_worker ON units (worker_id) WHERE state = 'RUNNING';

-- The outcome of one call. Append-only; the newest row of each (item, run_index) is current.
CREATE TABLE evaluation_runs (
    id             bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    unit_id        bigint NOT NULL UNIQUE,
    epoch          integer NOT NULL,
    task_id        uuid NOT NULL REFERENCES evaluation_tasks ON DELETE CASCADE,
    launch_id      uuid NOT NULL,
    item_id        bigint NOT NULL,
    run_index      integer NOT NULL,
    is_current     boolean NOT NULL DEFAULT true,
    status         text NOT NULL CHECK (status IN ('SUCCEEDED', 'FAILED', 'TIMEOUT')),
    response_body  text,
    response_bytes bytea,                -- the exact bytes if text cannot hold them; otherwise NULL
    reasoning      text,
    answer_key     bytea,                -- equal for equal answers (trimmed, NFC); NULL for failures
    latency_ms     integer,
    attempts       integer NOT NULL,
    error_code     text,
    error_message  text,
    created_at     timestamptz NOT NULL DEFAULT now()
);
CREATE UNIQUE INDEX evaluation_runs_current ON evaluation_runs (item_id, run_index) WHERE is_current;
CREATE INDEX evaluation_runs_of_launch ON evaluation_runs (launch_id);
CREATE INDEX evaluation_runs_of_task ON evaluation_runs (task_id) WHERE is_current;

-- The next free slot of each agent (the origin of its URL): the rate limit that all workers share.
CREATE TABLE agents (
    origin    text PRIMARY KEY,
    next_free timestamptz NOT NULL DEFAULT now()
);

-- +goose Down
DROP TABLE agents, evaluation_runs, units, lanes, workers, launches, evaluation_items, evaluation_tasks;
