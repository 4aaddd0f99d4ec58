-- +goose Up
-- The runs of a question that later launches replaced are read on the page of a run; most tasks have none.
CREATE INDEX evaluation_runs_replaced ON evaluation_runs (item_id, variant) WHERE NOT is_current;

-- +goose Down
DROP INDEX evaluation_runs_replaced;
