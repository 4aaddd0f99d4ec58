-- +goose Up
-- An HMAC of where the chain begins and ends, with a key that the database does not have. Without it whoever owns the tables could remove
-- entries at either end and put the numbers right. NULL until the first start seals it.
ALTER TABLE audit_chain ADD COLUMN seal bytea;

-- What is about to be done and has no entry yet. A row outlives the process that wrote it: once that is silent, the entry says that the
-- outcome is unknown.
CREATE TABLE audit_intents (
    id       uuid PRIMARY KEY,
    entry    text NOT NULL,                          -- what is known of the entry, as JSON
    alive_at timestamptz NOT NULL DEFAULT now()      -- when its process was last known to work on it
);
CREATE INDEX audit_intents_by_time ON audit_intents (alive_at);

-- +goose Down
DROP TABLE audit_intents;
ALTER TABLE audit_chain DROP COLUMN seal;
