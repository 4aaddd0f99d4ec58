-- +goose Up
-- Which reviewers have opened a question to judge it, and when. A claim expires by itself.
CREATE TABLE review_claims (
    item_id    bigint NOT NULL REFERENCES evaluation_items (id) ON DELETE CASCADE,
    reviewer   text NOT NULL,
    claimed_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (item_id, reviewer)
);

-- +goose Down
DROP TABLE review_claims;
