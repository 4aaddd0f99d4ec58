package reading

import (
	"context"

	"wending/db"
	"wending/db/measure"
	"wending/db/report"
	"wending/jobs/tasks"
)

// Noise attributes the differences between an evaluator's scores of a task's runs to their sources.
func (r Reader) Noise(ctx context.Context, task db.Task, evaluator db.Evaluator) (measure.Noise, error) {
	judge := tasks.JudgesOf(task)[evaluator.Number]
	hasVotes := evaluator.IsJudge() && judge.Votes > 1
	var scored []measure.Scored
	err := r.report.EachScore(ctx, task, evaluator.Number, hasVotes, func(one report.Score) error {
		votes := []float64{one.Score}
		switch {
		case len(one.Votes) > 0:
			votes = one.Votes
		case hasVotes: // by an earlier version, which stored only the replies
			votes = judge.VotesIn(one.Raw)
		}
		scored = append(scored, measure.Scored{Item: one.ItemID, Variant: one.Variant, Cluster: one.Cluster, Votes: votes})
		return nil
	})
	return measure.NoiseOf(scored, evaluator.IsJudge()), err
}
