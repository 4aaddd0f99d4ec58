-- +goose Up
-- Revision 14 of measure.Assess no longer lists facts as left out that an answer states in words which are not a fact
-- themselves (十节 for 10 节, 工作日 for Monday to Friday), and reads 每月 1–10 日 as days of the month and 6 分半钟 as six and
-- a half minutes. Tasks that have ended are assessed again in the background.
UPDATE evaluation_tasks SET is_assessed = false WHERE is_assessed AND status IN ('SUCCEEDED', 'STOPPED', 'FAILED');

-- +goose Down
SELECT 1;
