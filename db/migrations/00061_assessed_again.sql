-- +goose Up
-- Revision 4 of measure.Assess reads facts in more notations and aligns them by more evidence: tasks that have ended are assessed
-- again in the background.
UPDATE evaluation_tasks SET is_assessed = false WHERE is_assessed AND status IN ('SUCCEEDED', 'STOPPED', 'FAILED');

-- +goose Down
SELECT 1;
