// Package embedded runs a private PostgreSQL and a private Redis for a program that was not configured with any, from
// the binaries on the machine. Both listen on Unix sockets only, in folders that no other account may enter, and both
// stop when the program ends, for any reason.
package embedded

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// ErrDataDirInUse means that another instance uses the same data folder.
var ErrDataDirInUse = errors.New("the data folder is in use by another instance")

// LockDataDir creates the data folder if necessary and locks it for this process. The lock is held until the file
// is closed or the process ends.
func LockDataDir(dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // PostgreSQL runs under an account of its own
		return nil, fmt.Errorf("create the data folder: %w", err)
	}
	file, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock the data folder: %w", err)
	}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = file.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("%w: %s", ErrDataDirInUse, dir)
		}
		return nil, fmt.Errorf("lock the data folder: %w", err)
	}
	return file, nil
}

// child is a server process that the kernel stops when this process dies.
type child struct {
	cmd    *exec.Cmd
	exited chan struct{}
}

// startChild starts cmd in its own process group (so that Ctrl-C reaches only this program, which drains first) and
// has the kernel send it dieWith when the starting thread ends. Pdeathsig follows the thread and not the process, so
// the thread is kept for as long as the child lives.
func startChild(cmd *exec.Cmd, dieWith syscall.Signal, credential *syscall.Credential) (*child, error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: dieWith, Credential: credential}
	c := &child{cmd: cmd, exited: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		if err := cmd.Start(); err != nil {
			started <- err
			return
		}
		started <- nil
		_ = cmd.Wait() // the server's log has the reason
		close(c.exited)
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return c, nil
}

// stop sends the signals one after another, with a grace period after each, and returns when the child is gone.
func (c *child) stop(patience time.Duration, signals ...syscall.Signal) {
	for _, signal := range signals {
		_ = c.cmd.Process.Signal(signal)
		select {
		case <-c.exited:
			return
		case <-time.After(patience):
		}
	}
	<-c.exited
}

// serverCredential returns the account under which servers run; nil means the program's own account. PostgreSQL
// refuses to run as root, so if the program runs as root, the result is the account postgres or nobody.
func serverCredential() (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		account, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err := strconv.ParseUint(account.Uid, 10, 32)
		if err != nil {
			return nil, err
		}
		gid, err := strconv.ParseUint(account.Gid, 10, 32)
		if err != nil {
			return nil, err
		}
		return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
	}
	return nil, errors.New("running as root, but there is no account postgres or nobody for the database to run under")
}

// maxSocketDir is the maximum length of a socket folder's path: the whole path of a socket can have 107 bytes.
const maxSocketDir = 85

// socketDir creates a folder for sockets that only the server's account can open: at path, so that a killed program
// leaves nothing elsewhere, or under /tmp if path is too long or has a comma, which would separate two folders.
func socketDir(path string, credential *syscall.Credential) (string, error) {
	var err error
	if len(path) > maxSocketDir || strings.Contains(path, ",") {
		path, err = os.MkdirTemp("/tmp", "wending-")
	} else if err = os.RemoveAll(path); err == nil {
		err = os.Mkdir(path, 0o700)
	}
	if err != nil {
		return "", fmt.Errorf("create a folder for sockets: %w", err)
	}
	return path, giveTo(path, credential)
}

func giveTo(dir string, credential *syscall.Credential) error {
	if credential == nil {
		return nil
	}
	return os.Chown(dir, int(credential.Uid), int(credential.Gid))
}

// makeTraversable lets the server's account pass through the folders above dir that this program owns.
func makeTraversable(dir string) error {
	for parent := filepath.Dir(dir); ; parent = filepath.Dir(parent) {
		info, err := os.Stat(parent)
		if err != nil {
			return err
		}
		if info.Mode().Perm()&0o001 == 0 {
			return fmt.Errorf(
				"the database runs under its own account and cannot enter %s; choose another DATA_DIR or run: chmod o+x %s",
				parent, parent)
		}
		if parent == filepath.Dir(parent) {
			return nil
		}
	}
}
