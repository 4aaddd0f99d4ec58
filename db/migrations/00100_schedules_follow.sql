-- +goose Up
-- What a firing copies: 'frozen' means the task as it was created, 'latest' means the task with what the library holds
-- at that time: credentials, and the newest versions of prompts, evaluators and the dataset. Existing schedules stay as
-- they are.
ALTER TABLE schedules ADD COLUMN follow text NOT NULL DEFAULT 'frozen' CHECK (follow IN ('latest', 'frozen'));

-- +goose Down
ALTER TABLE schedules DROP COLUMN follow;
