-- +goose Up
-- Verdicts on pairs can be withdrawn, as reviews can; the version of a withdrawn one still counts.
ALTER TABLE pair_verdicts ADD COLUMN is_withdrawn boolean NOT NULL DEFAULT false;

-- +goose Down
DELETE FROM pair_verdicts WHERE is_withdrawn;
ALTER TABLE pair_verdicts DROP COLUMN is_withdrawn;
