-- +goose Up
-- Who did what. There are no foreign keys, because an entry outlives the objects that it names. Each entry's hash
-- covers the one before it.
CREATE TABLE audit_entries (
    seq          bigint PRIMARY KEY,         -- 1, 2, 3 … without gaps
    at           timestamptz NOT NULL,
    actor        text NOT NULL,              -- the name of the account or token; the client's address without accounts
    actor_id     text NOT NULL,              -- the account's id; empty without one
    token_id     text NOT NULL,              -- the id of the token that was used; empty without one
    address      text NOT NULL,
    via          text NOT NULL,              -- page, api or command
    action       text NOT NULL,              -- task.delete, sign-in …
    object       text NOT NULL,              -- task, agent, user …
    object_id    text NOT NULL,
    object_name  text NOT NULL,
    project_id   text NOT NULL,
    project_name text NOT NULL,
    status       integer NOT NULL,           -- the HTTP status of the response
    before       text NOT NULL,              -- settings as JSON, without secrets; empty if none changed
    after        text NOT NULL,
    request_id   text NOT NULL,
    hash         bytea NOT NULL
);
CREATE INDEX audit_entries_by_time ON audit_entries (at, seq);
CREATE INDEX audit_entries_by_actor ON audit_entries (lower(actor), seq);
CREATE INDEX audit_entries_by_object ON audit_entries (object_id, seq);

-- The ends of the chain, which reveal missing entries at either end, too. The row is locked while an entry is
-- added.
CREATE TABLE audit_chain (
    is_only    boolean PRIMARY KEY DEFAULT true CHECK (is_only),
    first_seq  bigint NOT NULL DEFAULT 0,    -- the last entry that was removed because of its age
    first_hash bytea NOT NULL DEFAULT '',
    last_seq   bigint NOT NULL DEFAULT 0,
    last_hash  bytea NOT NULL DEFAULT ''
);
INSERT INTO audit_chain DEFAULT VALUES;

-- +goose StatementBegin
CREATE FUNCTION refuse_audit_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_OP = 'DELETE' AND coalesce(current_setting('wending.removes_old_audit', true), '') = 'on' THEN
        RETURN OLD;
    END IF;
    RAISE EXCEPTION 'audit entries are only ever added';
END
$$;
-- +goose StatementEnd
CREATE TRIGGER audit_entries_stay BEFORE UPDATE OR DELETE ON audit_entries FOR EACH ROW EXECUTE FUNCTION refuse_audit_change();
CREATE TRIGGER audit_entries_stay_all BEFORE TRUNCATE ON audit_entries FOR EACH STATEMENT EXECUTE FUNCTION refuse_audit_change();

-- +goose Down
DROP TABLE audit_chain, audit_entries;
DROP FUNCTION refuse_audit_change;
