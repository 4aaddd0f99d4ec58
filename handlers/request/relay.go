package request

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"wending/jobs/blob"
)

const (
	// piece is the size of the pieces, in bytes, in which a response is passed on.
	piece = 64 << 10
	// maxPieces is the maximum number of pieces of one response that wait in memory.
	maxPieces = 16
	// patience is how long, in total, the producer of a response waits for its client before it writes to disk, so that
	// nothing is written for a client that keeps up.
	patience = 2 * time.Second
)

// RelayPool limits the data that waits for slow clients, so that they do not hold the resources that produce their
// responses.
type RelayPool struct{ memory, disk room }

// room is a budget of bytes.
type room struct {
	size  int64
	taken atomic.Int64
}

func (r *room) take(bytes int) bool {
	if r.taken.Add(int64(bytes)) <= r.size {
		return true
	}
	r.giveBack(bytes)
	return false
}

func (r *room) giveBack(bytes int) { r.taken.Add(-int64(bytes)) }

// NewRelayPool returns a pool: 64 MiB of memory and 16 GiB of temporary files shared by all responses.
func NewRelayPool() *RelayPool { return newRelayPool(64<<20, 16<<30) }

func newRelayPool(memory, disk int64) *RelayPool {
	return &RelayPool{memory: room{size: memory}, disk: room{size: disk}}
}

// Waiting returns how many bytes wait for slow clients in memory and on disk.
func (p *RelayPool) Waiting() (memory, disk int64) { return p.memory.taken.Load(), p.disk.taken.Load() }

// Through calls produce with a relay in place of *w. It calls made when the response is complete, possibly before the
// client has read it. It returns once the client has read the response, with the first error.
func (p *RelayPool) Through(w *http.ResponseWriter, produce func() error, made func()) error {
	direct, failure := *w, errors.New("no response was written")
	r := p.open(direct)
	*w = r
	func() {
		defer func() { *w = direct }()
		defer func() {
			if failure != nil {
				failure = r.close(failure)
			}
		}()
		failure = produce()
	}()
	made()
	if failure != nil {
		return failure
	}
	return r.close(nil)
}

// relay is a response that is produced at its own pace and read at the client's. Unread data waits in memory, then in a
// temporary file; if neither has room, the producer waits.
type relay struct {
	to         http.ResponseWriter
	connection *http.ResponseController
	pool       *RelayPool
	left       time.Duration // the part of patience that is not used up
	unsent     []byte

	mu sync.Mutex
	// waiting are the pieces that have not been sent yet, in order; inMemory is how many of them are in memory.
	waiting  []part
	inMemory int
	file     *os.File
	onDisk   int
	isEnded  bool
	failure  error // the error in writing to the client
	// came wakes send after a change, and went wakes the producer.
	came, went chan struct{}
	// sent holds memory of pieces that have been sent, to be reused.
	sent chan []byte
	done chan struct{}
}

// part is a piece that waits: either its bytes, or its position and size in the file.
type part struct {
	memory []byte
	offset int
	size   int
}

func (p *RelayPool) open(w http.ResponseWriter) *relay {
	r := &relay{
		to: w, connection: http.NewResponseController(w), pool: p, left: patience, unsent: make([]byte, 0, piece),
		came: make(chan struct{}, 1), went: make(chan struct{}, 1), sent: make(chan []byte, maxPieces),
		done: make(chan struct{}),
	}
	go r.send()
	return r
}

// Header implements http.ResponseWriter.
func (r *relay) Header() http.Header { return r.to.Header() }

// WriteHeader sends the headers. It is called before the first byte is written.
func (r *relay) WriteHeader(status int) { r.to.WriteHeader(status) }

// Unwrap is called by http.ResponseController.
func (r *relay) Unwrap() http.ResponseWriter { return r.to }

// Write queues bytes for the client; err is the error in writing earlier bytes to it.
func (r *relay) Write(b []byte) (written int, err error) {
	for written < len(b) {
		n := min(len(b)-written, piece-len(r.unsent))
		r.unsent = append(r.unsent, b[written:written+n]...)
		written += n
		if len(r.unsent) == piece {
			if err := r.FlushError(); err != nil {
				return written, err
			}
		}
	}
	return written, nil
}

// FlushError queues everything written so far, so that the client gets it.
func (r *relay) FlushError() error {
	if len(r.unsent) == 0 {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.failure
	}
	err := r.put(r.unsent)
	select {
	case r.unsent = <-r.sent:
	default:
		r.unsent = make([]byte, 0, piece)
	}
	return err
}

// put queues a piece for the client, and waits until there is room for it.
func (r *relay) put(b []byte) error {
	for {
		placed, err := r.place(b)
		if err != nil || placed {
			signal(r.came)
			return err
		}
		start := time.Now()
		var over <-chan time.Time
		if r.left > 0 {
			over = time.After(r.left)
		}
		select {
		case <-r.went:
		case <-over:
		}
		r.left -= time.Since(start)
	}
}

func (r *relay) place(b []byte) (placed bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.failure != nil:
		return false, r.failure
	case r.inMemory < maxPieces && r.pool.memory.take(len(b)):
		r.inMemory++
		r.waiting = append(r.waiting, part{memory: b, size: len(b)})
		return true, nil
	case r.left <= 0 && r.pool.disk.take(len(b)):
		if err := r.spill(b); err != nil {
			r.pool.disk.giveBack(len(b))
			return false, nil
		}
		return true, nil
	}
	return false, nil
}

// spill writes a piece to the end of the temporary file.
func (r *relay) spill(b []byte) error {
	if r.file == nil {
		file, err := blob.Unnamed("")
		if err != nil {
			return err
		}
		r.file = file
	}
	if _, err := r.file.WriteAt(b, int64(r.onDisk)); err != nil {
		return err
	}
	r.waiting = append(r.waiting, part{offset: r.onDisk, size: len(b)})
	r.onDisk += len(b)
	r.useAgain(b)
	return nil
}

// useAgain keeps the memory of a piece for a later one.
func (r *relay) useAgain(b []byte) {
	select {
	case r.sent <- b[:0]:
	default:
	}
}

// close ends the response. If failure is nil, close waits until the client has read everything, and returns the error
// in writing to it. Otherwise it drops unsent data and returns failure.
func (r *relay) close(failure error) error {
	if failure == nil {
		failure = r.FlushError()
	}
	r.mu.Lock()
	r.isEnded = true
	if r.failure == nil {
		r.failure = failure
	}
	r.mu.Unlock()
	if failure != nil { // interrupts a write that waits for the client
		_ = r.connection.SetWriteDeadline(time.Now())
	}
	signal(r.came)
	<-r.done
	for _, dropped := range r.waiting {
		r.pool.memory.giveBack(len(dropped.memory))
	}
	if r.file != nil {
		_ = r.file.Close()
	}
	r.pool.disk.giveBack(r.onDisk)
	if failure != nil {
		return failure
	}
	return r.failure
}

// send sends the pieces to the client as they arrive, until the response ends or fails.
func (r *relay) send() {
	defer close(r.done)
	buffer := make([]byte, 0, piece)
	for {
		next, isLast, ok := r.next()
		if !ok {
			return
		}
		if next.size == 0 {
			<-r.came
			continue
		}
		content := next.memory
		if content == nil {
			content = buffer[:next.size]
			if _, err := r.file.ReadAt(content, int64(next.offset)); err != nil {
				r.fail(fmt.Errorf("read the data buffered for a client: %w", err))
				return
			}
		}
		_, err := r.to.Write(content)
		if err == nil && isLast {
			if err = r.connection.Flush(); errors.Is(err, http.ErrNotSupported) {
				err = nil
			}
		}
		r.pool.memory.giveBack(len(next.memory))
		if next.memory != nil {
			r.useAgain(next.memory)
		}
		if err != nil {
			r.fail(err)
			return
		}
		signal(r.went)
	}
}

// next takes the next piece, whose size is 0 if none is waiting. isLast means that no other piece is waiting; ok is
// false once the response has ended or failed and no piece is left.
func (r *relay) next() (next part, isLast, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failure != nil {
		return part{}, false, false
	}
	if len(r.waiting) == 0 {
		return part{}, false, !r.isEnded
	}
	next, r.waiting[0] = r.waiting[0], part{} // releases the memory of pieces that have been sent
	r.waiting = r.waiting[1:]
	if next.memory != nil {
		r.inMemory--
	}
	return next, len(r.waiting) == 0, true
}

func (r *relay) fail(err error) {
	r.mu.Lock()
	r.failure = err
	r.mu.Unlock()
	signal(r.went)
}

func signal(to chan struct{}) {
	select {
	case to <- struct{}{}:
	default:
	}
}
