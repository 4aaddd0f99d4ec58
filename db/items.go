package db

import (
	"context"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"wending/db/pg"
)

// Item is a row of evaluation_items: one question of a task.
type Item struct {
	ID             int64   `db:"id"`
	QuestionID     string  `db:"question_id"`
	Question       string  `db:"question"`
	StandardAnswer string  `db:"standard_answer"`
	SystemPrompt   *string `db:"system_prompt"`
	UserContext    *string `db:"user_context"`
	// Variables are the row's values of Task.VariableNames, in their order; nil means the dataset has none.
	Variables pq.StringArray `db:"variable_values"`
}

// ItemColumns are the columns of an Item, of evaluation_items i.
const ItemColumns = `i.id, i.question_id, i.question, i.standard_answer, i.system_prompt, i.user_context, i.variable_values`

// NewItem is one question to store.
type NewItem struct {
	QuestionID, Question, StandardAnswer string
	SystemPrompt, UserContext            *string
	Variables                            []string
}

const insertItem = `
	INSERT INTO evaluation_items (task_id, question_id, question, standard_answer, system_prompt, user_context, variable_values)
	SELECT $1, question_id, question, standard_answer, system_prompt, user_context, CAST(variable_values AS text[])
	FROM unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[])
	AS given (question_id, question, standard_answer, system_prompt, user_context, variable_values)`

func insertItems(ctx context.Context, tx *sqlx.Tx, taskID uuid.UUID, items []NewItem) error {
	ids, questions, answers := make([]string, len(items)), make([]string, len(items)), make([]string, len(items))
	systemPrompts, userContexts, variables := make([]*string, len(items)), make([]*string, len(items)), make([]*string, len(items))
	for n, item := range items {
		ids[n], questions[n], answers[n] = item.QuestionID, item.Question, item.StandardAnswer
		systemPrompts[n], userContexts[n] = item.SystemPrompt, item.UserContext
		if len(item.Variables) == 0 {
			continue
		}
		// An array of arrays of different lengths is no type of PostgreSQL: each goes as its text.
		array, err := pq.StringArray(item.Variables).Value()
		if err != nil {
			return err
		}
		text := array.(string)
		variables[n] = &text
	}
	columns := []any{taskID}
	for _, column := range []any{ids, questions, answers, systemPrompts, userContexts, variables} {
		columns = append(columns, pq.GenericArray{A: column})
	}
	_, err := tx.ExecContext(ctx, insertItem, columns...)
	return pg.Classify("store the questions", err)
}

// FirstItems returns the first items of a task, in the order of pages and exports.
func (s *Store) FirstItems(ctx context.Context, taskID uuid.UUID, count int) ([]Item, error) {
	var items []Item
	err := s.db.SelectContext(ctx, &items,
		`SELECT `+ItemColumns+` FROM evaluation_items i WHERE i.task_id = $1 ORDER BY i.question_id LIMIT $2`, taskID, count)
	return items, pg.Classify("read the first questions", err)
}

// ItemsByID returns the items with these ids, in the order of pages and exports.
func (s *Store) ItemsByID(ctx context.Context, ids []int64) ([]Item, error) {
	var items []Item
	err := s.db.SelectContext(ctx, &items,
		`SELECT `+ItemColumns+` FROM evaluation_items i WHERE i.id = ANY ($1) ORDER BY i.question_id`, pq.Int64Array(ids))
	return items, pg.Classify("read the questions", err)
}

// Items returns one page of a task's items and how many there are. A questionID that is not empty keeps only the
// item that has it.
func (s *Store) Items(ctx context.Context, taskID uuid.UUID, questionID string, page Page) (items []Item, total int, err error) {
	const count = `SELECT count(*) FROM evaluation_items WHERE task_id = $1 AND ($2 = '' OR question_id = $2)`
	const list = `
		SELECT ` + ItemColumns + `
		FROM evaluation_items i
		WHERE i.task_id = $1 AND ($2 = '' OR i.question_id = $2)
		ORDER BY i.question_id
		LIMIT $3 OFFSET $4`
	if err := s.db.GetContext(ctx, &total, count, taskID, questionID); err != nil {
		return nil, 0, pg.Classify("count the questions", err)
	}
	err = s.db.SelectContext(ctx, &items, list, taskID, questionID, page.Size, page.offset())
	return items, total, pg.Classify("read the questions", err)
}
