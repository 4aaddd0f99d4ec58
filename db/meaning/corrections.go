package meaning

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"wending/db/pg"
)

// Correction is a person's decision on which of a variant's answers to a question say the same thing. It takes
// precedence over models' groupings, existing and future, for as long as the answers remain.
type Correction struct {
	Variant int `db:"variant"`
	// Version counts the corrections of a question and variant by all reviewers, from 1.
	Version   int       `db:"version"`
	Reviewer  string    `db:"reviewer"`
	CreatedAt time.Time `db:"created_at"`
	// WithdrawnBy is the name of the person who withdrew the correction; nil if nobody did.
	WithdrawnBy *string `db:"withdrawn_by"`
	// Keys, Groups and Contents are parallel: they hold, for each answer, its key, the number of its group, from 0, and
	// the number of its content. Answers with equal Contents differ at most in format.
	Keys     pq.ByteaArray `db:"keys"`
	Groups   pq.Int64Array `db:"groups"`
	Contents pq.Int64Array `db:"contents"`
}

const correctionColumns = `c.item_id, c.variant, c.version, c.reviewer, c.created_at, c.withdrawn_by, c.keys, c.groups,
	c.contents`

// correctionRow is a correction with its item.
type correctionRow struct {
	ItemID int64 `db:"item_id"`
	Correction
}

// correctionsOf returns the latest corrections of items, including withdrawn ones, keyed by item id and variant.
func correctionsOf(ctx context.Context, tx *sqlx.Tx, itemIDs []int64) (map[int64]map[int]Correction, error) {
	const read = `
		SELECT ` + correctionColumns + `
		FROM corrections c
		WHERE c.item_id = ANY ($1) AND c.is_current`
	var rows []correctionRow
	if err := tx.SelectContext(ctx, &rows, read, pq.Int64Array(itemIDs)); err != nil {
		return nil, pg.Classify("read people's groupings", err)
	}
	byItem := map[int64]map[int]Correction{}
	for _, row := range rows {
		if byItem[row.ItemID] == nil {
			byItem[row.ItemID] = map[int]Correction{}
		}
		byItem[row.ItemID][row.Variant] = row.Correction
	}
	return byItem, nil
}

// Corrections returns the corrections of a task that were not withdrawn, keyed by item id and ordered by variant.
func Corrections(ctx context.Context, db sqlx.QueryerContext, taskID uuid.UUID) (map[int64][]Correction, error) {
	const read = `
		SELECT ` + correctionColumns + `
		FROM evaluation_items i
		JOIN corrections c ON c.item_id = i.id AND c.is_current AND c.withdrawn_by IS NULL
		WHERE i.task_id = $1
		ORDER BY c.item_id, c.variant`
	var rows []correctionRow
	if err := sqlx.SelectContext(ctx, db, &rows, read, taskID); err != nil {
		return nil, pg.Classify("read people's groupings", err)
	}
	byItem := map[int64][]Correction{}
	for _, row := range rows {
		byItem[row.ItemID] = append(byItem[row.ItemID], row.Correction)
	}
	return byItem, nil
}

// Store stores a correction of an item as the current one, within a transaction that has locked the item. Version must
// be one greater than the version of the current correction.
func (c Correction) Store(ctx context.Context, tx *sqlx.Tx, itemID int64) error {
	const replace = `UPDATE corrections SET is_current = false WHERE item_id = $1 AND variant = $2 AND is_current`
	const insert = `
		INSERT INTO corrections (item_id, variant, version, reviewer, keys, groups, contents)
		VALUES ($1, $2, $3, $4, $5, $6, $7)`
	if _, err := tx.ExecContext(ctx, replace, itemID, c.Variant); err != nil {
		return pg.Classify("replace a person's grouping", err)
	}
	_, err := tx.ExecContext(ctx, insert, itemID, c.Variant, c.Version, c.Reviewer, c.Keys, c.Groups, c.Contents)
	return pg.Classify("store a person's grouping", err)
}

// ImportCorrections stores the corrections of an imported task, keyed by question id, as the current ones.
func ImportCorrections(ctx context.Context, tx *sqlx.Tx, taskID uuid.UUID, said map[string][]Correction) error {
	const store = `
		INSERT INTO corrections (item_id, variant, version, reviewer, keys, groups, contents, created_at)
		SELECT i.id, $3, $4, $5, $6, $7, $8, $9
		FROM evaluation_items i
		WHERE i.task_id = $1 AND i.question_id = $2`
	for questionID, all := range said {
		for _, one := range all {
			if _, err := tx.ExecContext(ctx, store, taskID, questionID, one.Variant, one.Version, one.Reviewer, one.Keys,
				one.Groups, one.Contents, one.CreatedAt); err != nil {
				return pg.Classify("store people's groupings", err)
			}
		}
	}
	return nil
}

// Against returns how well the groupings made by a task's model agree with people's corrections of them.
func Against(ctx context.Context, db sqlx.QueryerContext, taskID uuid.UUID) (of Reliability, err error) {
	corrections, err := Corrections(ctx, db, taskID)
	if err != nil || len(corrections) == 0 {
		return of, err
	}
	said, err := Current(ctx, db, taskID)
	if err != nil {
		return of, err
	}
	for item, all := range corrections {
		model, isGrouped := said[item]
		if !isGrouped || model.IsDefault {
			continue
		}
		groups := model.groups()
		for _, one := range all {
			of.compare(one, groups)
		}
	}
	return of.computed(), nil
}

// compare adds a correction to the counts, with one answer for each content. It does nothing if the model has not
// grouped all of the correction's answers.
func (r *Reliability) compare(said Correction, model Groups) {
	var person, found, contents []int64
	var unsure []bool
	for n, key := range said.Keys {
		group, has := model.Of[string(key)]
		switch {
		case !has:
			return
		case slices.Contains(contents, said.Contents[n]):
			continue
		}
		contents = append(contents, said.Contents[n])
		person, found = append(person, said.Groups[n]), append(found, int64(group))
		unsure = append(unsure, model.Unsure[string(key)])
	}
	r.add(person, found, unsure)
}
