package marks

import (
	"container/list"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"sync"
)

// Layouts caches the layouts of answers for later readers: a run's text never changes. The least recently read
// answers are evicted.
type Layouts struct {
	mu    sync.Mutex
	byKey map[layoutKey]*list.Element
	// recent holds the cached layouts, most recently used first.
	recent     list.List
	bytes, max int
}

// layoutKey is a hash of a question's answers and the facts on which they differ: a different answer or fact gives a
// different key.
type layoutKey [sha256.Size]byte

type keptLayout struct {
	key   layoutKey
	of    *laidOut
	bytes int
}

// weight is the memory, in bytes, that a layout takes for each byte of its answers (the texts, their blocks by
// character, and their differences), and layoutBytes is the minimum for a layout.
const (
	weight      = 6
	layoutBytes = 4096
)

// NewLayouts returns an empty cache that holds at most the given number of bytes.
func NewLayouts(maxBytes int) *Layouts {
	return &Layouts{byKey: map[layoutKey]*list.Element{}, max: maxBytes}
}

// of returns a cached layout; nil if there is none.
func (l *Layouts) of(key layoutKey) *laidOut {
	l.mu.Lock()
	defer l.mu.Unlock()
	at, isKept := l.byKey[key]
	if !isKept {
		return nil
	}
	l.recent.MoveToFront(at)
	return at.Value.(keptLayout).of
}

// keep caches a layout unless it takes more than a tenth of the cache.
func (l *Layouts) keep(key layoutKey, one *laidOut) {
	if l == nil {
		return
	}
	size := layoutBytes + weight*one.length
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, isKept := l.byKey[key]; isKept || size > l.max/10 {
		return
	}
	l.byKey[key] = l.recent.PushFront(keptLayout{key, one, size})
	for l.bytes += size; l.bytes > l.max; {
		oldest := l.recent.Remove(l.recent.Back()).(keptLayout)
		delete(l.byKey, oldest.key)
		l.bytes -= oldest.bytes
	}
}

// layoutKey returns the key of a question's answers: their runs, the loaded length of their texts, and the facts on
// which they differ.
func (q Question) layoutKey() layoutKey {
	hash := sha256.New()
	write := func(number int64) { _ = binary.Write(hash, binary.LittleEndian, number) } // writing to a hash cannot fail
	for _, one := range q.Answers {
		write(int64(len(one.Text)))
		write(int64(len(one.Runs)))
		for _, run := range one.Runs {
			write(run.ID)
		}
	}
	for _, variant := range q.Alike.Variants {
		_ = json.NewEncoder(hash).Encode(variant.Facts) // texts and numbers only
	}
	return layoutKey(hash.Sum(nil))
}

// Allowance counts the bytes of answers laid out for one page so far. What a page shows depends only on its answers,
// not on how busy the machine is.
type Allowance struct{ laid, held int }

// allows reports whether a question with answers of the given number of bytes is laid out with the page. Long answers
// may take a third of a page's allowance, so that the others can also be laid out.
func (a *Allowance) allows(length int) bool {
	if length > usualAnswers {
		return a == nil || a.laid < mostLaid/3
	}
	return a == nil || a.laid < mostLaid
}

// Take takes bytes from the allowance.
func (a *Allowance) Take(length int) {
	if a != nil {
		a.laid += length
	}
}

// holds counts a question whose answers have the given number of bytes, and reports whether the page is to contain the
// question's folded content.
func (a *Allowance) holds(length int) bool {
	if a == nil {
		return true
	}
	a.held += length
	return a.held <= heldFolds || a.held == length
}
