package facts

import (
	"math"
	"sort"

	"wending/db/measure/passage"
)

// A token is a pair of Chinese characters, a character, a word or another fact among what surrounds a fact. In a document
// tokens are hashes; in a comparison they are numbered from 1 on, and 0 is none.
type weighted struct {
	token  int32
	weight float32
}

// vector is what surrounds something, each token once with its greatest weight.
type vector struct {
	entries []weighted
	total   float32
}

// side is one of two answers that are compared.
type side struct {
	*document
	pairs, singles []int32 // by character: the token of it and the next one, of it alone
	factTokens     []int32
	isSettled      []bool // sentences that the other answer has, too
	vectors        []*vector
	scopes         []*vector
	sentenceTokens []*vector
	isTurned       []bool // sentences of which a polarity contradicts the other answer
	denials        []denial
}

// vocabulary weighs the tokens of two answers and compares vectors of them.
type vocabulary struct {
	weights []float32 // by token: rare ones say more

	made   []int32 // by token: the last vector that was made with it, and where it is there
	place  []int32
	making int32
	draft  vector     // the vector that is being made
	store  []weighted // entries of finished vectors

	loaded     *vector // by token: the weights of the vector that was compared last
	load       []float32
	isLoaded   []int32
	generation int32
}

const functionCharacters = "的了是在和与及或也都就还而且并等之其以于为由从到对把被将会可能要应须需得不没无未一个这那您你我他们请按照该此所有者给让向如果若则即但因"

var functionWords = set(`the a an of to in on at for and or is are was were be been being it its you your we our they their this that these those
	with by as from will would if then than so such do does did have has had there which who what when how i my also more can may must not no
	any all per about into under out up only until`)

// tokenize finds the words and pairs of characters that are not part of a fact.
func (d *document) tokenize() {
	d.pairHashes, d.singleHashes = make([]uint32, len(d.Runes)), make([]uint32, len(d.Runes))
	var buffer [24]byte
	for i := 0; i < len(d.Runes); i++ {
		r := d.Runes[i]
		switch {
		case d.taken[i]:
		case passage.IsHan(r):
			isFunction := isFunctionCharacter(r)
			if next := d.At(i + 1); passage.IsHan(next) && !d.taken[i+1] && (!isFunction || !isFunctionCharacter(next)) {
				d.pairHashes[i] = hash(r, next)
			}
			if !isFunction {
				d.singleHashes[i] = hash(r, 0)
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
			if !functionWords[string(word)] {
				d.pairHashes[i] = hashWord(stem(word))
			}
			i = end - 1
		}
	}
}

func isFunctionCharacter(r rune) bool {
	return passage.IsHan(r) && functionBits[(r-0x3400)>>6]&(1<<(r&63)) != 0
}

// functionBits is a bit for each Chinese character.
var functionBits = func() [(0xA000 - 0x3400) >> 6]uint64 {
	var all [(0xA000 - 0x3400) >> 6]uint64
	for _, r := range functionCharacters {
		all[(r-0x3400)>>6] |= 1 << (r & 63)
	}
	return all
}()

func hash(a, b rune) uint32 {
	h := uint32(2166136261)
	for _, r := range [2]rune{a, b} {
		h = (h ^ uint32(r)) * 16777619 //nolint:gosec // any bits do
		h ^= h >> 15
	}
	return h | 1
}

func hashWord(word []byte) uint32 {
	h := uint32(2166136261)
	for _, b := range word {
		h = (h ^ uint32(b)) * 16777619
	}
	return h | 1
}

// stem drops the commonest endings of an English word.
func stem(word []byte) []byte {
	for _, ending := range []string{"ing", "ed", "es", "s", "able", "e"} {
		if n := len(word) - len(ending); n >= 3 && string(word[n:]) == ending {
			word = word[:n]
			break
		}
	}
	if n := len(word); n > 3 && word[n-1] == word[n-2] {
		word = word[:n-1]
	}
	return word
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
				token = int32(len(counts)) //nolint:gosec // fewer than characters
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
	v := &c.vocabulary
	v.weights = make([]float32, len(counts))
	for token, n := range counts[1:] {
		weight := math.Log(1 + float64(sentence)/float64(n.sentences))
		if n.sides != 3 {
			weight *= 0.3
		}
		v.weights[token+1] = float32(weight)
	}
	v.made, v.place = make([]int32, len(counts)), make([]int32, len(counts))
	v.load, v.isLoaded = make([]float32, len(counts)), make([]int32, len(counts))
}

// begin begins a vector.
func (v *vocabulary) begin() {
	v.making++
	v.draft.entries, v.draft.total = v.draft.entries[:0], 0
}

// add adds a token to the vector that was begun, with the greater weight if it is there already.
func (v *vocabulary) add(token int32, weight float32) {
	x := &v.draft
	weight *= v.weights[token]
	if v.made[token] != v.making {
		v.made[token], v.place[token] = v.making, int32(len(x.entries)) //nolint:gosec // a few hundred
		x.entries = append(x.entries, weighted{token, weight})
		x.total += weight
		return
	}
	if e := &x.entries[v.place[token]]; weight > e.weight {
		x.total += weight - e.weight
		e.weight = weight
	}
}

// finished returns the vector that was begun.
func (v *vocabulary) finished() *vector {
	size := len(v.draft.entries)
	if cap(v.store)-len(v.store) < size {
		v.store = make([]weighted, 0, max(size, 2048))
	}
	from := len(v.store)
	v.store = append(v.store, v.draft.entries...)
	return &vector{entries: v.store[from : from+size : from+size], total: v.draft.total}
}

// overlap is the weight that two vectors share. Comparing one x with many y is cheapest.
func (v *vocabulary) overlap(x, y *vector) float32 {
	if v.loaded != x {
		v.loaded = x
		v.generation++
		for _, e := range x.entries {
			v.load[e.token], v.isLoaded[e.token] = e.weight, v.generation
		}
	}
	var sum float32
	for _, e := range y.entries {
		if v.isLoaded[e.token] == v.generation {
			sum += min(e.weight, v.load[e.token])
		}
	}
	return sum
}

// shared is which part of the lighter of two vectors the other one has.
func (v *vocabulary) shared(x, y *vector) float32 {
	least := min(x.total, y.total)
	if least <= 0 {
		return 0
	}
	return v.overlap(x, y) / least
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
			c.add(s.factTokens[k], 0.6*weight)
		}
	}
	for i := part.From; i < part.To; i++ {
		if token := s.pairs[i]; token != 0 {
			c.add(token, weight)
		}
		if token := s.singles[i]; token != 0 {
			c.add(token, 0.35*weight)
		}
	}
}

// surroundings are the tokens around a fact, and how much each says.
func (c *comparison) surroundings(s *side, i int) *vector {
	if s.vectors[i] != nil {
		return s.vectors[i]
	}
	f := &s.facts[i]
	x := s.Sentences[f.sentence]
	c.begin()
	c.collect(s, passage.Span{From: max(f.clause.From, f.From-60), To: min(f.clause.To, f.To+60)}, 1, f)
	c.collect(s, passage.Span{From: max(x.From, f.From-100), To: min(x.To, f.To+100)}, 0.5, f)
	c.collect(s, passage.Span{From: max(x.Line.From, f.From-100), To: min(x.Line.To, f.To+100)}, 0.25, f)
	c.collect(s, x.Row, 1, f)
	c.collect(s, x.Column, 0.8, f)
	c.collect(s, x.Label, 0.5, f)
	c.collect(s, x.Heading, 0.25, f)
	s.vectors[i] = c.finished()
	return s.vectors[i]
}

// tokensOf is the vector of a sentence with what it is about.
func (c *comparison) tokensOf(s *side, n int) *vector {
	if s.sentenceTokens[n] != nil {
		return s.sentenceTokens[n]
	}
	x := s.Sentences[n]
	c.begin()
	c.collect(s, x.Span, 1, nil)
	c.collect(s, x.Row, 1, nil)
	c.collect(s, x.Column, 0.8, nil)
	s.sentenceTokens[n] = c.finished()
	return s.sentenceTokens[n]
}

// similarity is how alike the surroundings of two facts are, 0 to 1.
func (c *comparison) similarity(i, j int) float32 {
	x, y := c.surroundings(c.a, i), c.surroundings(c.b, j)
	switch {
	case len(x.entries) == 0 && len(y.entries) == 0:
		return 1
	case len(x.entries) == 0 || len(y.entries) == 0:
		if c.isShort() {
			return 0.65
		}
		return 0
	}
	return c.overlap(x, y) / float32(math.Sqrt(float64(x.total*y.total)))
}

// places lists facts or sentences by the tokens in them, each list in ascending order.
type places struct {
	lists    [][]int32
	seen     []int32 // by fact or sentence: the search that found it last
	searches int32
}

func (c *comparison) newPlaces(size int) *places {
	return &places{lists: make([][]int32, len(c.weights)), seen: make([]int32, size)}
}

func (p *places) add(token int32, n int) {
	list := p.lists[token]
	if len(list) == 0 || list[len(list)-1] != int32(n) { //nolint:gosec // fewer than characters
		p.lists[token] = append(list, int32(n)) //nolint:gosec // fewer than characters
	}
}

// near returns what shares tokens with a vector: all that shares a rare one, and of what shares a frequent one that which
// stands at about the same place. It returns at most about 4·mostCandidates.
func (p *places) near(v *vector, at int) []int {
	p.searches++
	var found []int
	note := func(list []int32) {
		for _, n := range list {
			if p.seen[n] != p.searches {
				p.seen[n] = p.searches
				found = append(found, int(n))
			}
		}
	}
	const rare = 8
	for _, e := range v.entries {
		if list := p.lists[e.token]; len(list) <= rare && len(found) < 3*mostCandidates {
			note(list)
		}
	}
	for _, e := range v.entries {
		list := p.lists[e.token]
		if len(list) <= rare {
			continue
		}
		if len(found) >= 3*mostCandidates {
			break
		}
		if len(list) > mostCandidates {
			first := sort.Search(len(list), func(k int) bool { return int(list[k]) >= at }) - mostCandidates/2
			first = max(0, min(first, len(list)-mostCandidates))
			list = list[first : first+mostCandidates]
		}
		note(list)
	}
	return found
}
