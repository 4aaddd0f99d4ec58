-- +goose Up
-- Processes that refused to start because their SECRET_KEY is not the database's, for the page of workers. A process
-- that starts removes its own row.
CREATE TABLE refused_processes (
    host       text        NOT NULL,
    command    text        NOT NULL,
    refused_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (host, command)
);

-- +goose Down
DROP TABLE refused_processes;
