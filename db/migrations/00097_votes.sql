-- +goose Up
-- The score of each readable vote of a judge that votes several times, from 0 to 1: reports attribute noise to votes, and
-- reading the replies again takes seconds. NULL means one vote, or an evaluation of an earlier version.
ALTER TABLE evaluations ADD COLUMN votes double precision[];

-- +goose Down
ALTER TABLE evaluations DROP COLUMN votes;
