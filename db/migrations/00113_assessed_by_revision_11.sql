-- +goose Up
-- Revision 11 of measure.Assess finds more conflicts between answers in other words: mutually exclusive words beside the
-- same value, and different parts of one section; and it no longer takes a value that all answers have for the one that
-- replaces the standard answer's. Tasks that have ended are assessed again in the background.
UPDATE evaluation_tasks SET is_assessed = false WHERE is_assessed AND status IN ('SUCCEEDED', 'STOPPED', 'FAILED');

-- +goose Down
SELECT 1;
