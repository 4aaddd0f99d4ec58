-- +goose Up
-- The columns of the file that are used as question and standard_answer; empty means the columns with these names.
ALTER TABLE evaluation_tasks ADD COLUMN question_column text NOT NULL DEFAULT '';
ALTER TABLE evaluation_tasks ADD COLUMN answer_column text NOT NULL DEFAULT '';

-- +goose Down
ALTER TABLE evaluation_tasks DROP COLUMN answer_column;
ALTER TABLE evaluation_tasks DROP COLUMN question_column;
