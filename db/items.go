package db

import (
	"context"

	"github.com/google/uuid"
	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"wending/db/meaning"
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
	// Series names the item's conversation, and Turn is its position there, from 1; both are nil for a single question.
	Series *string `db:"series"`
	Turn   *int    `db:"turn"`
	// Variables are the row's values of Task.VariableNames, in order; nil means that the dataset has no other columns.
	Variables pq.StringArray `db:"variable_values"`
}

// NewItem is a question to store.
type NewItem struct {
	QuestionID, Question, StandardAnswer string
	SystemPrompt, UserContext            *string
	// Series and Turn are empty and 0 for a single question.
	Series    string
	Turn      int
	Variables []string
	// Planned holds the item's number of runs in each variant if any of them differs from the task's runs_per_item; only
	// imports set it.
	Planned []int
	// Meaning is a model's grouping of the answers, or nil; only imports set it.
	Meaning *meaning.Grouping
}

const insertItem = `
	INSERT INTO evaluation_items (task_id, question_id, question, standard_answer, system_prompt, user_context,
	variable_values, series, turn, head)
	SELECT $1, question_id, question, standard_answer, system_prompt, user_context, CAST(variable_values AS text[]),
	series, turn,
		CASE WHEN series IS NOT NULL THEN first_value(question_id) OVER (PARTITION BY series ORDER BY turn) END
	FROM unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[],
	$9::int[]) WITH ORDINALITY
	AS given (question_id, question, standard_answer, system_prompt, user_context, variable_values, series, turn, place)
	ORDER BY place`

// InsertItems stores questions of a task, within its caller's transaction.
func InsertItems(ctx context.Context, tx *sqlx.Tx, taskID uuid.UUID, items []NewItem) error {
	ids, questions, answers := make([]string, len(items)), make([]string, len(items)), make([]string, len(items))
	systemPrompts, userContexts, variables := make([]*string, len(items)), make([]*string, len(items)),
		make([]*string, len(items))
	series, turns := make([]*string, len(items)), make([]*int, len(items))
	for n, item := range items {
		ids[n], questions[n], answers[n] = item.QuestionID, item.Question, item.StandardAnswer
		systemPrompts[n], userContexts[n] = item.SystemPrompt, item.UserContext
		if item.Turn > 0 {
			series[n], turns[n] = &items[n].Series, &items[n].Turn
		}
		if len(item.Variables) == 0 {
			continue
		}
		// PostgreSQL has no arrays of arrays of different lengths, so each item's variables are passed as text.
		array, err := pq.StringArray(item.Variables).Value()
		if err != nil {
			return err
		}
		text := array.(string)
		variables[n] = &text
	}
	columns := []any{taskID}
	for _, column := range []any{ids, questions, answers, systemPrompts, userContexts, variables, series, turns} {
		columns = append(columns, pq.GenericArray{A: column})
	}
	_, err := tx.ExecContext(ctx, insertItem, columns...)
	return pg.Classify("store the questions", err)
}
