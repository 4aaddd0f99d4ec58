-- +goose Up
-- The column of a file that holds the ids of its questions; empty means question_id. The encoding of a CSV file;
-- empty means UTF-8.
ALTER TABLE evaluation_tasks
    ADD COLUMN id_column text NOT NULL DEFAULT '',
    ADD COLUMN dataset_encoding text NOT NULL DEFAULT '' CHECK (dataset_encoding IN ('', 'gb18030'));
ALTER TABLE dataset_versions
    ADD COLUMN id_column text NOT NULL DEFAULT '',
    ADD COLUMN encoding text NOT NULL DEFAULT '' CHECK (encoding IN ('', 'gb18030'));

-- +goose Down
ALTER TABLE evaluation_tasks DROP COLUMN id_column, DROP COLUMN dataset_encoding;
ALTER TABLE dataset_versions DROP COLUMN id_column, DROP COLUMN encoding;
