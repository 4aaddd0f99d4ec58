package embedded

import (
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// serverLog is the file to which a server's messages are appended. When it grows large, its content moves to a second
// file, so that both together have a limit.
type serverLog struct {
	path string
	// mu keeps the file from being rotated while it is read.
	mu sync.Mutex
	// from is where the messages of the running server begin.
	from atomic.Int64
}

// The size above which a log is rotated, and how often that is checked.
const (
	maxLog      = 10 << 20
	rotateEvery = time.Minute
)

// open opens the file for a server that is about to start.
func (l *serverLog) open() (*os.File, error) {
	l.rotate()
	file, err := os.OpenFile(l.path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the database's log: %w", err)
	}
	info, err := file.Stat()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open the database's log: %w", err), file.Close())
	}
	l.from.Store(info.Size())
	return file, nil
}

// keepShort rotates the file until ended is closed.
func (l *serverLog) keepShort(ended <-chan struct{}) {
	tick := time.NewTicker(rotateEvery)
	defer tick.Stop()
	for {
		select {
		case <-ended:
			return
		case <-tick.C:
			l.rotate()
		}
	}
}

// rotate copies a large file to a second one and empties it. The server keeps its handle, with which it appends, so
// messages written in between are lost; there are rarely any.
func (l *serverLog) rotate() {
	l.mu.Lock()
	defer l.mu.Unlock()
	info, err := os.Stat(l.path)
	if err != nil || info.Size() <= maxLog {
		return
	}
	if copyFile(l.path, l.path+".1") != nil { // a full disk: the next check tries again
		return
	}
	if os.Truncate(l.path, 0) == nil {
		l.from.Store(0)
	}
}

func copyFile(from, to string) error {
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer source.Close() //nolint:errcheck // only read
	target, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(target, source)
	return errors.Join(err, target.Close())
}

// tail returns the last lines that the server has written since it started.
func (l *serverLog) tail(lines int) []string {
	const most = 256 << 10
	l.mu.Lock()
	defer l.mu.Unlock()
	file, err := os.Open(l.path)
	if err != nil {
		return []string{err.Error()}
	}
	defer file.Close() //nolint:errcheck // only read
	info, err := file.Stat()
	if err != nil {
		return []string{err.Error()}
	}
	if _, err := file.Seek(max(l.from.Load(), info.Size()-most), io.SeekStart); err != nil {
		return []string{err.Error()}
	}
	content, err := io.ReadAll(file)
	if err != nil {
		return []string{err.Error()}
	}
	all := strings.Split(strings.TrimSpace(string(content)), "\n")
	return all[max(0, len(all)-lines):]
}

// The patterns that causeOf looks for in a server's messages: those of fatal errors explain why the server ended,
// unless they also match forClients, which describes fatal errors of a single client's connection.
var (
	diskFull   = regexp.MustCompile(`No space left on device|Disk quota exceeded`)
	noMemory   = regexp.MustCompile(`Cannot allocate memory|could not map anonymous shared memory`)
	fatal      = regexp.MustCompile(`(PANIC|FATAL): +(.+)`)
	forClients = regexp.MustCompile(`the database system is |terminating connection|connection to client lost|role "|database "`)
)

// causeOf explains, from its last messages and the state of its process, why a server ended.
func causeOf(lines []string, state *os.ProcessState) string {
	status, isKnown := state.Sys().(syscall.WaitStatus)
	if isKnown && status.Signaled() && status.Signal() == syscall.SIGKILL {
		return "it was killed (SIGKILL), perhaps because the machine had no memory left (see dmesg)"
	}
	text := strings.Join(lines, "\n")
	switch {
	case diskFull.MatchString(text):
		return "the disk is full: free some space or enlarge the disk, then start again; nothing that was stored is lost"
	case noMemory.MatchString(text):
		return "the machine has no memory left: stop other programs or add memory, then start again"
	}
	for n := len(lines) - 1; n >= 0; n-- {
		if found := fatal.FindStringSubmatch(lines[n]); found != nil && !forClients.MatchString(found[2]) {
			return found[2]
		}
	}
	return state.String()
}
