-- +goose Up
-- Why reviewers judged as they did, and which reasons a project has beside those that all have. batch is what verdicts have in
-- common that were given, and can be withdrawn, together.
ALTER TABLE reviews
    ADD COLUMN reasons text[] NOT NULL DEFAULT '{}' CHECK (cardinality(reasons) <= 10),
    ADD COLUMN batch uuid; -- NULL: given one by one
CREATE INDEX reviews_of_batches ON reviews (batch) WHERE batch IS NOT NULL;
ALTER TABLE projects ADD COLUMN review_reasons text[] NOT NULL DEFAULT '{}' CHECK (cardinality(review_reasons) <= 10);

-- +goose Down
ALTER TABLE projects DROP COLUMN review_reasons;
ALTER TABLE reviews DROP COLUMN batch, DROP COLUMN reasons;
