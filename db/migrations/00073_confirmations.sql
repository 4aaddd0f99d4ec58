-- +goose Up
-- Questions of a comparison that were asked again to confirm a change: the range of runs on each side that alone
-- decides whether the change held. For a side that was not asked again, the range is its first runs. A later
-- confirmation of the same question replaces the row.
CREATE TABLE confirmations (
    a_item_id  bigint NOT NULL REFERENCES evaluation_items ON DELETE CASCADE,
    a_variant  smallint NOT NULL,
    b_item_id  bigint NOT NULL REFERENCES evaluation_items ON DELETE CASCADE,
    b_variant  smallint NOT NULL,
    a_first    smallint NOT NULL,
    a_last     smallint NOT NULL CHECK (a_last >= a_first),
    b_first    smallint NOT NULL,
    b_last     smallint NOT NULL CHECK (b_last >= b_first),
    created_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (a_item_id, a_variant, b_item_id, b_variant)
);
CREATE INDEX confirmations_b_item_id_idx ON confirmations (b_item_id);

-- +goose Down
DROP TABLE confirmations;
