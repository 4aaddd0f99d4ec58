package tasks

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"wending/db"
	"wending/db/measure"
	"wending/jobs/evaluate"
)

// UnknownVariableError means that an evaluator's expression names a variable that the questions do not have. Such a
// variable would never have a value.
type UnknownVariableError struct {
	Evaluator, Variable string
	// Nearest is the most similar existing name.
	Nearest string
}

// Error implements error.
func (e *UnknownVariableError) Error() string {
	return fmt.Sprintf("evaluator %q names variables.%s, which the questions do not have; nearest: %s", e.Evaluator,
		e.Variable, e.Nearest)
}

// checkVariables refuses evaluators that use variables missing from the questions' columns.
func checkVariables(ctx context.Context, evaluators []db.Evaluator, columns []string) error {
	known := slices.Sorted(maps.Keys(Values(db.Item{Variables: make([]string, len(columns))}, columns)))
	for _, evaluator := range evaluators {
		variables, err := evaluate.VariablesOf(ctx, evaluate.Kind(evaluator.Kind), evaluator.Config)
		if err != nil {
			return err
		}
		for _, name := range variables {
			if slices.Contains(known, name) {
				continue
			}
			nearest := slices.MaxFunc(known, func(a, b string) int {
				return cmp.Compare(measure.Similarity([]byte(a), []byte(name)), measure.Similarity([]byte(b), []byte(name)))
			})
			return &UnknownVariableError{evaluator.Name, name, nearest}
		}
	}
	return nil
}
