-- +goose Up
-- How the most common answers to a question differ between two variants, of one task or of two; written when somebody
-- compares them. A row is valid as long as the answers still come from the same runs and the rules still have its
-- revision.
CREATE TABLE compared_answers (
    a_item_id    bigint NOT NULL REFERENCES evaluation_items (id) ON DELETE CASCADE,
    a_variant    int NOT NULL,
    b_item_id    bigint NOT NULL REFERENCES evaluation_items (id) ON DELETE CASCADE,
    b_variant    int NOT NULL,
    a_run_id     bigint NOT NULL,
    b_run_id     bigint NOT NULL,
    revision     smallint NOT NULL,
    level        text NOT NULL,
    similarity   float8,
    facts_differ text NOT NULL,
    facts        jsonb, -- NULL means that they differ on no fact
    PRIMARY KEY (a_item_id, a_variant, b_item_id, b_variant)
);
CREATE INDEX compared_answers_of_b ON compared_answers (b_item_id);
-- Verdicts that were carried over from an earlier task: the person who carried them over, and that task.
ALTER TABLE reviews
    ADD COLUMN carried_by text,
    ADD COLUMN carried_from uuid,
    ADD CHECK ((carried_by IS NULL) = (carried_from IS NULL));

-- +goose Down
ALTER TABLE reviews DROP COLUMN carried_from, DROP COLUMN carried_by;
DROP TABLE compared_answers;
