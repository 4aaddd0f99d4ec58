package report

import (
	"bytes"
	"context"
	"runtime"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/lib/pq"
	"golang.org/x/sync/errgroup"

	"wending/db/measure"
	"wending/db/measure/facts"
	"wending/db/pg"
)

const (
	// comparedText is how many characters of each answer are compared, and comparedAtOnce how many pairs of answers are
	// in memory at once.
	comparedText   = 100_000
	comparedAtOnce = 32
)

// given identifies the first run that gave the most common answer to a question.
type given struct {
	ItemID int64  `db:"item_id"`
	RunID  int64  `db:"id"`
	Key    []byte `db:"answer_key"`
}

// commonRun returns the run_index of the first run with the most frequent letter; 0 if no run has an answer.
func commonRun(letters string) (first int) {
	counts, firsts := map[rune]int{}, map[rune]int{}
	most, index := 0, 0
	for _, letter := range letters {
		index++
		if letter == '-' {
			continue
		}
		if counts[letter]++; counts[letter] == 1 {
			firsts[letter] = index
		}
		if n := counts[letter]; n > most || n == most && firsts[letter] < first {
			most, first = n, firsts[letter]
		}
	}
	return first
}

// commonRuns returns the runs that gave the most common answers to a variant's questions, keyed by item id.
func (r Report) commonRuns(ctx context.Context, questions []measure.ComparedQuestion,
	variant int) (map[int64]given, error) {
	const read = `
		SELECT r.item_id, r.id, r.answer_key
		FROM unnest($1::bigint[], $2::int[]) w (item_id, run_index)
		JOIN evaluation_runs r ON r.item_id = w.item_id AND r.variant = $3 AND r.run_index = w.run_index AND r.is_current
		WHERE r.answer_key IS NOT NULL`
	var items, indexes pq.Int64Array
	for _, question := range questions {
		if index := commonRun(question.Letters); index > 0 {
			items, indexes = append(items, question.ID), append(indexes, int64(index))
		}
	}
	var runs []given
	if err := r.db.SelectContext(ctx, &runs, read, items, indexes, variant); err != nil {
		return nil, pg.Classify("find the runs that gave the most common answers", err)
	}
	byItem := make(map[int64]given, len(runs))
	for _, run := range runs {
		byItem[run.ItemID] = run
	}
	return byItem, nil
}

// between is a row of compared_answers.
type between struct {
	AItemID     int64         `db:"a_item_id"`
	BItemID     int64         `db:"b_item_id"`
	ARunID      int64         `db:"a_run_id"`
	BRunID      int64         `db:"b_run_id"`
	Level       measure.Level `db:"level"`
	Similarity  *float64      `db:"similarity"`
	FactsDiffer facts.Differ  `db:"facts_differ"`
	Facts       Facts         `db:"facts"`
}

const readBetween = `
	SELECT a_item_id, b_item_id, a_run_id, b_run_id, level, similarity, facts_differ, CASE WHEN $6 THEN facts END AS facts
	FROM compared_answers
	WHERE a_item_id = ANY ($1) AND b_item_id = ANY ($2) AND a_variant = $3 AND b_variant = $4 AND revision = $5`

// comparing holds pairs of questions whose most common answers are being compared.
type comparing struct {
	report Report
	a, b   Side
	pairs  []measure.Pair
	// ofA and ofB are the runs that gave the answers.
	ofA, ofB map[int64]given
}

// Between compares the most common answers of pairs of questions and stores the results in the pairs. It reads the
// results of earlier comparisons, with the facts if withFacts is set, and compares the other pairs for at most the
// duration within. Pairs that it does not reach stay pending.
func (r Report) Between(ctx context.Context, a, b Side, pairs []measure.Pair, withFacts bool,
	within time.Duration) error {
	deadline := time.Now().Add(within)
	c := comparing{report: r, a: a, b: b, pairs: pairs}
	questionsA, questionsB := make([]measure.ComparedQuestion, len(pairs)), make([]measure.ComparedQuestion, len(pairs))
	for n, pair := range pairs {
		questionsA[n], questionsB[n] = pair.A, pair.B
	}
	group, reading := errgroup.WithContext(ctx)
	group.Go(func() (err error) { c.ofA, err = r.commonRuns(reading, questionsA, a.Variant); return err })
	group.Go(func() (err error) { c.ofB, err = r.commonRuns(reading, questionsB, b.Variant); return err })
	if err := group.Wait(); err != nil {
		return err
	}
	open, err := c.readStored(ctx, withFacts)
	if err != nil {
		return err
	}
	for _, n := range open {
		pairs[n].IsPending = true
	}
	for len(open) > 0 && time.Now().Before(deadline) {
		now := open[:min(len(open), comparedAtOnce)]
		open = open[len(now):]
		if err := c.compare(ctx, now, deadline); err != nil {
			return err
		}
	}
	return nil
}

// findEarlier searches the 500 tasks before a launch's task for the newest one that has ended, on the same dataset.
const findEarlier = `
	SELECT t.id AS b, e.id AS a, least(t.total_variants, e.total_variants) AS variants
	FROM launches l
	JOIN evaluation_tasks t ON t.id = l.task_id
	CROSS JOIN LATERAL (
		SELECT id, total_variants
		FROM (
			SELECT id, total_variants, created_at, status, dataset_id, dataset_name
			FROM evaluation_tasks
			WHERE project_id = t.project_id AND created_at < t.created_at
			ORDER BY created_at DESC
			LIMIT 500) recent
		WHERE status IN ('SUCCEEDED', 'STOPPED') AND dataset_id IS NOT DISTINCT FROM t.dataset_id
		AND (dataset_id IS NOT NULL OR dataset_name = t.dataset_name)
		ORDER BY created_at DESC
		LIMIT 1) e
	WHERE l.id = $1`

// Earlier returns the newest task on the same dataset created before a launch's task, and the variants that both
// have, as sides to compare; empty if there is no such task.
func (r Report) Earlier(ctx context.Context, launchID uuid.UUID) (sides [][2]Side, err error) {
	var found []struct {
		A, B     uuid.UUID
		Variants int
	}
	if err := r.db.SelectContext(ctx, &found, findEarlier, launchID); err != nil {
		return nil, pg.Classify("find the earlier task on the dataset", err)
	}
	for _, one := range found {
		for variant := 1; variant <= one.Variants; variant++ {
			sides = append(sides, [2]Side{{one.A, variant}, {one.B, variant}})
		}
	}
	return sides, nil
}

// readStored fills in the stored results of the pairs, and returns the indexes of those still to be compared.
func (c *comparing) readStored(ctx context.Context, withFacts bool) (open []int, err error) {
	var itemsA, itemsB pq.Int64Array
	for _, pair := range c.pairs {
		itemsA, itemsB = append(itemsA, pair.A.ID), append(itemsB, pair.B.ID)
	}
	stored := make(map[[2]int64]between, len(c.pairs))
	arguments := []any{itemsA, itemsB, c.a.Variant, c.b.Variant, measure.Revision, withFacts}
	err = pg.EachRow(ctx, c.report.db, "read the comparison of answers", readBetween, arguments, func(row between) error {
		stored[[2]int64{row.AItemID, row.BItemID}] = row
		return nil
	})
	if err != nil {
		return nil, err
	}
	for n := range c.pairs {
		pair := &c.pairs[n]
		a, hasA := c.ofA[pair.A.ID]
		b, hasB := c.ofB[pair.B.ID]
		known, isKnown := stored[[2]int64{pair.A.ID, pair.B.ID}]
		switch {
		case !hasA || !hasB:
		case bytes.Equal(a.Key, b.Key):
			pair.Between = &measure.Between{Level: measure.Identical, Differ: facts.None}
		case isKnown && known.ARunID == a.RunID && known.BRunID == b.RunID:
			pair.Between = &measure.Between{Level: known.Level, Similarity: known.Similarity, Differ: known.FactsDiffer,
				Facts: known.Facts}
		default:
			open = append(open, n)
		}
	}
	return open, nil
}

// compare compares the answers of the pairs whose indexes are in places, and stores the results. Pairs that it does not
// reach before the deadline stay pending.
func (c *comparing) compare(ctx context.Context, places []int, deadline time.Time) error {
	const read = `SELECT id, coalesce(left(response_body, $2), '') AS text FROM evaluation_runs WHERE id = ANY ($1)`
	var ids pq.Int64Array
	for _, n := range places {
		ids = append(ids, c.ofA[c.pairs[n].A.ID].RunID, c.ofB[c.pairs[n].B.ID].RunID)
	}
	texts := make(map[int64][]byte, len(ids))
	err := pg.EachRow(ctx, c.report.db, "read the answers to compare", read, []any{ids, comparedText}, func(row struct {
		ID   int64
		Text []byte
	},
	) error {
		texts[row.ID] = row.Text
		return nil
	})
	if err != nil {
		return err
	}
	var mu sync.Mutex
	var found []int
	group, comparing := errgroup.WithContext(ctx)
	group.SetLimit(max(1, runtime.GOMAXPROCS(0)))
	for _, n := range places {
		group.Go(func() error {
			if time.Now().After(deadline) {
				return nil
			}
			a, b := c.ofA[c.pairs[n].A.ID], c.ofB[c.pairs[n].B.ID]
			between, err := measure.CompareAnswers(comparing, measure.Answer{Key: a.Key, Text: texts[a.RunID]},
				measure.Answer{Key: b.Key, Text: texts[b.RunID]})
			if err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			c.pairs[n].Between, c.pairs[n].IsPending = &between, false
			found = append(found, n)
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return c.store(ctx, found)
}

const storeBetween = `
	INSERT INTO compared_answers (a_item_id, a_variant, b_item_id, b_variant, a_run_id, b_run_id, revision, level,
	similarity, facts_differ, facts)
	SELECT f.a_item_id, $8, f.b_item_id, $9, f.a_run_id, f.b_run_id, $10, f.level, f.similarity, f.facts_differ,
	CAST(nullif(f.facts, '') AS jsonb)
	FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::text[], $6::float8[], $7::text[], $11::text[])
		AS f (a_item_id, b_item_id, a_run_id, b_run_id, level, similarity, facts_differ, facts)
	JOIN evaluation_items a ON a.id = f.a_item_id
	JOIN evaluation_items b ON b.id = f.b_item_id
	ORDER BY f.a_item_id, f.b_item_id -- a fixed order keeps two readers from deadlocking
	ON CONFLICT (a_item_id, a_variant, b_item_id, b_variant) DO UPDATE
	SET a_run_id = excluded.a_run_id, b_run_id = excluded.b_run_id, revision = excluded.revision, level = excluded.level,
		similarity = excluded.similarity, facts_differ = excluded.facts_differ, facts = excluded.facts`

// store stores the comparisons of the pairs whose indexes are in places.
func (c *comparing) store(ctx context.Context, places []int) error {
	if len(places) == 0 {
		return nil
	}
	var itemsA, itemsB, runsA, runsB pq.Int64Array
	var levels, differ, lists pq.StringArray
	var similarities []*float64
	for _, n := range places {
		pair := c.pairs[n]
		stated, err := list(pair.Between.Facts)
		if err != nil {
			return err
		}
		itemsA, itemsB = append(itemsA, pair.A.ID), append(itemsB, pair.B.ID)
		runsA, runsB = append(runsA, c.ofA[pair.A.ID].RunID), append(runsB, c.ofB[pair.B.ID].RunID)
		levels, similarities = append(levels, string(pair.Between.Level)), append(similarities, pair.Between.Similarity)
		differ, lists = append(differ, string(pair.Between.Differ)), append(lists, stated)
	}
	_, err := c.report.db.ExecContext(ctx, storeBetween, itemsA, itemsB, runsA, runsB, levels,
		pq.Array(similarities), differ,
		c.a.Variant, c.b.Variant, measure.Revision, lists)
	return pg.Classify("store the comparison of answers", err)
}

// SameAnswers returns the items of the first side to which both sides gave the same set of answers, regardless of how
// many times each answer occurs.
func (r Report) SameAnswers(ctx context.Context, a, b Side, pairs []measure.Pair) (map[int64]bool, error) {
	const find = `
		SELECT w.a
		FROM unnest($1::bigint[], $2::bigint[]) w (a, b)
		WHERE (
			SELECT array_agg(DISTINCT answer_key ORDER BY answer_key)
			FROM evaluation_runs
			WHERE item_id = w.a AND variant = $3 AND is_current) = (
			SELECT array_agg(DISTINCT answer_key ORDER BY answer_key)
			FROM evaluation_runs
			WHERE item_id = w.b AND variant = $4 AND is_current)`
	var itemsA, itemsB pq.Int64Array
	for _, pair := range pairs {
		itemsA, itemsB = append(itemsA, pair.A.ID), append(itemsB, pair.B.ID)
	}
	var found []int64
	if err := r.db.SelectContext(ctx, &found, find, itemsA, itemsB, a.Variant, b.Variant); err != nil {
		return nil, pg.Classify("find equal answers", err)
	}
	same := make(map[int64]bool, len(found))
	for _, id := range found {
		same[id] = true
	}
	return same, nil
}
