package measure

import (
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"wending/db/measure/facts"
)

// Contents numbers texts so that those that differ at most in their format (FormatOnly) have the same number; the
// numbers begin at 0, in the order of first appearance. Texts that contradict each other on a fact never share one.
func Contents(texts []string) (contents []int, count int) {
	contents = make([]int, len(texts))
	byForm := map[string][]int{} // the first texts of the contents that have a form
	for n, text := range texts {
		contents[n] = -1
		forms := formsOf(text)
		for _, form := range forms {
			if at := slices.IndexFunc(byForm[form], func(first int) bool { return !contradict(texts[first], text) }); at >= 0 {
				contents[n] = contents[byForm[form][at]]
				break
			}
		}
		if contents[n] < 0 {
			contents[n] = count
			count++
			for _, form := range forms {
				byForm[form] = append(byForm[form], n)
			}
		}
	}
	return contents, count
}

// formsOf returns the forms of a text: texts that differ only in format have one in common. Empty answers are alike.
func formsOf(text string) (forms []string) {
	if strings.TrimSpace(text) == "" {
		return []string{""}
	}
	if utf8.RuneCountInString(text) > MaxCompared {
		return nil
	}
	for kind, form := range map[string]string{"plain ": Plain(text), "json ": CanonicalJSON(text)} {
		if form != "" {
			forms = append(forms, kind+form)
		}
	}
	slices.Sort(forms)
	return forms
}

// contradict reports whether two texts contradict each other on a fact.
func contradict(a, b string) bool {
	return slices.ContainsFunc(facts.Compare(a, b), func(d facts.Difference) bool { return d.IsConflict })
}

// Meanings holds the groups of the answers to one question, over all its variants: the answers of a group say the
// same thing.
type Meanings struct {
	// Groups has the group of each answer, by Key; Unsure are the answers whose group is not certain.
	Groups map[string]int
	Unsure map[string]bool
}

// Covers reports whether every answer has a group.
func (m Meanings) Covers(variants [][]Answer) bool {
	for _, answers := range variants {
		for _, answer := range answers {
			if _, has := m.Groups[string(answer.Key)]; answer.Key != nil && !has {
				return false
			}
		}
	}
	return true
}

// Meaning sums up what the answers of one variant to a question say. Its numbers are the counterparts of those with
// the same names in Question.
type Meaning struct {
	// Letters has a letter for each run; answers with the same letter say the same thing. - means that the run has no
	// answer.
	Letters string
	// Agreement is nil if there is only one run for each question, or if a run is missing.
	Agreement *float64
	// Distinct is the number of groups that the answers form.
	Distinct int
	// Entropy is the entropy of the groups' sizes, in nats; nil without an answer.
	Entropy *float64
	// Unsure are the run indexes of the answers whose group is not certain.
	Unsure []int
}

// ByMeaning sums up the answers to a question for each variant. Answers in one group have the same letter in all
// variants, and A is the largest group; order lists the groups by letter. The groups must cover all answers.
func ByMeaning(variants [][]Answer, m Meanings) (all []Meaning, order []int) {
	var keys [][]byte
	for _, answers := range variants {
		for _, answer := range answers {
			keys = append(keys, m.keyOf(answer.Key))
		}
	}
	letters, groups := Letters(keys)
	order = make([]int, len(groups))
	for n, key := range keys {
		if key != nil {
			at := slices.IndexFunc(groups, func(group Group) bool { return group.Letter == letters[n] })
			order[at] = decodeGroup(key)
		}
	}
	place := 0
	for _, answers := range variants {
		one := meaningOf(answers, keys[place:place+len(answers)])
		one.Letters = joined(letters[place : place+len(answers)])
		for n, answer := range answers {
			if answer.Key != nil && m.Unsure[string(answer.Key)] {
				one.Unsure = append(one.Unsure, n+1)
			}
		}
		all = append(all, one)
		place += len(answers)
	}
	return all, order
}

// keyOf returns a key that all answers of a group have in common; nil for a run without an answer.
func (m Meanings) keyOf(answer []byte) []byte {
	if answer == nil {
		return nil
	}
	group := m.Groups[string(answer)]
	return []byte{byte(group >> 8), byte(group)}
}

func decodeGroup(key []byte) int { return int(key[0])<<8 | int(key[1]) }

// meaningOf computes the numbers of one variant; keys are equal for answers of one group.
func meaningOf(answers []Answer, keys [][]byte) (one Meaning) {
	var counted [][]byte
	missing, answered := false, 0
	for n, answer := range answers {
		if answer.IsExtra {
			continue
		}
		counted = append(counted, keys[n])
		missing = missing || answer.IsMissing
		if keys[n] != nil {
			answered++
		}
	}
	_, groups := Letters(counted)
	one.Distinct = len(groups)
	if runs := len(counted); runs > 1 && !missing {
		one.Agreement = new(float64)
		for _, group := range groups {
			*one.Agreement += float64(group.Count*(group.Count-1)) / float64(runs*(runs-1))
		}
	}
	if answered > 0 {
		one.Entropy = new(float64)
		for _, group := range groups {
			share := float64(group.Count) / float64(answered)
			*one.Entropy -= share * math.Log(share)
		}
		*one.Entropy = max(0, *one.Entropy) // not -0
	}
	return one
}
