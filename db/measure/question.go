package measure

import (
	"bytes"
	"slices"
	"strings"
)

// Answer is what one run of a question gave; the zero value is a run without an answer, be it one that failed.
type Answer struct {
	// Key is that of Key; nil means that there is no answer.
	Key []byte
	// Text matters only where answers differ.
	Text []byte
	// IsMissing reports that the run never took place.
	IsMissing bool
}

// Question sums up the answers to one question. Its numbers are those of the fields' names in metrics.md.
type Question struct {
	Level Level
	// Agreement and Consensus are nil if there is one run a question, or a run is missing.
	Agreement, Consensus *float64
	// Similarity is nil if fewer than two runs have an answer.
	Similarity *float64
	// Distinct is how many different answers there are.
	Distinct int
	// Letters has a letter for each run, - for one without an answer.
	Letters string
}

// Assess sums up the answers to a question, those of each variant by themselves; each has one answer for each of its
// runs. Equal answers have the same letter in all of them. differences say how the answer A becomes each of the others,
// in the order of their letters from B.
func Assess(variants [][]Answer) (questions []Question, differences []Difference) {
	var keys [][]byte
	texts := map[string]string{} // by letter
	for _, answers := range variants {
		for _, answer := range answers {
			keys = append(keys, answer.Key)
		}
	}
	letters, all := Letters(keys)
	place := 0
	for _, answers := range variants {
		for n, answer := range answers {
			if letter := letters[place+n]; letter != "" {
				if _, isKnown := texts[letter]; !isKnown {
					texts[letter] = string(answer.Text)
				}
			}
		}
		questions = append(questions, assess(answers, letters[place:place+len(answers)], texts))
		place += len(answers)
	}
	for _, other := range all[min(1, len(all)):] {
		differences = append(differences, CompareTexts(texts[all[0].Letter], texts[other.Letter], DifferenceTime))
	}
	return questions, differences
}

// assess sums up the answers of one variant, whose texts are known by their letters.
func assess(answers []Answer, letters []string, texts map[string]string) Question {
	keys := make([][]byte, len(answers))
	missing, answered := false, 0
	for n, answer := range answers {
		keys[n] = answer.Key
		missing = missing || answer.IsMissing
		if answer.Key != nil {
			answered++
		}
	}
	own, groups := Letters(keys)
	q := Question{Distinct: len(groups), Letters: joined(letters)}
	if runs := len(answers); runs > 1 && !missing {
		q.Agreement, q.Consensus = new(float64), new(float64)
		for n, group := range groups {
			*q.Agreement += float64(group.Count*(group.Count-1)) / float64(runs*(runs-1))
			if n == 0 {
				*q.Consensus = float64(group.Count) / float64(runs)
			}
		}
	}
	distinct := make([]string, 0, len(groups)) // in the order of the variant's own letters
	for _, group := range groups {
		distinct = append(distinct, texts[letters[slices.Index(own, group.Letter)]])
	}
	if answered > 1 {
		mean := meanSimilarity(distinct, groups, answered)
		q.Similarity = &mean
	}
	q.Level = levelOf(answered, len(groups) == 1 && bytes.Equal(keyOf(keys), Key(nil)), distinct, q.Similarity)
	return q
}

// meanSimilarity is the mean over all pairs of answers; equal ones are measured once.
func meanSimilarity(distinct []string, groups []Group, answered int) float64 {
	texts := make([][]rune, len(distinct))
	for n, text := range distinct {
		texts[n] = measured([]byte(text))
	}
	sum := 0.0
	for n, group := range groups {
		sum += float64(group.Count*(group.Count-1)) / 2
		for m := range n {
			sum += float64(group.Count*groups[m].Count) * similarityOf(texts[n], texts[m])
		}
	}
	return sum / (float64(answered*(answered-1)) / 2)
}

// keyOf is the first key that is there.
func keyOf(keys [][]byte) []byte {
	for _, key := range keys {
		if key != nil {
			return key
		}
	}
	return nil
}

// joined writes the letters of all runs one after another.
func joined(letters []string) string {
	var all strings.Builder
	for _, letter := range letters {
		if letter == "" {
			letter = "-"
		}
		all.WriteString(letter)
	}
	return all.String()
}
