package review

import (
	"context"
	"crypto/sha256"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"wending/db"
	"wending/db/pg"
)

// Limits on readers' comments: the length of each in characters, the total number for a link, the number that may
// arrive through a link in an hour, and the number that one reader may send through it in ten minutes.
const (
	MaxComment      = 2000
	MaxComments     = 300
	maxCommentsHour = 60
	maxCommentsOne  = 5
)

// KindComment names comments in a db.NotFoundError.
const KindComment db.Kind = "comment"

var (
	// ErrCommentsFull means that a link already has MaxComments comments.
	ErrCommentsFull = errors.New("the link has as many comments as it may have")
	// ErrCommentsFast means that too many comments arrive through a link, or from one reader.
	ErrCommentsFast = errors.New("too many comments within a short time")
)

// Comment is what a reader of a link wrote about a question, or about the task as a whole. Author and Body come from
// people who have not signed in.
type Comment struct {
	ID      int64     `db:"id"`
	ShareID uuid.UUID `db:"share_id"`
	// ItemID and Number are the question's item and its number in the order of the report; nil means the whole task.
	ItemID    *int64     `db:"item_id"`
	Number    *int       `db:"number"`
	Author    string     `db:"author"`
	Body      string     `db:"body"`
	DoneBy    *string    `db:"done_by"`
	DoneAt    *time.Time `db:"done_at"`
	CreatedAt time.Time  `db:"created_at"`
}

// NewComment is a comment to add; Address distinguishes the readers of a link.
type NewComment struct {
	ShareID, TaskID       uuid.UUID
	ItemID                *int64
	Author, Body, Address string
}

const readComments = `
	SELECT c.id, c.share_id, c.item_id, c.author, c.body, c.done_by, c.done_at, c.created_at, (
		SELECT count(*)
		FROM evaluation_items i
		JOIN evaluation_items before ON before.task_id = i.task_id AND before.sort_key <= i.sort_key
		WHERE i.id = c.item_id
		HAVING count(*) > 0) AS number
	FROM share_comments c`

// AddComment adds a comment through a link. It returns ErrCommentsFull or ErrCommentsFast if the limits are reached.
// The caller has checked that the link allows comments.
func (r Reviews) AddComment(ctx context.Context, n NewComment) error {
	address := sha256.Sum256([]byte(n.ShareID.String() + " " + n.Address))
	const counted = `
		SELECT count(*) AS every, count(*) FILTER (WHERE created_at > now() - interval '1 hour') AS recent,
			count(*) FILTER (WHERE created_at > now() - interval '10 minutes' AND address = $2) AS own
		FROM share_comments
		WHERE share_id = $1`
	return r.db.InTx(ctx, "add a comment", func(tx *sqlx.Tx) error {
		if _, err := tx.ExecContext(ctx, `SELECT FROM shares WHERE id = $1 FOR NO KEY UPDATE`, n.ShareID); err != nil {
			return pg.Classify("lock the link", err)
		}
		var found struct{ Every, Recent, Own int }
		if err := tx.GetContext(ctx, &found, counted, n.ShareID, address[:]); err != nil {
			return pg.Classify("count the comments", err)
		}
		switch {
		case found.Every >= MaxComments:
			return ErrCommentsFull
		case found.Recent >= maxCommentsHour, found.Own >= maxCommentsOne:
			return ErrCommentsFast
		}
		const insert = `
			INSERT INTO share_comments (share_id, task_id, item_id, author, body, address)
			VALUES ($1, $2, $3, $4, $5, $6)`
		if _, err := tx.ExecContext(ctx, insert, n.ShareID, n.TaskID, n.ItemID, n.Author, n.Body, address[:]); err != nil {
			return pg.Classify("add a comment", err)
		}
		return countOpen(ctx, tx, n.TaskID, 1)
	})
}

// countOpen adds change to the number of a task's open comments.
func countOpen(ctx context.Context, tx *sqlx.Tx, taskID uuid.UUID, change int) error {
	_, err := tx.ExecContext(ctx, `UPDATE evaluation_tasks SET open_comments = open_comments + $2 WHERE id = $1`, taskID,
		change)
	return pg.Classify("count the open comments", err)
}

// Comments returns a page of the comments on a task, open ones first, then the newest first, and their total number.
func (r Reviews) Comments(ctx context.Context, taskID uuid.UUID, page db.Page) (found []Comment, total int, err error) {
	const list = readComments + `
		WHERE c.task_id = $1
		ORDER BY c.done_at IS NOT NULL, c.id DESC
		LIMIT $2 OFFSET $3`
	if err = r.db.GetContext(ctx, &total, `SELECT count(*) FROM share_comments WHERE task_id = $1`, taskID); err == nil {
		err = r.db.SelectContext(ctx, &found, list, taskID, page.Size, (page.Number-1)*page.Size)
	}
	return found, total, pg.Classify("list the comments", err)
}

// CommentsAt returns the comments on a question that came through a link, oldest first; a nil item selects those on the
// task as a whole.
func (r Reviews) CommentsAt(ctx context.Context, shareID uuid.UUID, itemID *int64) (found []Comment, err error) {
	const list = readComments + ` WHERE c.share_id = $1 AND c.item_id IS NOT DISTINCT FROM $2 ORDER BY c.id`
	err = r.db.SelectContext(ctx, &found, list, shareID, itemID)
	return found, pg.Classify("list a link's comments", err)
}

// OpenComments returns the open comments on questions, keyed by item and oldest first.
func (r Reviews) OpenComments(ctx context.Context, taskID uuid.UUID, items []int64) (map[int64][]Comment, error) {
	const list = readComments + `
		WHERE c.task_id = $1 AND c.item_id = ANY($2) AND c.done_at IS NULL
		ORDER BY c.id`
	var found []Comment
	if err := r.db.SelectContext(ctx, &found, list, taskID, pq.Array(items)); err != nil {
		return nil, pg.Classify("list the questions' comments", err)
	}
	of := map[int64][]Comment{}
	for _, one := range found {
		of[*one.ItemID] = append(of[*one.ItemID], one)
	}
	return of, nil
}

// OpenByShare returns how many open comments came through each link to a task.
func (r Reviews) OpenByShare(ctx context.Context, taskID uuid.UUID) (map[uuid.UUID]int, error) {
	const count = `
		SELECT share_id AS id, count(*) AS open
		FROM share_comments
		WHERE task_id = $1 AND done_at IS NULL
		GROUP BY share_id`
	var found []struct {
		ID   uuid.UUID
		Open int
	}
	if err := r.db.SelectContext(ctx, &found, count, taskID); err != nil {
		return nil, pg.Classify("count the links' comments", err)
	}
	open := map[uuid.UUID]int{}
	for _, one := range found {
		open[one.ID] = one.Open
	}
	return open, nil
}

// FinishComment marks a comment on a task as done by somebody, or opens it again. Nothing changes if it is in that
// state already. It returns db.ErrNotFound if there is no such comment.
func (r Reviews) FinishComment(ctx context.Context, taskID uuid.UUID, id int64, isDone bool, by string) error {
	const finish = `
		UPDATE share_comments
		SET done_at = CASE WHEN $3 THEN now() END, done_by = CASE WHEN $3 THEN $4 END
		WHERE task_id = $1 AND id = $2 AND (done_at IS NULL) = $3`
	return r.db.InTx(ctx, "finish a comment", func(tx *sqlx.Tx) error {
		var exists bool
		err := tx.GetContext(ctx, &exists,
			`SELECT EXISTS (SELECT FROM share_comments WHERE task_id = $1 AND id = $2)`, taskID, id)
		if err == nil && !exists {
			return &db.NotFoundError{Kind: KindComment}
		}
		if err != nil {
			return pg.Classify("read a comment", err)
		}
		result, err := tx.ExecContext(ctx, finish, taskID, id, isDone, by)
		changed, err := pg.Affected("finish a comment", result, err)
		if err != nil || changed == 0 {
			return err
		}
		if isDone {
			return countOpen(ctx, tx, taskID, -1)
		}
		return countOpen(ctx, tx, taskID, 1)
	})
}

// RemoveComment deletes a comment on a task. It returns db.ErrNotFound if there is no such comment.
func (r Reviews) RemoveComment(ctx context.Context, taskID uuid.UUID, id int64) error {
	return r.db.InTx(ctx, "delete a comment", func(tx *sqlx.Tx) error {
		var wasOpen bool
		err := tx.GetContext(ctx, &wasOpen, `DELETE FROM share_comments WHERE task_id = $1 AND id = $2
			RETURNING done_at IS NULL`, taskID, id)
		if err != nil {
			return db.NotFound(KindComment, pg.Classify("delete a comment", err))
		}
		if !wasOpen {
			return nil
		}
		return countOpen(ctx, tx, taskID, -1)
	})
}
