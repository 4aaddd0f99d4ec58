-- +goose Up
-- What a project's reviewers rate besides giving a verdict, with the instructions for them, and their ratings, keyed by
-- dimension.
ALTER TABLE projects ADD COLUMN review_instructions text NOT NULL DEFAULT '' CHECK (length(review_instructions) <= 4000),
    ADD COLUMN review_dimensions jsonb NOT NULL DEFAULT '[]' CHECK (jsonb_typeof(review_dimensions) = 'array');
ALTER TABLE reviews ADD COLUMN ratings jsonb NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(ratings) = 'object');

-- +goose Down
ALTER TABLE reviews DROP COLUMN ratings;
ALTER TABLE projects DROP COLUMN review_dimensions, DROP COLUMN review_instructions;
