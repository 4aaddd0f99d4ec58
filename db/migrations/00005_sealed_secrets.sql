-- +goose Up
-- Like the headers, the extra payload and the URL's query may hold keys. The next process that starts has the key,
-- and seals what is stored in plain text.
ALTER TABLE evaluation_tasks
    ADD COLUMN sealed_payload bytea,
    ADD COLUMN sealed_query bytea;
CREATE INDEX tasks_with_plain_secrets ON evaluation_tasks (id) WHERE extra_payload IS NOT NULL OR strpos(agent_api_url, '?') > 0;

-- +goose Down
DROP INDEX tasks_with_plain_secrets;
ALTER TABLE evaluation_tasks
    DROP COLUMN sealed_payload,
    DROP COLUMN sealed_query;
