// Package meaning stores which answers to a question say the same thing, and the statistics that follow from that.
package meaning

import (
	"context"
	"database/sql/driver"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"wending/db/measure"
	"wending/db/pg"
)

// By says how the groups of a question's answers were determined.
type By string

// Equal means that the answers differ at most in format, Model that a model grouped them, and Person that a person did.
const (
	Equal  By = "equal"
	Model  By = "model"
	Person By = "person"
)

// Current returns models' current groupings of a task's answers, keyed by item id.
func Current(ctx context.Context, db sqlx.QueryerContext, taskID uuid.UUID) (map[int64]Grouping, error) {
	const read = `
		SELECT m.item_id, m.keys, m.groups, m.unsure, m.notes, m.is_default
		FROM evaluation_items i
		JOIN meanings m ON m.item_id = i.id AND m.is_current
		WHERE i.task_id = $1`
	var rows []struct {
		ItemID int64 `db:"item_id"`
		Grouping
	}
	if err := sqlx.SelectContext(ctx, db, &rows, read, taskID); err != nil {
		return nil, pg.Classify("read the groupings of answers", err)
	}
	byItem := make(map[int64]Grouping, len(rows))
	for _, row := range rows {
		byItem[row.ItemID] = row.Grouping
	}
	return byItem, nil
}

// Import stores the groupings of a task that comes from another installation, keyed by question id.
func Import(ctx context.Context, tx *sqlx.Tx, taskID uuid.UUID, said map[string]Grouping) error {
	const store = `
		INSERT INTO meanings (item_id, target, keys, groups, unsure, notes, is_default, calls, attempts, latency_ms)
		SELECT i.id, t.meaning_target, $3, $4, $5, $6, $7, 0, 0, 0
		FROM evaluation_tasks t
		JOIN evaluation_items i ON i.task_id = t.id AND i.question_id = $2
		WHERE t.id = $1 AND t.meaning_target IS NOT NULL`
	for questionID, one := range said {
		if _, err := tx.ExecContext(ctx, store, taskID, questionID, one.Keys, one.Groups, one.Unsure, one.Notes,
			one.IsDefault); err != nil {
			return pg.Classify("store the groupings of answers", err)
		}
	}
	return nil
}

// Bys lists all values of By.
var Bys = []By{Equal, Model, Person}

// Grouping holds a model's decision on which answers to a question say the same thing.
type Grouping struct {
	// Keys, Groups and Unsure are parallel: they hold, for each answer, its key, the number of its group, from 0, and
	// whether the group is uncertain. Notes has a line for each group.
	Keys   pq.ByteaArray  `db:"keys"`
	Groups pq.Int64Array  `db:"groups"`
	Unsure pq.BoolArray   `db:"unsure"`
	Notes  pq.StringArray `db:"notes"`
	// IsDefault reports that the model gave no usable grouping.
	IsDefault bool `db:"is_default"`
}

// NewGrouping returns a grouping without answers.
func NewGrouping(notes []string, isDefault bool) Grouping {
	return Grouping{pq.ByteaArray{}, pq.Int64Array{}, pq.BoolArray{}, append(pq.StringArray{}, notes...), isDefault}
}

// Add adds an answer to a grouping.
func (m *Grouping) Add(key []byte, group int, isUnsure bool) {
	m.Keys, m.Groups, m.Unsure = append(m.Keys, key), append(m.Groups, int64(group)), append(m.Unsure, isUnsure)
}

// groups returns the same grouping, keyed by answer.
func (m Grouping) groups() Groups {
	of := Groups{Of: map[string]int{}, Unsure: map[string]bool{}}
	for n, key := range m.Keys {
		of.Of[string(key)], of.Unsure[string(key)] = int(m.Groups[n]), m.Unsure[n]
	}
	return of
}

// Covers is the SQL condition that the grouping m includes every current answer to the item i.
const Covers = `NOT EXISTS (
		SELECT FROM evaluation_runs r WHERE r.item_id = i.id AND r.is_current AND r.answer_key IS NOT NULL
		AND r.answer_key <> ALL (m.keys))`

// Supersede marks the current groupings of items as replaced, within the transaction that stores newer ones.
func Supersede(ctx context.Context, tx *sqlx.Tx, itemIDs []int64) error {
	const supersede = `UPDATE meanings SET is_current = false WHERE item_id = ANY ($1) AND is_current`
	_, err := tx.ExecContext(ctx, supersede, pq.Int64Array(itemIDs))
	return pg.Classify("replace groupings", err)
}

// LockItems locks, in the order of their ids, the items whose statistics the caller's transaction changes.
func LockItems(ctx context.Context, tx *sqlx.Tx, itemIDs []int64) error {
	const lock = `SELECT id FROM evaluation_items WHERE id = ANY ($1) ORDER BY id FOR NO KEY UPDATE`
	_, err := tx.ExecContext(ctx, lock, pq.Int64Array(itemIDs))
	return pg.Classify("lock the questions", err)
}

// groupedItem holds everything that determines the meaning of an item's answers.
type groupedItem struct {
	ID          int64 `db:"id"`
	RunsPerItem int   `db:"runs_per_item"`
	Contents    int   `db:"contents"`
	HasMeaning  bool  `db:"has_meaning"`
	Grouping
	// Lengths has the number of runs of each variant, from the stored statistics.
	Lengths  pq.Int64Array `db:"lengths"`
	variants [][]measure.Answer
	// corrections holds people's groupings, keyed by variant.
	corrections map[int]Correction
}

// Apply updates the statistics of items to reflect how their answers are grouped by meaning, in a transaction that
// has locked the items (LockItems). Items whose tasks do not group answers, or that are not assessed yet, are left
// alone.
func Apply(ctx context.Context, tx *sqlx.Tx, itemIDs []int64) error {
	const read = `
		SELECT i.id, t.runs_per_item, q.contents, m.id IS NOT NULL AS has_meaning,
		coalesce(m.is_default, false) AS is_default,
			coalesce(m.keys, '{}') AS keys, coalesce(m.groups, '{}') AS groups, coalesce(m.unsure, '{}') AS unsure,
			coalesce(m.notes, '{}') AS notes,
			(SELECT array_agg(length(v.letters) ORDER BY v.variant) FROM question_statistics v WHERE v.item_id = i.id) AS lengths
		FROM evaluation_items i
		JOIN evaluation_tasks t ON t.id = i.task_id AND t.meaning_target IS NOT NULL
		JOIN question_statistics q ON q.item_id = i.id AND q.variant = 1 AND q.contents IS NOT NULL
		LEFT JOIN meanings m ON m.item_id = i.id AND m.is_current
		WHERE i.id = ANY ($1)
		ORDER BY i.id`
	const readRuns = `
		SELECT item_id, variant, run_index, answer_key
		FROM evaluation_runs
		WHERE item_id = ANY ($1) AND is_current`
	var items []groupedItem
	if err := tx.SelectContext(ctx, &items, read, pq.Int64Array(itemIDs)); err != nil {
		return pg.Classify("read the groupings of answers", err)
	}
	var runs []struct {
		ItemID    int64  `db:"item_id"`
		Variant   int    `db:"variant"`
		RunIndex  int    `db:"run_index"`
		AnswerKey []byte `db:"answer_key"`
	}
	if len(items) == 0 {
		return nil
	}
	if err := tx.SelectContext(ctx, &runs, readRuns, pq.Int64Array(itemIDs)); err != nil {
		return pg.Classify("read the keys of answers", err)
	}
	corrections, err := correctionsOf(ctx, tx, itemIDs)
	if err != nil {
		return err
	}
	byID := map[int64]*groupedItem{}
	for n := range items {
		item := &items[n]
		byID[item.ID], item.corrections = item, corrections[item.ID]
		for _, length := range item.Lengths {
			answers := make([]measure.Answer, length)
			for place := range answers {
				answers[place] = measure.Answer{IsMissing: true, IsExtra: place >= item.RunsPerItem}
			}
			item.variants = append(item.variants, answers)
		}
	}
	for _, run := range runs {
		item := byID[run.ItemID]
		if item != nil && run.Variant <= len(item.variants) && run.RunIndex <= len(item.variants[run.Variant-1]) {
			answer := &item.variants[run.Variant-1][run.RunIndex-1]
			answer.Key, answer.IsMissing = run.AnswerKey, false
		}
	}
	return store(ctx, tx, items)
}

// grouped returns, for each variant, the groups of its answers and how they were determined; both are empty if unknown.
func (g groupedItem) grouped() (of []Groups, by []By) {
	of, by = make([]Groups, len(g.variants)), make([]By, len(g.variants))
	known, next := g.groups(), len(g.Keys)
	if !g.HasMeaning || g.IsDefault {
		known = Groups{Of: map[string]int{}}
	}
	for v, answers := range g.variants {
		switch {
		case g.Contents <= 1:
			of[v], by[v] = Groups{Of: map[string]int{}}, Equal
			for _, answer := range answers {
				of[v].Of[string(answer.Key)] = 0
			}
			continue
		case known.cover(answers):
			of[v], by[v] = known, Model
		}
		if said, is := g.corrections[v+1]; is && said.WithdrawnBy == nil {
			corrected, after, stands := said.corrected(answers, known, next)
			if stands && corrected.cover(answers) {
				of[v], by[v], next = corrected, Person, after
			}
		}
	}
	return of, by
}

// hasFailed reports whether a model was asked about the current answers of a variant, and gave no usable grouping.
func (g groupedItem) hasFailed(variant int) bool {
	return g.Contents > 1 && g.HasMeaning && g.IsDefault && g.groups().cover(g.variants[variant])
}

func store(ctx context.Context, tx *sqlx.Tx, items []groupedItem) error {
	const store = `
		UPDATE question_statistics q
		SET meaning_by = nullif(g.by, ''), meaning_letters = nullif(g.letters, ''), meaning_agreement = g.agreement,
		meaning_groups = g.groups, meaning_entropy = g.entropy,
			meaning_unsure = CAST(g.unsure AS smallint[]), meaning_notes = CAST(g.notes AS text[]),
			meaning_default = g.has_failed, meaning_version = g.version,
			meaning_reviewer = CASE WHEN g.by = 'person' THEN g.reviewer END
		FROM unnest($1::bigint[], $2::int[], $3::text[], $4::text[], $5::float8[], $6::int[], $7::float8[], $8::text[],
		$9::text[], $10::bool[], $11::int[], $12::text[])
			AS g (item_id, variant, by, letters, agreement, groups, entropy, unsure, notes, has_failed, version, reviewer)
		WHERE q.item_id = g.item_id AND q.variant = g.variant`
	var ids, variants pq.Int64Array
	var bys, letters pq.StringArray
	var agreements, entropies []*float64
	var groups []*int
	var failed pq.BoolArray
	var unsure, notes []*string // arrays of arrays of different lengths are passed as text
	var versions pq.Int64Array
	var reviewers pq.StringArray
	for _, item := range items {
		of, by := item.grouped()
		all, order := Sum(item.variants, of)
		lines := make(pq.StringArray, len(order))
		for n, group := range order {
			if item.Contents > 1 && group < len(item.Notes) {
				lines[n] = item.Notes[group]
			}
		}
		for n, one := range all {
			ids, variants, bys, letters = append(ids, item.ID), append(variants, int64(n+1)), append(bys, string(by[n])),
				append(letters, one.Letters)
			versions, reviewers = append(versions, int64(item.corrections[n+1].Version)),
				append(reviewers, item.corrections[n+1].Reviewer)
			agreements, entropies, failed = append(agreements, one.Agreement), append(entropies, one.Entropy),
				append(failed, by[n] == "" && item.hasFailed(n))
			if by[n] == "" {
				letters[len(letters)-1], agreements[len(agreements)-1], entropies[len(entropies)-1] = "", nil, nil
				groups, unsure, notes = append(groups, nil), append(unsure, nil), append(notes, nil)
				continue
			}
			uncertain := pq.Int64Array{}
			for _, run := range one.Unsure {
				uncertain = append(uncertain, int64(run))
			}
			groups, unsure, notes = append(groups, &one.Distinct), append(unsure, arrayText(uncertain)),
				append(notes, arrayText(lines))
		}
	}
	_, err := tx.ExecContext(ctx, store, ids, variants, bys, letters, pq.Array(agreements), pq.Array(groups),
		pq.Array(entropies), pq.Array(unsure), pq.Array(notes), failed, versions, reviewers)
	return pg.Classify("store the meanings of answers", err)
}

// arrayText returns an array in PostgreSQL's text notation; nil if it has none.
func arrayText(array driver.Valuer) *string {
	value, err := array.Value()
	text, isText := value.(string)
	if err != nil || !isText {
		return nil
	}
	return &text
}

// EndLost records that a model gave no grouping for units because its calls were lost too many times; code and message
// describe the error.
func EndLost(ctx context.Context, tx *sqlx.Tx, units []int64, code, message string) error {
	const items = `SELECT item_id FROM units WHERE id = ANY ($1)`
	const store = `
		INSERT INTO meanings (item_id, unit_id, target, keys, groups, unsure, notes, is_default, calls, attempts, latency_ms,
		error_code, error_message)
		SELECT u.item_id, u.id, u.target, a.keys, array_agg(place ORDER BY place), array_agg(true),
		array_agg(CAST('' AS text)), true, u.losses, u.losses, 0, $2, $3
		FROM units u
		CROSS JOIN LATERAL (
			SELECT coalesce(array_agg(DISTINCT r.answer_key), '{}') AS keys
			FROM evaluation_runs r
			WHERE r.item_id = u.item_id AND r.is_current AND r.answer_key IS NOT NULL) a
		CROSS JOIN LATERAL generate_series(0, cardinality(a.keys) - 1) place
		WHERE u.id = ANY ($1)
		GROUP BY u.id, a.keys`
	var ids []int64
	if err := tx.SelectContext(ctx, &ids, items, pq.Int64Array(units)); err != nil {
		return pg.Classify("read the questions of lost groupings", err)
	}
	if err := LockItems(ctx, tx, ids); err != nil {
		return err
	}
	if err := Supersede(ctx, tx, ids); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, store, pq.Int64Array(units), code, message); err != nil {
		return pg.Classify("end groupings that were lost too often", err)
	}
	return Apply(ctx, tx, ids)
}
