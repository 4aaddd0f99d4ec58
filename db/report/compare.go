package report

import (
	"context"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/lib/pq"
	"golang.org/x/sync/errgroup"

	"wending/db"
	"wending/db/measure"
	"wending/db/pg"
)

// compared is a row of readComparable.
type compared struct {
	ID         int64  `db:"id"`
	Number     int    `db:"number"`
	QuestionID string `db:"question_id"`
	Text       string `db:"text"`
	Cluster    string `db:"cluster"`
	Standard   string `db:"standard"`
	Variant    int    `db:"variant"`
	Likeness
	SuccessRate  float64  `db:"success_rate"`
	LatencyMS    *float64 `db:"latency_ms"`
	FirstTokenMS *float64 `db:"first_token_ms"`
	TotalTokens  *float64 `db:"total_tokens"`
	Cost         *float64 `db:"cost"`
	Judged       int      `db:"judged"`
	Passes       int      `db:"passes"`
	PassShare    *float64 `db:"pass_share"`
	Score        *float64 `db:"score"`
}

const readComparable = `
	SELECT i.id, i.number, i.question_id, i.text, i.standard, i.cluster, v.variant,
		` + likenessColumns + `,
		coalesce(r.succeeded, 0) / i.runs_per_item::float8 AS success_rate,
		r.latency_ms, r.first_token_ms, r.total_tokens, r.cost,
		coalesce(r.judged, 0) AS judged, coalesce(r.passes, 0) AS passes,
		r.passes / nullif(r.judged, 0)::float8 AS pass_share, r.score
	FROM (
		SELECT i.id, i.question_id, row_number() OVER (ORDER BY i.sort_key) AS number,
			md5(normalize(btrim(i.question, E' \t\r\n'))) AS text, md5(i.standard_answer) AS standard, t.runs_per_item,
			` + db.ClusterOf + ` AS cluster
		FROM evaluation_items i
		JOIN evaluation_tasks t ON t.id = i.task_id
		WHERE i.task_id = $1) i
	CROSS JOIN unnest(CAST($2 AS int[])) v (variant)
	LEFT JOIN question_statistics q ON q.item_id = i.id AND q.variant = v.variant
	LEFT JOIN (
		SELECT item_id, variant, -- the same number of runs of every question
			count(*) FILTER (WHERE status = 'SUCCEEDED') AS succeeded,
			avg(latency_ms::float8) FILTER (WHERE status = 'SUCCEEDED') AS latency_ms,
			avg(first_token_ms::float8) FILTER (WHERE status = 'SUCCEEDED') AS first_token_ms,
			avg(total_tokens::float8) FILTER (WHERE status = 'SUCCEEDED') AS total_tokens,
			avg(cost::float8) FILTER (WHERE status = 'SUCCEEDED') AS cost,
			count(passed) AS judged, count(*) FILTER (WHERE passed) AS passes, avg(score) AS score
		FROM evaluation_runs
		WHERE task_id = $1 AND is_current AND variant = ANY ($2)
		AND run_index <= (SELECT runs_per_item FROM evaluation_tasks WHERE id = $1)
		GROUP BY item_id, variant) r ON r.item_id = i.id AND r.variant = v.variant
	ORDER BY i.number, v.variant`

// Side is one side of a comparison: a variant of a task. A plain task has only variant 1.
type Side struct {
	TaskID  uuid.UUID
	Variant int
}

// Compare compares two variants, of one task or of two, by their current runs.
func (r Report) Compare(ctx context.Context, a, b Side) (measure.Comparison, error) {
	var ofA, ofB [][]measure.ComparedQuestion
	group, reading := errgroup.WithContext(ctx)
	group.Go(func() (err error) { ofA, err = r.comparable(reading, a.TaskID, a.Variant); return err })
	group.Go(func() (err error) { ofB, err = r.comparable(reading, b.TaskID, b.Variant); return err })
	if err := group.Wait(); err != nil {
		return measure.Comparison{}, err
	}
	return measure.CompareTasks(ofA[0], ofB[0]), nil
}

// Matrix returns the results of each variant for each question: indexed by variant, in order, and then by question, in
// the order of their numbers.
func (r Report) Matrix(ctx context.Context, task db.Task) ([][]measure.ComparedQuestion, error) {
	return r.comparable(ctx, task.ID, task.VariantNumbers()...)
}

// comparable returns the data that a comparison needs: indexed by variant, in the given order, and then by question, in
// the order of their numbers.
func (r Report) comparable(ctx context.Context, taskID uuid.UUID,
	variants ...int) ([][]measure.ComparedQuestion, error) {
	questions := make([][]measure.ComparedQuestion, len(variants))
	numbers := make(pq.Int64Array, len(variants))
	places := make(map[int]int, len(variants))
	for n, variant := range variants {
		numbers[n], places[variant] = int64(variant), n
	}
	err := pg.EachRow(ctx, r.db, "read the questions to compare", readComparable, []any{taskID, numbers},
		func(row compared) error {
			question := measure.ComparedQuestion{
				ID: row.ID, Number: row.Number, QuestionID: row.QuestionID, Text: row.Text, Standard: row.Standard,
				Cluster: row.Cluster, SuccessRate: &row.SuccessRate,
				LatencyMS: row.LatencyMS, FirstTokenMS: row.FirstTokenMS, TotalTokens: row.TotalTokens, Cost: row.Cost,
				Judged: row.Judged, Passes: row.Passes, PassShare: row.PassShare, Score: row.Score,
			}
			row.Likeness.addTo(&question)
			place := places[row.Variant]
			questions[place] = append(questions[place], question)
			return nil
		})
	return questions, err
}

// Asked is a question as asked to one variant.
type Asked struct {
	ItemID  int64
	Variant int
}

// AnswerKeys returns the keys of the answers of each question's first runs_per_item current runs in some variants, in
// the order of the runs. Equal answers have equal keys; a run without an answer has an empty one.
func (r Report) AnswerKeys(ctx context.Context, taskID uuid.UUID, variants ...int) (map[Asked][]string, error) {
	const read = `
		SELECT item_id, variant, coalesce(answer_key, '') AS answer_key
		FROM evaluation_runs
		WHERE task_id = $1 AND variant = ANY ($2) AND is_current
		AND run_index <= (SELECT runs_per_item FROM evaluation_tasks WHERE id = $1)
		ORDER BY item_id, variant, run_index`
	type row struct {
		ItemID    int64  `db:"item_id"`
		Variant   int    `db:"variant"`
		AnswerKey []byte `db:"answer_key"`
	}
	keys := map[Asked][]string{}
	numbers := make(pq.Int64Array, len(variants))
	for n, variant := range variants {
		numbers[n] = int64(variant)
	}
	err := pg.EachRow(ctx, r.db, "read the keys of answers", read, []any{taskID, numbers}, func(one row) error {
		asked := Asked{one.ItemID, one.Variant}
		keys[asked] = append(keys[asked], string(one.AnswerKey))
		return nil
	})
	return keys, err
}

// Test tests whether the questions of the pairs changed from one side to the other, and whether changes for which fresh
// runs were made hold. It stores the outcomes in the pairs. The tests of the questions form one family, and those of
// the confirmations another.
func (r Report) Test(ctx context.Context, a, b Side, pairs []measure.Pair) error {
	var keys [2]map[Asked][]string
	if !measure.AreVerdicts(pairs) {
		group, reading := errgroup.WithContext(ctx)
		for n, side := range []Side{a, b} {
			group.Go(func() (err error) { keys[n], err = r.AnswerKeys(reading, side.TaskID, side.Variant); return err })
		}
		if err := group.Wait(); err != nil {
			return err
		}
	}
	err := measure.TestQuestions(ctx, pairs, func(n int) (ofA, ofB []string) {
		return keys[0][Asked{pairs[n].A.ID, a.Variant}], keys[1][Asked{pairs[n].B.ID, b.Variant}]
	})
	if err != nil {
		return err
	}
	return r.confirm(ctx, a, b, pairs)
}

// CommonAnswer is the first run that gave its question's most common answer.
type CommonAnswer struct {
	ItemID int64  `db:"item_id"`
	RunID  int64  `db:"id"`
	Text   string `db:"text"`
	// Key is equal for equal answers, even if Text was cut.
	Key []byte `db:"answer_key"`
	// Length is the length of the whole answer in characters, even if Text was cut.
	Length int `db:"length"`
	// FinishReason is why the answer ended; nil means that the agent did not report it.
	FinishReason *string `db:"finish_reason"`
}

// IsCut reports whether Text is only the answer's beginning.
func (a CommonAnswer) IsCut() bool { return a.Length > utf8.RuneCountInString(a.Text) }

// CommonAnswers returns a variant's most common answers to items, keyed by item id, with at most limit characters of
// each.
func (r Report) CommonAnswers(ctx context.Context, itemIDs []int64, variant,
	limit int) (map[int64]CommonAnswer, error) {
	const read = `
		SELECT r.item_id, r.id, left(r.response_body, $2) AS text, char_length(r.response_body) AS length, r.answer_key,
		r.finish_reason
		FROM evaluation_runs r
		JOIN question_statistics q ON q.item_id = r.item_id AND q.variant = r.variant
		WHERE r.item_id = ANY ($1) AND r.is_current AND r.variant = $3 AND r.response_body IS NOT NULL
		  AND r.run_index = (
			SELECT position(letter IN q.letters)
			FROM unnest(string_to_array(q.letters, NULL)) letter
			WHERE letter <> '-'
			GROUP BY letter
			ORDER BY count(*) DESC, position(letter IN q.letters)
			LIMIT 1)`
	var answers []CommonAnswer
	if err := r.db.SelectContext(ctx, &answers, read, pq.Int64Array(itemIDs), limit, variant); err != nil {
		return nil, pg.Classify("read the most common answers", err)
	}
	byItem := make(map[int64]CommonAnswer, len(answers))
	for _, answer := range answers {
		byItem[answer.ItemID] = answer
	}
	return byItem, nil
}
