-- +goose Up
-- The dataset's column whose equal values mark questions that are not independent of each other, for the intervals;
-- NULL means that only the turns of a conversation are not independent.
ALTER TABLE evaluation_tasks ADD COLUMN cluster_by text;

-- +goose Down
ALTER TABLE evaluation_tasks DROP COLUMN cluster_by;
