package embedded

import (
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/alicebob/miniredis/v2"
)

// Redis is a running private server: redis-server, or a server inside this process if the machine has none.
type Redis struct {
	child   *child
	sockets string
	socket  string
	mini    *miniredis.Miniredis
	// password keeps other accounts of the machine out of the in-process server, which listens on a port.
	password string
	stopped  chan struct{}
}

// StartRedis starts a server whose append-only file is in dir, and returns when the server answers.
func StartRedis(ctx context.Context, dir string) (*Redis, error) {
	binary, err := exec.LookPath("redis-server")
	if err != nil {
		return startMini()
	}
	dir, err = filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("create the queue's folder: %w", err)
	}
	sockets, err := socketDir(dir+".sockets", nil)
	if err != nil {
		return nil, err
	}
	r := &Redis{sockets: sockets, socket: filepath.Join(sockets, "redis.sock"), stopped: make(chan struct{})}
	cmd := exec.Command(binary, "--port", "0", "--unixsocket", r.socket, "--unixsocketperm", "700", "--dir", dir,
		"--appendonly", "yes", "--appendfsync", "everysec", "--save", "", "--daemonize", "no", "--logfile",
		filepath.Join(dir, "redis.log"))
	cmd.Dir = "/"
	r.child, err = startChild(cmd, syscall.SIGTERM, nil)
	if err != nil {
		return nil, fmt.Errorf("start redis-server: %w", err)
	}
	if err := r.awaitReady(ctx); err != nil {
		r.Stop()
		return nil, err
	}
	return r, nil
}

// URL returns the address in the form that asynq expects.
func (r *Redis) URL() string {
	if r.mini != nil {
		address := url.URL{Scheme: "redis", User: url.UserPassword("", r.password), Host: r.mini.Addr()}
		return address.String()
	}
	address := url.URL{Scheme: "redis-socket", Path: r.socket}
	return address.String()
}

// IsInProcess reports whether the queue is in this process, because the machine has no redis-server.
func (r *Redis) IsInProcess() bool { return r.mini != nil }

// Exited is closed when the server has ended for any reason. It is nil for an in-process server, which ends only
// with the process.
func (r *Redis) Exited() <-chan struct{} {
	if r.mini != nil {
		return nil
	}
	return r.child.exited
}

// Stop ends the server.
func (r *Redis) Stop() {
	close(r.stopped)
	if r.mini != nil {
		r.mini.Close()
		return
	}
	r.child.stop(10*time.Second, syscall.SIGTERM, syscall.SIGKILL)
	_ = os.RemoveAll(r.sockets)
}

func (r *Redis) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		if r.answersPing() {
			return nil
		}
		select {
		case <-r.child.exited:
			return fmt.Errorf("redis-server exited during startup; see redis.log in its folder")
		case <-ctx.Done():
			return fmt.Errorf("redis-server did not answer in time; see redis.log in its folder")
		case <-tick.C:
		}
	}
}

func (r *Redis) answersPing() bool {
	connection, err := net.DialTimeout("unix", r.socket, time.Second)
	if err != nil {
		return false
	}
	defer connection.Close() //nolint:errcheck // a probe
	_ = connection.SetDeadline(time.Now().Add(time.Second))
	if _, err := connection.Write([]byte("PING\r\n")); err != nil {
		return false
	}
	answer := make([]byte, 7)
	n, err := connection.Read(answer)
	return err == nil && string(answer[:n]) == "+PONG\r\n"
}

// startMini runs the queue inside this process. The server's clock has to be advanced by hand.
func startMini() (*Redis, error) {
	mini, password := miniredis.NewMiniRedis(), rand.Text()
	mini.RequireAuth(password)
	if err := mini.StartAddr("127.0.0.1:0"); err != nil {
		return nil, fmt.Errorf("start the queue: %w", err)
	}
	r := &Redis{mini: mini, password: password, stopped: make(chan struct{})}
	go func() {
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		last := time.Now()
		for {
			select {
			case <-r.stopped:
				return
			case now := <-tick.C:
				mini.FastForward(now.Sub(last))
				last = now
			}
		}
	}()
	return r, nil
}
