-- +goose Up
-- A judge is a model that is called; its unit names the run that it judges. Evaluator 0 means that the unit asks a
-- question.
ALTER TABLE task_targets
    DROP CONSTRAINT task_targets_kind_check,
    ADD CONSTRAINT task_targets_kind_check CHECK (kind IN ('url', 'agent', 'model', 'judge'));
ALTER TABLE task_evaluators ADD COLUMN target smallint; -- of a judge; NULL means a rule
ALTER TABLE units
    ADD COLUMN evaluator smallint NOT NULL DEFAULT 0,
    ADD COLUMN subject_run_id bigint,
    DROP CONSTRAINT units_launch_id_item_id_variant_run_index_key,
    ADD UNIQUE (launch_id, item_id, variant, run_index, evaluator);
ALTER TABLE launches
    ADD COLUMN evaluators smallint[],                      -- the evaluators that an EVALUATE launch uses
    ADD COLUMN ruled_through bigint NOT NULL DEFAULT 0,    -- the last item whose answers the rules have judged, while the launch is PENDING
    DROP CONSTRAINT launches_kind_check,
    ADD CONSTRAINT launches_kind_check CHECK (kind IN ('SUBMIT', 'RETRY_FAILED', 'RESUME', 'EXTEND', 'EVALUATE'));
ALTER TABLE evaluations
    ADD COLUMN version integer,        -- set on the evaluator; NULL means the task's
    ADD COLUMN ratings json,           -- a judge's ratings, from 0 to 100, by dimension
    ADD COLUMN is_default boolean NOT NULL DEFAULT false, -- whether the judge gave no usable rating, so that every dimension is 50
    ADD COLUMN raw text,               -- the judge's output, vote by vote
    ADD COLUMN latency_ms integer,
    ADD COLUMN attempts integer,
    ADD COLUMN input_tokens integer,
    ADD COLUMN output_tokens integer,
    ADD COLUMN total_tokens integer,
    ADD COLUMN cost numeric,
    ADD COLUMN launch_id uuid;         -- the later launch that made the evaluation; NULL means that it was made with the run
-- Evaluations that later ones have replaced.
CREATE TABLE past_evaluations (LIKE evaluations INCLUDING DEFAULTS);
ALTER TABLE past_evaluations ADD COLUMN replaced_at timestamptz NOT NULL DEFAULT now();
CREATE INDEX past_evaluations_of_run ON past_evaluations (run_id);

-- +goose Down
-- earlier versions support only rules
DELETE FROM evaluation_tasks WHERE id IN (SELECT task_id FROM task_targets WHERE kind = 'judge');
DROP TABLE past_evaluations;
ALTER TABLE evaluations
    DROP COLUMN version, DROP COLUMN ratings, DROP COLUMN is_default, DROP COLUMN raw, DROP COLUMN latency_ms, DROP COLUMN attempts,
    DROP COLUMN input_tokens, DROP COLUMN output_tokens, DROP COLUMN total_tokens, DROP COLUMN cost, DROP COLUMN launch_id;
DELETE FROM launches WHERE kind = 'EVALUATE';
ALTER TABLE launches
    DROP COLUMN evaluators, DROP COLUMN ruled_through,
    DROP CONSTRAINT launches_kind_check,
    ADD CONSTRAINT launches_kind_check CHECK (kind IN ('SUBMIT', 'RETRY_FAILED', 'RESUME', 'EXTEND'));
ALTER TABLE units
    DROP COLUMN evaluator, DROP COLUMN subject_run_id,
    ADD UNIQUE (launch_id, item_id, variant, run_index);
ALTER TABLE task_evaluators DROP COLUMN target;
ALTER TABLE task_targets
    DROP CONSTRAINT task_targets_kind_check,
    ADD CONSTRAINT task_targets_kind_check CHECK (kind IN ('url', 'agent', 'model'));
