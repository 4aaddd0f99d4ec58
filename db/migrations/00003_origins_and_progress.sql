-- +goose Up
-- The rate limit belongs to an origin; the strictest limit among its running launches applies to all of them.
ALTER TABLE agents RENAME TO origins;
ALTER TABLE origins
    ADD COLUMN call_interval bigint NOT NULL DEFAULT 0; -- microseconds between two calls; 0 means unlimited
UPDATE origins o SET call_interval = l.longest
FROM (SELECT agent_origin, max(call_interval) AS longest FROM launches WHERE status = 'RUNNING' GROUP BY agent_origin) l
WHERE l.agent_origin = o.origin;

-- The number of processed questions follows from units and current runs. It is stored once, when a task ends.
ALTER TABLE launches
    ADD COLUMN kept_items integer NOT NULL DEFAULT 0;   -- questions that have all their runs and of which this launch repeats none
UPDATE launches l SET kept_items = (
    SELECT count(*) FROM evaluation_items i
    WHERE i.task_id = l.task_id AND i.processed
      AND NOT EXISTS (SELECT 1 FROM units u WHERE u.launch_id = l.id AND u.item_id = i.id))
WHERE l.status IN ('RUNNING', 'STOPPING');
ALTER TABLE evaluation_tasks RENAME COLUMN progress_processed TO processed_items;
ALTER TABLE evaluation_items DROP COLUMN processed;

-- +goose Down
ALTER TABLE evaluation_items ADD COLUMN processed boolean NOT NULL DEFAULT false;
UPDATE evaluation_items SET processed = true WHERE id IN (
    SELECT r.item_id FROM evaluation_runs r JOIN evaluation_tasks t ON t.id = r.task_id
    WHERE r.is_current GROUP BY r.item_id, t.runs_per_item HAVING count(*) = t.runs_per_item);
ALTER TABLE evaluation_tasks RENAME COLUMN processed_items TO progress_processed;
UPDATE evaluation_tasks t SET progress_processed = (SELECT count(*) FROM evaluation_items i WHERE i.task_id = t.id AND i.processed);
ALTER TABLE launches DROP COLUMN kept_items;
ALTER TABLE origins DROP COLUMN call_interval;
ALTER TABLE origins RENAME TO agents;
