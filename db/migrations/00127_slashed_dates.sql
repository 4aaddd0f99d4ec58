-- +goose Up
-- Revision 15 of measure.Assess reads 10/1—次年4/30 as two days, no longer lists 第二天 (the next day), 第一次 (for the first
-- time) or 一块 (a piece) as facts that an answer leaves out, and labels a statement without the "and" before it. Tasks
-- that have ended are assessed again in the background.
UPDATE evaluation_tasks SET is_assessed = false WHERE is_assessed AND status IN ('SUCCEEDED', 'STOPPED', 'FAILED');

-- +goose Down
SELECT 1;
