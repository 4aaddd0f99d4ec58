package archive

import (
	"fmt"

	"wending/db/review"
	"wending/db/upkeep"
	"wending/jobs/tasks"
)

// maxPairVerdicts is the maximum number of verdicts on a pair.
const maxPairVerdicts = 1000

// pairLine is a line of the part pairsName: two variants' answers to a question, with people's verdicts.
type pairLine struct {
	upkeep.PairPlace
	RunA      int               `json:"run_a"`
	RunB      int               `json:"run_b"`
	IsSwapped bool              `json:"is_swapped"`
	Verdicts  list[pairVerdict] `json:"verdicts"`
}

type pairVerdict struct {
	Reviewer  string            `json:"reviewer"`
	Verdict   review.Preference `json:"verdict"`
	Version   int               `json:"version"`
	CreatedAt *moment           `json:"created_at"`
}

func (pairVerdict) listName() string { return "verdicts" }
func (pairVerdict) listLimit() int   { return maxPairVerdicts }

// pairs reads the pairs of a task.
func (r *reader) pairs(of *runs) (all []upkeep.ArchivedPair, err error) {
	seen := map[upkeep.PairPlace]bool{}
	err = r.eachLine(pairsName, maxLine, func(text []byte) error {
		var line pairLine
		if err := decode(text, &line); err != nil {
			return err
		}
		c := &checker{}
		c.number("variant_a", &line.VariantA, 1, len(of.task.Task.Variants))
		c.number("variant_b", &line.VariantB, line.VariantA+1, len(of.task.Task.Variants))
		of.checkKnown(c, upkeep.RunPlace{QuestionID: line.QuestionID, Variant: line.VariantA, RunIndex: line.RunA})
		of.checkKnown(c, upkeep.RunPlace{QuestionID: line.QuestionID, Variant: line.VariantB, RunIndex: line.RunB})
		c.require(!seen[line.PairPlace], "variant_b", wantOnce)
		seen[line.PairPlace] = true
		one := upkeep.ArchivedPair{PairPlace: line.PairPlace, RunA: line.RunA, RunB: line.RunB, IsSwapped: line.IsSwapped}
		one.Verdicts = checkPairVerdicts(c, line.Verdicts)
		all = append(all, one)
		return c.err()
	})
	return all, err
}

// checkPairVerdicts checks people's verdicts on a pair, at most one from each person, and returns them in the form that
// the store expects.
func checkPairVerdicts(c *checker, all list[pairVerdict]) (verdicts []upkeep.ArchivedPairVerdict) {
	by := map[string]bool{}
	for place := range all {
		one, member := &all[place], fmt.Sprintf("verdicts[%d].", place+1)
		c.present(member+"reviewer", one.Reviewer)
		c.name(member+"reviewer", one.Reviewer, tasks.MaxEntryName)
		c.require(!by[one.Reviewer], member+"reviewer", wantOnce)
		by[one.Reviewer] = true
		choose(c, member+"verdict", one.Verdict, review.Preferences...)
		c.number(member+"version", &one.Version, 1, maxVersion)
		c.require(one.CreatedAt != nil, member+"created_at", wantTime)
		c.time(member+"created_at", one.CreatedAt)
		verdicts = append(verdicts, upkeep.ArchivedPairVerdict{Reviewer: one.Reviewer, Verdict: string(one.Verdict),
			Version: one.Version, CreatedAt: one.CreatedAt.time()})
	}
	return verdicts
}
