-- +goose Up
-- Revision 8 of measure.Assess no longer takes a synonym for another fact, finds more values that stand alone in their units, and
-- measures differences anew: tasks that have ended are assessed again in the background.
UPDATE evaluation_tasks SET is_assessed = false WHERE is_assessed AND status IN ('SUCCEEDED', 'STOPPED', 'FAILED');

-- +goose Down
SELECT 1;
