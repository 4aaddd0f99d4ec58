package dbtest

import (
	"bytes"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lib/pq"
)

// Proxy sits between one process and a PostgreSQL server, and can break the connections through it.
type Proxy struct {
	listener net.Listener
	socket   string
	mu       sync.Mutex
	links    map[*link]bool
	// trap is the next one to spring; nil means that none is set. first is the one that was set.
	trap, first *Trap
	sprung      atomic.Int64
}

// Trap waits for a statement that contains Words, and then cuts the connection.
type Trap struct {
	Words string
	// Pass lets the statement through, so that only the reply is lost.
	Pass bool
	// Act is called when the trap is sprung; it may be nil.
	Act func()
	// Next, if not nil, is the next trap in the same transaction; the connection is then not cut. If the transaction ends
	// before it, the first trap is set again.
	Next *Trap
	only *link
}

// link is one connection through a proxy.
type link struct {
	client, server net.Conn
	isDead         atomic.Bool // half-open: nothing passes, nothing is closed
}

func (l *link) close() {
	_ = l.client.Close()
	_ = l.server.Close()
}

// NewProxy starts a proxy in front of a PostgreSQL server. database is its connection string in key=value form, whose
// host is the folder of a Unix socket.
func NewProxy(t testing.TB, database string) *Proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	config, err := pq.NewConfig(database)
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{listener: listener, links: map[*link]bool{}, socket: config.Host + "/.s.PGSQL.5432"}
	t.Cleanup(func() { _ = listener.Close(); p.CutAll() })
	go p.accept()
	return p
}

// URL returns the address of the database through the proxy.
func (p *Proxy) URL() string {
	return fmt.Sprintf("postgres://wending@%s/postgres?sslmode=disable", p.listener.Addr())
}

// Spring sets a trap, waits until a statement springs it, and reports whether one did within the given time. Then it
// removes the trap.
func (p *Proxy) Spring(trap Trap, within time.Duration) (sprung bool) {
	before := p.sprung.Load()
	p.set(&trap)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(within); time.Now().Before(end); <-tick.C {
		if p.sprung.Load() > before {
			return true
		}
	}
	p.set(nil)
	return p.sprung.Load() > before
}

// CutAll closes every current connection.
func (p *Proxy) CutAll() {
	for _, l := range p.all() {
		l.close()
	}
}

// DeadenAll leaves every current connection half-open: nothing passes and neither side is notified.
func (p *Proxy) DeadenAll() {
	for _, l := range p.all() {
		l.isDead.Store(true)
	}
}

func (p *Proxy) all() (links []*link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		links = append(links, l)
	}
	return links
}

func (p *Proxy) set(trap *Trap) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.trap, p.first = trap, trap
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("unix", p.socket)
		if err != nil {
			_ = client.Close()
			continue
		}
		l := &link{client: client, server: server}
		p.mu.Lock()
		p.links[l] = true
		p.mu.Unlock()
		go p.pump(l, l.client, l.server, true)
		go p.pump(l, l.server, l.client, false)
	}
}

func (p *Proxy) pump(l *link, from, to net.Conn, isStatement bool) {
	defer func() {
		l.close()
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.links, l)
		if p.trap != nil && p.trap.only == l {
			p.trap = p.first
		}
	}()
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if l.isDead.Load() {
			if err != nil {
				return
			}
			continue
		}
		if isStatement && n > 0 {
			if trap := p.stepInto(l, buffer[:n]); trap != nil {
				if trap.Pass {
					_, _ = to.Write(buffer[:n])
				}
				if trap.Act != nil {
					trap.Act()
				}
				return
			}
		}
		if n > 0 {
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// stepInto returns the trap that a statement springs, if that trap cuts the connection.
func (p *Proxy) stepInto(l *link, statement []byte) *Trap {
	p.mu.Lock()
	defer p.mu.Unlock()
	has := func(words string) bool { return bytes.Contains(statement, []byte(words)) }
	trap := p.trap
	switch {
	case trap == nil || trap.only != nil && trap.only != l:
		return nil
	case !has(trap.Words):
		if trap.only == l && (has("COMMIT") || has("ROLLBACK")) {
			p.trap = p.first
		}
		return nil
	}
	p.trap = trap.Next
	if trap.Next != nil {
		trap.Next.only = l
		return nil
	}
	p.sprung.Add(1)
	return trap
}
