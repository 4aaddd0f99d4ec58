package passage

import (
	"sort"
	"strings"
)

// Weighted is a token with its weight. A token is a pair of Chinese characters, a character, a word or a fact.
// Within one text tokens are hashes; when two texts are compared they are numbered from 1, and 0 means none.
type Weighted struct {
	Token  int32
	weight float32
}

// A Vector holds the tokens around a fact or sentence, each once with its greatest weight.
type Vector struct {
	Entries []Weighted
	Total   float32
}

// A Vocabulary weighs the tokens of two answers and compares vectors of them. It can be reused for further pairs of
// answers, without allocating its memory again.
type Vocabulary struct {
	weights []float32 // of each token; rare tokens weigh more

	made    []int32    // for each token: the number of the last vector that contains it
	place   []int32    // for each token: its index in that vector
	making  int32      // the number of the vector that is being built
	draft   Vector     // the vector that is being built
	store   []Weighted // the entries of finished vectors
	vectors []Vector   // finished vectors

	loaded     *Vector   // the vector that was compared last
	load       []float32 // for each token: its weight in loaded
	isLoaded   []int32   // for each token: equals generation if the token is in loaded
	generation int32

	index Index
}

// Reset forgets all vectors and makes room for the given number of tokens. The caller must then set the weights of
// the tokens that it uses. Token 0 means none.
func (v *Vocabulary) Reset(tokens int) {
	if missing := tokens + 1 - len(v.weights); missing > 0 {
		v.weights = append(v.weights, make([]float32, missing)...)
		v.made = append(v.made, make([]int32, missing)...)
		v.place = append(v.place, make([]int32, missing)...)
		v.load = append(v.load, make([]float32, missing)...)
		v.isLoaded = append(v.isLoaded, make([]int32, missing)...)
	}
	v.store, v.vectors, v.loaded = v.store[:0], v.vectors[:0], nil
}

// SetWeight sets the weight of a token.
func (v *Vocabulary) SetWeight(token int32, weight float32) { v.weights[token] = weight }

// Begin starts a new vector.
func (v *Vocabulary) Begin() {
	v.making++
	v.draft.Entries, v.draft.Total = v.draft.Entries[:0], 0
}

// Add adds a token to the vector that is being built; if the token is already there, it keeps the greater weight.
func (v *Vocabulary) Add(token int32, weight float32) {
	x := &v.draft
	weight *= v.weights[token]
	if v.made[token] != v.making {
		v.made[token], v.place[token] = v.making, int32(len(x.Entries))
		x.Entries = append(x.Entries, Weighted{token, weight})
		x.Total += weight
		return
	}
	if e := &x.Entries[v.place[token]]; weight > e.weight {
		x.Total += weight - e.weight
		e.weight = weight
	}
}

// Finished returns the vector that was built.
func (v *Vocabulary) Finished() *Vector {
	size := len(v.draft.Entries)
	if cap(v.store)-len(v.store) < size {
		v.store = make([]Weighted, 0, max(size, 2*cap(v.store), 1024))
	}
	if len(v.vectors) == cap(v.vectors) {
		v.vectors = make([]Vector, 0, max(2*cap(v.vectors), 64))
	}
	from := len(v.store)
	v.store = append(v.store, v.draft.Entries...)
	v.vectors = append(v.vectors, Vector{Entries: v.store[from : from+size : from+size], Total: v.draft.Total})
	return &v.vectors[len(v.vectors)-1]
}

// Overlap returns the weight that two vectors share. It is cheapest to compare one x with many y in succession.
func (v *Vocabulary) Overlap(x, y *Vector) float32 {
	if v.loaded != x {
		v.loaded = x
		v.generation++
		for _, e := range x.Entries {
			v.load[e.Token], v.isLoaded[e.Token] = e.weight, v.generation
		}
	}
	var sum float32
	for _, e := range y.Entries {
		if v.isLoaded[e.Token] == v.generation {
			sum += min(e.weight, v.load[e.Token])
		}
	}
	return sum
}

// Shared returns the share of the lighter vector's weight that the other one also has, from 0 to 1.
func (v *Vocabulary) Shared(x, y *Vector) float32 {
	least := min(x.Total, y.Total)
	if least <= 0 {
		return 0
	}
	return v.Overlap(x, y) / least
}

// Size returns how many tokens the vector that is being built has.
func (v *Vocabulary) Size() int { return len(v.draft.Entries) }

// MostCandidates is the maximum number of facts or sentences of one answer that are compared with a single fact or
// sentence of another. If that other answer is very long, the maximum is a quarter of this number.
const MostCandidates = 48

// longText is the number of facts or sentences above which an answer is very long.
const longText = 2000

// Candidates returns the maximum number of facts or sentences of an answer that are compared with a single fact or
// sentence of another; size is the number that the other answer has.
func Candidates(size int) int {
	if size >= longText {
		return MostCandidates / 4
	}
	return MostCandidates
}

// An Index lists, for each token, the facts or sentences that contain it, in ascending order.
type Index struct {
	lists    [][]int32
	used     []int32 // the tokens that have a list
	seen     []int32 // for each fact or sentence: the last search that found it
	searches int32
	found    []int
	most     int // the result of Candidates
}

// Add lists fact or sentence n under a token; calls must come in ascending order of n.
func (p *Index) Add(token int32, n int) {
	list := p.lists[token]
	if len(list) == 0 {
		p.used = append(p.used, token)
	}
	if len(list) == 0 || list[len(list)-1] != int32(n) {
		p.lists[token] = append(list, int32(n))
	}
}

// NewIndex returns an empty index. It reuses the memory of the previous index, which must not be used afterwards.
func (v *Vocabulary) NewIndex(size int) *Index {
	p := &v.index
	p.most = Candidates(size)
	for _, token := range p.used {
		p.lists[token] = p.lists[token][:0]
	}
	p.used = p.used[:0]
	if missing := len(v.weights) - len(p.lists); missing > 0 {
		p.lists = append(p.lists, make([][]int32, missing)...)
	}
	if missing := size - len(p.seen); missing > 0 {
		p.seen = append(p.seen, make([]int32, missing)...)
	}
	return p
}

// Near returns facts or sentences that share tokens with a vector: all those that share a rare token and, of those
// that share only a frequent one, those whose numbers are closest to at. It returns at most about four times as many
// as Candidates allows; the next search overwrites them.
func (p *Index) Near(v *Vector, at int) []int {
	p.searches++
	found := p.found[:0]
	note := func(list []int32) {
		for _, n := range list {
			if p.seen[n] != p.searches {
				p.seen[n] = p.searches
				found = append(found, int(n))
			}
		}
	}
	const rare = 8
	for _, e := range v.Entries {
		if list := p.lists[e.Token]; len(list) <= rare && len(found) < 3*p.most {
			note(list)
		}
	}
	for _, e := range v.Entries {
		list := p.lists[e.Token]
		if len(list) <= rare {
			continue
		}
		if len(found) >= 3*p.most {
			break
		}
		if len(list) > p.most {
			first := sort.Search(len(list), func(k int) bool { return int(list[k]) >= at }) - p.most/2
			first = max(0, min(first, len(list)-p.most))
			list = list[first : first+p.most]
		}
		note(list)
	}
	p.found = found
	return found
}

const functionCharacters = "的了是在和与及或也都就还而且并等之其以于为由从到对把被将会可能要应须需得不没无未一个这那您你我他们请按照该此所有者给让向如果若则即但因"

var functionWords = func() map[string]bool {
	all := map[string]bool{}
	for _, word := range strings.Fields(`the a an of to in on at for and or is are was were be been being it its you your we our they their this that these those
	with by as from will would if then than so such do does did have has had there which who what when how i my also more
	can may must not no
	any all per about into under out up only until`) {
		all[word] = true
	}
	return all
}()

// IsFunctionWord reports whether a lower-case word only joins other words.
func IsFunctionWord(word string) bool { return functionWords[word] }

// IsFunctionCharacter reports whether a Chinese character only joins other words: 的 (of), 和 (and), 将 (will).
func IsFunctionCharacter(r rune) bool {
	return IsHan(r) && functionBits[(r-0x3400)>>6]&(1<<(r&63)) != 0
}

// functionBits has a bit for each Chinese character, which is set for function characters.
var functionBits = func() [(0xA000 - 0x3400) >> 6]uint64 {
	var all [(0xA000 - 0x3400) >> 6]uint64
	for _, r := range functionCharacters {
		all[(r-0x3400)>>6] |= 1 << (r & 63)
	}
	return all
}()

// HashPair returns the hash of two Chinese characters; b is 0 for a single one.
func HashPair(a, b rune) uint32 {
	h := uint32(2166136261)
	for _, r := range [2]rune{a, b} {
		h = (h ^ uint32(r)) * 16777619
		h ^= h >> 15
	}
	return h | 1
}

// HashWord returns the hash of a lower-case word without its ending, or 0 for a function word.
func HashWord(word []byte) uint32 {
	if functionWords[string(word)] {
		return 0
	}
	h := uint32(2166136261)
	for _, b := range stem(word) {
		h = (h ^ uint32(b)) * 16777619
	}
	return h | 1
}

// stem drops the most common endings of an English word.
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
