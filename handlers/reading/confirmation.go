package reading

import (
	"context"
	"net/url"
	"slices"

	"wending/db"
	"wending/db/measure"
	"wending/handlers/request"
	"wending/jobs/tasks"
	"wending/views/summary"
)

// Confirmation plans runs that are to confirm the changes between two variants. If wanted is nil, it plans them for all
// changed questions that match the column values in asked (see Narrow), otherwise for the questions whose ids in the
// second task are listed in wanted.
func (r Reader) Confirmation(ctx context.Context, a, b summary.ComparedSide, asked url.Values,
	wanted []string) (c tasks.Confirmation, err error) {
	compared, err := r.report.Compare(ctx, a.Side(), b.Side())
	if err != nil {
		return c, err
	}
	if compared, err = r.Narrow(ctx, a, b, asked, compared); err != nil {
		return c, err
	}
	pairs := compared.Changed()
	if wanted != nil {
		pairs = slices.DeleteFunc(compared.Pairs, func(pair measure.Pair) bool {
			return !slices.Contains(wanted, pair.B.QuestionID)
		})
		for _, id := range wanted {
			if !slices.ContainsFunc(pairs, func(pair measure.Pair) bool { return pair.B.QuestionID == id }) {
				return c, &db.NotFoundError{Kind: db.KindQuestion}
			}
		}
	}
	if len(pairs) == 0 {
		return c, request.NewFault(request.CodeTaskStateConflict).WithMessage("error.NOTHING_CHANGED")
	}
	c.A, c.B = tasks.ConfirmedSide{Task: a.Task, Variant: a.Variant}, tasks.ConfirmedSide{Task: b.Task, Variant: b.Variant}
	for _, pair := range pairs {
		c.A.Items, c.B.Items = append(c.A.Items, pair.A.ID), append(c.B.Items, pair.B.ID)
	}
	return c, nil
}
