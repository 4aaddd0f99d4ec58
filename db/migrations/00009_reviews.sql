-- +goose Up
-- People's verdicts on questions and answers. Rows are only added, and only is_current changes, so the history is
-- preserved.
CREATE TABLE reviews (
    id            bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    item_id       bigint NOT NULL REFERENCES evaluation_items (id) ON DELETE CASCADE,
    variant       int NOT NULL DEFAULT 1,
    run_index     int, -- NULL means the question as a whole
    reviewer      text NOT NULL,
    verdict       text NOT NULL CHECK (verdict IN ('PASS', 'FAIL', 'UNSURE')),
    note          text NOT NULL,
    version       int NOT NULL,
    is_current    boolean NOT NULL DEFAULT true,
    is_withdrawn  boolean NOT NULL,
    judged_run_id bigint, -- the newest of the judged runs; NULL means that there were none
    created_at    timestamptz NOT NULL DEFAULT now()
);
CREATE UNIQUE INDEX one_current_review ON reviews (item_id, variant, coalesce(run_index, 0), reviewer) WHERE is_current;
CREATE INDEX reviews_of_items ON reviews (item_id);
CREATE TABLE sign_offs (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    task_id    uuid NOT NULL REFERENCES evaluation_tasks (id) ON DELETE CASCADE,
    reviewer   text NOT NULL,
    note       text NOT NULL,
    passed     int NOT NULL,
    failed     int NOT NULL,
    unsure     int NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX sign_offs_of_tasks ON sign_offs (task_id);

-- +goose Down
DROP TABLE sign_offs;
DROP TABLE reviews;
