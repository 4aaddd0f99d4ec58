package facts

import (
	"math"

	"wending/db/measure/claim"
	"wending/db/measure/passage"
)

// side is one of two compared answers.
type side struct {
	*answer
	isSettled      []bool // for each sentence: whether the other answer also contains it
	vectors        []*passage.Vector
	besides        []*passage.Vector
	scopes         []*passage.Vector
	sentenceTokens []*passage.Vector
	isTurned       []bool // for each sentence: whether a polarity in it contradicts the other answer
	denials        []denial
}

// reset prepares a side for comparing an answer, reusing the side's memory.
func (s *side) reset(d *answer) {
	s.answer = d
	s.isSettled, s.isTurned = cleared(s.isSettled, len(d.Sentences)), cleared(s.isTurned, len(d.Sentences))
	s.denials, s.sentenceTokens = cleared(s.denials, len(d.Sentences)), cleared(s.sentenceTokens, len(d.Sentences))
	s.vectors, s.besides, s.scopes = cleared(s.vectors, len(d.Claims)), cleared(s.besides, len(d.Claims)),
		cleared(s.scopes, len(d.Claims))
}

// cleared returns a list of zero values, reusing the memory of another list if it suffices.
func cleared[T any](list []T, length int) []T {
	if cap(list) < length {
		return make([]T, length)
	}
	list = list[:length]
	clear(list)
	return list
}

// tokens are the numbered tokens of an answer.
type tokens struct {
	// pairs and singles hold, for each character, the token of the word or pair of characters that begins with it, and
	// the token of the character alone; 0 if there is none.
	pairs, singles []int32
	claims         []int32 // the token of each claim
	counts         []count // each token once
}

// count is the number of sentences in which a token occurs.
type count struct{ token, sentences int32 }

// number numbers the tokens of an answer, and counts the sentences that contain each of them.
func (w *workspace) number(d *answer) {
	t := &d.tokens
	if t.pairs != nil {
		return
	}
	t.pairs, t.singles, t.claims = make([]int32, len(d.Runes)), make([]int32, len(d.Runes)), make([]int32, len(d.Claims))
	w.places = w.places[:0]
	next := 0
	for _, x := range d.Sentences {
		w.sentence++
		for i := x.From; i < x.To; i++ {
			if hash := d.PairHashes[i]; hash != 0 {
				t.pairs[i] = w.note(hash)
			}
			if hash := d.SingleHashes[i]; hash != 0 {
				t.singles[i] = w.note(hash)
			}
		}
		for ; next < len(d.Claims) && d.Claims[next].From < x.To; next++ {
			t.claims[next] = w.note(d.Claims[next].Token())
		}
	}
	t.counts = make([]count, len(w.places))
	for n, token := range w.places {
		t.counts[n] = count{token, w.sentences[token]}
		w.sentences[token] = 0
	}
}

// note counts a token of the sentence that is being read, and returns its number.
func (w *workspace) note(hash uint32) int32 {
	token := w.numbers.Of(hash)
	if missing := int(token) + 1 - len(w.sentences); missing > 0 {
		missing = max(missing, len(w.sentences)) // doubles the memory, to keep some in reserve
		w.sentences, w.last = append(w.sentences, make([]int32, missing)...), append(w.last, make([]int32, missing)...)
	}
	if w.last[token] != w.sentence {
		w.last[token] = w.sentence
		if w.sentences[token] == 0 {
			w.places = append(w.places, token)
		}
		w.sentences[token]++
	}
	return token
}

// weigh computes the weights of the tokens of both answers: rare tokens weigh more, and words that only one answer
// uses weigh little.
func (c *comparison) weigh() {
	c.number(c.a.answer)
	c.number(c.b.answer)
	c.Reset(c.numbers.Count())
	if missing := c.numbers.Count() + 1 - len(c.isShared); missing > 0 {
		c.isShared = append(c.isShared, make([]bool, missing)...)
	}
	for _, n := range c.a.tokens.counts {
		c.sentences[n.token], c.isShared[n.token] = n.sentences, false
	}
	total := len(c.a.Sentences) + len(c.b.Sentences)
	c.weights = cleared(c.weights, 0)
	for _, n := range c.b.tokens.counts {
		c.isShared[n.token] = c.sentences[n.token] > 0
		weight := c.weightOf(c.sentences[n.token]+n.sentences, total)
		if !c.isShared[n.token] {
			weight *= notShared
		}
		c.SetWeight(n.token, float32(weight))
	}
	for _, n := range c.a.tokens.counts {
		if c.sentences[n.token] = 0; !c.isShared[n.token] {
			c.SetWeight(n.token, float32(c.weightOf(n.sentences, total)*notShared))
		}
	}
}

// notShared is the factor that reduces the weight of a word that only one answer uses.
const notShared = 0.3

// weightOf returns the weight of a token that occurs in the given number of sentences, out of a total.
func (w *workspace) weightOf(sentences int32, total int) float64 {
	for int(sentences) >= len(w.weights) {
		w.weights = append(w.weights, math.Log(1+float64(total)/float64(len(w.weights))))
	}
	return w.weights[sentences]
}

// collect adds the tokens of a span, except that of the claim self, to the vector under construction.
func (c *comparison) collect(s *side, part passage.Span, weight float32, self *claim.Claim) {
	part.To = min(part.To, part.From+claim.LongestContext)
	if part.IsEmpty() {
		return
	}
	for k := s.firstFact(part.From); k < len(s.Claims) && s.Claims[k].From < part.To; k++ {
		if f := &s.Claims[k]; f != self && f.Class != claim.ClassPolarity {
			c.Add(s.tokens.claims[k], 0.6*weight)
		}
	}
	for i := part.From; i < part.To; i++ {
		if token := s.tokens.pairs[i]; token != 0 {
			c.Add(token, weight)
		}
		if token := s.tokens.singles[i]; token != 0 {
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

// tokensOf returns the vector of a sentence, including the row and the column that it belongs to.
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
