-- +goose Up
ALTER TABLE evaluation_tasks
    ADD COLUMN adaptive jsonb,                          -- {max_runs, confidence}: questions that are not settled are asked again; NULL means never
    ADD COLUMN extra_runs integer NOT NULL DEFAULT 0;   -- runs planned beyond runs_per_item: the sum over planned_runs
-- The questions that have more runs than their task's runs_per_item; a conversation's turns have the same number.
CREATE TABLE planned_runs (
    item_id bigint NOT NULL REFERENCES evaluation_items ON DELETE CASCADE,
    variant smallint NOT NULL,
    runs    smallint NOT NULL CHECK (runs BETWEEN 2 AND 20),
    PRIMARY KEY (item_id, variant)
);
-- Whether a round is due that the budget has not allowed yet: the launch stays open until the round is planned, or
-- until the launch's ceiling is reached.
ALTER TABLE launches ADD COLUMN awaits_budget boolean NOT NULL DEFAULT false;

-- +goose Down
DELETE FROM evaluation_tasks WHERE adaptive IS NOT NULL OR extra_runs > 0; -- earlier versions ask all questions equally often
ALTER TABLE launches DROP COLUMN awaits_budget;
DROP TABLE planned_runs;
ALTER TABLE evaluation_tasks DROP COLUMN extra_runs, DROP COLUMN adaptive;
