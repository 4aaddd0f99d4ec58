package passage

// Signatures returns a number for each sentence. Sentences that are equal except for form, and about the same
// subject, have the same number.
func (t *Text) Signatures() []uint64 {
	signatures := make([]uint64, len(t.Sentences))
	known := map[Span]uint64{}
	signature := func(part Span) uint64 {
		h, isKnown := known[part]
		if !isKnown {
			h = t.signature(part)
			known[part] = h
		}
		return h
	}
	for n, x := range t.Sentences {
		h := t.signature(x.Span)
		for _, part := range [4]Span{x.Heading, x.Label, x.Row, x.Column} {
			h = h*1099511628211 + 7
			if !part.IsEmpty() {
				h ^= signature(part)
			}
		}
		signatures[n] = h
	}
	return signatures
}

func (t *Text) signature(part Span) uint64 {
	const prime = 1099511628211
	h := uint64(14695981039346656037)
	last := part.From - 1 // the last character that counts
	for i := part.From; i < part.To; i++ {
		r := t.Runes[i]
		if !IsLetter(r) && !IsDigit(r) && !isSignificant(r) {
			continue
		}
		isApart := last < i-1 && last >= part.From && IsDigit(r) && IsDigit(t.Runes[last])
		if isApart && (last != i-2 || t.Runes[i-1] != ',') { // 3、5 is not 35
			h = (h ^ ' ') * prime
		}
		h = (h ^ uint64(Lower(r))) * prime
		last = i
	}
	return h
}

// isSignificant reports whether a mark can be part of a fact.
func isSignificant(r rune) bool {
	switch r {
	case '%', '-', '–', '~', '°', '.', '<', '>', '≥', '≤', '/', '$', '¥', '€', '£', '‰', '±', '+', '×':
		return true
	}
	return false
}
