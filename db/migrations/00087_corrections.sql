-- +goose Up
-- A person's decision on which answers of a variant to a question say the same thing. It takes precedence over the
-- decisions of models (meanings).
CREATE TABLE corrections (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    item_id    bigint NOT NULL REFERENCES evaluation_items ON DELETE CASCADE,
    variant    smallint NOT NULL,
    version    integer NOT NULL,               -- from 1, by any reviewer
    is_current boolean NOT NULL DEFAULT true,  -- false after a later version
    reviewer   text NOT NULL,
    keys       bytea[] NOT NULL,               -- the answers' keys; each has a group, and a content
    groups     smallint[] NOT NULL,            -- from 0
    contents   smallint[] NOT NULL,            -- answers with the same number differ at most in format
    created_at timestamptz NOT NULL DEFAULT now(),
    UNIQUE (item_id, variant, version),
    CHECK (cardinality(groups) = cardinality(keys) AND cardinality(contents) = cardinality(keys))
);
CREATE UNIQUE INDEX corrections_current ON corrections (item_id, variant) WHERE is_current;
ALTER TABLE question_statistics
    ADD COLUMN meaning_version integer NOT NULL DEFAULT 0, -- of the person's grouping; 0 if there is none
    ADD COLUMN meaning_reviewer text;                      -- whose grouping meaning_letters follow; NULL unless meaning_by is person

-- +goose Down
ALTER TABLE question_statistics DROP COLUMN meaning_version, DROP COLUMN meaning_reviewer;
DROP TABLE corrections;
