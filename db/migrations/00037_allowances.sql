-- +goose Up
-- How many units of a launch with a ceiling may be claimed: claims count up to what the keeper of budgets allows.
CREATE TABLE allowances (
    launch_id uuid PRIMARY KEY REFERENCES launches ON DELETE CASCADE,
    claimed bigint NOT NULL DEFAULT 0,
    allowed bigint NOT NULL
);

-- +goose Down
DROP TABLE allowances;
