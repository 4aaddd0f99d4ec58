-- +goose Up
-- What happens when a launch would send content that matches a project's sensitive patterns: it is refused, or a person
-- must confirm what was found.
ALTER TABLE projects ADD COLUMN sensitive_action text NOT NULL DEFAULT 'refuse'
    CHECK (sensitive_action IN ('refuse', 'confirm'));
-- The patterns whose places in a task's questions and prompts somebody has confirmed. The models that judge and group
-- the task's answers may see these places.
ALTER TABLE evaluation_tasks ADD COLUMN confirmed_patterns text[] NOT NULL DEFAULT '{}';

-- +goose Down
ALTER TABLE evaluation_tasks DROP COLUMN confirmed_patterns;
ALTER TABLE projects DROP COLUMN sensitive_action;
