-- +goose Up
-- To whom a question was given; one that was given to nobody is everybody's.
CREATE TABLE review_assignments (
    item_id  bigint NOT NULL REFERENCES evaluation_items (id) ON DELETE CASCADE,
    reviewer text NOT NULL,
    PRIMARY KEY (item_id, reviewer)
);

-- +goose Down
DROP TABLE review_assignments;
