-- +goose Up
-- Revision 5 of measure.Assess labels ranges by the words before them and reads more limits: tasks that have ended are assessed
-- again in the background.
UPDATE evaluation_tasks SET is_assessed = false WHERE is_assessed AND status IN ('SUCCEEDED', 'STOPPED', 'FAILED');

-- +goose Down
SELECT 1;
