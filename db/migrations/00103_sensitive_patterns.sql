-- +goose Up
-- What no launch of a project may send to agents and models: words, or RE2 patterns between slashes. NULL means the
-- installation's list.
ALTER TABLE projects ADD COLUMN sensitive_patterns text[];

-- +goose Down
ALTER TABLE projects DROP COLUMN sensitive_patterns;
