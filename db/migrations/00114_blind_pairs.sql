-- +goose Up
-- Pairs of answers that two variants gave to a question, which people compare without knowing whose they are. The runs
-- and the order in which they are shown are drawn once.
CREATE TABLE blind_pairs (
    item_id    bigint NOT NULL REFERENCES evaluation_items (id) ON DELETE CASCADE,
    variant_a  int NOT NULL,
    variant_b  int NOT NULL CHECK (variant_a < variant_b),
    run_a      int NOT NULL, -- run_index
    run_b      int NOT NULL,
    is_swapped boolean NOT NULL, -- the answer of variant_b is shown first
    PRIMARY KEY (item_id, variant_a, variant_b)
);
CREATE TABLE pair_verdicts (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    item_id    bigint NOT NULL,
    variant_a  int NOT NULL,
    variant_b  int NOT NULL,
    reviewer   text NOT NULL,
    verdict    text NOT NULL CHECK (verdict IN ('A', 'B', 'SAME')),
    version    int NOT NULL,
    is_current boolean NOT NULL DEFAULT true,
    judged_a   bigint NOT NULL, -- the runs whose answers were compared
    judged_b   bigint NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    FOREIGN KEY (item_id, variant_a, variant_b) REFERENCES blind_pairs ON DELETE CASCADE
);
CREATE UNIQUE INDEX one_current_pair_verdict ON pair_verdicts (item_id, variant_a, variant_b, reviewer)
    WHERE is_current;
CREATE INDEX pair_verdicts_of_pairs ON pair_verdicts (item_id, variant_a, variant_b);

-- +goose Down
DROP TABLE pair_verdicts;
DROP TABLE blind_pairs;
