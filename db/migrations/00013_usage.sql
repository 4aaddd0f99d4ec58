-- +goose Up
-- The usage of a call as the agent reports it; NULL means that the agent reports none. cost is in the currency of the
-- run's target.
ALTER TABLE evaluation_runs
    ADD COLUMN input_tokens integer,
    ADD COLUMN output_tokens integer,
    ADD COLUMN reasoning_tokens integer,
    ADD COLUMN total_tokens integer,
    ADD COLUMN cost numeric,
    ADD COLUMN first_token_ms integer;

-- +goose Down
ALTER TABLE evaluation_runs
    DROP COLUMN input_tokens, DROP COLUMN output_tokens, DROP COLUMN reasoning_tokens, DROP COLUMN total_tokens, DROP COLUMN cost,
    DROP COLUMN first_token_ms;
