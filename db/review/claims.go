package review

import (
	"context"
	"time"

	"github.com/google/uuid"

	"wending/db/pg"
)

// claimLasts is how long a reviewer who has opened a question is considered to be judging it.
const claimLasts = 10 * time.Minute

// Claim records that a reviewer has opened a question to judge it.
func (r Reviews) Claim(ctx context.Context, itemID int64, reviewer string) error {
	const store = `
		INSERT INTO review_claims (item_id, reviewer)
		VALUES ($1, $2)
		ON CONFLICT (item_id, reviewer) DO UPDATE SET claimed_at = now()`
	_, err := r.db.ExecContext(ctx, store, itemID, reviewer)
	return pg.Classify("claim a question", err)
}

// Claims returns the other reviewers who are judging a task's questions now, keyed by item id: those who opened a
// question recently and have not judged it since.
func (r Reviews) Claims(ctx context.Context, taskID uuid.UUID, reviewer string) (map[int64][]string, error) {
	const list = `
		SELECT c.item_id, c.reviewer
		FROM evaluation_items i
		JOIN review_claims c ON c.item_id = i.id
		WHERE i.task_id = $1 AND c.reviewer <> $2 AND c.claimed_at > now() - CAST($3 AS float8) * interval '1 second'
		  AND NOT EXISTS (
			SELECT
			FROM reviews v
			WHERE v.item_id = i.id AND v.reviewer = c.reviewer AND v.created_at >= c.claimed_at)
		ORDER BY c.item_id, c.reviewer`
	var rows []struct {
		ItemID   int64 `db:"item_id"`
		Reviewer string
	}
	if err := r.db.SelectContext(ctx, &rows, list, taskID, reviewer, claimLasts.Seconds()); err != nil {
		return nil, pg.Classify("list the claims of questions", err)
	}
	byItem := map[int64][]string{}
	for _, row := range rows {
		byItem[row.ItemID] = append(byItem[row.ItemID], row.Reviewer)
	}
	return byItem, nil
}

// IsTaken reports whether a question will have verdicts from the needed number of people once those who are judging it
// now have finished. It is false if needed is nil, because then every reviewer judges the question.
func IsTaken(verdicts []Review, claimedBy []string, needed *int) bool {
	if needed == nil {
		return false
	}
	all := verdicts
	for _, name := range claimedBy {
		all = append(all[:len(all):len(all)], Review{Place: Place{Reviewer: name}})
	}
	return StateOf(all, *needed) == Done
}
