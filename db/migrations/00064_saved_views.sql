-- +goose Up
-- Filters and sort orders that a project saved under a name, as the query of the page's address.
CREATE TABLE saved_views (
    id uuid PRIMARY KEY,
    project_id uuid NOT NULL REFERENCES projects (id) ON DELETE CASCADE,
    kind text NOT NULL CHECK (kind IN ('questions', 'tasks')),
    name text NOT NULL,
    query text NOT NULL,
    created_by text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    updated_at timestamptz NOT NULL DEFAULT now()
);
CREATE UNIQUE INDEX saved_views_name ON saved_views (project_id, kind, lower(name));

-- +goose Down
DROP TABLE saved_views;
