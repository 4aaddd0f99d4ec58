-- +goose Up
-- Random samples of runs that people judge, to compare judges with them.
CREATE TABLE samples (
    id            uuid PRIMARY KEY,
    task_id       uuid NOT NULL REFERENCES evaluation_tasks (id) ON DELETE CASCADE,
    seed          bigint NOT NULL,
    is_stratified boolean NOT NULL, -- whether every variant has about the same number of runs
    created_at    timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX samples_of_tasks ON samples (task_id);
-- A question is in at most one sample of its task, with one run, so that runs are independent of each other and all
-- samples of a task together are a random sample, too.
CREATE TABLE sampled_runs (
    item_id   bigint PRIMARY KEY REFERENCES evaluation_items (id) ON DELETE CASCADE,
    sample_id uuid NOT NULL REFERENCES samples (id) ON DELETE CASCADE,
    place     integer NOT NULL, -- in the order in which they were drawn
    variant   integer NOT NULL,
    run_index integer NOT NULL
);
CREATE INDEX sampled_runs_of_samples ON sampled_runs (sample_id, place);

-- +goose Down
DROP TABLE sampled_runs;
DROP TABLE samples;
