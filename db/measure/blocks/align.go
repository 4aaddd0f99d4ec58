package blocks

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"wending/db/measure"
)

// Answer is one of the distinct answers to a question.
type Answer struct {
	Text string
	// Terms are the answer's wordings of facts on which answers contradict each other.
	Terms []Term
}

// Term is an answer's wording of a fact on which answers contradict each other. It is marked as a whole, unless it is
// longer than longestTerm.
type Term struct {
	// Fact is the number of the fact: terms with equal numbers are about the same fact.
	Fact int
	// Text is the term as it is written in the answer.
	Text string
}

// Degree is how much a difference matters to a reader.
type Degree int

// The degrees, from the least to the most important.
const (
	// Same means that there is no difference.
	Same Degree = iota
	// Form is a difference in punctuation, white space, Markdown, or the number of a list item.
	Form
	// Wording is any other difference, including text that only one of two answers has.
	Wording
	// Fact is a different wording of a fact on which the answers contradict each other.
	Fact
)

// Piece is one of the consecutive stretches of text into which the difference between two blocks is divided.
type Piece struct {
	Op     measure.Op
	Text   string
	Degree Degree
}

// Other is a block that answers have in place of the most common answer's block.
type Other struct {
	// Answers are the indexes of these answers in the list passed to Align.
	Answers []int
	// Text is the block; empty if these answers have none here.
	Text   string
	Degree Degree
	// IsReworded reports that the block states the same facts in other words: only facts are marked.
	IsReworded bool
	// Terms are the block's wordings of facts that contradict the most common answer; Against are the most common
	// answer's wordings, at the same indexes.
	Terms, Against []string
}

// Unit is one place in the answers, with the blocks that they have there.
type Unit struct {
	Kind Kind
	// Text is the most common answer's block; empty if it has none here.
	Text string
	// Head is the header row of the table that a Row belongs to; empty if the row is itself the header.
	Head string
	// Sharing are the indexes of the answers that have exactly this block, including the most common answer.
	Sharing []int
	Others  []Other
	// Degree is the greatest degree among Others.
	Degree Degree
}

// Reading holds a question's answers, aligned block by block.
type Reading struct {
	Units []Unit
	// Likeness is how alike each answer is to the most common one, from 0 to 1.
	Likeness []float64
	// Apart lists the indexes of the answers that are too unlike the most common one to be aligned with it.
	Apart []int
	// Blocks are the blocks of each answer.
	Blocks [][]Block

	answers []Answer
	// mu guards the caches, which are filled on demand: words is keyed by text, and pieces by the texts of both blocks.
	mu     sync.Mutex
	words  map[string][]string
	pieces map[[2]string][]Piece
}

// apartBelow is the likeness below which an answer is not aligned, because marks would cover the whole answer.
const apartBelow = 0.5

// likeEnough is the minimum likeness at which two blocks at the same place are paired, and likeElsewhere is the minimum
// for blocks at different places.
const (
	likeEnough    = 0.4
	likeElsewhere = 0.7
	// mostCells is the maximum number of pairs of blocks that one step of aligning two answers compares.
	mostCells = 900
	// blockTime is the maximum time spent on finding the difference of two blocks.
	blockTime = 20 * time.Millisecond
)

// Align aligns answers with the first one, which is the most common.
func Align(answers []Answer) *Reading {
	r := &Reading{
		Likeness: make([]float64, len(answers)), Blocks: make([][]Block, len(answers)), answers: answers,
		words: map[string][]string{}, pieces: map[[2]string][]Piece{},
	}
	if len(answers) == 0 {
		return r
	}
	cut := cutter{}
	for n, answer := range answers {
		r.Blocks[n] = cut.answer(answer.Text)
	}
	base := r.Blocks[0]
	r.Likeness[0] = 1
	builder := newBuilder(r, base)
	for n := 1; n < len(answers); n++ {
		other := r.Blocks[n]
		pairs := pair(base, other, measure.DifferenceTime/time.Duration(len(answers)-1))
		pairFacts(pairs, base, other, answers[0].Terms, answers[n].Terms)
		r.Likeness[n] = likenessOf(base, other, pairs)
		if r.Likeness[n] < apartBelow {
			r.Apart = append(r.Apart, n)
			continue
		}
		builder.add(n, other, pairs)
	}
	r.Units = builder.units()
	return r
}

// pair finds the block of other that corresponds to each block of base; -1 if there is none. If the time limit,
// within, expires before all equal blocks are found, only those at the beginning and the end are used.
func pair(base, other []Block, within time.Duration) []int {
	pairs := make([]int, len(base))
	for n := range pairs {
		pairs[n] = -1
	}
	at, to := 0, 0
	match := func(from, fromOther, until, untilOther int) {
		pairGap(pairs, base, other, from, fromOther, until, untilOther)
	}
	from, fromOther := 0, 0
	for _, step := range compareBlocks(base, other, within) {
		switch step.Op {
		case measure.Equal:
			match(from, fromOther, at, to)
			for range step.Length {
				pairs[at] = to
				at, to = at+1, to+1
			}
			from, fromOther = at, to
		case measure.Delete:
			at += step.Length
		case measure.Insert:
			to += step.Length
		}
	}
	match(from, fromOther, at, to)
	pairMoved(pairs, base, other)
	return pairs
}

// compareBlocks finds the blocks that are equal and in the same order.
func compareBlocks(base, other []Block, within time.Duration) []measure.Step {
	numbers := map[string]string{}
	code := func(blocks []Block) []string {
		tokens := make([]string, len(blocks))
		for n, block := range blocks {
			token, isKnown := numbers[block.plain]
			if !isKnown { // one character for each distinct block, so that lengths count blocks
				token = string(rune(0x10000 + len(numbers)))
				numbers[block.plain] = token
			}
			tokens[n] = token
		}
		return tokens
	}
	return measure.CompareTokens(code(base), code(other), within).Steps
}

// pairGap pairs the blocks between two equal ones, in order, so that the sum of their likeness is greatest. If
// there are too many blocks, those at the same index are compared instead.
func pairGap(pairs []int, base, other []Block, from, fromOther, until, untilOther int) {
	n, m := until-from, untilOther-fromOther
	if n == 0 || m == 0 {
		return
	}
	if n*m > mostCells {
		for i := range min(n, m) {
			if base[from+i].likeness(other[fromOther+i]) >= likeEnough {
				pairs[from+i] = fromOther + i
			}
		}
		return
	}
	best := make([][]float64, n+1)
	for i := range best {
		best[i] = make([]float64, m+1)
	}
	like := func(i, j int) float64 {
		if one := base[from+i].likeness(other[fromOther+j]); one >= likeEnough {
			return one
		}
		return -1
	}
	cells := make([][]float64, n)
	for i := n - 1; i >= 0; i-- {
		cells[i] = make([]float64, m)
		for j := m - 1; j >= 0; j-- {
			cells[i][j] = like(i, j)
			best[i][j] = max(best[i+1][j], best[i][j+1])
			if cells[i][j] >= 0 {
				best[i][j] = max(best[i][j], cells[i][j]+best[i+1][j+1])
			}
		}
	}
	for i, j := 0, 0; i < n && j < m; {
		switch {
		case cells[i][j] >= 0 && best[i][j] == cells[i][j]+best[i+1][j+1]:
			pairs[from+i] = fromOther + j
			i, j = i+1, j+1
		case best[i][j] == best[i+1][j]:
			i++
		default:
			j++
		}
	}
}

// pairMoved pairs the remaining blocks with blocks at other places: an answer may state the same things in another
// order.
func pairMoved(pairs []int, base, other []Block) {
	isTaken := make([]bool, len(other))
	for _, to := range pairs {
		if to >= 0 {
			isTaken[to] = true
		}
	}
	var left []int
	for n := range other {
		if !isTaken[n] {
			left = append(left, n)
		}
	}
	compared := 0
	for n, to := range pairs {
		if to >= 0 {
			continue
		}
		best, most := -1, likeElsewhere
		for _, candidate := range left {
			if compared++; compared > mostCells {
				return
			}
			if like := base[n].likeness(other[candidate]); !isTaken[candidate] && like >= most && len(base[n].plain) > 0 {
				best, most = candidate, like
			}
		}
		if best >= 0 {
			pairs[n], isTaken[best] = best, true
		}
	}
}

// pairFacts pairs blocks that contradict each other on a fact even if their wording differs, so that a reader sees
// one beneath the other.
func pairFacts(pairs []int, base, other []Block, mine, theirs []Term) {
	isTaken := make([]bool, len(other))
	for _, to := range pairs {
		if to >= 0 {
			isTaken[to] = true
		}
	}
	of := byFact(theirs)
	for _, my := range mine {
		their := of[my.Fact]
		if their == "" || my.Text == their {
			continue
		}
		from, to, most := -1, -1, 0.0
		for i := range base {
			if IndexOf(base[i].Text, my.Text) < 0 {
				continue
			}
			if pairs[i] >= 0 && IndexOf(other[pairs[i]].Text, their) >= 0 { // they are already beneath each other
				from = -1
				break
			}
			for j := range other {
				if pairs[i] >= 0 || isTaken[j] || IndexOf(other[j].Text, their) < 0 {
					continue
				}
				if like := base[i].likeness(other[j]); from < 0 || like > most {
					from, to, most = i, j, like
				}
			}
		}
		if from >= 0 {
			pairs[from], isTaken[to] = to, true
		}
	}
}

// byFact returns the texts of terms, keyed by fact.
func byFact(terms []Term) map[int]string {
	texts := make(map[int]string, len(terms))
	for _, term := range terms {
		texts[term.Fact] = term.Text
	}
	return texts
}

// IndexOf returns the position of a term in a text, ignoring matches inside a longer number; -1 if the text does
// not contain it.
func IndexOf(text, term string) int {
	if term == "" {
		return -1
	}
	for from := 0; ; {
		n := strings.Index(text[from:], term)
		if n < 0 {
			return -1
		}
		if at := from + n; isWhole(text, at, at+len(term)) {
			return at
		}
		from += n + len(term)
	}
}

// likenessOf returns how alike two answers are, from 0 to 1, judged by their blocks.
func likenessOf(base, other []Block, pairs []int) float64 {
	total, shared := 0.0, 0.0
	for n, block := range base {
		total += float64(len(block.plain))
		if to := pairs[n]; to >= 0 {
			shared += block.likeness(other[to]) * float64(len(block.plain)+len(other[to].plain))
		}
	}
	for _, block := range other {
		total += float64(len(block.plain))
	}
	if total == 0 {
		return 1
	}
	return shared / total
}

// builder collects the blocks of the other answers, by their position relative to the blocks of the most common answer.
type builder struct {
	reading *Reading
	base    []Block
	// at holds the units of base's blocks. after[0] holds the units before the first block, and after[n] those that
	// follow block n-1.
	at    []Unit
	after [][]Unit
	// stated holds the terms in each of base's blocks, and theirs the terms of the answer that is being added, keyed by
	// fact.
	stated [][]Term
	theirs map[int]string
}

func newBuilder(reading *Reading, base []Block) *builder {
	b := &builder{
		reading: reading, base: base, at: make([]Unit, len(base)), after: make([][]Unit, len(base)+1),
		stated: make([][]Term, len(base)),
	}
	for n, block := range base {
		for _, term := range reading.answers[0].Terms {
			if IndexOf(block.Text, term.Text) >= 0 {
				b.stated[n] = append(b.stated[n], term)
			}
		}
		b.at[n] = Unit{Kind: block.Kind, Text: block.Text, Head: block.Head, Sharing: []int{0}}
	}
	return b
}

// add adds an answer, given the pairs of its blocks.
func (b *builder) add(answer int, other []Block, pairs []int) {
	b.theirs = byFact(b.reading.answers[answer].Terms)
	before := make([]int, len(other)) // maps each block to the block of base that it follows
	for n := range before {
		before[n] = -1
	}
	for n, to := range pairs {
		unit := &b.at[n]
		switch {
		case to < 0:
			unit.addOther(answer, Other{Degree: Wording})
		case other[to].Text == b.base[n].Text:
			unit.Sharing = append(unit.Sharing, answer)
		default:
			b.compare(n, answer, other[to])
		}
		if to >= 0 {
			before[to] = n
		}
	}
	place := 0
	for n, block := range other {
		if before[n] >= 0 {
			place = before[n] + 1
			continue
		}
		b.insert(answer, place, block)
	}
}

// insert adds a block that the most common answer does not have.
func (b *builder) insert(answer, place int, block Block) {
	for n := range b.after[place] {
		if known := &b.after[place][n].Others[0]; known.Text == block.Text {
			known.Answers = append(known.Answers, answer)
			return
		}
	}
	b.after[place] = append(b.after[place], Unit{
		Kind: block.Kind, Head: block.Head, Degree: Wording,
		Others: []Other{{Answers: []int{answer}, Text: block.Text, Degree: Wording}},
	})
}

// addOther adds an answer's block to a unit; answers with the same block share an Other.
func (u *Unit) addOther(answer int, other Other) {
	u.Degree = max(u.Degree, other.Degree)
	for n := range u.Others {
		if known := &u.Others[n]; known.Text == other.Text {
			known.Answers = append(known.Answers, answer)
			known.Degree = max(known.Degree, other.Degree)
			return
		}
	}
	other.Answers = []int{answer}
	u.Others = append(u.Others, other)
}

// compare records how a block of an answer differs from the most common answer's block. Differences inside the
// blocks are computed only when Pieces is called.
func (b *builder) compare(place, answer int, other Block) {
	unit, base := &b.at[place], b.base[place]
	found := Other{Text: other.Text, Degree: Form}
	if base.plain != other.plain {
		found.Degree = Wording
		if found.Against, found.Terms = contradicting(base.Text, b.stated[place], other.Text, b.theirs); len(found.Terms) >
			0 {
			found.Degree, found.IsReworded = Fact, base.likeness(other) < likeEnough
		}
	}
	unit.addOther(answer, found)
}

// isSentence reports whether a term, such as a negated sentence, is too long to be marked as a whole: only its
// differing words are marked.
func isSentence(term string) bool { return utf8.RuneCountInString(term) > longestTerm }

// longestTerm is the maximum length, in characters, of a term that is marked as a whole.
const longestTerm = 16

// markAll marks every difference in wording as a fact.
func markAll(pieces []Piece) {
	for n := range pieces {
		if pieces[n].Op != measure.Equal && pieces[n].Degree == Wording {
			pieces[n].Degree = Fact
		}
	}
}

// contradicting returns the terms of two blocks that state the same facts differently, at the same indexes of both
// lists. Terms that both blocks have in common are left out.
func contradicting(base string, mine []Term, other string, theirs map[int]string) (inBase, inOther []string) {
	isKnown := map[[2]string]bool{}
	for _, my := range mine {
		their := theirs[my.Fact]
		both := [2]string{my.Text, their}
		if my.Text == their || isKnown[both] || IndexOf(other, their) < 0 || IndexOf(other, my.Text) >= 0 &&
			IndexOf(base, their) >= 0 {
			continue
		}
		inBase, inOther, isKnown[both] = append(inBase, my.Text), append(inOther, their), true
	}
	return inBase, inOther
}

// Pieces returns the difference between a block and the most common answer's block; nil if one of the two answers has
// no block here. Blocks that have less than half in common are not marked. If the time limit, within, expires, the
// difference is coarse: everything between the common beginning and the common end.
func (r *Reading) Pieces(unit Unit, other Other, within time.Duration) []Piece {
	if unit.Text == "" || other.Text == "" {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	both := [2]string{unit.Text, other.Text}
	if known, isKnown := r.pieces[both]; isKnown {
		return known
	}
	pieces, isHurried := r.piecesOf(unit, other, within)
	switch {
	case other.Degree == Wording && !areAlike(pieces):
		pieces = []Piece{{Op: measure.Equal, Text: other.Text}}
	case slices.ContainsFunc(other.Terms, isSentence) || slices.ContainsFunc(other.Against, isSentence):
		markAll(pieces)
	}
	if !isHurried {
		r.pieces[both] = pieces
	}
	return pieces
}

// areAlike reports whether two blocks, given the pieces of their difference, have at least half in common.
func areAlike(pieces []Piece) bool {
	equal, different := 0, 0
	for _, piece := range pieces {
		if length := utf8.RuneCountInString(piece.Text); piece.Op == measure.Equal {
			equal += 2 * length
		} else if piece.Degree != Form {
			different += length
		}
	}
	return equal >= different
}

// piecesOf compares two blocks; table rows with the same number of cells are compared cell by cell. isHurried reports
// that there was not enough time to find all differences.
func (r *Reading) piecesOf(unit Unit, other Other, within time.Duration) (pieces []Piece, isHurried bool) {
	if other.IsReworded {
		return reworded(other.Text, other.Against, other.Terms), false
	}
	from, to := Cells(unit.Text), Cells(other.Text)
	if unit.Kind != Row || len(from) != len(to) {
		return r.within(unit.Text, other.Text, other, within)
	}
	deadline := time.Now().Add(within)
	for n := range from {
		cell, isCoarse := r.within(from[n], to[n], other, time.Until(deadline))
		pieces, isHurried = append(pieces, cell...), isHurried || isCoarse
	}
	return pieces, isHurried
}

// within compares two texts word by word; the terms of the blocks that they come from are not split into words.
// isHurried reports that there was not enough time to find all differences.
func (r *Reading) within(base, text string, other Other, within time.Duration) (pieces []Piece, isHurried bool) {
	if base == text {
		return []Piece{{Op: measure.Equal, Text: text}}, false
	}
	mine, theirs := slices.DeleteFunc(slices.Clone(other.Against), isSentence),
		slices.DeleteFunc(slices.Clone(other.Terms), isSentence)
	difference := measure.CompareTokens(r.tokens(base, mine), r.tokens(text, theirs), min(blockTime, within))
	for _, piece := range joined(difference.Pieces(base, text)) {
		switch piece.Op {
		case measure.Equal:
			pieces = append(pieces, piece)
		case measure.Delete:
			pieces = append(pieces, graded(piece, mine)...)
		default:
			pieces = append(pieces, graded(piece, theirs)...)
		}
	}
	return pieces, difference.IsCoarse && within < blockTime
}

// reworded returns the pieces of a block that states the same as the most common answer's block in other words, with
// only the terms of the two blocks marked.
func reworded(other string, mine, theirs []string) (pieces []Piece) {
	rest := other
	for rest != "" {
		at, n := -1, -1
		for i, term := range theirs {
			if place := IndexOf(rest, term); place >= 0 && (at < 0 || place < at) {
				at, n = place, i
			}
		}
		if at < 0 {
			break
		}
		if at > 0 {
			pieces = append(pieces, Piece{Op: measure.Equal, Text: rest[:at]})
		}
		term := theirs[n]
		pieces = append(pieces, Piece{measure.Delete, mine[n], Fact}, Piece{measure.Insert, term, Fact})
		rest = rest[at+len(term):]
		mine, theirs = slices.Delete(slices.Clone(mine), n, n+1), slices.Delete(slices.Clone(theirs), n, n+1)
	}
	if rest != "" {
		pieces = append(pieces, Piece{Op: measure.Equal, Text: rest})
	}
	return pieces
}

// graded cuts the terms out of deleted or inserted text and assigns a degree to each part.
func graded(piece Piece, terms []string) (parts []Piece) {
	rest := piece.Text
	add := func(text string, degree Degree) {
		if text != "" {
			parts = append(parts, Piece{piece.Op, text, degree})
		}
	}
	for rest != "" {
		at, term := -1, ""
		for _, one := range terms {
			if n := IndexOf(rest, one); n >= 0 && (at < 0 || n < at || n == at && len(one) > len(term)) {
				at, term = n, one
			}
		}
		if at < 0 {
			break
		}
		add(rest[:at], degreeOf(rest[:at]))
		add(term, Fact)
		rest = rest[at+len(term):]
	}
	add(rest, degreeOf(rest))
	return parts
}

// degreeOf returns how much it matters that a text, which contains no term, was deleted or inserted.
func degreeOf(text string) Degree {
	if measure.Plain(text) == "" {
		return Form
	}
	return Wording
}

// tokens cuts a text into words; each term in it becomes a single token.
func (r *Reading) tokens(text string, terms []string) (tokens []string) {
	var found []string
	for _, term := range terms {
		if strings.Contains(text, term) {
			found = append(found, term)
		}
	}
	if len(found) == 0 {
		known, isKnown := r.words[text]
		if !isKnown {
			known = words(text)
			r.words[text] = known
		}
		return known
	}
	slices.SortStableFunc(found, func(x, y string) int { return cmp.Compare(len(y), len(x)) })
	from := 0
	for at := 0; at < len(text); {
		n := slices.IndexFunc(found, func(term string) bool {
			return strings.HasPrefix(text[at:], term) && isWhole(text, at, at+len(term))
		})
		if n < 0 {
			_, size := utf8.DecodeRuneInString(text[at:])
			at += size
			continue
		}
		tokens = append(append(tokens, words(text[from:at])...), found[n])
		at += len(found[n])
		from = at
	}
	return append(tokens, words(text[from:])...)
}

// isWhole reports whether a stretch of a text neither begins nor ends inside a number.
func isWhole(text string, from, to int) bool {
	before, _ := utf8.DecodeLastRuneInString(text[:from])
	first, _ := utf8.DecodeRuneInString(text[from:])
	last, _ := utf8.DecodeLastRuneInString(text[:to])
	behind, _ := utf8.DecodeRuneInString(text[to:])
	isCutBefore, isCutBehind := unicode.IsDigit(before) && unicode.IsDigit(first), unicode.IsDigit(last) &&
		unicode.IsDigit(behind)
	return !isCutBefore && !isCutBehind
}

// joined puts deleted text before inserted text, and joins changes with fewer than two characters between them, because
// readers see such changes as one.
func joined(pieces []measure.Piece) (all []Piece) {
	var deleted, inserted string
	flush := func() {
		if deleted != "" {
			all = append(all, Piece{Op: measure.Delete, Text: deleted})
		}
		if inserted != "" {
			all = append(all, Piece{Op: measure.Insert, Text: inserted})
		}
		deleted, inserted = "", ""
	}
	for n, piece := range pieces {
		switch {
		case piece.Op == measure.Delete:
			deleted += piece.Text
		case piece.Op == measure.Insert:
			inserted += piece.Text
		case n > 0 && n < len(pieces)-1 && utf8.RuneCountInString(piece.Text) < 2 && measure.Plain(piece.Text) != "":
			deleted, inserted = deleted+piece.Text, inserted+piece.Text
		default:
			flush()
			all = append(all, Piece{Op: measure.Equal, Text: piece.Text})
		}
	}
	flush()
	return all
}

// units returns all units in the order of the most common answer.
func (b *builder) units() []Unit {
	all := slices.Clone(b.after[0])
	for n, unit := range b.at {
		all = append(append(all, unit), b.after[n+1]...)
	}
	return all
}
