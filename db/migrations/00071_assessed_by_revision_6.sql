-- +goose Up
-- Revision 6 of measure.Assess no longer lets one sentence contradict another that both answers share, and reads
-- answers that choose several letters: tasks that have ended are assessed again in the background.
UPDATE evaluation_tasks SET is_assessed = false WHERE is_assessed AND status IN ('SUCCEEDED', 'STOPPED', 'FAILED');

-- +goose Down
SELECT 1;
