-- +goose Up
-- Revision 9 of measure.Assess finds more negations, limits and values that are stated in other words: tasks that have
-- ended are assessed again in the background.
UPDATE evaluation_tasks SET is_assessed = false WHERE is_assessed AND status IN ('SUCCEEDED', 'STOPPED', 'FAILED');

-- +goose Down
SELECT 1;
