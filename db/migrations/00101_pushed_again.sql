-- +goose Up
-- A launch that evaluates or groups answers pushes runs of earlier launches again.
ALTER TABLE pushed_runs DROP CONSTRAINT pushed_runs_pkey, ADD PRIMARY KEY (launch_id, run_id);

-- +goose Down
DELETE FROM pushed_runs p USING pushed_runs earlier WHERE earlier.run_id = p.run_id AND earlier.launch_id < p.launch_id;
ALTER TABLE pushed_runs DROP CONSTRAINT pushed_runs_pkey, ADD PRIMARY KEY (run_id);
