-- +goose Up
-- How alike the answers to a question are, computed from its current runs; newest_run_id is the newest of those.
CREATE TABLE question_statistics (
    item_id       bigint PRIMARY KEY REFERENCES evaluation_items (id) ON DELETE CASCADE,
    newest_run_id bigint NOT NULL,
    runs          int NOT NULL,
    level         text NOT NULL CHECK (level IN ('identical', 'format_only', 'wording', 'different', 'empty', 'unknown')),
    agreement     float8,
    consensus     float8,
    similarity    float8,
    answers       int NOT NULL,
    letters       text NOT NULL,
    -- The differences from the most common answer to each of the others, from B on, separated by spaces.
    differences   text NOT NULL
);
-- Tasks that ended under earlier versions have no statistics yet.
ALTER TABLE evaluation_tasks ADD COLUMN is_assessed boolean NOT NULL DEFAULT false;
CREATE INDEX tasks_to_assess ON evaluation_tasks (id) WHERE NOT is_assessed AND status IN ('SUCCEEDED', 'STOPPED', 'FAILED');

-- +goose Down
DROP INDEX tasks_to_assess;
ALTER TABLE evaluation_tasks DROP COLUMN is_assessed;
DROP TABLE question_statistics;
