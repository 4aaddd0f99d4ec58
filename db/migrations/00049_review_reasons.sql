-- +goose Up
-- The reasons of reviewers' verdicts, and the reasons that a project offers in addition to the common ones. Verdicts
-- with the same batch were given together, and can be withdrawn together.
ALTER TABLE reviews
    ADD COLUMN reasons text[] NOT NULL DEFAULT '{}' CHECK (cardinality(reasons) <= 10),
    ADD COLUMN batch uuid; -- NULL means given one by one
CREATE INDEX reviews_of_batches ON reviews (batch) WHERE batch IS NOT NULL;
ALTER TABLE projects ADD COLUMN review_reasons text[] NOT NULL DEFAULT '{}' CHECK (cardinality(review_reasons) <= 10);

-- +goose Down
ALTER TABLE projects DROP COLUMN review_reasons;
ALTER TABLE reviews DROP COLUMN batch, DROP COLUMN reasons;
