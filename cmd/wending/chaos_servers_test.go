package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
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
	"wending/db/pg/embedded"
)

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

// restart ends the server abruptly, as a power cut would, and starts it again.
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
	s := &redisServer{dir: t.TempDir(), port: dbtest.FreePort(t)}
	s.client = redis.NewClient(&redis.Options{Addr: "127.0.0.1:" + s.port})
	require.NoError(t, s.start())
	t.Cleanup(func() { _ = s.client.Close(); s.kill() })
	return s
}

func (s *redisServer) url() string { return "redis://127.0.0.1:" + s.port }

func (s *redisServer) start() error {
	s.command = exec.Command("redis-server", "--port", s.port, "--bind", "127.0.0.1", "--dir", s.dir, "--appendonly",
		"yes", "--save", "")
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

// member is a process of the program that is restarted whenever it ends, as an operator's supervisor would do.
type member struct {
	name    string
	binary  string
	args    []string
	proxy   *dbtest.Proxy
	log     *lockedLog
	mu      sync.Mutex
	command *exec.Cmd
	address string
	// isRetired means that the process must not be restarted.
	isRetired bool
	isFrozen  atomic.Bool
	starts    atomic.Int64
	left      chan struct{}
}

// lockedLog collects the output of all processes.
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
			time.Sleep(200 * time.Millisecond) // as long as a supervisor waits
		}
	}()
	<-ready
	t.Cleanup(m.retire)
	return m
}

// addressFinder finds the address that a web process logs.
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

// retire ends the process permanently.
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

// residentMemory returns the memory of the process in bytes.
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
	// The wall clock is shifted, the monotonic clock is not.
	const reading = "sec, nsec, mono := runtimeNow()"
	require.Contains(t, string(source), reading)
	shifted := strings.ReplaceAll(string(source), reading, reading+"; sec += 3600")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "time.go"), []byte(shifted), 0o600))
	overlay := fmt.Sprintf(`{"Replace": {%q: %q}}`, original, filepath.Join(dir, "time.go"))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "overlay.json"), []byte(overlay), 0o600))
	binary := filepath.Join(dir, "wending-skewed")
	output, err := exec.Command("go", "build", "-overlay", filepath.Join(dir, "overlay.json"), "-o", binary,
		".").CombinedOutput()
	require.NoError(t, err, "%s", output)
	return binary
}

// writeBomb answers with a few MB of gzip that unpack to a single event of 4 GB.
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
