-- +goose Up
-- The statistics of tasks with several variants now include the lowest and highest pass rate among the variants, and
-- the lowest and highest number of questions at the level facts, so they are computed again in the background.
UPDATE evaluation_tasks SET is_assessed = false WHERE is_assessed AND total_variants > 1 AND status IN ('SUCCEEDED', 'STOPPED', 'FAILED');

-- +goose Down
SELECT 1;
