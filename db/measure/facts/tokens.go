package facts

import (
	"math"

	"wending/db/measure/passage"
)

// side is one of two answers that are compared.
type side struct {
	*document
	pairs, singles []int32 // by character: the token of it and the next one, of it alone
	factTokens     []int32
	isSettled      []bool // sentences that the other answer has, too
	vectors        []*passage.Vector
	scopes         []*passage.Vector
	sentenceTokens []*passage.Vector
	isTurned       []bool // sentences of which a polarity contradicts the other answer
	denials        []denial
}

// tokenize finds the words and pairs of characters that are not part of a fact.
func (d *document) tokenize() {
	d.pairHashes, d.singleHashes = make([]uint32, len(d.Runes)), make([]uint32, len(d.Runes))
	var buffer [24]byte
	for i := 0; i < len(d.Runes); i++ {
		r := d.Runes[i]
		switch {
		case d.taken[i]:
		case passage.IsHan(r):
			isFunction := passage.IsFunctionCharacter(r)
			if next := d.At(i + 1); passage.IsHan(next) && !d.taken[i+1] && (!isFunction || !passage.IsFunctionCharacter(next)) {
				d.pairHashes[i] = passage.HashPair(r, next)
			}
			if !isFunction {
				d.singleHashes[i] = passage.HashPair(r, 0)
			}
		case passage.IsLatin(r) || passage.IsDigit(r):
			word := buffer[:0]
			end := i
			for end < len(d.Runes) && (passage.IsLatin(d.Runes[end]) || passage.IsDigit(d.Runes[end])) && !d.taken[end] {
				if r := passage.Lower(d.Runes[end]); r < 0x80 && len(word) < len(buffer) {
					word = append(word, byte(r))
				}
				end++
			}
			d.pairHashes[i] = passage.HashWord(word)
			i = end - 1
		}
	}
}

// token stands for a fact among the words around another one.
func (f *fact) token() uint32 {
	h := uint32(f.class)*31 + 7
	for i := range len(f.key) {
		h = (h ^ uint32(f.key[i])) * 16777619
	}
	return h | 1
}

// weigh numbers the tokens of both answers and counts in how many sentences each is: rare ones say more. What only one
// answer uses says little.
func (c *comparison) weigh() {
	type count struct {
		sentences, last int32
		sides           uint8
	}
	numbers := make(map[uint32]int32, (len(c.a.Runes)+len(c.b.Runes))/2)
	counts := make([]count, 1, 1+(len(c.a.Runes)+len(c.b.Runes))/2)
	sentence := int32(0)
	for k, s := range [2]*side{c.a, c.b} {
		note := func(hash uint32) int32 {
			if hash == 0 {
				return 0
			}
			token := numbers[hash]
			if token == 0 {
				token = int32(len(counts))
				numbers[hash] = token
				counts = append(counts, count{})
			}
			n := &counts[token]
			n.sides |= 1 << k
			if n.last != sentence {
				n.sentences, n.last = n.sentences+1, sentence
			}
			return token
		}
		s.pairs, s.singles = make([]int32, len(s.Runes)), make([]int32, len(s.Runes))
		s.factTokens = make([]int32, len(s.facts))
		next := 0
		for _, x := range s.Sentences {
			sentence++
			for i := x.From; i < x.To; i++ {
				s.pairs[i], s.singles[i] = note(s.pairHashes[i]), note(s.singleHashes[i])
			}
			for ; next < len(s.facts) && s.facts[next].From < x.To; next++ {
				s.factTokens[next] = note(s.facts[next].token())
			}
		}
	}
	weights := make([]float32, len(counts))
	c.isShared = make([]bool, len(counts))
	for token, n := range counts[1:] {
		weight := math.Log(1 + float64(sentence)/float64(n.sentences))
		c.isShared[token+1] = n.sides == 3
		if n.sides != 3 {
			weight *= 0.3
		}
		weights[token+1] = float32(weight)
	}
	c.Vocabulary = passage.NewVocabulary(weights)
}

// longestContext is how many characters of what a fact is about are compared.
const longestContext = 200

// collect adds the tokens of a span to the vector that was begun.
func (c *comparison) collect(s *side, part passage.Span, weight float32, self *fact) {
	part.To = min(part.To, part.From+longestContext)
	if part.IsEmpty() {
		return
	}
	for k := s.firstFact(part.From); k < len(s.facts) && s.facts[k].From < part.To; k++ {
		if f := &s.facts[k]; f != self && f.class != classPolarity {
			c.Add(s.factTokens[k], 0.6*weight)
		}
	}
	for i := part.From; i < part.To; i++ {
		if token := s.pairs[i]; token != 0 {
			c.Add(token, weight)
		}
		if token := s.singles[i]; token != 0 {
			c.Add(token, 0.35*weight)
		}
	}
}

// surroundings are the tokens around a fact, and how much each says.
func (c *comparison) surroundings(s *side, i int) *passage.Vector {
	if s.vectors[i] != nil {
		return s.vectors[i]
	}
	f := &s.facts[i]
	x := s.Sentences[f.sentence]
	c.Begin()
	c.collect(s, passage.Span{From: max(f.clause.From, f.From-60), To: min(f.clause.To, f.To+60)}, 1, f)
	c.collect(s, passage.Span{From: max(x.From, f.From-100), To: min(x.To, f.To+100)}, 0.5, f)
	c.collect(s, passage.Span{From: max(x.Line.From, f.From-100), To: min(x.Line.To, f.To+100)}, 0.25, f)
	c.collect(s, x.Row, 1, f)
	c.collect(s, x.Column, 0.8, f)
	c.collect(s, x.Label, 0.5, f)
	c.collect(s, x.Heading, 0.25, f)
	s.vectors[i] = c.Finished()
	return s.vectors[i]
}

// tokensOf is the vector of a sentence with what it is about.
func (c *comparison) tokensOf(s *side, n int) *passage.Vector {
	if s.sentenceTokens[n] != nil {
		return s.sentenceTokens[n]
	}
	x := s.Sentences[n]
	c.Begin()
	c.collect(s, x.Span, 1, nil)
	c.collect(s, x.Row, 1, nil)
	c.collect(s, x.Column, 0.8, nil)
	s.sentenceTokens[n] = c.Finished()
	return s.sentenceTokens[n]
}

// similarity is how alike the surroundings of two facts are, 0 to 1.
func (c *comparison) similarity(i, j int) float32 {
	x, y := c.surroundings(c.a, i), c.surroundings(c.b, j)
	switch {
	case len(x.Entries) == 0 && len(y.Entries) == 0:
		return 1
	case len(x.Entries) == 0 || len(y.Entries) == 0:
		if c.isShort() {
			return 0.65
		}
		return 0
	}
	return c.Overlap(x, y) / float32(math.Sqrt(float64(x.Total*y.Total)))
}
