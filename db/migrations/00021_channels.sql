-- +goose Up
-- Channels notify people and programs about tasks.
CREATE TABLE channels (
    id uuid PRIMARY KEY,
    name text NOT NULL,
    kind text NOT NULL CHECK (kind IN ('webhook', 'dingtalk', 'feishu', 'wecom', 'slack', 'email')),
    url text NOT NULL DEFAULT '',        -- the part of the address that may be shown
    sealed_url bytea,
    recipients text NOT NULL DEFAULT '', -- of an e-mail, joined by commas
    sealed_secret bytea,
    events text[] NOT NULL,
    lang text NOT NULL,
    is_default boolean NOT NULL DEFAULT false,
    tested_at timestamptz,
    test_code text,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now(),
    archived_at timestamptz
);
CREATE UNIQUE INDEX channels_name ON channels (name) WHERE archived_at IS NULL;

CREATE TABLE task_channels (
    task_id uuid NOT NULL REFERENCES evaluation_tasks ON DELETE CASCADE,
    channel_id uuid NOT NULL REFERENCES channels,
    PRIMARY KEY (task_id, channel_id)
);
CREATE INDEX task_channels_of_channel ON task_channels (channel_id);

-- The outbox: messages to send, and how their delivery went. A row is written in the transaction that makes the
-- announced change.
CREATE TABLE deliveries (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    channel_id uuid NOT NULL REFERENCES channels ON DELETE CASCADE,
    launch_id uuid REFERENCES launches ON DELETE CASCADE, -- NULL means a test
    event text NOT NULL,
    sequence integer NOT NULL DEFAULT 0,                  -- distinguishes deliveries of one event: 25, 50 and 75 for progress, the batch of results
    message_id uuid NOT NULL UNIQUE DEFAULT gen_random_uuid(),
    detail json,                                          -- data that the launch itself does not record
    state text NOT NULL DEFAULT 'PENDING' CHECK (state IN ('PENDING', 'SENT', 'FAILED')),
    attempts integer NOT NULL DEFAULT 0,
    next_at timestamptz NOT NULL DEFAULT now(),
    give_up_at timestamptz NOT NULL DEFAULT now() + interval '1 day',
    claimed_until timestamptz,                            -- a process is sending it
    body bytea,                                           -- the body, written once
    response_status integer,
    error text,
    created_at timestamptz NOT NULL DEFAULT now(),
    ended_at timestamptz
);
CREATE UNIQUE INDEX deliveries_once ON deliveries (launch_id, channel_id, event, sequence);
CREATE INDEX deliveries_due ON deliveries (next_at) WHERE state = 'PENDING';
CREATE INDEX deliveries_of_channel ON deliveries (channel_id, id);

-- Runs that are part of a delivery of results, with its launch and batch.
CREATE TABLE pushed_runs (
    run_id bigint PRIMARY KEY,           -- no foreign key: deleting runs would look each of them up
    launch_id uuid NOT NULL REFERENCES launches ON DELETE CASCADE,
    batch integer NOT NULL
);
CREATE INDEX pushed_runs_of_batch ON pushed_runs (launch_id, batch);
-- pushes_results: whether results may still have to be pushed
ALTER TABLE launches ADD COLUMN pushes_results boolean NOT NULL DEFAULT false;
CREATE INDEX launches_pushing ON launches (created_at) WHERE pushes_results;

-- +goose Down
DROP TABLE pushed_runs, deliveries, task_channels, channels;
ALTER TABLE launches DROP COLUMN pushes_results;
