-- +goose Up
-- Whether pages hide other people's verdicts from a reviewer until the reviewer's own is given, and how many people's
-- verdicts complete a question (NULL means that no number does: each reviewer is asked to judge every question).
ALTER TABLE evaluation_tasks
    ADD COLUMN hides_reviews boolean NOT NULL DEFAULT false,
    ADD COLUMN reviewers_per_item smallint CHECK (reviewers_per_item BETWEEN 1 AND 10);

-- +goose Down
ALTER TABLE evaluation_tasks DROP COLUMN hides_reviews, DROP COLUMN reviewers_per_item;
