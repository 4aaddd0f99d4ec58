-- +goose Up
-- The items of a series are the turns of a conversation: 1, 2, 3 … Single questions have neither series nor turn.
ALTER TABLE evaluation_items
    ADD COLUMN series text,
    ADD COLUMN turn integer CHECK (turn > 0),
    ADD COLUMN head text,              -- the question_id of the conversation's first turn
    ADD CHECK ((series IS NULL) = (turn IS NULL) AND (series IS NULL) = (head IS NULL)),
    ADD COLUMN sort_key text COLLATE "C" NOT NULL -- the order of pages: turns follow one another
        GENERATED ALWAYS AS (CASE WHEN turn IS NULL THEN question_id ELSE head || E'\x01' || lpad(CAST(turn AS text), 6, '0') END) STORED;
CREATE INDEX evaluation_items_in_order ON evaluation_items (task_id, sort_key);
CREATE UNIQUE INDEX evaluation_items_turns ON evaluation_items (task_id, series, turn) WHERE series IS NOT NULL;
ALTER TABLE evaluation_tasks
    ADD COLUMN on_turn_failure text NOT NULL DEFAULT 'stop' CHECK (on_turn_failure IN ('stop', 'continue')),
    ADD COLUMN total_conversations integer NOT NULL DEFAULT 0;

-- A unit of a conversation asks the item's turn and all later ones in order. Each turn has its own run; the unit is
-- done when all turns have one.
ALTER TABLE units
    ADD COLUMN turns smallint NOT NULL DEFAULT 1,
    ADD COLUMN turns_done smallint NOT NULL DEFAULT 0,   -- turns of a conversation that have a run
    ADD COLUMN turns_failed smallint NOT NULL DEFAULT 0;
ALTER TABLE evaluation_runs
    ADD COLUMN conversation_id text,   -- the agent's id of the conversation after this turn
    DROP CONSTRAINT evaluation_runs_unit_id_key,
    ADD UNIQUE (unit_id, item_id);

-- +goose Down
DELETE FROM evaluation_tasks WHERE total_conversations > 0; -- earlier versions support only single questions
ALTER TABLE evaluation_runs
    DROP COLUMN conversation_id,
    DROP CONSTRAINT evaluation_runs_unit_id_item_id_key,
    ADD UNIQUE (unit_id);
ALTER TABLE units DROP COLUMN turns, DROP COLUMN turns_done, DROP COLUMN turns_failed;
ALTER TABLE evaluation_tasks DROP COLUMN on_turn_failure, DROP COLUMN total_conversations;
DROP INDEX evaluation_items_in_order, evaluation_items_turns;
ALTER TABLE evaluation_items DROP COLUMN sort_key, DROP COLUMN series, DROP COLUMN turn, DROP COLUMN head;
