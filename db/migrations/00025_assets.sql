-- +goose Up
-- A file that an agent produced during a call, or a preview of one. A row is written with the call's events, and
-- again with its result under the same id, so that no file is lost.
CREATE TABLE assets (
    id           uuid PRIMARY KEY,
    task_id      uuid NOT NULL REFERENCES evaluation_tasks ON DELETE CASCADE,
    unit_id      bigint NOT NULL,
    epoch        integer NOT NULL,
    item_id      bigint NOT NULL,
    target       smallint NOT NULL,
    number       integer NOT NULL,              -- within the call, from 1
    attempt      smallint NOT NULL DEFAULT 1,   -- the attempt of the call; files of the last attempt belong to the run
    path         text NOT NULL,                 -- its id within the call
    kind         text NOT NULL CHECK (kind IN ('image', 'audio', 'video', 'file')),
    is_preview   boolean NOT NULL,
    original_url text,                          -- NULL means that it came inline
    content      bytea,                         -- the inline content, until it is stored
    state        text NOT NULL DEFAULT 'QUEUED' CHECK (state IN ('QUEUED', 'STORED', 'FAILED')),
    attempts     integer NOT NULL DEFAULT 0,
    next_at      timestamptz NOT NULL DEFAULT now(),
    claimed_until timestamptz,
    media_type   text,
    size         bigint,
    sha256       bytea,
    storage_key  text,                          -- files of a task with equal content share a copy
    thumbnail_key text,                         -- NULL means that there is none
    error        text,
    created_at   timestamptz NOT NULL DEFAULT now(),
    stored_at    timestamptz
);
ALTER TABLE assets ALTER COLUMN content SET STORAGE EXTERNAL;
CREATE INDEX assets_of_task ON assets (task_id, item_id);
CREATE INDEX assets_due ON assets (next_at) WHERE state = 'QUEUED';
CREATE INDEX assets_by_content ON assets (task_id, sha256) WHERE state = 'STORED';

-- +goose Down
DROP TABLE assets;
