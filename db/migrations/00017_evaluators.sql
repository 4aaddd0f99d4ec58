-- +goose Up
CREATE TABLE evaluators (
    id          uuid PRIMARY KEY,
    name        text NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT now(),
    updated_at  timestamptz NOT NULL DEFAULT now(),
    archived_at timestamptz
);
CREATE UNIQUE INDEX evaluators_name ON evaluators (name) WHERE archived_at IS NULL;
CREATE TABLE evaluator_versions (
    entry_id   uuid NOT NULL REFERENCES evaluators ON DELETE CASCADE,
    version    integer NOT NULL,
    kind       text NOT NULL,
    config     json NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (entry_id, version)
);
-- The evaluators that judge a task's answers: frozen copies.
CREATE TABLE task_evaluators (
    task_id      uuid NOT NULL REFERENCES evaluation_tasks ON DELETE CASCADE,
    number       smallint NOT NULL,
    evaluator_id uuid NOT NULL,
    version      integer NOT NULL,
    name         text NOT NULL,
    kind         text NOT NULL,
    config       json NOT NULL,
    PRIMARY KEY (task_id, number)
);
CREATE INDEX task_evaluators_of_library ON task_evaluators (evaluator_id);
-- An evaluator's verdict on a run. It is removed in the same transaction as the run.
CREATE TABLE evaluations (
    run_id        bigint NOT NULL,
    evaluator     smallint NOT NULL, -- its number within the task
    task_id       uuid NOT NULL,
    status        text NOT NULL CHECK (status IN ('SUCCEEDED', 'FAILED', 'SKIPPED')),
    score         double precision,  -- from 0 to 1; NULL in score and passed means no verdict
    passed        boolean,
    reason        text,
    error_code    text,
    error_message text,
    created_at    timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (run_id, evaluator)
);
ALTER TABLE evaluation_runs
    ADD COLUMN passed boolean,         -- whether every evaluator of the task passed the run; NULL until every one has a verdict
    ADD COLUMN score double precision; -- the mean of the evaluators' scores

-- +goose Down
ALTER TABLE evaluation_runs DROP COLUMN passed, DROP COLUMN score;
DROP TABLE evaluations, task_evaluators, evaluator_versions, evaluators;
