package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"wending/db/dbtest"
	"wending/db/embedded"
)

// proxy stands between one process and PostgreSQL, and breaks what passes.
type proxy struct {
	listener net.Listener
	target   string // PostgreSQL's socket
	mu       sync.Mutex
	links    map[*link]bool
	// trap is what waits for a statement that contains its words; nil: none.
	trap *trap
	hits atomic.Int64
}

// trap is sprung by the first statement that contains words: it is passed on, or not, and then act is called.
type trap struct {
	words []byte
	pass  bool
	act   func(*link)
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

func newProxy(t *testing.T, target string) *proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &proxy{listener: listener, target: target, links: map[*link]bool{}}
	t.Cleanup(func() { _ = listener.Close(); p.cutAll() })
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("unix", p.target)
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
	}()
	return p
}

func (p *proxy) url() string {
	return fmt.Sprintf("postgres://wending@%s/postgres?sslmode=disable", p.listener.Addr())
}

func (p *proxy) pump(l *link, from, to net.Conn, isStatement bool) {
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		if l.isDead.Load() {
			if err != nil {
				return // the other side stays open
			}
			continue
		}
		if isStatement && n > 0 {
			if sprung := p.spring(buffer[:n]); sprung != nil {
				if sprung.pass {
					_, _ = to.Write(buffer[:n])
				}
				sprung.act(l)
				if !l.isDead.Load() {
					break
				}
				continue
			}
		}
		if n > 0 {
			if _, err := to.Write(buffer[:n]); err != nil {
				break
			}
		}
		if err != nil {
			break
		}
	}
	l.close()
	p.mu.Lock()
	delete(p.links, l)
	p.mu.Unlock()
}

func (p *proxy) spring(statement []byte) *trap {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.trap == nil || !bytes.Contains(statement, p.trap.words) {
		return nil
	}
	sprung := p.trap
	p.trap = nil
	p.hits.Add(1)
	return sprung
}

// set sets a trap and takes it away again when nothing steps into it.
func (p *proxy) set(words string, pass bool, act func(*link)) (sprung bool) {
	before := p.hits.Load()
	p.mu.Lock()
	p.trap = &trap{[]byte(words), pass, act}
	p.mu.Unlock()
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if p.hits.Load() > before {
			return true
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.trap = nil
	return p.hits.Load() > before
}

// each does something to every connection there is now.
func (p *proxy) each(do func(*link)) {
	p.mu.Lock()
	links := make([]*link, 0, len(p.links))
	for l := range p.links {
		links = append(links, l)
	}
	p.mu.Unlock()
	for _, l := range links {
		do(l)
	}
}

func (p *proxy) cutAll()    { p.each((*link).close) }
func (p *proxy) deadenAll() { p.each(func(l *link) { l.isDead.Store(true) }) }

// postgresServer is a real PostgreSQL that can be restarted.
type postgresServer struct {
	dir string
	mu  sync.Mutex
	*embedded.Postgres
}

func startPostgres(t *testing.T) *postgresServer {
	t.Helper()
	s := &postgresServer{dir: dbtest.Folder(t) + "/postgres"}
	var err error
	s.Postgres, err = embedded.StartPostgres(context.Background(), s.dir)
	require.NoError(t, err)
	t.Cleanup(func() { s.Stop() })
	return s
}

func (s *postgresServer) socket() string {
	for part := range strings.FieldsSeq(s.URL()) {
		if host, isHost := strings.CutPrefix(part, "host="); isHost {
			return filepath.Join(host, ".s.PGSQL.5432")
		}
	}
	panic("no socket in the address")
}

// restart ends the server at once, as a power cut would end it, and starts it again.
func (s *postgresServer) restart() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	head, err := os.ReadFile(filepath.Join(s.dir, "postmaster.pid"))
	if err != nil {
		return err
	}
	pid, err := strconv.Atoi(strings.TrimSpace(strings.Split(string(head), "\n")[0]))
	if err != nil {
		return err
	}
	if err := syscall.Kill(pid, syscall.SIGQUIT); err != nil {
		return err
	}
	<-s.Exited()
	s.Postgres, err = embedded.StartPostgres(context.Background(), s.dir)
	return err
}

// redisServer is a real redis-server on a port.
type redisServer struct {
	dir, port string
	command   *exec.Cmd
	client    *redis.Client
}

func startRedis(t *testing.T) *redisServer {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	_, port, err := net.SplitHostPort(listener.Addr().String())
	require.NoError(t, err)
	require.NoError(t, listener.Close())
	s := &redisServer{dir: t.TempDir(), port: port}
	s.client = redis.NewClient(&redis.Options{Addr: "127.0.0.1:" + port})
	require.NoError(t, s.start())
	t.Cleanup(func() { _ = s.client.Close(); s.kill() })
	return s
}

func (s *redisServer) url() string { return "redis://127.0.0.1:" + s.port }

func (s *redisServer) start() error {
	s.command = exec.Command("redis-server", "--port", s.port, "--bind", "127.0.0.1", "--dir", s.dir, "--appendonly", "yes", "--save", "")
	if err := s.command.Start(); err != nil {
		return err
	}
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		err := s.client.Ping(ctx).Err()
		cancel()
		if err == nil {
			return nil
		}
	}
	return fmt.Errorf("redis-server does not answer on port %s", s.port)
}

func (s *redisServer) kill() {
	_ = s.command.Process.Kill()
	_ = s.command.Wait()
}

// member is a process of the program that is started again when it ends, as an operator's supervisor would.
type member struct {
	name    string
	binary  string
	args    []string
	proxy   *proxy
	log     *lockedLog
	mu      sync.Mutex
	command *exec.Cmd
	address string
	// isRetired says that it shall not be started again.
	isRetired bool
	isFrozen  atomic.Bool
	starts    atomic.Int64
	left      chan struct{}
}

// lockedLog collects what all processes say.
type lockedLog struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lockedLog) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *lockedLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func startMember(t *testing.T, m *member) *member {
	t.Helper()
	m.left = make(chan struct{})
	dir := t.TempDir()
	ready := make(chan struct{})
	go func() {
		defer close(m.left)
		for first := true; ; first = false {
			m.mu.Lock()
			if m.isRetired {
				m.mu.Unlock()
				return
			}
			m.command = exec.Command(m.binary, m.args...)
			m.command.Env = append(os.Environ(), "WENDING_TEST_PROGRAM=1")
			m.command.Dir = dir
			m.command.Stderr = m.log
			out := &addressFinder{m: m}
			m.command.Stdout = out
			err := m.command.Start()
			command := m.command
			m.mu.Unlock()
			if first {
				close(ready)
			}
			if err != nil {
				return
			}
			m.starts.Add(1)
			_ = command.Wait()
			time.Sleep(200 * time.Millisecond) // what a supervisor waits
		}
	}()
	<-ready
	t.Cleanup(m.retire)
	return m
}

// addressFinder reads the address that a web process tells.
type addressFinder struct{ m *member }

func (f *addressFinder) Write(b []byte) (int, error) {
	if _, address, found := strings.Cut(strings.TrimSpace(string(b)), ": "); found {
		f.m.mu.Lock()
		f.m.address = address
		f.m.mu.Unlock()
	}
	return len(b), nil
}

func (m *member) url() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.address
}

func (m *member) signal(what syscall.Signal) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.command != nil && m.command.Process != nil {
		_ = m.command.Process.Signal(what)
	}
}

// retire ends it for good.
func (m *member) retire() {
	m.mu.Lock()
	m.isRetired = true
	m.mu.Unlock()
	m.signal(syscall.SIGCONT)
	m.signal(syscall.SIGTERM)
	select {
	case <-m.left:
	case <-time.After(40 * time.Second):
		m.signal(syscall.SIGKILL)
		<-m.left
	}
}

// residentMemory is how much memory the process takes, in bytes.
func (m *member) residentMemory() int {
	m.mu.Lock()
	pid := m.command.Process.Pid
	m.mu.Unlock()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0
	}
	pages, _ := strconv.Atoi(strings.Fields(string(status))[1])
	return pages * os.Getpagesize()
}

// skewedProgram builds the program with a clock that is an hour ahead.
func skewedProgram(t *testing.T) string {
	t.Helper()
	root, err := exec.Command("go", "env", "GOROOT").Output()
	require.NoError(t, err)
	original := filepath.Join(strings.TrimSpace(string(root)), "src", "time", "time.go")
	source, err := os.ReadFile(original)
	require.NoError(t, err)
	dir := t.TempDir()
	// The wall clock is shifted, the monotonic one stays.
	const reading = "sec, nsec, mono := runtimeNow()"
	require.Contains(t, string(source), reading)
	shifted := strings.ReplaceAll(string(source), reading, reading+"; sec += 3600")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "time.go"), []byte(shifted), 0o600))
	overlay := fmt.Sprintf(`{"Replace": {%q: %q}}`, original, filepath.Join(dir, "time.go"))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "overlay.json"), []byte(overlay), 0o600))
	binary := filepath.Join(dir, "wending-skewed")
	output, err := exec.Command("go", "build", "-overlay", filepath.Join(dir, "overlay.json"), "-o", binary, ".").CombinedOutput()
	require.NoError(t, err, "%s", output)
	return binary
}

// writeBomb answers with a few MB of gzip that unpack to 4 GB of one event.
func writeBomb(w http.ResponseWriter) {
	w.Header().Set("Content-Encoding", "gzip")
	packer := gzip.NewWriter(w)
	_, _ = io.WriteString(packer, `data: {"event":"llm_chunk","data":{"content":"`)
	block := bytes.Repeat([]byte("x"), 1<<20)
	for range 4096 {
		if _, err := packer.Write(block); err != nil {
			return
		}
	}
	_ = packer.Close()
}
