-- +goose Up
-- The spans that agents report of their own work on a call (OTLP), one row for each (package event). A run is identified
-- by its unit and its question, because spans can arrive before it is stored. There is no foreign key to units, which
-- are removed earlier.
CREATE TABLE run_spans (
    unit_id bigint NOT NULL,
    item_id bigint NOT NULL,
    span_id bytea NOT NULL,
    task_id uuid NOT NULL REFERENCES evaluation_tasks ON DELETE CASCADE,
    size    integer NOT NULL,                 -- of span, in bytes
    span    json NOT NULL,
    PRIMARY KEY (unit_id, item_id, span_id)
);
CREATE INDEX run_spans_of_task ON run_spans (task_id);

-- +goose Down
DROP TABLE run_spans;
