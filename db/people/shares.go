package people

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"wending/db"
	"wending/db/pg"
)

// ShareKind is what a link shows.
type ShareKind string

// A link shows the whole report, only the answers, or the replay of calls.
const (
	ShareReport  ShareKind = "report"
	ShareResults ShareKind = "results"
	ShareReplay  ShareKind = "replay"
)

// ShareKinds lists all kinds.
var ShareKinds = []ShareKind{ShareReport, ShareResults, ShareReplay}

// CommentMode is who sees the comments of a link's readers.
type CommentMode string

// The modes: readers cannot comment, only members of the project see the comments, or other readers see them, too.
const (
	CommentsOff     CommentMode = "off"
	CommentsProject CommentMode = "project"
	CommentsReaders CommentMode = "readers"
)

// CommentModes lists all modes.
var CommentModes = []CommentMode{CommentsOff, CommentsProject, CommentsReaders}

// Share is a link that shows a part of one task to anyone who has the link.
type Share struct {
	ID     uuid.UUID `db:"id"`
	TaskID uuid.UUID `db:"task_id"`
	Kind   ShareKind `db:"kind"`
	// ItemID and UnitID name what a replay shows, either the current runs of a question or one unit; nil otherwise.
	ItemID *int64 `db:"item_id"`
	UnitID *int64 `db:"unit_id"`
	// ItemIDs are the questions to which a link to answers is limited; nil means all.
	ItemIDs pq.Int64Array `db:"item_ids"`
	// Filters are the filters that chose these questions, encoded as in a page's address; nil if there were none, or they
	// are unknown.
	Filters *string `db:"filters"`
	// Number is the number of a replay's question, in the order of the report; nil if the link shows no single question.
	Number *int `db:"number"`
	// Comments is who sees the comments of the link's readers.
	Comments  CommentMode `db:"comments"`
	CreatedBy string      `db:"created_by"`
	ExpiresAt time.Time   `db:"expires_at"`
	RevokedAt *time.Time  `db:"revoked_at"`
	UsedAt    *time.Time  `db:"used_at"`
	CreatedAt time.Time   `db:"created_at"`
	// IsExpired is determined by the database's clock.
	IsExpired bool `db:"is_expired"`
}

const readShares = `
	SELECT ` + shareColumns + `, s.expires_at <= now() AS is_expired
	FROM shares s`

// shareColumns are the columns of a Share, from shares s. The number of a unit is the number of its first question.
const shareColumns = `s.id, s.task_id, s.kind, s.item_id, s.unit_id, s.item_ids, s.filters, s.comments, s.created_by, s.expires_at,
	s.revoked_at, s.used_at, s.created_at, (
		SELECT count(*)
		FROM evaluation_items i
		JOIN evaluation_items before ON before.task_id = i.task_id AND before.sort_key <= i.sort_key
		WHERE i.id = coalesce(s.item_id, (SELECT min(r.item_id) FROM evaluation_runs r WHERE r.unit_id = s.unit_id))
		HAVING count(*) > 0) AS number`

// RunsToShare returns the item of the question with the given id if it has current runs, or db.ErrNotFound.
func (p People) RunsToShare(ctx context.Context, taskID uuid.UUID, questionID string) (itemID int64, err error) {
	const read = `
		SELECT i.id
		FROM evaluation_items i
		WHERE i.task_id = $1 AND i.question_id = $2
		AND EXISTS (SELECT FROM evaluation_runs r WHERE r.item_id = i.id AND r.is_current)`
	err = p.db.GetContext(ctx, &itemID, read, taskID, questionID)
	return itemID, pg.Classify("look for a question's runs", err)
}

// ItemOf returns the item and the text of the question with the given number (from 1, in the order of the report), or
// db.ErrNotFound.
func (p People) ItemOf(ctx context.Context, taskID uuid.UUID, number int) (itemID int64, question string, err error) {
	const read = `SELECT id, question FROM evaluation_items WHERE task_id = $1 ORDER BY sort_key OFFSET $2 - 1 LIMIT 1`
	var found struct {
		ID       int64
		Question string
	}
	err = p.db.GetContext(ctx, &found, read, taskID, number)
	return found.ID, found.Question, pg.Classify("look for a question", err)
}

// QuestionOf returns the id of the question with the given number (from 1, in the order of the report), or
// db.ErrNotFound.
func (p People) QuestionOf(ctx context.Context, taskID uuid.UUID, number int) (questionID string, err error) {
	const read = `SELECT question_id FROM evaluation_items WHERE task_id = $1 ORDER BY sort_key OFFSET $2 - 1 LIMIT 1`
	err = p.db.GetContext(ctx, &questionID, read, taskID, number)
	return questionID, pg.Classify("look for a question", err)
}

// HasUnit reports whether a unit of a task has runs.
func (p People) HasUnit(ctx context.Context, taskID uuid.UUID, unitID int64) (has bool, err error) {
	err = p.db.GetContext(ctx, &has,
		`SELECT EXISTS (SELECT FROM evaluation_runs WHERE task_id = $1 AND unit_id = $2)`, taskID, unitID)
	return has, pg.Classify("look for a unit's runs", err)
}

// AddShare stores a new link to a task and returns its secret, which cannot be read again.
func (p People) AddShare(ctx context.Context, share Share, lasts time.Duration) (secret string, err error) {
	const insert = `INSERT INTO shares (id, task_id, hash, created_by, expires_at, kind, item_id, unit_id, item_ids,
			filters, comments)
		VALUES ($1, $2, $3, $4, now() + $5 * interval '1 second', $6, $7, $8, $9, $10, $11)`
	secret = NewSecret()
	err = p.db.InTx(ctx, "store a link", func(tx *sqlx.Tx) error {
		var of uuid.UUID
		if err := tx.GetContext(ctx, &of, `SELECT project_id FROM evaluation_tasks WHERE id = $1`, share.TaskID); err != nil {
			return db.NotFound(db.KindTask, pg.Classify("read the task", err))
		}
		if err := db.ShareCap.Admit(ctx, tx, of); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, insert, share.ID, share.TaskID, hashOf(secret), share.CreatedBy, lasts.Seconds(),
			share.Kind, share.ItemID, share.UnitID, share.ItemIDs, share.Filters, share.Comments)
		return pg.Classify("store a link", err)
	})
	return secret, err
}

// Share returns a link, or db.ErrNotFound.
func (p People) Share(ctx context.Context, id uuid.UUID) (share Share, err error) {
	err = p.db.GetContext(ctx, &share, readShares+` WHERE s.id = $1`, id)
	return share, db.NotFound(KindShare, pg.Classify("read a link", err))
}

// ShareOf returns the link that belongs to a secret if it is still valid, or db.ErrNotFound, and records the time
// of use.
func (p People) ShareOf(ctx context.Context, secret string) (share Share, err error) {
	const use = `
		WITH s AS (
			UPDATE shares SET used_at = now() WHERE hash = $1 AND revoked_at IS NULL AND expires_at > now() RETURNING *)
		SELECT ` + shareColumns + `, false AS is_expired FROM s`
	err = p.db.GetContext(ctx, &share, use, hashOf(secret))
	return share, db.NotFound(KindShare, pg.Classify("read a link", err))
}

// Shares returns the share links of a task, newest first.
func (p People) Shares(ctx context.Context, taskID uuid.UUID) (shares []Share, err error) {
	err = p.db.SelectContext(ctx, &shares, readShares+` WHERE s.task_id = $1 ORDER BY s.created_at DESC, s.id`, taskID)
	return shares, pg.Classify("list the links", err)
}

// RevokeShare revokes a link with immediate effect. It returns db.ErrNotFound if there is no such link.
func (p People) RevokeShare(ctx context.Context, id uuid.UUID) error {
	return p.changeRow(ctx, KindShare, "revoke a link", `UPDATE shares SET revoked_at = coalesce(revoked_at, now())
		WHERE id = $1`, id)
}
