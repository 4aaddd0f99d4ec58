package measure

import (
	"context"
	"slices"

	"wending/db/measure/facts"
)

// Between describes how the most common answers of two tasks to a question differ.
type Between struct {
	// Level is the level of the two answers, as if one task had given both.
	Level      Level
	Similarity *float64
	// Differ is the most serious way in which the facts of the two answers differ; None if they state the same facts.
	Differ facts.Differ
	// Facts are the facts in which they differ, conflicts first. Run 1 is from the first task, run 2 from the second.
	Facts []Fact
}

// IsConflict reports whether the answers contradict each other on a fact.
func (b Between) IsConflict() bool { return b.Differ == facts.Conflict }

// CompareAnswers compares two answers; both have a key and a text. The only error is the context's.
func CompareAnswers(ctx context.Context, a, b Answer) (Between, error) {
	answers := []Answer{a, b}
	letters, groups := Letters([][]byte{a.Key, b.Key})
	texts := map[string]string{letters[1]: string(b.Text)}
	texts[letters[0]] = string(a.Text)
	found, err := assess(ctx, &facts.Reader{}, answers, letters, texts)
	if err != nil {
		return Between{}, err
	}
	between := Between{found.Level, found.Similarity, found.Differ, found.Facts}
	if len(groups) > 1 && string(a.Text) == string(b.Text) { // both were cut off before they differ
		between.Level = Wording
	}
	return between, nil
}

// ChangeGroup classifies the change of a question from the first task to the second.
type ChangeGroup string

// The groups.
const (
	// Worse means that the question has a Loss.
	Worse ChangeGroup = "worse"
	// FactsChanged means that the most common answers contradict each other on a fact.
	FactsChanged ChangeGroup = "facts"
	// Better means that the question has a Loss in the other direction, and none in this one.
	Better ChangeGroup = "better"
	// ContentChanged means that the most common answers differ in more than wording, or that one leaves out a fact.
	ContentChanged ChangeGroup = "content"
	WordingChanged ChangeGroup = "wording"
	// NotComparable means that a task has no answer, or that the answers are not compared yet.
	NotComparable ChangeGroup = "unanswered"
	FormatChanged ChangeGroup = "format_only"
	Unchanged     ChangeGroup = "identical"
)

// ChangeGroups are all groups in the order in which a reader should see them.
var ChangeGroups = []ChangeGroup{Worse, FactsChanged, ContentChanged, Better, WordingChanged, NotComparable,
	FormatChanged, Unchanged}

// IsSame reports whether questions in the group have answers with the same content.
func (g ChangeGroup) IsSame() bool { return g == FormatChanged || g == Unchanged }

// Loss is a way in which a question became worse.
type Loss string

// The losses, most serious first.
const (
	// LostAnswer means that most runs of the first task had an answer, but most runs of the second task have none.
	LostAnswer Loss = "failed"
	// LostVerdict means that the question passed before, by people's or most evaluators' verdicts, and no longer does.
	LostVerdict Loss = "verdict"
	// LostAccord means that answers contradict the standard answer, which they did not do before.
	LostAccord Loss = "expected"
	// LostStability means that the answers were stable, or at least free of contradictions, and no longer are.
	LostStability Loss = "stability"
	// LostRating means that the mean score fell by lostScore or more.
	LostRating Loss = "rating"
)

// Losses lists all losses, most serious first.
var Losses = []Loss{LostAnswer, LostVerdict, LostAccord, LostStability, LostRating}

// lostScore is the fall of a mean score, on a scale from 0 to 1, that exceeds the usual variation of a judge.
const lostScore = 0.1

// Values of ComparedQuestion.Opinion, which is the verdict on which all people agree, or OpinionDivided.
const (
	opinionPass = "PASS"
	// OpinionDivided means that people's verdicts differ.
	OpinionDivided = "DIVIDED"
)

// Losses returns the ways in which the question became worse, most serious first.
func (p Pair) Losses() (losses []Loss) {
	hadAnswers := p.A.SuccessRate != nil && *p.A.SuccessRate > 0
	for _, one := range []struct {
		loss   Loss
		isLost bool
	}{
		{LostAnswer, isMost(p.A.SuccessRate) && p.B.SuccessRate != nil && !isMost(p.B.SuccessRate)},
		{LostVerdict, p.lostVerdict()},
		{LostAccord, hadAnswers && len(p.A.Expected) == 0 && len(p.B.Expected) > 0},
		{LostStability, p.lostStability()},
		{LostRating, p.A.Score != nil && p.B.Score != nil && *p.A.Score-*p.B.Score >= lostScore-noDeviation},
	} {
		if one.isLost {
			losses = append(losses, one.loss)
		}
	}
	return losses
}

// Gains returns the ways in which the question became better: the losses of the opposite change.
func (p Pair) Gains() []Loss {
	return Pair{A: p.B, B: p.A, Transition: transition(p.B.Level, p.A.Level)}.Losses()
}

func isMost(share *float64) bool { return share != nil && *share > 0.5 }

func (p Pair) lostVerdict() bool {
	byPeople := p.A.Opinion == opinionPass && p.B.Opinion != "" && p.B.Opinion != opinionPass
	return byPeople || isMost(p.A.PassShare) && p.B.PassShare != nil && !isMost(p.B.PassShare)
}

func (p Pair) lostStability() bool {
	if p.A.FactsDiffer == nil || p.B.FactsDiffer == nil {
		return false
	}
	// Equal agreement is not a loss: the levels then differ only because fewer runs of the first task had an answer.
	isLess := p.A.Agreement == nil || p.B.Agreement == nil || *p.B.Agreement < *p.A.Agreement
	return p.Transition == StableUnstable && isLess ||
		*p.A.FactsDiffer != facts.Conflict && *p.B.FactsDiffer == facts.Conflict
}

// Group returns the question's group. Losses and gains take precedence over how the answers differ.
func (p Pair) Group() ChangeGroup {
	switch {
	case len(p.Losses()) > 0:
		return Worse
	case len(p.Gains()) > 0:
		return Better
	case p.Between == nil:
		return NotComparable
	case p.Between.IsConflict():
		return FactsChanged
	case p.Between.Level == FormatOnly:
		return FormatChanged
	case p.Between.Level == Identical, p.Between.Level == Empty:
		return Unchanged
	case p.Between.Level == Different, p.Between.Differ == facts.Omission:
		return ContentChanged
	}
	return WordingChanged
}

// ByRisk returns the pairs in the order in which a reader should see them: by group; within a group by the most serious
// loss, then by how seriously the facts differ, then questions that people had passed, then the order of the first
// task.
func (c Comparison) ByRisk() []Pair {
	type ranked struct {
		Pair
		keys [4]int
	}
	all := make([]ranked, len(c.Pairs))
	for n, pair := range c.Pairs {
		keys := [4]int{slices.Index(ChangeGroups, pair.Group())}
		if losses := pair.Losses(); len(losses) > 0 {
			keys[1] = slices.Index(Losses, losses[0])
		}
		if pair.Between != nil && pair.Between.Differ != "" {
			keys[2] = slices.Index(facts.Differs, pair.Between.Differ) - len(facts.Differs)
		}
		if pair.A.Opinion == opinionPass {
			keys[3] = -1
		}
		all[n] = ranked{pair, keys}
	}
	slices.SortStableFunc(all, func(x, y ranked) int { return slices.Compare(x.keys[:], y.keys[:]) })
	pairs := make([]Pair, len(all))
	for n, one := range all {
		pairs[n] = one.Pair
	}
	return pairs
}

// InGroup returns the number of questions in a group.
func (c Comparison) InGroup(group ChangeGroup) (count int) {
	for _, pair := range c.Pairs {
		if pair.Group() == group {
			count++
		}
	}
	return count
}
