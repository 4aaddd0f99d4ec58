-- +goose Up
CREATE TABLE projects (
    id              uuid PRIMARY KEY,
    name            text NOT NULL CHECK (char_length(name) BETWEEN 1 AND 64),
    -- Quotas; NULL means any amount.
    uploads_per_day integer CHECK (uploads_per_day > 0),
    disk_bytes      bigint CHECK (disk_bytes > 0),
    calls_per_day   bigint CHECK (calls_per_day > 0),
    lanes           integer CHECK (lanes > 0),
    cost_per_month  numeric CHECK (cost_per_month > 0),
    used_bytes      bigint NOT NULL DEFAULT 0, -- of questions, answers and files, at the last measurement
    measured_at     timestamptz,
    created_at      timestamptz NOT NULL DEFAULT now(),
    updated_at      timestamptz NOT NULL DEFAULT now()
);
CREATE UNIQUE INDEX projects_name ON projects (lower(name));
-- Objects made before there were projects, or without naming one, belong to the first project.
INSERT INTO projects (id, name) VALUES ('00000000-0000-4000-8000-000000000001', '默认');

ALTER TABLE evaluation_tasks ADD COLUMN project_id uuid NOT NULL DEFAULT '00000000-0000-4000-8000-000000000001' REFERENCES projects;
CREATE INDEX evaluation_tasks_of_project ON evaluation_tasks (project_id, created_at DESC, id DESC);
ALTER TABLE providers ADD COLUMN project_id uuid NOT NULL DEFAULT '00000000-0000-4000-8000-000000000001' REFERENCES projects;
ALTER TABLE models ADD COLUMN project_id uuid NOT NULL DEFAULT '00000000-0000-4000-8000-000000000001' REFERENCES projects;
ALTER TABLE agents ADD COLUMN project_id uuid NOT NULL DEFAULT '00000000-0000-4000-8000-000000000001' REFERENCES projects;
ALTER TABLE prompts ADD COLUMN project_id uuid NOT NULL DEFAULT '00000000-0000-4000-8000-000000000001' REFERENCES projects;
ALTER TABLE datasets ADD COLUMN project_id uuid NOT NULL DEFAULT '00000000-0000-4000-8000-000000000001' REFERENCES projects;
ALTER TABLE evaluators ADD COLUMN project_id uuid NOT NULL DEFAULT '00000000-0000-4000-8000-000000000001' REFERENCES projects;
ALTER TABLE channels ADD COLUMN project_id uuid NOT NULL DEFAULT '00000000-0000-4000-8000-000000000001' REFERENCES projects;
ALTER TABLE schedules ADD COLUMN project_id uuid NOT NULL DEFAULT '00000000-0000-4000-8000-000000000001' REFERENCES projects;
DROP INDEX providers_name, models_name, agents_name, prompts_name, datasets_name, evaluators_name, channels_name, schedules_name;
CREATE UNIQUE INDEX providers_name ON providers (project_id, name) WHERE archived_at IS NULL;
CREATE UNIQUE INDEX models_name ON models (project_id, name) WHERE archived_at IS NULL;
CREATE UNIQUE INDEX agents_name ON agents (project_id, name) WHERE archived_at IS NULL;
CREATE UNIQUE INDEX prompts_name ON prompts (project_id, name) WHERE archived_at IS NULL;
CREATE UNIQUE INDEX datasets_name ON datasets (project_id, name) WHERE archived_at IS NULL;
CREATE UNIQUE INDEX evaluators_name ON evaluators (project_id, name) WHERE archived_at IS NULL;
CREATE UNIQUE INDEX channels_name ON channels (project_id, name) WHERE archived_at IS NULL;
CREATE UNIQUE INDEX schedules_name ON schedules (project_id, name) WHERE archived_at IS NULL;

CREATE TABLE project_uploads (
    project_id uuid NOT NULL REFERENCES projects ON DELETE CASCADE,
    day        date NOT NULL,              -- in Beijing time
    uploads    integer NOT NULL,
    PRIMARY KEY (project_id, day)
);
ALTER TABLE spending ADD COLUMN project_id uuid NOT NULL DEFAULT '00000000-0000-4000-8000-000000000001';
CREATE INDEX launches_by_time ON launches (created_at);

CREATE TABLE users (
    id            uuid PRIMARY KEY,
    name          text NOT NULL CHECK (char_length(name) BETWEEN 1 AND 64), -- typed to sign in, and shown as the author of reviews
    password_hash text,                    -- Argon2id; NULL means that the account has no password
    is_admin      boolean NOT NULL DEFAULT false, -- of the whole installation
    needs_passkey boolean NOT NULL DEFAULT false, -- the password alone does not sign in
    subject       text,                    -- issuer and subject of an OpenID Connect provider; NULL means a local account
    disabled_at   timestamptz,
    signed_in_at  timestamptz,
    created_at    timestamptz NOT NULL DEFAULT now(),
    updated_at    timestamptz NOT NULL DEFAULT now()
);
CREATE UNIQUE INDEX users_name ON users (lower(name));
CREATE UNIQUE INDEX users_subject ON users (subject) WHERE subject IS NOT NULL;

CREATE TABLE memberships (
    project_id uuid NOT NULL REFERENCES projects ON DELETE CASCADE,
    user_id    uuid NOT NULL REFERENCES users ON DELETE CASCADE,
    role       text NOT NULL CHECK (role IN ('viewer', 'reviewer', 'editor', 'admin')),
    is_granted boolean NOT NULL DEFAULT false, -- granted by a group of the OpenID Connect provider, and renewed at each sign-in
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (project_id, user_id)
);
CREATE INDEX memberships_of_user ON memberships (user_id, created_at);

CREATE TABLE sessions (
    id         uuid PRIMARY KEY DEFAULT gen_random_uuid(),
    hash       bytea NOT NULL UNIQUE,      -- SHA-256 of the secret in the browser's cookie
    user_id    uuid NOT NULL REFERENCES users ON DELETE CASCADE,
    method     text NOT NULL CHECK (method IN ('password', 'passkey', 'password+passkey', 'oidc', 'setup')),
    address    text NOT NULL,
    browser    text NOT NULL,              -- the User-Agent, shortened
    created_at timestamptz NOT NULL DEFAULT now(),
    seen_at    timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX sessions_of_user ON sessions (user_id);

CREATE TABLE tokens (
    id         uuid PRIMARY KEY,
    name       text NOT NULL CHECK (char_length(name) BETWEEN 1 AND 64),
    hash       bytea NOT NULL UNIQUE,      -- SHA-256 of the token
    hint       text NOT NULL,              -- its last characters, by which people distinguish tokens
    project_id uuid NOT NULL REFERENCES projects ON DELETE CASCADE,
    role       text NOT NULL CHECK (role IN ('viewer', 'reviewer', 'editor', 'admin')),
    user_id    uuid REFERENCES users ON DELETE CASCADE, -- the account whose rights limit the token's; NULL means that it was made on the command line
    parent_id  uuid REFERENCES tokens ON DELETE CASCADE, -- the token that created it, and with which it ends; NULL means that a person created it
    expires_at timestamptz,                -- NULL means never
    used_at    timestamptz,
    revoked_at timestamptz,
    created_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX tokens_of_project ON tokens (project_id, created_at DESC);

CREATE TABLE passkeys (
    id         bytea PRIMARY KEY,          -- the credential's id
    user_id    uuid NOT NULL REFERENCES users ON DELETE CASCADE,
    name       text NOT NULL,
    credential json NOT NULL,              -- its public key, counter and flags
    used_at    timestamptz,
    created_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX passkeys_of_user ON passkeys (user_id);

-- The state of a flow that begins in one request and ends in another, perhaps on another machine: a sign-in, a
-- set-up link.
CREATE TABLE challenges (
    hash       bytea PRIMARY KEY,          -- SHA-256 of the secret in the browser's cookie
    kind       text NOT NULL,
    detail     json NOT NULL,
    expires_at timestamptz NOT NULL
);

CREATE INDEX challenges_expiring ON challenges (expires_at);

-- Failed sign-ins, counted by account and address, and by address.
CREATE TABLE failed_sign_ins (
    key       bytea PRIMARY KEY,           -- SHA-256 of the key under which attempts are counted
    failures  integer NOT NULL,
    first_at  timestamptz NOT NULL DEFAULT now(),
    last_at   timestamptz NOT NULL DEFAULT now()
);

CREATE TABLE shares (
    id         uuid PRIMARY KEY,
    task_id    uuid NOT NULL REFERENCES evaluation_tasks ON DELETE CASCADE,
    hash       bytea NOT NULL UNIQUE,      -- SHA-256 of the link's secret
    created_by text NOT NULL,
    expires_at timestamptz NOT NULL,
    revoked_at timestamptz,
    used_at    timestamptz,
    created_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX shares_of_task ON shares (task_id, created_at DESC);

-- +goose Down
DROP INDEX launches_by_time;
ALTER TABLE spending DROP COLUMN project_id;
DROP TABLE project_uploads, shares, failed_sign_ins, challenges, passkeys, tokens, sessions, memberships, users;
DROP INDEX providers_name, models_name, agents_name, prompts_name, datasets_name, evaluators_name, channels_name, schedules_name;
DROP INDEX evaluation_tasks_of_project;
ALTER TABLE evaluation_tasks DROP COLUMN project_id;
ALTER TABLE providers DROP COLUMN project_id;
ALTER TABLE models DROP COLUMN project_id;
ALTER TABLE agents DROP COLUMN project_id;
ALTER TABLE prompts DROP COLUMN project_id;
ALTER TABLE datasets DROP COLUMN project_id;
ALTER TABLE evaluators DROP COLUMN project_id;
ALTER TABLE channels DROP COLUMN project_id;
ALTER TABLE schedules DROP COLUMN project_id;
CREATE UNIQUE INDEX providers_name ON providers (name) WHERE archived_at IS NULL;
CREATE UNIQUE INDEX models_name ON models (name) WHERE archived_at IS NULL;
CREATE UNIQUE INDEX agents_name ON agents (name) WHERE archived_at IS NULL;
CREATE UNIQUE INDEX prompts_name ON prompts (name) WHERE archived_at IS NULL;
CREATE UNIQUE INDEX datasets_name ON datasets (name) WHERE archived_at IS NULL;
CREATE UNIQUE INDEX evaluators_name ON evaluators (name) WHERE archived_at IS NULL;
CREATE UNIQUE INDEX channels_name ON channels (name) WHERE archived_at IS NULL;
CREATE UNIQUE INDEX schedules_name ON schedules (name) WHERE archived_at IS NULL;
DROP TABLE projects;
