// Package review stores people's verdicts on questions and answers, and the sign-offs of reports.
package review

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"wending/db"
	"wending/db/pg"
)

// Verdict is a reviewer's judgement.
type Verdict string

// The verdicts.
const (
	Pass   Verdict = "PASS"
	Fail   Verdict = "FAIL"
	Unsure Verdict = "UNSURE"
)

// Verdicts lists all verdicts.
var Verdicts = []Verdict{Pass, Fail, Unsure}

// Place is the subject of a review together with its reviewer: each place has at most one current review.
type Place struct {
	QuestionID string `db:"question_id"`
	Variant    int    `db:"variant"`
	// RunIndex is the answer's run; nil means the question as a whole.
	RunIndex *int   `db:"run_index"`
	Reviewer string `db:"reviewer"`
}

// The reasons that every project has. A project may add its own, which are stored as their text.
const (
	WrongNumber     = "number"
	WrongConclusion = "conclusion"
	Omission        = "omission"
	WrongCitation   = "citation"
	WrongFormat     = "format"
)

// Reasons lists the reasons that every project has, in the order in which pages list them.
var Reasons = []string{WrongNumber, WrongConclusion, Omission, WrongCitation, WrongFormat}

// Limits on reasons: how many a verdict or a project may have, and the maximum length of each in characters.
const (
	MaxReasons      = 10
	MaxReasonLength = 40
)

// Opinion is the content of a review: a verdict, its reasons, a note, and ratings on the project's dimensions. Nil
// ratings leave those of the review's previous version as they are.
type Opinion struct {
	Verdict Verdict        `db:"verdict"`
	Reasons pq.StringArray `db:"reasons"`
	Note    string         `db:"note"`
	Ratings Ratings        `db:"ratings"`
}

// Review is an opinion on a place.
type Review struct {
	Place
	Opinion
	// Version counts the changes, from 1.
	Version int `db:"version"`
	// IsOutdated reports that a judged run has since been replaced.
	IsOutdated bool      `db:"is_outdated"`
	CreatedAt  time.Time `db:"created_at"`
	// CarriedBy is the name of the person who took the verdict over from the earlier task CarriedFrom; both are nil for a
	// verdict that was given in this task.
	CarriedBy   *string    `db:"carried_by"`
	CarriedFrom *uuid.UUID `db:"carried_from"`
}

// ConflictError means that the review has changed since its author read it.
type ConflictError struct {
	// Current is the review as it is now; nil means that there is none.
	Current *Review
}

func (e *ConflictError) Error() string { return "the review has another version" }

// Reviews stores the reviews of tasks.
type Reviews struct{ db *pg.Pool }

// New returns the Reviews of a store.
func New(store *db.Store) Reviews { return Reviews{store.Pool()} }

// judged selects the run that a review is about: the current run with its run_index or, for a review of a whole
// question, the newest current run.
const judged = `(SELECT max(r.id) FROM evaluation_runs r WHERE r.item_id = i.id AND r.variant = v.variant
	AND r.is_current AND (v.run_index IS NULL OR r.run_index = v.run_index))`

const columns = `i.question_id, v.variant, v.run_index, v.reviewer, v.verdict, v.reasons, v.note, v.ratings, v.version,
	v.created_at, v.carried_by, v.carried_from,
	v.judged_run_id IS DISTINCT FROM ` + judged + ` AS is_outdated`

// stored is a review in the form of its row.
type stored struct {
	Review
	ID          int64 `db:"id"`
	IsWithdrawn bool  `db:"is_withdrawn"`
}

// Put stores a review, and returns it as stored. version is the version that its author has seen, 0 if there was none.
// Put returns a ConflictError if version is not the latest version, and a db.NotFoundError if the question or answer
// does not exist.
func (r Reviews) Put(ctx context.Context, taskID uuid.UUID, place Place, said Opinion,
	version int) (review Review, err error) {
	err = r.change(ctx, taskID, place, version, func(tx *sqlx.Tx, item int64, current *stored) error {
		const insert = `
			WITH v AS (
				INSERT INTO reviews (item_id, variant, run_index, reviewer, verdict, reasons, note, ratings, version,
				is_withdrawn, judged_run_id)
				SELECT i.id, v.variant, v.run_index, $4, $5, $6, $7, CAST($9 AS jsonb), $8, false, ` + judged + `
				FROM evaluation_items i, (SELECT $2::int AS variant, $3::int AS run_index) v
				WHERE i.id = $1
				RETURNING *)
			SELECT ` + columns + `
			FROM v
			JOIN evaluation_items i ON i.id = v.item_id`
		if said.Ratings == nil && current != nil && !current.IsWithdrawn {
			said.Ratings = current.Ratings
		}
		err := tx.GetContext(ctx, &review, insert, item, place.Variant, place.RunIndex, place.Reviewer, said.Verdict,
			said.reasons(), said.Note, version+1, said.Ratings)
		return pg.Classify("store the review", err)
	})
	return review, err
}

// reasons returns an opinion's reasons as they are stored: an empty list if there are none.
func (o Opinion) reasons() pq.StringArray { return append(pq.StringArray{}, o.Reasons...) }

// Withdraw withdraws a review. The withdrawn version keeps its number: the next Put must pass it as the version that
// its author has seen.
func (r Reviews) Withdraw(ctx context.Context, taskID uuid.UUID, place Place, version int) error {
	return r.change(ctx, taskID, place, version, func(tx *sqlx.Tx, item int64, current *stored) error {
		const insert = `
			INSERT INTO reviews (item_id, variant, run_index, reviewer, verdict, reasons, note, version, ratings, is_withdrawn)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, CAST($9 AS jsonb), true)`
		if current == nil || current.IsWithdrawn {
			return db.ErrNotFound
		}
		_, err := tx.ExecContext(ctx, insert, item, place.Variant, place.RunIndex, place.Reviewer, current.Verdict,
			current.reasons(), current.Note, version, current.Ratings)
		return pg.Classify("withdraw the review", err)
	})
}

// change runs store, which stores the next version of a review. It returns a ConflictError if version is not the latest
// one. Changes are made one at a time.
func (r Reviews) change(ctx context.Context, taskID uuid.UUID, place Place, version int,
	store func(tx *sqlx.Tx, item int64, current *stored) error) error {
	const lock = `
		SELECT i.id, ($3::int IS NULL OR $3 BETWEEN 1 AND t.runs_per_item) AND $4::int BETWEEN 1
		AND t.total_variants AS has_run
		FROM evaluation_items i
		JOIN evaluation_tasks t ON t.id = i.task_id
		WHERE i.task_id = $1 AND i.question_id = $2
		FOR NO KEY UPDATE OF i`
	const find = `
		SELECT v.id, v.is_withdrawn, ` + columns + `
		FROM reviews v
		JOIN evaluation_items i ON i.id = v.item_id
		WHERE v.item_id = $1 AND v.variant = $2 AND coalesce(v.run_index, 0) = coalesce($3, 0) AND v.reviewer = $4
		AND v.is_current`
	return r.db.InTx(ctx, "change a review", func(tx *sqlx.Tx) error {
		var item struct {
			ID     int64 `db:"id"`
			HasRun bool  `db:"has_run"`
		}
		err := tx.GetContext(ctx, &item, lock, taskID, place.QuestionID, place.RunIndex, place.Variant)
		if pg.IsNoRows(err) {
			return &db.NotFoundError{Kind: db.KindQuestion}
		}
		if err != nil {
			return pg.Classify("lock the question", err)
		}
		if !item.HasRun {
			return &db.NotFoundError{Kind: db.KindRun}
		}
		var found []stored
		if err := tx.SelectContext(ctx, &found, find, item.ID, place.Variant, place.RunIndex, place.Reviewer); err != nil {
			return pg.Classify("find the review", err)
		}
		var current *stored
		latest := 0
		if len(found) > 0 {
			current, latest = &found[0], found[0].Version
		}
		if version != latest {
			conflict := &ConflictError{}
			if current != nil && !current.IsWithdrawn {
				conflict.Current = &current.Review
			}
			return conflict
		}
		if current != nil {
			if _, err := tx.ExecContext(ctx, `UPDATE reviews SET is_current = false WHERE id = $1`, current.ID); err != nil {
				return pg.Classify("store the review's history", err)
			}
		}
		return store(tx, item.ID, current)
	})
}

const listReviews = `
	SELECT ` + columns + `
	FROM reviews v
	JOIN evaluation_items i ON i.id = v.item_id
	WHERE i.task_id = $1 AND v.is_current AND v.is_withdrawn = $4 AND ($2 = '' OR v.reviewer = $2)
	AND ($3 = '' OR v.verdict = $3)
	ORDER BY i.sort_key, v.variant, coalesce(v.run_index, 0), v.reviewer`

// List returns the current reviews of a task, in the order in which pages list its questions; an empty reviewer or
// verdict matches all.
func (r Reviews) List(ctx context.Context, taskID uuid.UUID, reviewer string,
	verdict Verdict) (reviews []Review, err error) {
	err = r.db.SelectContext(ctx, &reviews, listReviews, taskID, reviewer, verdict, false)
	return reviews, pg.Classify("list the reviews", err)
}

// Withdrawn returns the reviews of a task that were withdrawn. They keep their version numbers: the next Put must pass
// the number as the version that its author has seen.
func (r Reviews) Withdrawn(ctx context.Context, taskID uuid.UUID) (reviews []Review, err error) {
	err = r.db.SelectContext(ctx, &reviews, listReviews, taskID, "", "", true)
	return reviews, pg.Classify("list the withdrawn reviews", err)
}

// Version is the current version of a review, or an earlier one.
type Version struct {
	Review
	IsWithdrawn bool `db:"is_withdrawn"`
}

// History returns all versions of the reviews of an item, newest first.
func (r Reviews) History(ctx context.Context, itemID int64) (versions []Version, err error) {
	const list = `
		SELECT ` + columns + `, v.is_withdrawn
		FROM reviews v
		JOIN evaluation_items i ON i.id = v.item_id
		WHERE v.item_id = $1
		ORDER BY v.id DESC`
	err = r.db.SelectContext(ctx, &versions, list, itemID)
	return versions, pg.Classify("list the versions of reviews", err)
}

// SignOff records that a reviewer has finished a report, with the number of each verdict at that time.
type SignOff struct {
	ID       int64  `db:"id"`
	Reviewer string `db:"reviewer"`
	Note     string `db:"note"`
	Passed   int    `db:"passed"`
	Failed   int    `db:"failed"`
	Unsure   int    `db:"unsure"`
	// Open is the number of questions without a verdict; nil for sign-offs of earlier versions, which did not record
	// it.
	Open      *int      `db:"open_questions"`
	CreatedAt time.Time `db:"created_at"`
	// IsChanged reports that verdicts have changed since the sign-off.
	IsChanged bool `db:"is_changed"`
}

// SignOff records that a reviewer has finished a task's report, with the number of each verdict.
func (r Reviews) SignOff(ctx context.Context, taskID uuid.UUID, reviewer, note string) (signed SignOff, err error) {
	const insert = `
		INSERT INTO sign_offs (task_id, reviewer, note, passed, failed, unsure, open_questions)
		SELECT $1, $2, $3, count(*) FILTER (WHERE verdict = 'PASS'), count(*) FILTER (WHERE verdict = 'FAIL'),
			count(*) FILTER (WHERE verdict = 'UNSURE'),
			(SELECT count(*) FROM evaluation_items WHERE task_id = $1) - count(DISTINCT v.item_id)
		FROM reviews v
		JOIN evaluation_items i ON i.id = v.item_id
		WHERE i.task_id = $1 AND v.is_current AND NOT v.is_withdrawn AND v.run_index IS NULL
		RETURNING id, reviewer, note, passed, failed, unsure, open_questions, created_at, false AS is_changed`
	err = r.db.GetContext(ctx, &signed, insert, taskID, reviewer, note)
	return signed, pg.Classify("sign off the report", err)
}

// Open returns the number of a task's questions without a verdict.
func (r Reviews) Open(ctx context.Context, taskID uuid.UUID) (count int, err error) {
	const read = `
		SELECT count(*)
		FROM evaluation_items i
		WHERE i.task_id = $1
		  AND NOT EXISTS (SELECT FROM reviews v WHERE v.item_id = i.id AND v.is_current AND NOT v.is_withdrawn
		  AND v.run_index IS NULL)`
	err = r.db.GetContext(ctx, &count, read, taskID)
	return count, pg.Classify("count the open questions", err)
}

// Presence describes the progress of a task's review, as a page shows it to one reviewer while others work.
type Presence struct {
	// Judged is the number of questions that have a verdict.
	Judged int `db:"judged"`
	// Latest grows with each verdict that others give, change or withdraw; By is the reviewer of the newest such
	// verdict, empty if there is none.
	Latest int64  `db:"latest"`
	By     string `db:"by"`
}

// Presence reads the progress of the review of a task; the others are all reviewers but the given one.
func (r Reviews) Presence(ctx context.Context, taskID uuid.UUID, reviewer string) (seen Presence, err error) {
	const read = `
		SELECT count(DISTINCT v.item_id) FILTER (WHERE v.is_current AND NOT v.is_withdrawn AND v.run_index IS NULL) AS judged,
			coalesce(max(v.id) FILTER (WHERE v.reviewer <> $2), 0) AS latest,
			coalesce((array_agg(v.reviewer ORDER BY v.id DESC) FILTER (WHERE v.reviewer <> $2))[1], '') AS by
		FROM evaluation_items i
		JOIN reviews v ON v.item_id = i.id
		WHERE i.task_id = $1`
	err = r.db.GetContext(ctx, &seen, read, taskID, reviewer)
	return seen, pg.Classify("read the progress of the review", err)
}

// Change is a current review of an item, or its withdrawal.
type Change struct {
	Version
	ItemID int64 `db:"item_id"`
}

// Since returns the reviews that other reviewers gave, changed or withdrew since an earlier Presence, oldest first and
// at most as many as most. after is that Presence's Latest.
func (r Reviews) Since(ctx context.Context, taskID uuid.UUID, reviewer string, after int64,
	most int) (changes []Change, err error) {
	const list = `
		SELECT ` + columns + `, v.is_withdrawn, v.item_id
		FROM reviews v
		JOIN evaluation_items i ON i.id = v.item_id
		WHERE i.task_id = $1 AND v.is_current AND v.id > $3 AND v.reviewer <> $2
		ORDER BY v.id
		LIMIT $4`
	err = r.db.SelectContext(ctx, &changes, list, taskID, reviewer, after, most)
	return changes, pg.Classify("list the changes of reviews", err)
}

// SignOffs returns a task's sign-offs, newest first.
func (r Reviews) SignOffs(ctx context.Context, taskID uuid.UUID) (all []SignOff, err error) {
	const list = `
		SELECT s.id, s.reviewer, s.note, s.passed, s.failed, s.unsure, s.open_questions, s.created_at,
			EXISTS (
				SELECT FROM reviews v JOIN evaluation_items i ON i.id = v.item_id
				WHERE i.task_id = s.task_id AND v.created_at > s.created_at) AS is_changed
		FROM sign_offs s
		WHERE s.task_id = $1
		ORDER BY s.id DESC`
	err = r.db.SelectContext(ctx, &all, list, taskID)
	return all, pg.Classify("list the sign-offs", err)
}
