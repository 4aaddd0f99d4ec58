package review

import (
	"cmp"
	"context"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"wending/db"
	"wending/db/pg"
)

// Assignments returns the reviewers to whom the questions of a task were assigned, keyed by item id.
func (r Reviews) Assignments(ctx context.Context, taskID uuid.UUID) (map[int64][]string, error) {
	const list = `
		SELECT a.item_id, a.reviewer
		FROM review_assignments a
		JOIN evaluation_items i ON i.id = a.item_id
		WHERE i.task_id = $1
		ORDER BY a.item_id, a.reviewer`
	var rows []struct {
		ItemID   int64  `db:"item_id"`
		Reviewer string `db:"reviewer"`
	}
	if err := r.db.SelectContext(ctx, &rows, list, taskID); err != nil {
		return nil, pg.Classify("list the assignments", err)
	}
	byItem := map[int64][]string{}
	for _, row := range rows {
		byItem[row.ItemID] = append(byItem[row.ItemID], row.Reviewer)
	}
	return byItem, nil
}

// Set stores the settings for reviewing a task. It returns a db.NotFoundError if there is no such task.
func (r Reviews) Set(ctx context.Context, taskID uuid.UUID, settings db.ReviewSettings) error {
	const set = `
		UPDATE evaluation_tasks
		SET is_blind_review = $2, hides_reviews = $3, reviewers_per_item = $4, updated_at = now()
		WHERE id = $1`
	result, err := r.db.ExecContext(ctx, set, taskID, settings.IsBlindReview, settings.HidesReviews,
		settings.ReviewersPerItem)
	changed, err := pg.Affected("set how a task is reviewed", result, err)
	if err == nil && changed == 0 {
		return &db.NotFoundError{Kind: db.KindTask}
	}
	return err
}

// Assign assigns questions of a task to reviewers and discards the earlier assignments of these questions. only lists
// the questions' ids; nil means all. split receives the number of questions and returns the reviewers of each, in the
// order in which pages list the questions. Assign returns a db.NotFoundError if the task, or one of the questions, does
// not exist.
func (r Reviews) Assign(ctx context.Context, taskID uuid.UUID, only []string,
	split func(questions int) [][]string) error {
	const (
		lock = `SELECT id FROM evaluation_tasks WHERE id = $1 FOR NO KEY UPDATE`
		read = `
			SELECT id
			FROM evaluation_items
			WHERE task_id = $1 AND (CAST($2 AS text[]) IS NULL OR question_id = ANY ($2))
			ORDER BY sort_key`
		reset   = `DELETE FROM review_assignments WHERE item_id = ANY ($1)`
		install = `INSERT INTO review_assignments (item_id, reviewer) SELECT * FROM unnest($1::bigint[], $2::text[])`
	)
	return r.db.InTx(ctx, "assign the questions", func(tx *sqlx.Tx) error {
		var locked uuid.UUID
		if err := tx.GetContext(ctx, &locked, lock, taskID); err != nil {
			if pg.IsNoRows(err) {
				return &db.NotFoundError{Kind: db.KindTask}
			}
			return pg.Classify("lock the task", err)
		}
		var items []int64
		if err := tx.SelectContext(ctx, &items, read, taskID, pq.StringArray(only)); err != nil {
			return pg.Classify("read the questions", err)
		}
		if only != nil && len(items) < len(slices.Compact(slices.Sorted(slices.Values(only)))) {
			return &db.NotFoundError{Kind: db.KindQuestion}
		}
		if _, err := tx.ExecContext(ctx, reset, pq.Int64Array(items)); err != nil {
			return pg.Classify("withdraw the assignments", err)
		}
		ids, names := pq.Int64Array{}, pq.StringArray{}
		for n, reviewers := range split(len(items)) {
			for _, reviewer := range reviewers {
				ids, names = append(ids, items[n]), append(names, reviewer)
			}
		}
		_, err := tx.ExecContext(ctx, install, ids, names)
		return pg.Classify("assign the questions", err)
	})
}

// SplitQuestions assigns questions to reviewers, about the same number to each: in consecutive blocks, or at
// random. overlap, from 0 to 1, is the share of questions that go to two reviewers, so that their agreement can be
// measured.
func SplitQuestions(questions int, reviewers []string, isRandom bool, overlap float64) [][]string {
	given := make([][]string, questions)
	if len(reviewers) == 0 {
		return given
	}
	order := make([]int, questions)
	for n := range order {
		order[n] = n
	}
	if isRandom {
		rand.Shuffle(questions, func(a, b int) { order[a], order[b] = order[b], order[a] })
	}
	for place, question := range order {
		first := place * len(reviewers) / questions
		given[question] = []string{reviewers[first]}
		// Shared questions are spread evenly: a question is shared when the running total of overlap reaches the
		// next whole number.
		isShared := math.Floor(float64(place+1)*overlap) > math.Floor(float64(place)*overlap)
		if second := (first + 1) % len(reviewers); isShared && second != first {
			given[question] = append(given[question], reviewers[second])
		}
	}
	return given
}

// Tally counts the questions that are assigned to a reviewer, and those with a verdict of that reviewer.
type Tally struct {
	Name             string
	Assigned, Judged int
	Verdicts         map[Verdict]int
}

// Tallies returns the tallies of all reviewers, in alphabetical order, including those who have only been assigned
// questions. reviews holds the verdicts on each question, and assigned the reviewers of each item.
func Tallies(reviews map[string][]Review, assigned map[int64][]string) (all []Tally) {
	byName := map[string]*Tally{}
	of := func(name string) *Tally {
		if byName[name] == nil {
			byName[name] = &Tally{Name: name, Verdicts: map[Verdict]int{}}
		}
		return byName[name]
	}
	type counted struct {
		name    string
		verdict Verdict // empty means any verdict
	}
	for _, verdicts := range reviews { // the verdicts on one question, over all its variants
		seen := map[counted]bool{}
		for _, one := range verdicts {
			if any := (counted{one.Reviewer, ""}); !seen[any] {
				seen[any] = true
				of(one.Reviewer).Judged++
			}
			if this := (counted{one.Reviewer, one.Verdict}); !seen[this] {
				seen[this] = true
				of(one.Reviewer).Verdicts[one.Verdict]++
			}
		}
	}
	for _, names := range assigned {
		for _, name := range names {
			of(name).Assigned++
		}
	}
	for _, one := range byName {
		all = append(all, *one)
	}
	slices.SortFunc(all, func(a, b Tally) int { return cmp.Compare(a.Name, b.Name) })
	return all
}
