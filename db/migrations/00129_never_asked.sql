-- +goose Up
-- Questions that a stopped task never asked are assessed, too: the level of their answers is unknown. Tasks that were
-- stopped before are assessed again in the background.
UPDATE evaluation_tasks SET is_assessed = false WHERE is_assessed AND status IN ('STOPPED', 'FAILED');

-- +goose Down
SELECT 1;
