package blocks

import (
	"cmp"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"wending/db/measure"
)

// Answer is one of the distinct answers to a question.
type Answer struct {
	Text string
	// Terms are how the answer writes the facts in which it contradicts another: each is marked as a whole.
	Terms []string
}

// Degree is how much a difference matters.
type Degree int

// The degrees, from what need not be seen to what must be.
const (
	// Same: nothing differs.
	Same Degree = iota
	// Form: punctuation, white space, Markdown, the number of a list's entry.
	Form
	// Wording: anything else, and what only one of two answers has.
	Wording
	// Fact: how a fact is stated in which the answers contradict each other.
	Fact
)

// Piece is a stretch of two blocks that follows the one before it.
type Piece struct {
	Op     measure.Op
	Text   string
	Degree Degree
}

// Other is a block that answers have in the place of the most common answer's.
type Other struct {
	// Answers are their places in the list that was aligned.
	Answers []int
	// Pieces are how the block differs; none where the answers have no such block, or the most common one has none.
	Pieces []Piece
	// Text is the block; empty where the answers have none.
	Text   string
	Degree Degree
}

// Unit is one place of all answers.
type Unit struct {
	Kind Kind
	// Text is the most common answer's block; empty where it has none.
	Text string
	// Sharing are the answers that have it, but for its form.
	Sharing []int
	Others  []Other
	// Degree is the greatest of its Others'.
	Degree Degree
}

// Reading is a question's answers, aligned.
type Reading struct {
	Units []Unit
	// Likeness says how alike each answer is to the most common one, from 0 to 1.
	Likeness []float64
	// Apart are the answers that are too unlike to be aligned.
	Apart []int
}

// apartBelow is the likeness below which marks would cover the whole answer.
const apartBelow = 0.5

// likeEnough is how alike two blocks must be that stand at the same place; elsewhere they must be likeElsewhere.
const (
	likeEnough    = 0.4
	likeElsewhere = 0.7
	// mostCells bounds how many pairs of blocks are compared at one place.
	mostCells = 900
	// blockTime is how long looking for the difference of two blocks may take.
	blockTime = 20 * time.Millisecond
)

// Align aligns answers with the first one, which is the most common. If that takes longer than within, the differences inside of
// blocks become coarse: what lies between their common beginning and end.
func Align(answers []Answer, within time.Duration) Reading {
	deadline := time.Now().Add(within)
	r := Reading{Likeness: make([]float64, len(answers))}
	if len(answers) == 0 {
		return r
	}
	base := Cut(answers[0].Text)
	r.Likeness[0] = 1
	builder := newBuilder(answers, base, deadline)
	for n := 1; n < len(answers); n++ {
		other := Cut(answers[n].Text)
		pairs := pair(base, other)
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

// pair finds the block of other that stands for each of base's; -1 where there is none.
func pair(base, other []Block) []int {
	pairs := make([]int, len(base))
	for n := range pairs {
		pairs[n] = -1
	}
	at, to := 0, 0
	match := func(from, fromOther, until, untilOther int) {
		pairGap(pairs, base, other, from, fromOther, until, untilOther)
	}
	from, fromOther := 0, 0
	for _, step := range compareBlocks(base, other) {
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

// compareBlocks finds which blocks are equal in the same order.
func compareBlocks(base, other []Block) []measure.Step {
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
	return measure.CompareTokens(code(base), code(other), measure.DifferenceTime).Steps
}

// pairGap pairs the blocks between two that are equal, in their order, so that the sum of their likeness is greatest. Where there are too
// many, blocks at the same place are compared.
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

// pairMoved pairs what is left with blocks at other places: an answer in another order says the same.
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

// likenessOf is how alike two answers are, by their blocks.
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

// builder collects what the answers have at each place of the most common one.
type builder struct {
	answers  []Answer
	base     []Block
	deadline time.Time
	words    map[string][]string
	// at are the units of base's blocks, after what stands behind each of them, and at 0 before the first.
	at    []Unit
	after [][]Unit
}

func newBuilder(answers []Answer, base []Block, deadline time.Time) *builder {
	b := &builder{answers: answers, base: base, deadline: deadline, words: map[string][]string{}, at: make([]Unit, len(base)), after: make([][]Unit, len(base)+1)}
	for n, block := range base {
		b.at[n] = Unit{Kind: block.Kind, Text: block.Text, Sharing: []int{0}}
	}
	return b
}

// add takes an answer with the pairs of its blocks.
func (b *builder) add(answer int, other []Block, pairs []int) {
	before := make([]int, len(other)) // after which block of base each stands
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
			unit.addOther(answer, b.compare(answer, b.base[n], other[to]))
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

// insert takes a block that the most common answer has not.
func (b *builder) insert(answer, place int, block Block) {
	for n := range b.after[place] {
		if known := &b.after[place][n].Others[0]; known.Text == block.Text {
			known.Answers = append(known.Answers, answer)
			return
		}
	}
	b.after[place] = append(b.after[place], Unit{Kind: block.Kind, Degree: Wording, Others: []Other{{Answers: []int{answer}, Text: block.Text, Degree: Wording}}})
}

// addOther takes what an answer has at the unit's place, with those that have the same.
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

// compare marks how a block of an answer differs from the most common answer's.
func (b *builder) compare(answer int, base, other Block) Other {
	found := Other{Text: other.Text, Degree: Form}
	if base.plain == other.plain {
		return found
	}
	mine, termsOfMine := b.tokens(base.Text, b.answers[0].Terms)
	theirs, termsOfTheirs := b.tokens(other.Text, b.answers[answer].Terms)
	steps := measure.CompareTokens(mine, theirs, min(blockTime, time.Until(b.deadline)))
	for _, piece := range joined(steps.Pieces(base.Text, other.Text)) {
		switch piece.Op {
		case measure.Equal:
			found.Pieces = append(found.Pieces, piece)
			continue
		case measure.Delete:
			found.Pieces = append(found.Pieces, graded(piece, termsOfMine)...)
		default:
			found.Pieces = append(found.Pieces, graded(piece, termsOfTheirs)...)
		}
	}
	for _, piece := range found.Pieces {
		found.Degree = max(found.Degree, piece.Degree)
	}
	return found
}

// graded cuts the terms out of what was deleted or inserted, and says how much each part matters.
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
			if n := strings.Index(rest, one); n >= 0 && (at < 0 || n < at || n == at && len(one) > len(term)) && isWhole(rest, n, n+len(one)) {
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

// degreeOf is how much a text matters in which there is no term.
func degreeOf(text string) Degree {
	if measure.Plain(text) == "" {
		return Form
	}
	return Wording
}

// tokens cuts a block into words, with each of the terms in it as one. found are the terms that it has.
func (b *builder) tokens(text string, terms []string) (tokens, found []string) {
	for _, term := range terms {
		if term != "" && strings.Contains(text, term) {
			found = append(found, term)
		}
	}
	if len(found) == 0 {
		words, isKnown := b.words[text]
		if !isKnown {
			words = measure.Words(text)
			b.words[text] = words
		}
		return words, nil
	}
	slices.SortStableFunc(found, func(x, y string) int { return cmp.Compare(len(y), len(x)) })
	from := 0
	for at := 0; at < len(text); {
		n := slices.IndexFunc(found, func(term string) bool { return strings.HasPrefix(text[at:], term) && isWhole(text, at, at+len(term)) })
		if n < 0 {
			_, size := utf8.DecodeRuneInString(text[at:])
			at += size
			continue
		}
		tokens = append(append(tokens, measure.Words(text[from:at])...), found[n])
		at += len(found[n])
		from = at
	}
	return append(tokens, measure.Words(text[from:])...), found
}

// isWhole reports that a stretch of a text does not begin or end within a number.
func isWhole(text string, from, to int) bool {
	before, _ := utf8.DecodeLastRuneInString(text[:from])
	first, _ := utf8.DecodeRuneInString(text[from:])
	last, _ := utf8.DecodeLastRuneInString(text[:to])
	behind, _ := utf8.DecodeRuneInString(text[to:])
	isCutBefore, isCutBehind := unicode.IsDigit(before) && unicode.IsDigit(first), unicode.IsDigit(last) && unicode.IsDigit(behind)
	return !isCutBefore && !isCutBehind
}

// joined puts what is deleted before what is inserted, and joins changes with less than two characters between them: a reader sees one.
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

// units are all places in the order of the most common answer.
func (b *builder) units() []Unit {
	all := slices.Clone(b.after[0])
	for n, unit := range b.at {
		all = append(append(all, unit), b.after[n+1]...)
	}
	return all
}
