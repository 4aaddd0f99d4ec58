-- +goose Up
-- What anybody may do as often as they like, such as opening a shared link, is counted by the hour here; when the hour is over, one
-- entry of the audit has the count.
CREATE TABLE audit_counts (
    action    text NOT NULL,
    object_id text NOT NULL,
    hour      timestamptz NOT NULL,      -- when the hour began
    entry     text NOT NULL,             -- what the entry will say, as JSON
    count     bigint NOT NULL DEFAULT 1,
    PRIMARY KEY (action, object_id, hour)
);
CREATE INDEX audit_counts_by_hour ON audit_counts (hour);

-- +goose Down
DROP TABLE audit_counts;
