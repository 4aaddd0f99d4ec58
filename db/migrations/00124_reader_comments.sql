-- +goose Up
-- Whether readers of a link may comment, and who sees the comments: only the project, or all readers of the link.
ALTER TABLE shares ADD COLUMN comments text NOT NULL DEFAULT 'off' CHECK (comments IN ('off', 'project', 'readers'));
-- The number of comments that nobody has marked as done, for the pages of the task.
ALTER TABLE evaluation_tasks ADD COLUMN open_comments int NOT NULL DEFAULT 0;
-- Comments of people without an account. They are kept when their link expires or is revoked, and deleted with the task.
-- address is a hash: it only tells the readers of a link apart, to limit how often each of them comments.
CREATE TABLE share_comments (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    share_id uuid NOT NULL REFERENCES shares ON DELETE CASCADE,
    task_id uuid NOT NULL REFERENCES evaluation_tasks ON DELETE CASCADE,
    item_id bigint REFERENCES evaluation_items ON DELETE CASCADE,
    author text NOT NULL,
    body text NOT NULL,
    address bytea NOT NULL,
    done_by text,
    done_at timestamptz,
    created_at timestamptz NOT NULL DEFAULT now(),
    CHECK ((done_by IS NULL) = (done_at IS NULL))
);
CREATE INDEX share_comments_task ON share_comments (task_id, item_id);
CREATE INDEX share_comments_share ON share_comments (share_id, created_at);

-- +goose Down
DROP TABLE share_comments;
ALTER TABLE evaluation_tasks DROP COLUMN open_comments;
ALTER TABLE shares DROP COLUMN comments;
