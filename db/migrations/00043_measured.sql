-- +goose Up
-- The duration and usage of a target's last successful test. They are valid as long as the target's address has not
-- changed.
ALTER TABLE models
    ADD COLUMN measured_of text,                -- the model_id that was tested
    ADD COLUMN measured_ms integer,
    ADD COLUMN measured_input_tokens integer,   -- NULL means that it was not reported
    ADD COLUMN measured_output_tokens integer;
ALTER TABLE agents
    ADD COLUMN measured_of text,                -- the URL that was tested
    ADD COLUMN measured_ms integer,
    ADD COLUMN measured_input_tokens integer,
    ADD COLUMN measured_output_tokens integer;
-- Whether the launch took place on another installation, so that it made no calls and cost nothing here.
ALTER TABLE launches ADD COLUMN is_imported boolean NOT NULL DEFAULT false;

-- +goose Down
ALTER TABLE launches DROP COLUMN is_imported;
ALTER TABLE agents DROP COLUMN measured_of, DROP COLUMN measured_ms, DROP COLUMN measured_input_tokens, DROP COLUMN measured_output_tokens;
ALTER TABLE models DROP COLUMN measured_of, DROP COLUMN measured_ms, DROP COLUMN measured_input_tokens, DROP COLUMN measured_output_tokens;
