-- +goose Up
-- The questions to which a link to answers is limited; NULL means all.
ALTER TABLE shares
    ADD COLUMN item_ids bigint[],
    ADD CHECK (item_ids IS NULL OR kind = 'results');

-- +goose Down
DELETE FROM shares WHERE item_ids IS NOT NULL;
ALTER TABLE shares DROP COLUMN item_ids;
