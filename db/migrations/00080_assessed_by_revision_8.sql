-- +goose Up
-- Revision 8 of measure.Assess no longer mistakes a synonym for a different fact, finds more values that are the only
-- ones in their unit, and changes how differences are measured: tasks that have ended are assessed again in the
-- background.
UPDATE evaluation_tasks SET is_assessed = false WHERE is_assessed AND status IN ('SUCCEEDED', 'STOPPED', 'FAILED');

-- +goose Down
SELECT 1;
