package claim

import "wending/db/measure/passage"

// Memory holds sentences of the answers to one question, so that sentences that several answers share are read only
// once. It keeps the whole text of each learnt answer.
type Memory struct {
	known map[sentenceKey]sentencePlace
}

// sentenceKey holds everything that determines the claims of a sentence.
type sentenceKey struct {
	text        string // the sentence, with a little of the text before and after it
	place       int    // where the sentence begins in text
	row, column string
}

// sentencePlace is where a sentence is in a learnt answer.
type sentencePlace struct {
	*Document
	sentence, from, to int // the sentence's index, and the range of its claims
}

// The number of characters after and before a sentence that can affect how it is read.
const (
	behindSentence = 8
	beforeSentence = 16
)

// Learn reads the claims of an answer, and remembers its sentences.
func (m *Memory) Learn(answer string) *Document {
	d, keys, first := m.read(answer)
	if m.known == nil {
		m.known = map[sentenceKey]sentencePlace{}
	}
	for n, key := range keys {
		if key.text != "" {
			m.known[key] = sentencePlace{d, n, first[n], first[n+1]}
		}
	}
	return d
}

// Read reads the claims of an answer without remembering its sentences.
func (m *Memory) Read(answer string) *Document {
	d, _, _ := m.read(answer)
	return d
}

// read reads an answer. It also returns, for each sentence, its key, which is empty if the sentence is not worth
// remembering, and the index of its first claim; the number of all claims follows at the end.
func (m *Memory) read(answer string) (*Document, []sentenceKey, []int) {
	d := newDocument(answer)
	keys := make([]sentenceKey, len(d.Sentences))
	first := make([]int, len(d.Sentences)+1)
	for n := range d.Sentences {
		keys[n], first[n] = d.keyOf(n), len(d.Claims)
		if m.recall(d, n, keys[n]) {
			keys[n] = sentenceKey{}
			continue
		}
		if !d.scanAlone(n) {
			keys[n] = sentenceKey{}
		}
	}
	first[len(d.Sentences)] = len(d.Claims)
	d.finishReading()
	return d, keys, first
}

func (d *Document) keyOf(n int) sentenceKey {
	x := d.Sentences[n]
	around := passage.Span{From: max(0, x.From-beforeSentence), To: min(len(d.Runes), x.To+behindSentence)}
	return sentenceKey{d.Slice(around), x.From - around.From, d.Slice(x.Row), d.Slice(x.Column)}
}

// scanAlone reads a sentence and reports whether its claims are independent of all other sentences.
func (d *Document) scanAlone(n int) bool {
	before, turnedAt := len(d.Claims), d.turnedAt
	var last Claim
	if before > 0 {
		last = d.Claims[before-1]
	}
	d.scan(n)
	return d.turnedAt == turnedAt && (before == 0 || d.Claims[before-1] == last)
}

// recall adds the claims of sentence n to d if a learnt answer contains the same sentence. It reports whether one does.
func (m *Memory) recall(d *Document, n int, key sentenceKey) bool {
	known, isKnown := m.known[key]
	if !isKnown {
		return false
	}
	x, y := known.Sentences[known.sentence], d.Sentences[n]
	if x.To-x.From != y.To-y.From {
		return false
	}
	shift := y.From - x.From
	for _, f := range known.Claims[known.from:known.to] {
		f.From, f.To, f.Sentence = f.From+shift, f.To+shift, n
		f.Clause = passage.Span{From: f.Clause.From + shift, To: f.Clause.To + shift}
		f.First, f.Last, f.IsWorking = 0, 0, false
		d.Claims = append(d.Claims, f)
	}
	copy(d.Taken[y.From:y.To], known.Taken[x.From:x.To])
	return true
}
