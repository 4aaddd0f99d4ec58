-- +goose Up
-- Actions that anybody may repeat without limit, such as opening a shared link, are counted by the hour here. When
-- the hour is over, a single entry of the audit holds the count.
CREATE TABLE audit_counts (
    action    text NOT NULL,
    object_id text NOT NULL,
    hour      timestamptz NOT NULL,      -- the beginning of the hour
    entry     text NOT NULL,             -- the content of the future entry, as JSON
    count     bigint NOT NULL DEFAULT 1,
    PRIMARY KEY (action, object_id, hour)
);
CREATE INDEX audit_counts_by_hour ON audit_counts (hour);

-- +goose Down
DROP TABLE audit_counts;
