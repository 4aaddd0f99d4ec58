-- +goose Up
-- How the most common answers to a question differ between two variants, of one task or of two; written when somebody compares them.
-- It holds as long as these runs are still the ones that gave the answers, and the rules have this revision.
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
    facts        jsonb, -- NULL: they differ in none
    PRIMARY KEY (a_item_id, a_variant, b_item_id, b_variant)
);
CREATE INDEX compared_answers_of_b ON compared_answers (b_item_id);
-- Verdicts that were taken over from an earlier task: by whom, and from which.
ALTER TABLE reviews
    ADD COLUMN carried_by text,
    ADD COLUMN carried_from uuid,
    ADD CHECK ((carried_by IS NULL) = (carried_from IS NULL));

-- +goose Down
ALTER TABLE reviews DROP COLUMN carried_from, DROP COLUMN carried_by;
DROP TABLE compared_answers;
