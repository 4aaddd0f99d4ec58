package event

import (
	"slices"
	"sync"
	"time"
)

const (
	// frame is the maximum time, in milliseconds, between two pieces of text that are merged into one event: no
	// reader notices the difference.
	frame = 16
	// thinFrame replaces frame while a log is thinned: once a run has many events, or many bytes wait to be stored.
	thinFrame = 1000
	// manyEvents is the number above which a run's events are thinned; maxEvents and maxBytes limit how much of a run
	// is kept.
	manyEvents = 20_000
	maxEvents  = 40_000
	maxBytes   = 20 << 20
	// manyWaiting is the number of bytes waiting to be stored above which a log is thinned; above maxWaiting it accepts
	// only ends (isEnd).
	manyWaiting = 512 << 10
	maxWaiting  = 1 << 20
	// maxTail is the length in bytes up to which pieces of text are appended to the same event: copying a longer text for
	// every piece would be slow.
	maxTail = 64 << 10
	// maxEventsWaiting is the maximum number of waiting events, not counting ends: each takes about 400 bytes of memory in
	// addition to its content.
	maxEventsWaiting = 12_000
)

// Log collects the events of a call until they are stored. A Log is safe for concurrent use, and its methods block only
// on each other.
type Log struct {
	now func() time.Time

	mu      sync.Mutex
	start   time.Time
	waiting []Event
	// tail is the text of the last event while pieces are still appended to it, because a string would be copied for
	// each piece.
	tail    []byte
	bytes   int // of the waiting events
	seq     int
	events  int // events of the run so far
	total   int // bytes of the run so far
	dropped int
	// lastProgressMS is when the last ProgressUpdate was kept.
	lastProgressMS int
	// lastHeardMS is when data last arrived, and silenceMS is the longest silence so far.
	lastHeardMS, silenceMS int
	progress               *float64
}

// NewLog returns an empty log; after is the number of the unit's last event so far.
func NewLog(after int) *Log { return &Log{now: time.Now, seq: after} }

// Begin starts the call with a TaskStarted event. It is called once, before all other methods.
func (l *Log) Begin() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.start = l.now()
	l.add(TaskStarted, 0, Data{Attempt: 1})
}

// Again starts another attempt of the call; the wait before it does not count as the agent's silence.
func (l *Log) Again() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lastHeardMS, l.silenceMS, l.progress = int(l.now().Sub(l.start).Milliseconds()), 0, nil
}

// Emit adds an event, and returns its time in milliseconds since the call's start.
func (l *Log) Emit(kind Type, data Data) (at int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at = int(l.now().Sub(l.start).Milliseconds())
	l.silenceMS = max(l.silenceMS, at-l.lastHeardMS)
	l.lastHeardMS = at
	if data.Progress != nil && (kind == ProgressUpdate || kind == Tool) {
		l.progress = data.Progress
	}
	isThin := l.events >= manyEvents || l.bytes >= manyWaiting
	if l.merge(kind, at, data, isThin) {
		return at
	}
	if !isEnd(kind) && (l.isFull() || isThin && kind == ProgressUpdate && at-l.lastProgressMS < thinFrame) {
		l.dropped++
		return at
	}
	if kind.IsLast() {
		data.Dropped = l.dropped
	}
	l.add(kind, at, data)
	return at
}

// Seq returns the number of the last event.
func (l *Log) Seq() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.seq
}

func (l *Log) isFull() bool {
	return l.events >= maxEvents || l.total >= maxBytes || l.bytes >= maxWaiting || len(l.waiting) >= maxEventsWaiting
}

// isEnd reports whether an event is a result, or ends a call or an attempt: such events are always kept.
func isEnd(kind Type) bool {
	return kind.IsLast() || kind == Retry || kind == Asset
}

// merge appends a piece of text to the last waiting event if they arrived close enough together; in a thinned log, it
// also replaces progress with newer progress. It reports whether it did either.
func (l *Log) merge(kind Type, at int, data Data, isThin bool) bool {
	if len(l.waiting) == 0 || l.isFull() {
		return false
	}
	last := &l.waiting[len(l.waiting)-1]
	within := frame
	if isThin {
		within = thinFrame
	}
	if last.Type != kind || at-last.AtMS >= within {
		return false
	}
	switch {
	case last.isText() && (Event{Type: kind, Data: data}).isText():
		if max(len(l.tail), len(last.Data.Text))+len(data.Text) > maxTail {
			return false
		}
		if l.tail == nil {
			l.tail = []byte(last.Data.Text)
		}
		if len(l.tail)+len(data.Text) > cap(l.tail) { // append would enlarge it by only a fifth, and copy often
			l.tail = slices.Grow(l.tail, max(len(l.tail), len(data.Text)))
		}
		l.tail = append(l.tail, data.Text...)
		l.count(len(data.Text))
	case isThin && kind == ProgressUpdate:
		last.Data = data
		l.dropped++
	default:
		return false
	}
	return true
}

func (l *Log) count(bytes int) { l.bytes, l.total = l.bytes+bytes, l.total+bytes }

// settle writes the collected text into the last event.
func (l *Log) settle() {
	if l.tail != nil {
		l.waiting[len(l.waiting)-1].Data.Text, l.tail = string(l.tail), nil
	}
}

func (l *Log) add(kind Type, at int, data Data) {
	l.settle()
	l.seq++
	l.events++
	if kind == ProgressUpdate {
		l.lastProgressMS = at
	}
	l.count(data.size())
	l.waiting = append(l.waiting, Event{Seq: l.seq, AtMS: at, Type: kind, Data: data})
}

// size returns the approximate size of an event in bytes.
func (d Data) size() int {
	return 32 + len(d.Text) + len(d.Name) + len(d.ID) + len(d.Provider) + len(d.Message) + len(d.Code) + len(d.Kind) +
		len(d.URL) + len(d.MediaType) + len(d.Path) + len(d.Input) + len(d.Output) + len(d.Raw)
}

// Take removes the events that wait to be stored, and returns them, oldest first.
func (l *Log) Take() []Event {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.settle()
	waiting := l.waiting
	l.waiting, l.bytes = nil, 0
	return waiting
}

// Waits reports whether any events are waiting to be stored.
func (l *Log) Waits() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.waiting) > 0
}

// Waiting returns the size in bytes of the events that wait to be stored.
func (l *Log) Waiting() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.bytes
}

// Progress returns the last progress that the agent reported, in per cent, and when the call began; the progress is
// nil if it reported none.
func (l *Log) Progress() (progress *float64, since time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.progress, l.start
}

// LongestSilence returns the longest time in the call so far, in milliseconds, during which no data arrived.
func (l *Log) LongestSilence() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.silenceMS
}
