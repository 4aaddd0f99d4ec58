-- +goose Up
-- Revision 10 of measure.Assess no longer begins the words around a fact inside a number (800,000 became 000) or
-- after a negation, and finds more standard answers contradicted: tasks that have ended are assessed again in the
-- background.
UPDATE evaluation_tasks SET is_assessed = false WHERE is_assessed AND status IN ('SUCCEEDED', 'STOPPED', 'FAILED');

-- +goose Down
SELECT 1;
