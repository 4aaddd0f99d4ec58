-- +goose Up
ALTER TABLE origins ADD COLUMN served_at timestamptz;
COMMENT ON COLUMN origins.served_at IS 'when a launch that calls it was last given a lane; null: never. Of launches that wait, those of the origin served longest ago are next.';

-- +goose Down
ALTER TABLE origins DROP COLUMN served_at;
