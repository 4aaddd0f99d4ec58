-- +goose Up
-- Who withdrew a person's grouping; NULL means that it was not withdrawn. A withdrawn grouping keeps its version.
ALTER TABLE corrections ADD COLUMN withdrawn_by text;

-- +goose Down
ALTER TABLE corrections DROP COLUMN withdrawn_by;
