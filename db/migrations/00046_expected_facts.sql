-- +goose Up
-- The facts of the standard answer that answers contradict; NULL means none. Questions are assessed again in the
-- background.
ALTER TABLE question_statistics ADD COLUMN expected_facts jsonb;
UPDATE evaluation_tasks SET is_assessed = false WHERE is_assessed AND status IN ('SUCCEEDED', 'STOPPED', 'FAILED');

-- +goose Down
ALTER TABLE question_statistics DROP COLUMN expected_facts;
