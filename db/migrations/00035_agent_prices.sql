-- +goose Up
ALTER TABLE agents
    ADD COLUMN input_price  numeric, -- per million tokens; NULL means unknown
    ADD COLUMN output_price numeric,
    ADD COLUMN currency     text;
-- An agent that refused to stream is called without streaming from then on.
ALTER TABLE task_targets ADD COLUMN is_unstreamed boolean NOT NULL DEFAULT false;

-- +goose Down
ALTER TABLE task_targets DROP COLUMN is_unstreamed;
ALTER TABLE agents DROP COLUMN input_price, DROP COLUMN output_price, DROP COLUMN currency;
