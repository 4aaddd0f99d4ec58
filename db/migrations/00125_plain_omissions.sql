-- +goose Up
-- Revision 13 of measure.Assess no longer lists 一 with a measure word (再加一张, 第一次) as left out, names facts without
-- the brackets whose counterparts were cut off, and knows that 没有附图是不行的 and 必须有附图 say the same, as may 9:1 and
-- 10 %. Tasks that have ended are assessed again in the background.
UPDATE evaluation_tasks SET is_assessed = false WHERE is_assessed AND status IN ('SUCCEEDED', 'STOPPED', 'FAILED');

-- +goose Down
SELECT 1;
