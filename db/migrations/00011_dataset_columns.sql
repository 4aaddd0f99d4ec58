-- +goose Up
-- The columns of the file that take the places of question and standard_answer; empty: those of that name.
ALTER TABLE evaluation_tasks ADD COLUMN question_column text NOT NULL DEFAULT '';
ALTER TABLE evaluation_tasks ADD COLUMN answer_column text NOT NULL DEFAULT '';

-- +goose Down
ALTER TABLE evaluation_tasks DROP COLUMN answer_column;
ALTER TABLE evaluation_tasks DROP COLUMN question_column;
