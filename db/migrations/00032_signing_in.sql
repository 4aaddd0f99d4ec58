-- +goose Up
ALTER TABLE users
    -- a text that is the same for all names that look alike (UTS #39); NULL means an older account that looks like another
    ADD COLUMN skeleton text,
    ADD COLUMN must_change_password boolean NOT NULL DEFAULT false; -- whether another person chose the password
CREATE UNIQUE INDEX users_skeleton ON users (skeleton);

ALTER TABLE tokens
    -- where the role applies: only in the project, also to accounts (older administrators' tokens), or to everything
    ADD COLUMN reach text NOT NULL DEFAULT 'project'
        CHECK (reach IN ('project', 'accounts', 'installation'));
UPDATE tokens SET reach = 'accounts' WHERE role = 'admin'; -- as before this migration
CREATE INDEX tokens_of_user ON tokens (user_id);

ALTER TABLE sessions
    ADD COLUMN is_proven boolean NOT NULL DEFAULT true; -- whether the owner was present when it began: a provider may sign somebody in without asking

CREATE TABLE provider_sessions (
    session_id   uuid PRIMARY KEY REFERENCES sessions ON DELETE CASCADE,
    sid          text,                     -- the provider's id of the session; NULL means that it gave none
    tokens       bytea NOT NULL,           -- sealed; used to ask the provider again
    checked_at   timestamptz NOT NULL DEFAULT now(), -- when the owner's groups were last read
    leased_until timestamptz               -- until when a process has the right to ask the provider
);
CREATE INDEX provider_sessions_due ON provider_sessions (checked_at);
CREATE INDEX provider_sessions_of_sid ON provider_sessions (sid);
-- Sessions of a provider that began before this migration have no row, and end: their owners sign in again without
-- noticing.
DELETE FROM sessions WHERE method = 'oidc';

-- +goose Down
DROP TABLE provider_sessions;
ALTER TABLE sessions DROP COLUMN is_proven;
DROP INDEX tokens_of_user;
ALTER TABLE tokens DROP COLUMN reach;
DROP INDEX users_skeleton;
ALTER TABLE users DROP COLUMN skeleton, DROP COLUMN must_change_password;
