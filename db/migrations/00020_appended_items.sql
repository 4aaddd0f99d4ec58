-- +goose Up
ALTER TABLE evaluation_tasks ADD COLUMN appended_items integer NOT NULL DEFAULT 0; -- the number of items that are not in the task's file

-- +goose Down
ALTER TABLE evaluation_tasks DROP COLUMN appended_items;
