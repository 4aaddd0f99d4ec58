-- +goose Up
-- Whether pages hide evaluators' verdicts from a reviewer until the reviewer's own is given.
ALTER TABLE evaluation_tasks ADD COLUMN is_blind_review boolean NOT NULL DEFAULT false;

-- +goose Down
ALTER TABLE evaluation_tasks DROP COLUMN is_blind_review;
