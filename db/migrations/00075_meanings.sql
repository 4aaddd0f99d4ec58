-- +goose Up
ALTER TABLE evaluation_tasks ADD COLUMN meaning_target smallint; -- the target, of kind judge, that groups answers by meaning; NULL means none
ALTER TABLE launches
    DROP CONSTRAINT launches_kind_check,
    ADD CONSTRAINT launches_kind_check CHECK (kind IN ('SUBMIT', 'RETRY_FAILED', 'RESUME', 'EXTEND', 'EVALUATE', 'MEANING'));
-- A model's decision on which answers to a question, over all variants, say the same thing; the unit that called the
-- model has the evaluator -1.
CREATE TABLE meanings (
    id            bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    item_id       bigint NOT NULL REFERENCES evaluation_items ON DELETE CASCADE,
    unit_id       bigint UNIQUE,          -- NULL for an imported decision
    target        smallint NOT NULL,
    is_current    boolean NOT NULL DEFAULT true, -- false once a later decision exists
    keys          bytea[] NOT NULL,       -- the answers' keys; each has a group and may be unsure
    groups        smallint[] NOT NULL,    -- from 0
    unsure        boolean[] NOT NULL,
    notes         text[] NOT NULL,        -- a line for each group
    is_default    boolean NOT NULL,       -- whether the model gave no usable grouping
    raw           text,                   -- the model's output, call by call
    calls         smallint NOT NULL,
    attempts      integer NOT NULL,
    latency_ms    integer NOT NULL,
    input_tokens  integer,
    output_tokens integer,
    total_tokens  integer,
    cost          numeric,
    error_code    text,
    error_message text,
    created_at    timestamptz NOT NULL DEFAULT now(),
    CHECK (cardinality(groups) = cardinality(keys) AND cardinality(unsure) = cardinality(keys))
);
CREATE INDEX meanings_of_item ON meanings (item_id);
CREATE UNIQUE INDEX meanings_current ON meanings (item_id) WHERE is_current;
-- meaning_by is NULL if it is not known which answers say the same thing.
ALTER TABLE question_statistics
    -- the answers of all variants that differ in more than format; NULL if answers are not grouped
    ADD COLUMN contents smallint,
    ADD COLUMN meaning_by text CHECK (meaning_by IN ('equal', 'model', 'person')),
    ADD COLUMN meaning_letters text,       -- like letters, but answers that say the same thing share a letter
    ADD COLUMN meaning_agreement float8,
    ADD COLUMN meaning_groups smallint,
    ADD COLUMN meaning_entropy float8,
    ADD COLUMN meaning_unsure smallint[],  -- the run_index of the answers whose group is not certain
    ADD COLUMN meaning_notes text[],       -- a line for each letter
    ADD COLUMN meaning_default boolean NOT NULL DEFAULT false; -- whether the model that was asked gave no usable grouping

-- +goose Down
DELETE FROM evaluation_tasks WHERE meaning_target IS NOT NULL; -- earlier versions do not group answers
ALTER TABLE question_statistics
    DROP COLUMN contents, DROP COLUMN meaning_by, DROP COLUMN meaning_letters, DROP COLUMN meaning_agreement, DROP COLUMN meaning_groups,
    DROP COLUMN meaning_entropy, DROP COLUMN meaning_unsure, DROP COLUMN meaning_notes, DROP COLUMN meaning_default;
DROP TABLE meanings;
ALTER TABLE launches
    DROP CONSTRAINT launches_kind_check,
    ADD CONSTRAINT launches_kind_check CHECK (kind IN ('SUBMIT', 'RETRY_FAILED', 'RESUME', 'EXTEND', 'EVALUATE'));
ALTER TABLE evaluation_tasks DROP COLUMN meaning_target;
