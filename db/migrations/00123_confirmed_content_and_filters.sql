-- +goose Up
-- What happens when a launch would send content that matches a project's sensitive patterns: it is refused, or a person
-- must confirm what was found.
ALTER TABLE projects ADD COLUMN sensitive_action text NOT NULL DEFAULT 'refuse'
    CHECK (sensitive_action IN ('refuse', 'confirm'));
-- The patterns whose places in a task's questions and prompts somebody has confirmed. The models that judge and group
-- the task's answers may see these places.
ALTER TABLE evaluation_tasks ADD COLUMN confirmed_patterns text[] NOT NULL DEFAULT '{}';
-- The filters that chose the questions to which a link to answers is limited, as in the address of the answers; NULL
-- means that there were none, or that the link is older than this column.
ALTER TABLE shares ADD COLUMN filters text;

-- +goose Down
ALTER TABLE shares DROP COLUMN filters;
ALTER TABLE evaluation_tasks DROP COLUMN confirmed_patterns;
ALTER TABLE projects DROP COLUMN sensitive_action;
