-- +goose Up
-- The extra payload and the URL's query may hold keys as the headers do. What is stored in clear is sealed by the next
-- process that starts, which has the key.
ALTER TABLE evaluation_tasks
    ADD COLUMN sealed_payload bytea,
    ADD COLUMN sealed_query bytea;
CREATE INDEX tasks_with_plain_secrets ON evaluation_tasks (id) WHERE extra_payload IS NOT NULL OR strpos(agent_api_url, '?') > 0;

-- +goose Down
DROP INDEX tasks_with_plain_secrets;
ALTER TABLE evaluation_tasks
    DROP COLUMN sealed_payload,
    DROP COLUMN sealed_query;
