-- +goose Up
-- How many questions nobody had judged when the report was signed off; NULL for older sign-offs.
ALTER TABLE sign_offs ADD COLUMN open_questions int;

-- +goose Down
ALTER TABLE sign_offs DROP COLUMN open_questions;
