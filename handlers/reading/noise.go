package reading

import (
	"context"

	"wending/db"
	"wending/db/measure"
	"wending/db/report"
	"wending/jobs/tasks"
)

// Noise estimates how much of the variance of an evaluator's scores of a task's runs comes from each of its sources.
func (r Reader) Noise(ctx context.Context, task db.Task, evaluator db.Evaluator) (measure.Noise, error) {
	judge := tasks.JudgesOf(task)[evaluator.Number]
	hasVotes := evaluator.IsJudge() && judge.Votes > 1
	var scored []measure.Scored
	err := r.report.EachScore(ctx, task, evaluator.Number, hasVotes, func(one report.Scores) error {
		scores := measure.Scored{Item: one.ItemID, Variant: one.Variant, Cluster: one.Cluster}
		switch {
		case !hasVotes:
			for n := range one.Scores {
				scores.Votes = one.Scores[n : n+1]
				scored = append(scored, scores)
			}
			return nil
		case len(one.Votes) > 0:
			scores.Votes = one.Votes
		default: // stored by an earlier version, which kept the replies but not the votes
			scores.Votes = judge.VotesIn(one.Raw)
		}
		scored = append(scored, scores)
		return nil
	})
	return measure.NoiseOf(scored, evaluator.IsJudge()), err
}
