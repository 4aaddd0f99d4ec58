-- +goose Up
-- The column of the questions by which intervals group those that are not independent; NULL: conversations only.
ALTER TABLE evaluation_tasks ADD COLUMN cluster_by text;

-- +goose Down
ALTER TABLE evaluation_tasks DROP COLUMN cluster_by;
