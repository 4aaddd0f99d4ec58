package measure

import (
	"math/bits"
	"slices"
)

// mostCells is the maximum size of the table of matches, in words of 64 cells; filling it takes a few milliseconds.
const mostCells = 1 << 22

// match is a token that two texts have in common, by its index in each.
type match struct{ inA, inB int }

// matches finds a longest common subsequence of the tokens of two texts. It reports false if the texts are too long
// for it. In row j of the table, the bit of a token of a is set if that token lengthens the longest common subsequence
// with the first j tokens of b (Hyyrö, "Bit-parallel LCS-length computation revisited", 2004). Only some rows are
// kept, at intervals; the rows between them are computed again.
func matches(a, b []rune) ([]match, bool) {
	var shared [2][]int // the indexes, in a and b, of tokens that both texts have: no others can match
	inA, inB := make(map[rune]bool, len(a)), map[rune]bool{}
	for _, r := range a {
		inA[r] = true
	}
	for j, r := range b {
		if inA[r] {
			shared[1] = append(shared[1], j)
			inB[r] = true
		}
	}
	tokens := make(map[rune]*columns, len(inB))
	for i, r := range a {
		if !inB[r] {
			continue
		}
		if tokens[r] == nil {
			tokens[r] = &columns{}
		}
		tokens[r].places = append(tokens[r].places, len(shared[0]))
		shared[0] = append(shared[0], i)
	}
	t := lcs{words: (len(shared[0]) + 63) / 64, rows: make([]*columns, len(shared[1]))}
	if len(t.rows)*t.words > mostCells {
		return nil, false
	}
	for n, j := range shared[1] {
		t.rows[n] = tokens[b[j]]
		t.rows[n].spread(t.words)
	}
	return t.trace(a, b, shared), true
}

// columns holds the columns of the table in which a token occurs.
type columns struct {
	places []int
	mask   []uint64 // places as a bit mask, if there are many
}

func (c *columns) spread(words int) {
	if c.mask != nil || len(c.places) <= words {
		return
	}
	c.mask = make([]uint64, words)
	for _, place := range c.places {
		c.mask[place/64] |= 1 << (place % 64)
	}
}

// lcs is the table for computing a longest common subsequence.
type lcs struct {
	words int
	rows  []*columns // the columns of each row's token
	mask  []uint64
}

// below computes the row below the given row of the table, and writes it to next. n is the index of its token in rows.
func (t *lcs) below(n int, row, next []uint64) {
	token, mask := t.rows[n], t.mask
	if token.mask != nil {
		mask = token.mask
	} else {
		for _, place := range token.places {
			mask[place/64] |= 1 << (place % 64)
		}
	}
	var carry uint64
	for w, v := range row {
		m := mask[w]
		var sum uint64
		sum, carry = bits.Add64(v, v&m, carry)
		next[w] = sum | v&^m
	}
	if token.mask == nil {
		for _, place := range token.places {
			mask[place/64] = 0
		}
	}
}

// trace fills the table, and follows a longest common subsequence back through it. The matches are returned in order.
func (t *lcs) trace(a, b []rune, shared [2][]int) []match {
	const interval = 64
	t.mask = make([]uint64, t.words)
	kept := make([]uint64, (len(t.rows)/interval+1)*t.words)
	row := func(all []uint64, n int) []uint64 { return all[n*t.words : (n+1)*t.words] }
	current := make([]uint64, t.words)
	for w := range current {
		current[w] = ^uint64(0)
	}
	for n := range t.rows {
		if n%interval == 0 {
			copy(row(kept, n/interval), current)
		}
		t.below(n, current, current)
	}
	block := make([]uint64, (interval+1)*t.words)
	var found []match
	for i, j := len(shared[0]), len(t.rows); i > 0 && j > 0; {
		first := (j - 1) / interval * interval
		copy(row(block, 0), row(kept, first/interval))
		for n := first; n < j; n++ {
			t.below(n, row(block, n-first), row(block, n-first+1))
		}
		for i > 0 && j > first {
			switch {
			case a[shared[0][i-1]] == b[shared[1][j-1]]:
				i, j = i-1, j-1
				found = append(found, match{shared[0][i], shared[1][j]})
			case row(block, j-first)[(i-1)/64]&(1<<((i-1)%64)) != 0:
				i--
			default:
				j--
			}
		}
	}
	slices.Reverse(found)
	return found
}
