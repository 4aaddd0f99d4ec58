-- +goose Up
-- Entries that are saved for use in tasks. Tasks keep copies, so no entry is read while a task runs. Entries that
-- were used are archived instead of removed. NULL in retry_on and rate_limit means the default.
CREATE TABLE providers (
    id             uuid PRIMARY KEY,
    name           text NOT NULL,
    protocol       text NOT NULL,
    base_url       text NOT NULL,
    sealed_key     bytea,
    sealed_headers bytea,
    rate_limit     text,
    retry_on       text[] NOT NULL,
    created_at     timestamptz NOT NULL DEFAULT now(),
    updated_at     timestamptz NOT NULL DEFAULT now(),
    archived_at    timestamptz
);
CREATE UNIQUE INDEX providers_name ON providers (name) WHERE archived_at IS NULL;
CREATE TABLE models (
    id                uuid PRIMARY KEY,
    provider_id       uuid NOT NULL REFERENCES providers,
    name              text NOT NULL,
    model_id          text NOT NULL,
    sealed_parameters bytea,
    input_price       numeric, -- per million tokens; NULL means unknown
    output_price      numeric,
    currency          text,
    tested_at         timestamptz,
    test_code         text,    -- of the last test; NULL means that it succeeded, or that there was none
    created_at        timestamptz NOT NULL DEFAULT now(),
    updated_at        timestamptz NOT NULL DEFAULT now(),
    archived_at       timestamptz
);
CREATE UNIQUE INDEX models_name ON models (name) WHERE archived_at IS NULL;
CREATE INDEX models_of_provider ON models (provider_id);
CREATE TABLE agents (
    id              uuid PRIMARY KEY,
    name            text NOT NULL,
    protocol        text NOT NULL,
    url             text NOT NULL, -- without its query
    sealed_query    bytea,
    sealed_headers  bytea,
    sealed_payload  bytea,
    sealed_template bytea,
    rate_limit      text,
    retry_on        text[] NOT NULL,
    tested_at       timestamptz,
    test_code       text,
    created_at      timestamptz NOT NULL DEFAULT now(),
    updated_at      timestamptz NOT NULL DEFAULT now(),
    archived_at     timestamptz
);
CREATE UNIQUE INDEX agents_name ON agents (name) WHERE archived_at IS NULL;
CREATE TABLE prompts (
    id          uuid PRIMARY KEY,
    name        text NOT NULL,
    description text NOT NULL DEFAULT '',
    created_at  timestamptz NOT NULL DEFAULT now(),
    updated_at  timestamptz NOT NULL DEFAULT now(),
    archived_at timestamptz
);
CREATE UNIQUE INDEX prompts_name ON prompts (name) WHERE archived_at IS NULL;
CREATE TABLE prompt_versions (
    entry_id        uuid NOT NULL REFERENCES prompts ON DELETE CASCADE,
    version         integer NOT NULL,
    system_template text NOT NULL,
    user_template   text NOT NULL,
    note            text NOT NULL DEFAULT '',
    created_at      timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (entry_id, version)
);
CREATE TABLE datasets (
    id          uuid PRIMARY KEY,
    name        text NOT NULL,
    description text NOT NULL DEFAULT '',
    created_at  timestamptz NOT NULL DEFAULT now(),
    updated_at  timestamptz NOT NULL DEFAULT now(),
    archived_at timestamptz
);
CREATE UNIQUE INDEX datasets_name ON datasets (name) WHERE archived_at IS NULL;
CREATE TABLE dataset_versions (
    entry_id        uuid NOT NULL REFERENCES datasets ON DELETE CASCADE,
    version         integer NOT NULL,
    file_name       text NOT NULL,
    extension       text NOT NULL,
    size            integer NOT NULL,
    sha256          bytea NOT NULL,
    question_column text NOT NULL DEFAULT '',
    answer_column   text NOT NULL DEFAULT '',
    columns         text[] NOT NULL, -- of the file, in its order
    total_items     integer NOT NULL,
    note            text NOT NULL DEFAULT '',
    created_at      timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (entry_id, version)
);
ALTER TABLE evaluation_tasks
    ADD COLUMN dataset_id uuid,      -- the saved dataset that the questions were copied from; NULL means an upload
    ADD COLUMN dataset_version integer;
CREATE INDEX task_targets_of_library ON task_targets (library_id) WHERE library_id IS NOT NULL;
CREATE INDEX task_variants_of_prompt ON task_variants (prompt_id) WHERE prompt_id IS NOT NULL;
CREATE INDEX tasks_of_dataset ON evaluation_tasks (dataset_id) WHERE dataset_id IS NOT NULL;

-- +goose Down
DROP INDEX task_targets_of_library, task_variants_of_prompt;
ALTER TABLE evaluation_tasks DROP COLUMN dataset_id, DROP COLUMN dataset_version;
DROP TABLE dataset_versions, datasets, prompt_versions, prompts, agents, models, providers;
