-- +goose Up
-- If SECRET_KEY is a phrase, it is stretched with a salt that belongs to the installation: 244 random bits.
CREATE TABLE installation (
    is_only  boolean PRIMARY KEY DEFAULT true CHECK (is_only),
    key_salt bytea NOT NULL DEFAULT uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid())
);
INSERT INTO installation DEFAULT VALUES;

-- +goose Down
DROP TABLE installation;
