-- +goose Up
ALTER TABLE evaluation_tasks ADD COLUMN max_cost numeric CHECK (max_cost > 0); -- in each currency; NULL means no ceiling
ALTER TABLE launches ADD COLUMN stop_reason text;                              -- a code; NULL means that a person stopped it, or that it was not stopped
-- The spending of launches that have ended, in each currency. It is kept when their tasks are deleted.
CREATE TABLE spending (
    launch_id uuid NOT NULL,
    currency text NOT NULL,
    cost numeric NOT NULL,
    ended_at timestamptz NOT NULL,
    PRIMARY KEY (launch_id, currency)
);
CREATE INDEX spending_in_time ON spending (ended_at);
ALTER TABLE launches ADD COLUMN is_settled boolean NOT NULL DEFAULT false;     -- whether the launch is in spending, or spent nothing
UPDATE launches SET is_settled = true WHERE finished_at < date_trunc('month', now()) - interval '1 day';
CREATE INDEX launches_unsettled ON launches (finished_at) WHERE finished_at IS NOT NULL AND NOT is_settled;

-- +goose Down
DROP TABLE spending;
ALTER TABLE launches DROP COLUMN stop_reason, DROP COLUMN is_settled;
ALTER TABLE evaluation_tasks DROP COLUMN max_cost;
