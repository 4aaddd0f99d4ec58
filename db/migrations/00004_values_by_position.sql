-- +goose Up
-- The values of a row's further columns, in the order of the task's variable_names. Repeating the names in every
-- row made a file with long names a thousand times larger.
ALTER TABLE evaluation_items ADD COLUMN variable_values text[];
UPDATE evaluation_items i SET variable_values = ARRAY(
    SELECT coalesce(i.variables ->> n.name, '')
    FROM unnest(t.variable_names) WITH ORDINALITY n (name, place)
    ORDER BY n.place)
FROM evaluation_tasks t
WHERE t.id = i.task_id AND cardinality(t.variable_names) > 0;
ALTER TABLE evaluation_items DROP COLUMN variables;

-- +goose Down
ALTER TABLE evaluation_items ADD COLUMN variables json;
UPDATE evaluation_items i SET variables = json_object(t.variable_names, i.variable_values)
FROM evaluation_tasks t
WHERE t.id = i.task_id AND i.variable_values IS NOT NULL;
ALTER TABLE evaluation_items DROP COLUMN variable_values;
