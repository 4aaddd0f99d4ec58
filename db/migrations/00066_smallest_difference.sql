-- +goose Up
-- The smallest differences that matter to a project: in percentage points for shares, in percent for times, tokens and costs.
ALTER TABLE projects
    ADD COLUMN smallest_points double precision NOT NULL DEFAULT 1 CHECK (smallest_points BETWEEN 0 AND 100),
    ADD COLUMN smallest_percent double precision NOT NULL DEFAULT 5 CHECK (smallest_percent BETWEEN 0 AND 100);

-- +goose Down
ALTER TABLE projects DROP COLUMN smallest_percent, DROP COLUMN smallest_points;
