-- +goose Up
-- The facts on which the answers to a question differ. revision is the version of the rules that assessed the
-- question: questions assessed under earlier rules are assessed again in the background.
ALTER TABLE question_statistics
    DROP CONSTRAINT question_statistics_level_check,
    ADD CONSTRAINT question_statistics_level_check
        CHECK (level IN ('identical', 'format_only', 'facts', 'wording', 'different', 'empty', 'unknown')),
    ADD COLUMN facts_differ text CHECK (facts_differ IN ('conflict', 'omission', 'none')), -- NULL means fewer than two answers
    ADD COLUMN facts jsonb,                                                               -- NULL means that there are none
    ADD COLUMN revision smallint NOT NULL DEFAULT 0;
UPDATE evaluation_tasks SET is_assessed = false WHERE is_assessed AND status IN ('SUCCEEDED', 'STOPPED', 'FAILED');

-- +goose Down
UPDATE question_statistics SET level = 'wording' WHERE level = 'facts';
ALTER TABLE question_statistics
    DROP COLUMN revision,
    DROP COLUMN facts,
    DROP COLUMN facts_differ,
    DROP CONSTRAINT question_statistics_level_check,
    ADD CONSTRAINT question_statistics_level_check
        CHECK (level IN ('identical', 'format_only', 'wording', 'different', 'empty', 'unknown'));
