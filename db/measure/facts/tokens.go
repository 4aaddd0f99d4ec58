package facts

import (
	"math"

	"wending/db/measure/claim"
	"wending/db/measure/passage"
)

// side is one of two answers that are compared.
type side struct {
	*answer
	pairs, singles []int32 // by character: the token of it and the next one, and of it alone
	factTokens     []int32
	isSettled      []bool // sentences that the other answer also contains
	vectors        []*passage.Vector
	besides        []*passage.Vector
	scopes         []*passage.Vector
	sentenceTokens []*passage.Vector
	isTurned       []bool // sentences with a polarity that contradicts the other answer
	denials        []denial
}

// weigh numbers the tokens of both answers and counts the sentences that contain each: rare tokens weigh more.
// Words that only one answer uses weigh little.
func (c *comparison) weigh() {
	type count struct {
		sentences, last int32
		sides           uint8
	}
	size := c.a.size() + c.b.size()
	numbers := make(map[uint32]int32, size/2)
	counts := make([]count, 1, 1+size/2)
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
		s.factTokens = make([]int32, len(s.Claims))
		next := 0
		for _, x := range s.Sentences {
			sentence++
			for i := x.From; i < x.To; i++ {
				s.pairs[i], s.singles[i] = note(s.PairHashes[i]), note(s.SingleHashes[i])
			}
			for ; next < len(s.Claims) && s.Claims[next].From < x.To; next++ {
				s.factTokens[next] = note(s.Claims[next].Token())
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

// size returns how many characters the sentences have.
func (s *side) size() (size int) {
	for _, x := range s.Sentences {
		size += x.To - x.From
	}
	return size
}

// collect adds the tokens of a span to the vector that was begun.
func (c *comparison) collect(s *side, part passage.Span, weight float32, self *claim.Claim) {
	part.To = min(part.To, part.From+claim.LongestContext)
	if part.IsEmpty() {
		return
	}
	for k := s.firstFact(part.From); k < len(s.Claims) && s.Claims[k].From < part.To; k++ {
		if f := &s.Claims[k]; f != self && f.Class != claim.ClassPolarity {
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

// surroundings returns the tokens around a fact, with their weights.
func (c *comparison) surroundings(s *side, i int) *passage.Vector {
	if s.vectors[i] != nil {
		return s.vectors[i]
	}
	f := &s.Claims[i]
	x := s.Sentences[f.Sentence]
	c.Begin()
	c.collect(s, passage.Span{From: max(f.Clause.From, f.From-60), To: min(f.Clause.To, f.To+60)}, 1, f)
	c.collect(s, passage.Span{From: max(x.From, f.From-100), To: min(x.To, f.To+100)}, 0.5, f)
	c.collect(s, passage.Span{From: max(x.Line.From, f.From-100), To: min(x.Line.To, f.To+100)}, 0.25, f)
	c.collect(s, x.Row, 1, f)
	c.collect(s, x.Column, 0.8, f)
	c.collect(s, x.Label, 0.5, f)
	c.collect(s, x.Heading, 0.25, f)
	s.vectors[i] = c.Finished()
	return s.vectors[i]
}

// tokensOf returns the vector of a sentence, including the headings and labels it belongs to.
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

// similarity returns how alike the contexts of two facts are, from 0 to 1.
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
