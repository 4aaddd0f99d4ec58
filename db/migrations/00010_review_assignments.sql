-- +goose Up
-- The reviewers that a question was assigned to; anybody may review a question that was assigned to nobody.
CREATE TABLE review_assignments (
    item_id  bigint NOT NULL REFERENCES evaluation_items (id) ON DELETE CASCADE,
    reviewer text NOT NULL,
    PRIMARY KEY (item_id, reviewer)
);

-- +goose Down
DROP TABLE review_assignments;
