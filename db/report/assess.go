package report

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"wending/db"
	"wending/db/meaning"
	"wending/db/measure"
	"wending/db/pg"
)

// Assessor reads answers and stores how alike they are, in separate statements or within its caller's transaction.
type Assessor struct{ db sqlx.ExtContext }

// Assessor returns an assessor that works outside of transactions.
func (r Report) Assessor() Assessor { return Assessor{r.db} }

// AssessorIn returns an assessor that works within a transaction.
func AssessorIn(tx *sqlx.Tx) Assessor { return Assessor{tx} }

// Assessed is the result of assessing the answers to an item.
type Assessed struct {
	ItemID int64
	// NewestRunID and Runs identify the current runs, over all variants, from which the result was computed.
	NewestRunID int64
	Runs        int
	// Variants are in the order of their numbers.
	Variants []measure.Question
	// Differences describe how to turn answer A into each of the others.
	Differences []measure.Difference
	// Contents is the number of answers that differ from each other in more than format; nil for a task whose answers are
	// not grouped.
	Contents *int
}

// AnsweredRun is the part of a current run that is needed to assess its question.
type AnsweredRun struct {
	ItemID    int64  `db:"item_id"`
	ID        int64  `db:"id"`
	Variant   int    `db:"variant"`
	RunIndex  int    `db:"run_index"`
	AnswerKey []byte `db:"answer_key"`
	// Text is the beginning of the answer, set only on the first run that gave the answer; nil if all answers of the
	// item are equal and there is no standard answer to compare them with.
	Text *string `db:"text"`
	// StandardAnswer is the beginning of the standard answer; it is only set on the item's first run.
	StandardAnswer string `db:"standard_answer"`
}

// readAnswers reads texts once for each distinct answer, and only if there are several, or a standard answer.
const readAnswers = `
	SELECT r.item_id, r.id, r.variant, r.run_index, r.answer_key, coalesce(s.standard_answer, '') AS standard_answer,
		CASE WHEN r.is_first AND (r.distinct_answers > 1 OR s.standard_answer IS NOT NULL)
		THEN left(r.response_body, $2) END AS text
	FROM (
		SELECT *, sum(CAST(is_first AS int)) OVER (PARTITION BY item_id) AS distinct_answers,
			row_number() OVER (PARTITION BY item_id ORDER BY variant, run_index) AS place
		FROM (
			SELECT item_id, id, variant, run_index, answer_key, response_body,
				answer_key IS NOT NULL AND row_number() OVER (PARTITION BY item_id, answer_key ORDER BY variant,
				run_index) = 1 AS is_first
			FROM evaluation_runs
			WHERE item_id = ANY ($1) AND is_current) own) r
	LEFT JOIN LATERAL (
		SELECT CASE WHEN r.place = 1 THEN left(i.standard_answer, $2) ELSE '' END AS standard_answer
		FROM evaluation_items i
		WHERE i.id = r.item_id AND i.standard_answer <> '' AND (r.is_first OR r.place = 1)) s ON true
	ORDER BY r.item_id, r.variant, r.run_index`

// EachAnsweredRun calls yield with the current runs of items, item by item, in order of variant and run_index. limit is
// how many characters of a text are read.
func (a Assessor) EachAnsweredRun(ctx context.Context, itemIDs []int64, limit int,
	yield func(AnsweredRun) error) error {
	return pg.EachRow(ctx, a.db, "read the answers", readAnswers, []any{pq.Int64Array(itemIDs), limit}, yield)
}

// Whole returns those of the items that have all their planned runs.
func (r Report) Whole(ctx context.Context, itemIDs []int64) (whole []int64, err error) {
	const find = `
		SELECT i.id
		FROM evaluation_items i
		JOIN evaluation_tasks t ON t.id = i.task_id
		WHERE i.id = ANY ($1)
		  AND (SELECT count(*) FROM evaluation_runs r WHERE r.item_id = i.id AND r.is_current) = ` + db.RunsOfItem + `
		ORDER BY i.id`
	err = r.db.SelectContext(ctx, &whole, find, pq.Int64Array(itemIDs))
	return whole, pg.Classify("find questions that have all their runs", err)
}

const storeAssessed = `
	INSERT INTO question_statistics AS q (item_id, variant, newest_run_id, runs, level, agreement, consensus, similarity,
	answers, letters, differences,
		facts_differ, facts, expected_facts, contents, revision)
	SELECT g.item_id, g.variant, g.newest_run_id, g.runs, g.level, g.agreement, g.consensus, g.similarity, g.answers,
	g.letters, g.differences,
		nullif(g.facts_differ, ''), CAST(nullif(g.facts, '') AS jsonb), CAST(nullif(g.expected_facts, '') AS jsonb),
		g.contents, $16
	FROM unnest($1::bigint[], $2::int[], $3::bigint[], $4::int[], $5::text[], $6::float8[], $7::float8[], $8::float8[],
	$9::int[], $10::text[], $11::text[],
			$12::text[], $13::text[], $14::text[], $15::int[])
		AS g (item_id, variant, newest_run_id, runs, level, agreement, consensus, similarity, answers, letters, differences,
		facts_differ, facts, expected_facts, contents)
	WHERE (SELECT true FROM evaluation_items WHERE id = g.item_id) -- a look-up for each row of g, because there are few
	ORDER BY g.item_id, g.variant
	ON CONFLICT (item_id, variant) DO UPDATE
	SET newest_run_id = excluded.newest_run_id, runs = excluded.runs, level = excluded.level,
	agreement = excluded.agreement,
		consensus = excluded.consensus, similarity = excluded.similarity, answers = excluded.answers,
		letters = excluded.letters,
		differences = excluded.differences, facts_differ = excluded.facts_differ, facts = excluded.facts,
		expected_facts = excluded.expected_facts, contents = excluded.contents, revision = excluded.revision,
		meaning_by = NULL, meaning_letters = NULL, meaning_agreement = NULL, meaning_groups = NULL, meaning_entropy = NULL,
		meaning_unsure = NULL, meaning_notes = NULL,
		meaning_default = false
	WHERE (q.newest_run_id, q.runs, q.revision) <> (excluded.newest_run_id, excluded.runs, excluded.revision)
	OR q.contents IS NULL AND excluded.contents IS NOT NULL`

// StoreGrouped is like Store, but for a task whose answers a model groups by meaning: it also stores the values that
// follow from existing groupings.
func (a Assessor) StoreGrouped(ctx context.Context, assessed []Assessed) error {
	ids := make([]int64, len(assessed))
	for n, one := range assessed {
		ids[n] = one.ItemID
	}
	store := func(tx *sqlx.Tx) error {
		if err := meaning.LockItems(ctx, tx, ids); err != nil {
			return err
		}
		if err := AssessorIn(tx).Store(ctx, assessed); err != nil {
			return err
		}
		return meaning.Apply(ctx, tx, ids)
	}
	if tx, isIn := a.db.(*sqlx.Tx); isIn {
		return store(tx)
	}
	return a.db.(*pg.Pool).InTx(ctx, "store the similarity of answers", store)
}

// Store stores assessments. It skips items that were deleted in the meantime.
func (a Assessor) Store(ctx context.Context, assessed []Assessed) error {
	var ids, variants, newest, runs, answers pq.Int64Array
	var levels, letters, differences, differ, facts, expected pq.StringArray
	var agreements, consensuses, similarities []*float64
	var contents []*int
	for _, one := range assessed {
		shared := joinDifferences(one.Differences)
		for n, q := range one.Variants {
			ids, variants, newest, runs = append(ids, one.ItemID), append(variants, int64(n+1)), append(newest, one.NewestRunID),
				append(runs, int64(one.Runs))
			answers, levels, letters, differences = append(answers, int64(q.Distinct)), append(levels, string(q.Level)),
				append(letters, q.Letters), append(differences, shared)
			stated, err := list(q.Facts)
			if err != nil {
				return err
			}
			contradicted, err := list(q.Expected)
			if err != nil {
				return err
			}
			differ, facts, expected = append(differ, string(q.Differ)), append(facts, stated), append(expected, contradicted)
			agreements, consensuses, similarities = append(agreements, q.Agreement), append(consensuses, q.Consensus),
				append(similarities, q.Similarity)
			contents = append(contents, one.Contents)
			shared = "" // shared values are stored only with the first variant
		}
	}
	_, err := a.db.ExecContext(ctx, storeAssessed, ids, variants, newest, runs, levels, pq.Array(agreements),
		pq.Array(consensuses), pq.Array(similarities),
		answers, letters, differences, differ, facts, expected, pq.Array(contents), measure.Revision)
	return pg.Classify("store the similarity of answers", err)
}

// list encodes a list as JSON; an empty list becomes an empty text, which storeAssessed stores as NULL.
func list[T any](all []T) (string, error) {
	if len(all) == 0 {
		return "", nil
	}
	text, err := json.Marshal(all)
	return string(text), err
}

// Question is an item's part of a report, without its answers.
type Question struct {
	// Number is the item's number, from 1, in the order in which pages list the items.
	Number int `db:"number"`
	// ID is the item's id in the database.
	ID int64 `db:"id"`
	// Variants are in the order of their numbers; empty while the item is not assessed.
	Variants []VariantLikeness
	// Differences describe how to turn answer A into each of the others.
	Differences *string `db:"differences"`
	// NewestRunID and Runs identify the current runs, over all variants, from which the assessment was computed; nil
	// until there is one.
	NewestRunID *int64 `db:"newest_run_id"`
	Runs        *int   `db:"runs"`
}

// VariantLikeness is how alike the answers of one variant to an item are.
type VariantLikeness struct {
	Variant int `db:"variant"`
	Likeness
}

// Likeness returns how alike the answers of the variant with the given number are; its fields are nil while the item is
// not assessed.
func (q Question) Likeness(variant int) Likeness {
	for _, one := range q.Variants {
		if one.Variant == variant {
			return one.Likeness
		}
	}
	return Likeness{}
}

// Notes returns the notes on the groups of the question's answers that say the same thing, over all its variants.
func (q Question) Notes() []string {
	for _, one := range q.Variants {
		if one.By != nil {
			return one.Known.Notes
		}
	}
	return nil
}

// Of reports whether the assessment was computed from the given current runs of the item.
func (q Question) Of(runs []db.Run) bool {
	newest := int64(0)
	for _, run := range runs {
		newest = max(newest, run.ID)
	}
	return q.NewestRunID != nil && *q.NewestRunID == newest && *q.Runs == len(runs)
}

// joinDifferences writes differences in the format that ParseDifferences reads.
func joinDifferences(all []measure.Difference) string {
	texts := make([]string, len(all))
	for n, difference := range all {
		texts[n] = difference.String()
	}
	return strings.Join(texts, " ")
}

// ParseDifferences returns the differences from the most common answer to each of the others.
func (q Question) ParseDifferences() (all []measure.Difference, err error) {
	for _, text := range strings.Fields(*q.Differences) {
		difference, err := measure.ParseDifference(text)
		if err != nil {
			return nil, err
		}
		all = append(all, difference)
	}
	return all, nil
}

// Questions returns the given items of a task as reports show them, keyed by item id.
func (r Report) Questions(ctx context.Context, taskID uuid.UUID, itemIDs []int64) (map[int64]Question, error) {
	const read = `
		SELECT n.number, n.id, coalesce(q.variant, 0) AS variant, q.differences, q.newest_run_id, q.runs,
			` + likenessColumns + `
		FROM (SELECT id, row_number() OVER (ORDER BY sort_key) AS number FROM evaluation_items WHERE task_id = $1) n
		LEFT JOIN question_statistics q ON q.item_id = n.id
		WHERE n.id = ANY ($2)
		ORDER BY n.id, q.variant`
	var rows []struct {
		Question
		VariantLikeness
	}
	if err := r.db.SelectContext(ctx, &rows, read, taskID, pq.Int64Array(itemIDs)); err != nil {
		return nil, pg.Classify("read the similarity of answers", err)
	}
	byID := make(map[int64]Question, len(itemIDs))
	for _, row := range rows {
		question, isThere := byID[row.ID]
		if !isThere {
			question = row.Question // shared values are stored with the first variant
		}
		if row.Variant > 0 {
			question.Variants = append(question.Variants, row.VariantLikeness)
		}
		byID[row.ID] = question
	}
	return byID, nil
}

// UnassessedTask returns a task that ended before all its questions were assessed, because of an earlier version or
// an internal fault; uuid.Nil if there is none.
func (r Report) UnassessedTask(ctx context.Context) (taskID uuid.UUID, err error) {
	const find = `
		SELECT id
		FROM evaluation_tasks
		WHERE NOT is_assessed AND status IN ('SUCCEEDED', 'STOPPED', 'FAILED')
		ORDER BY id
		LIMIT 1`
	err = r.db.GetContext(ctx, &taskID, find)
	if pg.IsNoRows(err) {
		return uuid.Nil, nil
	}
	return taskID, pg.Classify("look for tasks to assess", err)
}
