package report

import (
	"context"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/lib/pq"

	"wending/db/pg"
	"wending/jobs/comparison"
	"wending/jobs/stability"
)

// compared is a row of readComparable.
type compared struct {
	ID          int64            `db:"id"`
	Number      int              `db:"number"`
	QuestionID  string           `db:"question_id"`
	Text        string           `db:"text"`
	Level       *stability.Level `db:"level"`
	Agreement   *float64         `db:"agreement"`
	Letters     *string          `db:"letters"`
	SuccessRate float64          `db:"success_rate"`
	LatencyMS   *float64         `db:"latency_ms"`
}

const readComparable = `
	SELECT i.id, row_number() OVER (ORDER BY i.question_id) AS number, i.question_id,
		md5(normalize(btrim(i.question, E' \t\r\n'))) AS text,
		q.level, q.agreement, q.letters,
		coalesce(r.succeeded, 0) / t.runs_per_item::float8 AS success_rate,
		r.latency_ms
	FROM evaluation_items i
	JOIN evaluation_tasks t ON t.id = i.task_id
	LEFT JOIN question_statistics q ON q.item_id = i.id AND q.variant = $2
	LEFT JOIN (
		SELECT item_id,
			count(*) FILTER (WHERE status = 'SUCCEEDED') AS succeeded,
			avg(latency_ms) FILTER (WHERE status = 'SUCCEEDED') AS latency_ms
		FROM evaluation_runs
		WHERE task_id = $1 AND is_current AND variant = $2
		GROUP BY item_id) r ON r.item_id = i.id
	WHERE i.task_id = $1
	ORDER BY i.question_id`

// Side is what is compared: a variant of a task; 1 is the only one of a plain task.
type Side struct {
	TaskID  uuid.UUID
	Variant int
}

// Compare compares two variants, of one task or of two, by their current runs.
func (r Report) Compare(ctx context.Context, a, b Side) (comparison.Comparison, error) {
	ofA, err := r.comparable(ctx, a)
	if err != nil {
		return comparison.Comparison{}, err
	}
	ofB, err := r.comparable(ctx, b)
	return comparison.Compare(ofA, ofB), err
}

// comparable returns what a comparison needs to know about each question of a side, in the order of pages.
func (r Report) comparable(ctx context.Context, side Side) ([]comparison.Question, error) {
	var questions []comparison.Question
	err := pg.EachRow(ctx, r.db, "read the questions to compare", readComparable, []any{side.TaskID, side.Variant}, func(row compared) error {
		question := comparison.Question{
			ID: row.ID, Number: row.Number, QuestionID: row.QuestionID, Text: row.Text, Level: stability.Unknown,
			Agreement: row.Agreement, SuccessRate: &row.SuccessRate, LatencyMS: row.LatencyMS,
		}
		if row.Level != nil {
			question.Level, question.Letters = *row.Level, *row.Letters
		}
		questions = append(questions, question)
		return nil
	})
	return questions, err
}

// CommonAnswer is the first run that gave its question's most common answer.
type CommonAnswer struct {
	ItemID int64  `db:"item_id"`
	RunID  int64  `db:"id"`
	Text   string `db:"text"`
	// Key is equal for equal answers, also where Text was cut.
	Key []byte `db:"answer_key"`
	// Length is the whole answer's in characters, also where Text was cut.
	Length int `db:"length"`
}

// IsCut reports whether Text is only the answer's beginning.
func (a CommonAnswer) IsCut() bool { return a.Length > utf8.RuneCountInString(a.Text) }

// CommonAnswers returns a variant's most common answers to items with at most limit characters of each, by the items' ids.
func (r Report) CommonAnswers(ctx context.Context, itemIDs []int64, variant, limit int) (map[int64]CommonAnswer, error) {
	const read = `
		SELECT r.item_id, r.id, left(r.response_body, $2) AS text, char_length(r.response_body) AS length, r.answer_key
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
