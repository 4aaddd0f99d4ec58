package create

import (
	"wending/jobs/tasks"
	"wending/views/text"
	"wending/views/ui"
)

// designOf returns which differences a comparison with the task in a form could detect; nil while the form has no
// questions or no targets.
func designOf(n tasks.New, e tasks.Estimate) *ui.Design {
	if n.Dataset == nil || len(n.Dataset.Rows) == 0 || e.Calls == 0 {
		return nil
	}
	questions := len(n.Dataset.Rows)
	d := &ui.Design{
		Variants: max(1, len(e.Variants)), IsJudged: len(n.Evaluators) > 0, Basis: string(e.Design.Basis()), Of: e.DesignOf,
		RunsToHalve: e.Design.RunsToHalve(n.RunsPerItem), Between: e.Design.Between,
		Within:      e.Design.WithinA + e.Design.WithinB,
		OfAgreement: e.Design.OfAgreement, Clusters: float64(e.Clusters) / float64(questions), Currency: e.Currency,
	}
	if e.Cost != nil {
		d.CostOfCall = e.Cost.InexactFloat64() / float64(e.Calls)
	}
	if d.RunsToHalve > tasks.MaxRuns {
		d.RunsToHalve = 0
	}
	size := func(questions, runs int) ui.DesignSize {
		s := ui.DesignSize{Questions: questions, Runs: runs, Calls: questions * runs * d.Variants}
		shown := e.Design.Detectable(int(float64(questions)*d.Clusters+0.5), runs)
		s.PassRate, s.Agreement = shown.PassRate, shown.Agreement
		if d.CostOfCall > 0 {
			s.Cost = text.Significant(d.CostOfCall*float64(s.Calls), 3) + " " + d.Currency
		}
		return s
	}
	d.DesignSize, d.Half = size(questions, n.RunsPerItem), size(4*questions, n.RunsPerItem)
	d.PassRate, d.Agreement = e.Detectable.PassRate, e.Detectable.Agreement
	for _, questions := range []int{20, 50, 100, 200, 500, 1000} {
		for _, runs := range []int{3, 5, 10} {
			d.Others = append(d.Others, size(questions, runs))
		}
	}
	return d
}
