-- +goose Up
ALTER TABLE launches
    DROP CONSTRAINT launches_kind_check,
    ADD CONSTRAINT launches_kind_check CHECK (kind IN ('SUBMIT', 'RETRY_FAILED', 'RESUME', 'EXTEND'));

-- +goose Down
UPDATE launches SET kind = 'RESUME' WHERE kind = 'EXTEND';
ALTER TABLE launches
    DROP CONSTRAINT launches_kind_check,
    ADD CONSTRAINT launches_kind_check CHECK (kind IN ('SUBMIT', 'RETRY_FAILED', 'RESUME'));
