// Package dbtest gives tests a real PostgreSQL, with a database for each test, and a real Redis.
package dbtest

import (
	"context"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"wending/db"
	"wending/db/pg/embedded"
)

// SecretKey is a key for tests. It is full-length, because deriving a key from a passphrase in every test would be
// slow.
const SecretKey = "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE="

// settings let the tests' PostgreSQL lose data when the machine fails, because its data need not survive that.
// Nothing is lost when a server or a program is killed.
var settings = []string{"fsync=off", "full_page_writes=off", "wal_init_zero=off", "max_wal_size=2GB"}

var (
	server    *embedded.Postgres
	admin     *sqlx.DB
	databases atomic.Int64
	// template creates the database from which every test's database is copied, and returns the options of CREATE
	// DATABASE. This way, migrations run only once. PostgreSQL 15 and later are told to copy the template's files, as
	// earlier versions do: logging each of their blocks takes twice the processor time.
	template = sync.OnceValues(func() (options string, err error) {
		const name = "migrated"
		if _, err := admin.Exec("CREATE DATABASE " + name); err != nil {
			return "", err
		}
		const of = `SELECT CASE WHEN current_setting('server_version_num')::int >= 150000 THEN ' STRATEGY file_copy'
			ELSE '' END`
		if err := admin.Get(&options, of); err != nil {
			return "", err
		}
		return " TEMPLATE " + name + options, db.Migrate(context.Background(), urlOf(name))
	})
)

// Main runs a package's tests with their own PostgreSQL. Call it from TestMain.
func Main(m *testing.M) {
	os.Exit(run(m))
}

// KeepConnections prevents a test's server from closing other tests' connections when it closes: httptest closes all
// connections of http.DefaultTransport, which the tests share.
func KeepConnections() {
	http.DefaultTransport = kept{http.DefaultTransport}
}

// kept hides a transport's CloseIdleConnections method.
type kept struct{ http.RoundTripper }

func run(m *testing.M) int {
	KeepConnections()
	dir, err := MakeFolder()
	if err == nil {
		server, err = embedded.StartPostgres(context.Background(), dir+"/postgres", settings...)
	}
	if err == nil {
		admin, err = sqlx.Connect("postgres", server.URL())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	defer server.Stop()
	defer admin.Close()
	return m.Run()
}

// root returns the folder in which the tests' folders are made: in memory if there is room, because copying a
// database is ten times faster there than on a disk.
func root() string {
	const memory, room = "/dev/shm", 8 << 30
	var found syscall.Statfs_t
	if err := syscall.Statfs(memory, &found); err == nil && found.Bavail*uint64(found.Bsize) >= room {
		return memory
	}
	return "/tmp"
}

// MakeFolder creates a folder that a server can enter even if the tests run as root and the server runs under another
// account. The caller removes it; Folder makes one for a single test.
func MakeFolder() (string, error) {
	dir, err := os.MkdirTemp(root(), "wending-test-")
	if err != nil {
		return "", err
	}
	return dir, os.Chmod(dir, 0o755)
}

// Folder makes a data folder for one test.
func Folder(t testing.TB) string {
	t.Helper()
	dir, err := MakeFolder()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// Files lists all files in a folder and its subfolders, by their paths relative to the folder.
func Files(t testing.TB, dir string) (files []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			path, err = filepath.Rel(dir, path)
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// URL makes a database with the current schema and returns its address.
func URL(t testing.TB) string {
	t.Helper()
	requireServer(t)
	options, err := template()
	if err != nil {
		t.Fatal(err)
	}
	return create(t, options)
}

// Empty makes a database without a schema and returns its address.
func Empty(t testing.TB) string {
	t.Helper()
	requireServer(t)
	return create(t, "")
}

func requireServer(t testing.TB) {
	t.Helper()
	if server == nil {
		t.Fatal("the package's TestMain does not call dbtest.Main")
	}
}

// create makes a database that is removed when the test ends, and returns its address.
func create(t testing.TB, origin string) string {
	t.Helper()
	name := fmt.Sprintf("test_%d", databases.Add(1))
	if _, err := admin.Exec("CREATE DATABASE " + name + origin); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := admin.Exec("DROP DATABASE " + name + " WITH (FORCE)"); err != nil {
			t.Error(err)
		}
	})
	return urlOf(name)
}

func urlOf(name string) string { return server.URL() + " dbname=" + name }

// Open returns a migrated store in a new database, and a second connection for inspecting its tables.
func Open(t testing.TB) (*db.Store, *sqlx.DB) {
	t.Helper()
	return OpenAt(t, URL(t))
}

// OpenAt is like Open, but uses the database at url.
func OpenAt(t testing.TB, url string) (*db.Store, *sqlx.DB) {
	t.Helper()
	if err := db.Migrate(context.Background(), url); err != nil {
		t.Fatal(err)
	}
	store, err := db.Open(context.Background(), url, 10)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	tables, err := sqlx.Connect("postgres", url)
	if err != nil {
		t.Fatal(err)
	}
	tables.SetMaxOpenConns(2)
	t.Cleanup(func() { _ = tables.Close() })
	return store, tables
}

// Need returns the path of a program that a test runs. If it is not installed, the test is skipped, or fails under
// CI=true, because CI must run all tests.
func Need(t testing.TB, program string) string {
	t.Helper()
	path, err := exec.LookPath(program)
	if err == nil {
		return path
	}
	if strings.EqualFold(os.Getenv("CI"), "true") {
		t.Fatalf("%s is not installed", program)
	}
	t.Skipf("%s is not installed", program)
	return ""
}

// Redis starts a Redis server for one test and returns its URL.
func Redis(t testing.TB) string {
	t.Helper()
	redis, err := embedded.StartRedis(context.Background(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	if redis.IsInProcess() && strings.EqualFold(os.Getenv("CI"), "true") {
		t.Fatal("redis-server is not installed")
	}
	t.Cleanup(redis.Stop)
	return redis.URL()
}

// patience multiplies the time for which tests wait for an event, because a busy machine takes longer than an idle
// one. No test measures this time.
const patience = 5

// Await waits until condition holds, and fails the test if it does not within patience times the given time. The
// interval between checks grows with the time waited: otherwise dozens of waiting tests would spend more processor
// time on their checks than the code under test needs.
func Await(t testing.TB, within time.Duration, what string, condition func() bool) {
	t.Helper()
	const soonest, latest = 20 * time.Millisecond, 250 * time.Millisecond
	within *= patience
	start := time.Now()
	for !condition() {
		waited := time.Since(start)
		if waited > within {
			t.Fatalf("not within %v: %s", within, what)
		}
		time.Sleep(min(max(soonest, waited/8), latest))
	}
}

// Hold fails the test if condition stops holding within the given time.
func Hold(t testing.TB, during time.Duration, what string, condition func() bool) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(during); time.Now().Before(end); <-tick.C {
		if !condition() {
			t.Fatalf("does not hold: %s", what)
		}
	}
}

// Start starts a PostgreSQL server for one test and returns its address.
func Start(t testing.TB) string {
	t.Helper()
	own, err := embedded.StartPostgres(context.Background(), Folder(t)+"/postgres", settings...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(own.Stop)
	return own.URL()
}
