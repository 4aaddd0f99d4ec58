package embedded

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"wending/db/pg"
)

// Postgres is a running private server.
type Postgres struct {
	child   *child
	sockets string
	log     *serverLog
}

// StartPostgres starts the server whose data is in dir, which it creates on the first start, and returns when the
// server answers. The settings, each name=value, are added to the server's own.
func StartPostgres(ctx context.Context, dir string, settings ...string) (*Postgres, error) {
	binaries, err := serverFor(ctx, dir)
	if err != nil {
		return nil, err
	}
	credential, err := serverCredential()
	if err != nil {
		return nil, err
	}
	if dir, err = prepareFolder(dir, credential); err != nil {
		return nil, err
	}
	if err := initialise(ctx, binaries, dir, credential); err != nil {
		return nil, err
	}
	if err := removeStalePID(dir); err != nil {
		return nil, err
	}
	sockets, err := socketDir(dir+".sockets", credential)
	if err != nil {
		return nil, err
	}
	p := &Postgres{sockets: sockets, log: &serverLog{path: filepath.Join(filepath.Dir(dir), "postgres.log")}}
	log, err := p.log.open()
	if err != nil {
		return nil, err
	}
	defer log.Close() //nolint:errcheck // the server has its own handle
	cmd := exec.Command(filepath.Join(binaries, "postgres"), "-D", dir, "-k", quotedFolder(sockets),
		"-c", "jit=off", // compiling a page's statements takes longer than running them
		"-c", "listen_addresses=", "-c", "unix_socket_permissions=0700", "-c", "log_timezone=UTC", "-c", "timezone=UTC")
	for _, setting := range settings {
		cmd.Args = append(cmd.Args, "-c", setting)
	}
	cmd.Dir = "/" // the server's account may not be able to enter the working folder
	cmd.Env = []string{"LC_ALL=C.UTF-8", "PATH=" + os.Getenv("PATH")}
	cmd.Stdout, cmd.Stderr = log, log
	// SIGINT is PostgreSQL's fast shutdown: a killed program leaves a clean database behind.
	p.child, err = startChild(cmd, syscall.SIGINT, credential)
	if err != nil {
		return nil, fmt.Errorf("start PostgreSQL: %w", err)
	}
	go p.log.keepShort(p.child.exited)
	if err := p.awaitReady(ctx); err != nil {
		p.Stop()
		return nil, err
	}
	return p, nil
}

// prepareFolder creates the parent of the data folder, and returns the canonical name of dir, by which a server that
// outlived its program is recognised. The credential's account may enter the folder.
func prepareFolder(dir string, credential *syscall.Credential) (string, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil { //nolint:gosec // PostgreSQL runs under an account of its own
		return "", fmt.Errorf("create the database's folder: %w", err)
	}
	parent, err := filepath.EvalSymlinks(filepath.Dir(dir))
	if err != nil {
		return "", fmt.Errorf("find the database's folder: %w", err)
	}
	dir = filepath.Join(parent, filepath.Base(dir))
	if credential != nil {
		err = makeTraversable(dir)
	}
	return dir, err
}

// URL returns the address for db.Open. Even if the program runs as root, it connects as the cluster's superuser: only
// the server's account can enter the socket's folder.
func (p *Postgres) URL() string { return urlOf(p.sockets) }

// socketsLine is the number of the line in postmaster.pid that names the folder of the sockets (PostgreSQL:
// src/include/utils/pidfile.h).
const socketsLine = 4

// RunningURL returns the address of the server whose data is in dir and which another process runs.
func RunningURL(dir string) (string, error) {
	content, err := os.ReadFile(filepath.Join(dir, "postmaster.pid"))
	if err != nil {
		return "", fmt.Errorf("find the running database: %w", err)
	}
	lines := strings.Split(string(content), "\n")
	if len(lines) <= socketsLine || lines[socketsLine] == "" {
		return "", errors.New("find the running database: it is still starting")
	}
	return urlOf(strings.TrimSpace(lines[socketsLine])), nil
}

func urlOf(sockets string) string {
	quoted := strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(sockets)
	return fmt.Sprintf("host='%s' user=wending dbname=postgres sslmode=disable", quoted)
}

// quotedFolder quotes a folder for PostgreSQL's list of socket folders, in which spaces and quotes have a special
// meaning.
func quotedFolder(dir string) string {
	return `"` + strings.ReplaceAll(dir, `"`, `""`) + `"`
}

// Exited returns a channel that is closed when the server has ended for any reason.
func (p *Postgres) Exited() <-chan struct{} { return p.child.exited }

// Cause explains why the server ended, after Exited was closed.
func (p *Postgres) Cause() string { return causeOf(p.log.tail(200), p.child.cmd.ProcessState) }

// Stop ends the server, rolling back open transactions; committed data is safe on disk.
func (p *Postgres) Stop() {
	p.child.stop(20*time.Second, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGKILL)
	_ = os.RemoveAll(p.sockets)
}

func (p *Postgres) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 60*time.Second)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		if pool, err := pg.Open(ctx, p.URL(), 1); err == nil {
			return pool.Close()
		}
		select {
		case <-p.child.exited:
			return fmt.Errorf("PostgreSQL exited during startup: %s (%s)", p.Cause(), p.lastLogLines())
		case <-ctx.Done():
			return fmt.Errorf("PostgreSQL did not answer in time: %s", p.lastLogLines())
		case <-tick.C:
		}
	}
}

func (p *Postgres) lastLogLines() string { return strings.Join(p.log.tail(5), " | ") }

// initialise creates the cluster in a temporary folder and renames that, so that an interrupted start leaves
// nothing that looks like a database.
func initialise(ctx context.Context, binaries, dir string, credential *syscall.Credential) error {
	if _, err := os.Stat(filepath.Join(dir, "PG_VERSION")); err == nil {
		return nil
	}
	fresh := dir + ".new"
	if err := os.RemoveAll(fresh); err != nil {
		return fmt.Errorf("clear the folder of an unfinished start: %w", err)
	}
	if err := os.Mkdir(fresh, 0o700); err != nil {
		return fmt.Errorf("create the database's folder: %w", err)
	}
	if err := giveTo(fresh, credential); err != nil {
		return fmt.Errorf("change the owner of the database's folder: %w", err)
	}
	cmd := exec.CommandContext(ctx, filepath.Join(binaries, "initdb"), "-D", fresh, "-U", "wending", "-A", "trust",
		"-E", "UTF8", "--locale=C.UTF-8")
	cmd.Dir = "/"
	cmd.Env = []string{"LC_ALL=C.UTF-8", "PATH=" + os.Getenv("PATH")}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: credential}
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w: %s", err, strings.TrimSpace(string(output)))
	}
	return os.Rename(fresh, dir)
}

// removeStalePID removes postmaster.pid unless the process it names still works on this folder. The caller holds the
// lock of the data folder, so such a process is an orphan that is shutting down, and removeStalePID waits for it. It
// does not wait for a zombie, or for an unrelated process that now has the same id.
func removeStalePID(dir string) error {
	path := filepath.Join(dir, "postmaster.pid")
	deadline := time.Now().Add(30 * time.Second)
	for {
		content, err := os.ReadFile(path)
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read postmaster.pid: %w", err)
		}
		pid, _, _ := strings.Cut(string(content), "\n")
		if !servesFolder(strings.TrimSpace(pid), dir) {
			return os.Remove(path)
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("process %s still serves %s; stop it first", pid, dir)
		}
		time.Sleep(50 * time.Millisecond) // the file belongs to another process, so there is nothing to wait for
	}
}

// servesFolder reports whether the process runs PostgreSQL on dir, judging by its command line, which is empty for
// a zombie.
func servesFolder(pid, dir string) bool {
	line, err := os.ReadFile(filepath.Join("/proc", pid, "cmdline"))
	if err != nil || pid == "" {
		return false
	}
	return slices.Contains(strings.Split(string(line), "\x00"), dir)
}
