-- +goose Up
-- The page of a run reads the question's runs that later launches replaced; most tasks have none.
CREATE INDEX evaluation_runs_replaced ON evaluation_runs (item_id, variant) WHERE NOT is_current;

-- +goose Down
DROP INDEX evaluation_runs_replaced;
