-- +goose Up
-- An HMAC of the ends of the chain, with a key that the database does not have. Without the HMAC, the owner of the
-- tables could remove entries at either end and correct the numbers. The column is NULL until the first start seals
-- the chain.
ALTER TABLE audit_chain ADD COLUMN seal bytea;

-- Actions that are about to be performed and have no entry yet. A row outlives the process that wrote it: if the
-- process stops reporting, an entry with an unknown outcome is added.
CREATE TABLE audit_intents (
    id       uuid PRIMARY KEY,
    entry    text NOT NULL,                          -- the known part of the entry, as JSON
    alive_at timestamptz NOT NULL DEFAULT now()      -- when its process last reported that it is working on it
);
CREATE INDEX audit_intents_by_time ON audit_intents (alive_at);

-- +goose Down
DROP TABLE audit_intents;
ALTER TABLE audit_chain DROP COLUMN seal;
