-- +goose Up
ALTER TABLE users
    ADD COLUMN skeleton text,              -- what names that look alike share (UTS #39); NULL: an older account that looks like another
    ADD COLUMN must_change_password boolean NOT NULL DEFAULT false; -- somebody else chose it
CREATE UNIQUE INDEX users_skeleton ON users (skeleton);

ALTER TABLE tokens
    ADD COLUMN reach text NOT NULL DEFAULT 'project' -- the role holds in the project alone; an administrator's also over accounts (older ones), or over everything
        CHECK (reach IN ('project', 'accounts', 'installation'));
UPDATE tokens SET reach = 'accounts' WHERE role = 'admin'; -- as before
CREATE INDEX tokens_of_user ON tokens (user_id);

ALTER TABLE sessions
    ADD COLUMN is_proven boolean NOT NULL DEFAULT true; -- its owner was there when it began; a provider may answer by itself

CREATE TABLE provider_sessions (
    session_id   uuid PRIMARY KEY REFERENCES sessions ON DELETE CASCADE,
    sid          text,                     -- what the provider calls the session; NULL: it gave no name
    tokens       bytea NOT NULL,           -- sealed; with them the provider is asked again
    checked_at   timestamptz NOT NULL DEFAULT now(), -- when its owner's groups were read
    leased_until timestamptz               -- a process is asking the provider
);
CREATE INDEX provider_sessions_due ON provider_sessions (checked_at);
CREATE INDEX provider_sessions_of_sid ON provider_sessions (sid);
-- Sessions of a provider that began before this have no row, and end: their owners sign in again without noticing.
DELETE FROM sessions WHERE method = 'oidc';

-- +goose Down
DROP TABLE provider_sessions;
ALTER TABLE sessions DROP COLUMN is_proven;
DROP INDEX tokens_of_user;
ALTER TABLE tokens DROP COLUMN reach;
DROP INDEX users_skeleton;
ALTER TABLE users DROP COLUMN skeleton, DROP COLUMN must_change_password;
