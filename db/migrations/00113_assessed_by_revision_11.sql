-- +goose Up
-- Revision 11 of measure.Assess finds more conflicts between answers in other words: mutually exclusive words next to
-- the same value, and different parts of one section. It no longer mistakes a value that all answers have for a
-- replacement of the standard answer's value. Tasks that have ended are assessed again in the background.
UPDATE evaluation_tasks SET is_assessed = false WHERE is_assessed AND status IN ('SUCCEEDED', 'STOPPED', 'FAILED');

-- +goose Down
SELECT 1;
