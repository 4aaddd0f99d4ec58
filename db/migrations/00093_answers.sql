-- +goose Up
-- The format of the file from which the answers came; NULL means that the task asked agents.
ALTER TABLE evaluation_tasks ADD COLUMN answers_from text
    CHECK (answers_from IN ('csv', 'xlsx', 'jsonl', 'promptfoo', 'inspect', 'openai-evals'));
-- A file may contain fewer answers to one question than to others: then that question has fewer runs than
-- runs_per_item, perhaps none.
ALTER TABLE planned_runs
    DROP CONSTRAINT planned_runs_runs_check,
    ADD CONSTRAINT planned_runs_runs_check CHECK (runs BETWEEN 0 AND 20);

-- +goose Down
DELETE FROM evaluation_tasks WHERE answers_from IS NOT NULL; -- earlier versions would ask an agent that has no address
ALTER TABLE planned_runs
    DROP CONSTRAINT planned_runs_runs_check,
    ADD CONSTRAINT planned_runs_runs_check CHECK (runs BETWEEN 2 AND 20);
ALTER TABLE evaluation_tasks DROP COLUMN answers_from;
