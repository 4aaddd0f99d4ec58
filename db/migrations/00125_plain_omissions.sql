-- +goose Up
-- Revision 13 of measure.Assess no longer lists 一 with a measure word (再加一张, 第一次) as left out, and names facts without
-- the brackets whose counterparts were cut off. Tasks that have ended are assessed again in the background.
UPDATE evaluation_tasks SET is_assessed = false WHERE is_assessed AND status IN ('SUCCEEDED', 'STOPPED', 'FAILED');

-- +goose Down
SELECT 1;
