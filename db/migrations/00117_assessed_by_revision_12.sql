-- +goose Up
-- Revision 12 of measure.Assess finds that a range contradicts the standard answer if one of its ends differs (6–8 hours
-- became 4–8 hours). Tasks that have ended are assessed again in the background.
UPDATE evaluation_tasks SET is_assessed = false WHERE is_assessed AND status IN ('SUCCEEDED', 'STOPPED', 'FAILED');

-- +goose Down
SELECT 1;
