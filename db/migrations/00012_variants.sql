-- +goose Up
-- What a task calls: a frozen copy of what was typed or saved, which no later change affects. A plain task has one.
CREATE TABLE task_targets (
    task_id         uuid NOT NULL REFERENCES evaluation_tasks ON DELETE CASCADE,
    number          smallint NOT NULL,
    kind            text NOT NULL CHECK (kind IN ('url', 'agent', 'model')),
    library_id      uuid,                        -- the saved agent or model that it was copied from; NULL means a typed URL
    name            text NOT NULL DEFAULT '',
    protocol        text NOT NULL DEFAULT 'default',
    url             text NOT NULL,               -- without its query
    model           text,
    sealed_headers  bytea,
    sealed_payload  bytea,
    sealed_query    bytea,
    sealed_template bytea,
    extra_payload   json,                        -- unencrypted, from early versions: sealed by the next process that starts
    rate_limit      text NOT NULL,               -- N/s, N/m or unlimited
    retry_on        text[] NOT NULL DEFAULT '{timeout,network}',
    input_price     numeric,                     -- per million tokens; NULL means unknown
    output_price    numeric,
    currency        text,
    PRIMARY KEY (task_id, number)
);
INSERT INTO task_targets (task_id, number, kind, url, model, sealed_headers, sealed_payload, sealed_query, extra_payload, rate_limit)
SELECT id, 1, 'url', agent_api_url, agent_model, agent_api_headers, sealed_payload, sealed_query, extra_payload, rate_limit
FROM evaluation_tasks;
CREATE INDEX targets_with_plain_secrets ON task_targets (task_id) WHERE extra_payload IS NOT NULL OR strpos(url, '?') > 0;
DROP INDEX tasks_with_plain_secrets;

-- What a task compares: one version of a prompt, or none, sent to one target.
CREATE TABLE task_variants (
    task_id         uuid NOT NULL,
    number          smallint NOT NULL,
    target          smallint NOT NULL,
    name            text NOT NULL DEFAULT '',
    prompt_id       uuid,
    prompt_version  integer,
    system_template text,
    user_template   text,
    PRIMARY KEY (task_id, number),
    FOREIGN KEY (task_id, target) REFERENCES task_targets ON DELETE CASCADE
);
INSERT INTO task_variants (task_id, number, target) SELECT id, 1, 1 FROM evaluation_tasks;
ALTER TABLE evaluation_tasks
    ADD COLUMN total_variants smallint NOT NULL DEFAULT 1,
    DROP COLUMN agent_api_url, DROP COLUMN agent_model, DROP COLUMN agent_api_headers, DROP COLUMN sealed_payload,
    DROP COLUMN sealed_query, DROP COLUMN extra_payload, DROP COLUMN rate_limit;

-- The rate limit of each target of a launch. Rows of launches that have ended are not used.
CREATE TABLE launch_targets (
    launch_id     uuid NOT NULL REFERENCES launches ON DELETE CASCADE,
    number        smallint NOT NULL,
    origin        text NOT NULL,
    call_interval bigint NOT NULL,               -- microseconds between two calls to the origin; 0 means unlimited
    PRIMARY KEY (launch_id, number)
);
INSERT INTO launch_targets SELECT id, 1, agent_origin, call_interval FROM launches WHERE status IN ('PENDING', 'RUNNING', 'STOPPING');
ALTER TABLE launches
    DROP COLUMN agent_origin, DROP COLUMN call_interval,
    ADD COLUMN variant smallint,                 -- the one variant that is retried; NULL means all
    ADD COLUMN made_through bigint NOT NULL DEFAULT 0; -- the last item whose units have been created, while the launch is PENDING

ALTER TABLE units
    ADD COLUMN variant smallint NOT NULL DEFAULT 1,
    ADD COLUMN target smallint NOT NULL DEFAULT 1,
    DROP CONSTRAINT units_launch_id_item_id_run_index_key,
    ADD UNIQUE (launch_id, item_id, variant, run_index);
DROP INDEX units_open;
CREATE INDEX units_open ON units (launch_id, target, state, id) WHERE state IN ('QUEUED', 'RUNNING');
ALTER TABLE evaluation_runs ADD COLUMN variant smallint NOT NULL DEFAULT 1;
DROP INDEX evaluation_runs_current;
CREATE UNIQUE INDEX evaluation_runs_current ON evaluation_runs (item_id, variant, run_index) WHERE is_current;
-- All variants of a question share its letters and differences, which are stored with the first variant.
ALTER TABLE question_statistics
    ADD COLUMN variant smallint NOT NULL DEFAULT 1,
    DROP CONSTRAINT question_statistics_pkey,
    ADD PRIMARY KEY (item_id, variant);

-- +goose Down
DELETE FROM evaluation_tasks WHERE total_variants > 1; -- earlier versions support only one variant
DELETE FROM question_statistics WHERE variant > 1;
ALTER TABLE question_statistics DROP CONSTRAINT question_statistics_pkey, DROP COLUMN variant, ADD PRIMARY KEY (item_id);
DROP INDEX evaluation_runs_current;
ALTER TABLE evaluation_runs DROP COLUMN variant;
CREATE UNIQUE INDEX evaluation_runs_current ON evaluation_runs (item_id, run_index) WHERE is_current;
DROP INDEX units_open;
ALTER TABLE units
    DROP COLUMN variant, DROP COLUMN target,
    ADD UNIQUE (launch_id, item_id, run_index);
CREATE INDEX units_open ON units (launch_id, state, id) WHERE state IN ('QUEUED', 'RUNNING');
ALTER TABLE launches
    DROP COLUMN variant, DROP COLUMN made_through,
    ADD COLUMN agent_origin text NOT NULL DEFAULT '', ADD COLUMN call_interval bigint NOT NULL DEFAULT 0;
UPDATE launches l SET agent_origin = t.origin, call_interval = t.call_interval FROM launch_targets t WHERE t.launch_id = l.id;
DROP TABLE launch_targets;
ALTER TABLE evaluation_tasks
    DROP COLUMN total_variants,
    ADD COLUMN agent_api_url text NOT NULL DEFAULT '', ADD COLUMN agent_model text, ADD COLUMN agent_api_headers bytea,
    ADD COLUMN sealed_payload bytea, ADD COLUMN sealed_query bytea, ADD COLUMN extra_payload json,
    ADD COLUMN rate_limit text NOT NULL DEFAULT '1/s';
UPDATE evaluation_tasks t
SET agent_api_url = g.url, agent_model = g.model, agent_api_headers = g.sealed_headers, sealed_payload = g.sealed_payload,
    sealed_query = g.sealed_query, extra_payload = g.extra_payload, rate_limit = g.rate_limit
FROM task_targets g
WHERE g.task_id = t.id AND g.number = 1;
CREATE INDEX tasks_with_plain_secrets ON evaluation_tasks (id) WHERE extra_payload IS NOT NULL OR strpos(agent_api_url, '?') > 0;
DROP TABLE task_variants, task_targets;
