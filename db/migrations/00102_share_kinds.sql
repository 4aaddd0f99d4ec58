-- +goose Up
-- What a link shows: the report, the answers alone, or the replay of a question's current runs or of one unit.
ALTER TABLE shares
    ADD COLUMN kind text NOT NULL DEFAULT 'report' CHECK (kind IN ('report', 'results', 'replay')),
    ADD COLUMN item_id bigint REFERENCES evaluation_items ON DELETE CASCADE,
    ADD COLUMN unit_id bigint,
    ADD CHECK (num_nonnulls(item_id, unit_id) = CASE kind WHEN 'replay' THEN 1 ELSE 0 END);

-- +goose Down
DELETE FROM shares WHERE kind <> 'report';
ALTER TABLE shares DROP COLUMN kind, DROP COLUMN item_id, DROP COLUMN unit_id;
