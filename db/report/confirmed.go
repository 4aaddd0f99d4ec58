package report

import (
	"context"

	"github.com/lib/pq"

	"wending/db/measure"
	"wending/db/pg"
)

const readConfirmations = `
	SELECT a_item_id, b_item_id, a_first, a_last, b_first, b_last
	FROM confirmations
	WHERE a_item_id = ANY ($1) AND b_item_id = ANY ($2) AND a_variant = $3 AND b_variant = $4`

// readFresh returns the current runs that were planned to confirm changes of items.
const readFresh = `
	SELECT r.item_id, coalesce(r.answer_key, '') AS answer_key, r.passed
	FROM unnest($1::bigint[], $2::int[], $3::int[]) w (item_id, first, last)
	JOIN evaluation_runs r ON r.item_id = w.item_id AND r.variant = $4 AND r.is_current AND r.run_index BETWEEN w.first
	AND w.last
	ORDER BY r.item_id, r.run_index`

// confirm adds the results of fresh runs to the pairs for which such runs were planned.
func (r Report) confirm(ctx context.Context, a, b Side, pairs []measure.Pair) error {
	var found []struct {
		ItemA  int64 `db:"a_item_id"`
		ItemB  int64 `db:"b_item_id"`
		FirstA int   `db:"a_first"`
		LastA  int   `db:"a_last"`
		FirstB int   `db:"b_first"`
		LastB  int   `db:"b_last"`
	}
	var itemsA, itemsB pq.Int64Array
	places := make(map[[2]int64]int, len(pairs))
	for n, pair := range pairs {
		itemsA, itemsB = append(itemsA, pair.A.ID), append(itemsB, pair.B.ID)
		places[[2]int64{pair.A.ID, pair.B.ID}] = n
	}
	if err := r.db.SelectContext(ctx, &found, readConfirmations, itemsA, itemsB, a.Variant, b.Variant); err != nil {
		return pg.Classify("read the confirmations", err)
	}
	ofA, ofB := map[int64]*measure.Fresh{}, map[int64]*measure.Fresh{}
	for _, one := range found {
		if n, isShown := places[[2]int64{one.ItemA, one.ItemB}]; isShown {
			confirmed := &measure.Confirmed{A: measure.Fresh{First: one.FirstA, Last: one.LastA},
				B: measure.Fresh{First: one.FirstB, Last: one.LastB}}
			pairs[n].Confirmed, ofA[one.ItemA], ofB[one.ItemB] = confirmed, &confirmed.A, &confirmed.B
		}
	}
	if len(ofA) == 0 {
		return nil
	}
	if err := r.addFresh(ctx, a.Variant, ofA); err != nil {
		return err
	}
	if err := r.addFresh(ctx, b.Variant, ofB); err != nil {
		return err
	}
	measure.ConfirmQuestions(pairs)
	return nil
}

// addFresh adds the results of the fresh runs of one side's questions, keyed by item id.
func (r Report) addFresh(ctx context.Context, variant int, of map[int64]*measure.Fresh) error {
	type row struct {
		ItemID    int64  `db:"item_id"`
		AnswerKey []byte `db:"answer_key"`
		Passed    *bool  `db:"passed"`
	}
	var items, firsts, lasts pq.Int64Array
	for item, fresh := range of {
		items, firsts, lasts = append(items, item), append(firsts, int64(fresh.First)), append(lasts, int64(fresh.Last))
	}
	return pg.EachRow(ctx, r.db, "read the fresh runs", readFresh, []any{items, firsts, lasts, variant},
		func(one row) error {
			fresh := of[one.ItemID]
			fresh.Keys = append(fresh.Keys, string(one.AnswerKey))
			if one.Passed != nil {
				fresh.Judged++
				if *one.Passed {
					fresh.Passes++
				}
			}
			return nil
		})
}
