-- +goose Up
-- What the last successful test of a target took. It holds as long as the target is what was called then.
ALTER TABLE models
    ADD COLUMN measured_of text,                -- its model_id at that time
    ADD COLUMN measured_ms integer,
    ADD COLUMN measured_input_tokens integer,   -- NULL: it did not say
    ADD COLUMN measured_output_tokens integer;
ALTER TABLE agents
    ADD COLUMN measured_of text,                -- its url at that time
    ADD COLUMN measured_ms integer,
    ADD COLUMN measured_input_tokens integer,
    ADD COLUMN measured_output_tokens integer;
-- A launch that took place elsewhere: nobody was called from here, and nobody paid here.
ALTER TABLE launches ADD COLUMN is_imported boolean NOT NULL DEFAULT false;

-- +goose Down
ALTER TABLE launches DROP COLUMN is_imported;
ALTER TABLE agents DROP COLUMN measured_of, DROP COLUMN measured_ms, DROP COLUMN measured_input_tokens, DROP COLUMN measured_output_tokens;
ALTER TABLE models DROP COLUMN measured_of, DROP COLUMN measured_ms, DROP COLUMN measured_input_tokens, DROP COLUMN measured_output_tokens;
