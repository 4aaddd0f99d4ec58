package meaning

import (
	"cmp"
	"encoding/binary"
	"maps"
	"math"
	"slices"

	"wending/db/measure"
)

// Groups are the groups of one variant's answers to a question. If groups of two variants have the same number, their
// answers say the same thing.
type Groups struct {
	// Of maps the key of each answer to its group; Unsure marks the keys of answers whose group is not certain.
	Of     map[string]int
	Unsure map[string]bool
}

// cover reports whether every answer has a group.
func (g Groups) cover(answers []measure.Answer) bool {
	return !slices.ContainsFunc(answers, func(answer measure.Answer) bool {
		_, has := g.Of[string(answer.Key)]
		return answer.Key != nil && !has
	})
}

// Numbers summarise the answers of one variant to a question by what they say. measure.Question has some of these
// fields, too, but computes them from the answers' texts.
type Numbers struct {
	// Letters has a letter for each run, or - if the run has no answer; answers with the same letter say the same thing.
	Letters string
	// Agreement is nil if there is only one run for each question, or if a run is missing.
	Agreement *float64
	// Distinct is how many groups the answers form.
	Distinct int
	// Entropy is the entropy of the groups' sizes, in nats; nil without an answer.
	Entropy *float64
	// Unsure lists the run_index of each answer whose group is not certain.
	Unsure []int
}

// Sum summarises the answers to a question for each variant. Answers of one group have the same letter in all
// variants, and A is the largest group; order lists the groups in the order of their letters. Answers without a group
// are treated like runs without an answer.
func Sum(variants [][]measure.Answer, of []Groups) (all []Numbers, order []int) {
	var keys [][]byte
	for v, answers := range variants {
		for _, answer := range answers {
			keys = append(keys, of[v].keyOf(answer.Key)) //nolint:gosec // as many as variants
		}
	}
	letters, groups := measure.Letters(keys)
	order = make([]int, len(groups))
	for n, key := range keys {
		if key != nil {
			at := slices.IndexFunc(groups, func(group measure.Group) bool { return group.Letter == letters[n] })
			order[at] = int(binary.BigEndian.Uint16(key))
		}
	}
	place := 0
	for v, answers := range variants {
		one := numbersOf(answers, keys[place:place+len(answers)])
		for n, answer := range answers {
			one.Letters += cmp.Or(letters[place+n], "-")
			if answer.Key != nil && of[v].Unsure[string(answer.Key)] { //nolint:gosec // as many as variants
				one.Unsure = append(one.Unsure, n+1)
			}
		}
		all = append(all, one)
		place += len(answers)
	}
	return all, order
}

// keyOf returns a key that all answers of a group have in common; nil if there is no answer, or it has no group.
func (g Groups) keyOf(answer []byte) []byte {
	group, has := g.Of[string(answer)]
	if answer == nil || !has {
		return nil
	}
	return binary.BigEndian.AppendUint16(nil, uint16(group))
}

// numbersOf computes the statistics of one variant; keys are equal for answers of one group.
func numbersOf(answers []measure.Answer, keys [][]byte) (one Numbers) {
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
	_, groups := measure.Letters(counted)
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
		*one.Entropy = max(0, *one.Entropy) // avoids -0
	}
	return one
}

// corrected applies a person's correction to the groups known so far. Each group of the correction takes the number of
// the known group with which it shares the most answers, which keeps its letter and the model's note. Other groups get
// new numbers, starting at next. An answer that the correction does not cover keeps its known group, and is unsure.
// after is the next unused number; ok is false if fewer than two of the correction's answers still exist.
func (c Correction) corrected(answers []measure.Answer, known Groups, next int) (of Groups, after int, ok bool) {
	placed := map[string]int{}
	for n, key := range c.Keys {
		placed[string(key)] = int(c.Groups[n])
	}
	of = Groups{Of: map[string]int{}, Unsure: map[string]bool{}}
	numbers, next := c.numbers(known, next)
	standing := map[string]bool{}
	for _, answer := range answers {
		key := string(answer.Key)
		if answer.Key == nil {
			continue
		}
		if group, is := placed[key]; is {
			of.Of[key], standing[key] = numbers[group], true
		} else if group, has := known.Of[key]; has {
			of.Of[key], of.Unsure[key] = group, true
		}
	}
	return of, next, len(standing) > 1
}

// numbers maps the groups of a correction to the numbers that they take (see corrected), and returns the next unused
// number.
func (c Correction) numbers(known Groups, next int) (numbers map[int]int, after int) {
	type pair struct{ own, known int }
	common := map[pair]int{}
	for n, key := range c.Keys {
		if group, has := known.Of[string(key)]; has {
			common[pair{int(c.Groups[n]), group}]++
		}
	}
	pairs := slices.SortedFunc(maps.Keys(common), func(a, b pair) int {
		return cmp.Or(common[b]-common[a], a.known-b.known, a.own-b.own)
	})
	numbers, taken := map[int]int{}, map[int]bool{}
	for _, one := range pairs {
		if _, has := numbers[one.own]; !has && !taken[one.known] {
			numbers[one.own], taken[one.known] = one.known, true
		}
	}
	for _, group := range c.Groups {
		if _, has := numbers[int(group)]; !has {
			numbers[int(group)] = next
			next++
		}
	}
	return numbers, next
}

// Reliability measures how well a model's groupings agree with people's, over pairs of answers that differ in more
// than format (precision and recall of pairs that say the same thing).
type Reliability struct {
	Questions int `json:"questions" doc:"Number of pairs of question and variant that both a person and the model grouped" example:"24"`
	Unchanged int `json:"unchanged" doc:"How many of these the person left as the model had grouped them" example:"20"`
	Pairs     int `json:"pairs" doc:"Pairs of their answers that differ in more than format; pairs with an answer of which the model was not certain are not counted" example:"131"`
	Unsure    int `json:"unsure" doc:"Pairs with an answer of which the model was not certain" example:"9"`
	Same      int `json:"same" doc:"Pairs that both the model and the person put into one group" example:"80"`
	Joined    int `json:"joined" doc:"Pairs that only the model put into one group" example:"3"`
	Parted    int `json:"parted" doc:"Pairs that only the person put into one group" example:"5"`

	Agreement *float64 `json:"agreement" doc:"Share of the pairs on which both agree; null without pairs" example:"0.94"`
	Precision *float64 `json:"precision" doc:"same / (same + joined)" example:"0.96"`
	Recall    *float64 `json:"recall" doc:"same / (same + parted)" example:"0.94"`
	F1        *float64 `json:"f1" doc:"Pairwise F1: 2 same / (2 same + joined + parted)" example:"0.95"`
}

// add counts a question that both a person and the model have grouped. person and model contain the group of each
// answer; unsure marks the answers whose group is not certain in the model's grouping.
func (r *Reliability) add(person, model []int64, unsure []bool) {
	isSame := true
	for a := range person {
		for b := range a {
			byPerson, byModel := person[a] == person[b], model[a] == model[b]
			isSame = isSame && byPerson == byModel
			switch {
			case unsure[a] || unsure[b]:
				r.Unsure++
				continue
			case byPerson && byModel:
				r.Same++
			case byModel:
				r.Joined++
			case byPerson:
				r.Parted++
			}
			r.Pairs++
		}
	}
	if r.Questions++; isSame {
		r.Unchanged++
	}
}

// computed returns the counts with the shares that follow from them.
func (r Reliability) computed() Reliability {
	share := func(of, all int) *float64 {
		if all == 0 {
			return nil
		}
		part := float64(of) / float64(all)
		return &part
	}
	r.Agreement, r.F1 = share(r.Pairs-r.Joined-r.Parted, r.Pairs), share(2*r.Same, 2*r.Same+r.Joined+r.Parted)
	r.Precision, r.Recall = share(r.Same, r.Same+r.Joined), share(r.Same, r.Same+r.Parted)
	return r
}

// Score returns how well found groupings agree with labelled ones. All three arguments are indexed by question, then by
// answer: labelled and found hold the group of each answer, and unsure marks answers whose pairs are not scored.
func Score(labelled, found [][]int64, unsure [][]bool) Reliability {
	var r Reliability
	for n, groups := range labelled {
		r.add(groups, found[n], unsure[n])
	}
	return r.computed()
}
