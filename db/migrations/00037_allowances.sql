-- +goose Up
-- How many units of a launch with a ceiling may be claimed: the budget keeper raises this number as long as money
-- is left.
CREATE TABLE allowances (
    launch_id uuid PRIMARY KEY REFERENCES launches ON DELETE CASCADE,
    claimed bigint NOT NULL DEFAULT 0,
    allowed bigint NOT NULL
);

-- +goose Down
DROP TABLE allowances;
