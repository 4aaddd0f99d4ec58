package embedded_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/hibiken/asynq"
	"github.com/jmoiron/sqlx"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"wending/db/dbtest"
	"wending/db/pg"
	"wending/db/pg/embedded"
)

// TestMain runs the program to be killed if the test binary was started for that.
func TestMain(m *testing.M) {
	if dir := os.Getenv("EMBEDDED_TEST_HOLD"); dir != "" {
		if _, err := embedded.StartPostgres(context.Background(), filepath.Join(dir, "postgres")); err != nil {
			panic(err)
		}
		_, _ = os.Stdout.WriteString("started\n")
		select {}
	}
	os.Exit(m.Run())
}

func TestTheDatabaseEndsWithItsKilledProgramAndKeepsItsData(t *testing.T) {
	t.Parallel()
	dir := dbtest.Folder(t)
	first, err := embedded.StartPostgres(t.Context(), filepath.Join(dir, "postgres"))
	require.NoError(t, err)
	pool := sqlx.MustConnect("postgres", first.URL())
	pool.MustExec(`CREATE TABLE kept (n int)`)
	require.NoError(t, pool.Close())
	first.Stop()

	program := exec.Command(os.Args[0])
	program.Env = append(os.Environ(), "EMBEDDED_TEST_HOLD="+dir)
	output, err := program.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, program.Start())
	line := make([]byte, 32)
	n, err := output.Read(line)
	require.NoError(t, err)
	require.Equal(t, "started\n", string(line[:n]))
	before, err := os.ReadFile(filepath.Join(dir, "postgres", "postmaster.pid"))
	require.NoError(t, err)
	require.NoError(t, program.Process.Kill())
	_ = program.Wait()

	// The next start waits for the orphaned server that is still shutting down.
	second, err := embedded.StartPostgres(t.Context(), filepath.Join(dir, "postgres"))
	require.NoError(t, err)
	defer second.Stop()
	after, err := os.ReadFile(filepath.Join(dir, "postgres", "postmaster.pid"))
	require.NoError(t, err)
	require.NotEqual(t, before, after)
	pool = sqlx.MustConnect("postgres", second.URL())
	defer pool.Close()
	var kept int
	require.NoError(t, pool.Get(&kept, `SELECT count(*) FROM kept`))
}

func TestAStalePIDOfAStrangerDoesNotBlockTheStart(t *testing.T) {
	t.Parallel()
	dir := dbtest.Folder(t)
	first, err := embedded.StartPostgres(t.Context(), filepath.Join(dir, "postgres"))
	require.NoError(t, err)
	first.Stop()
	stale := strconv.Itoa(os.Getpid()) + "\n" + dir + "/postgres\n"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "postgres", "postmaster.pid"), []byte(stale), 0o600))
	second, err := embedded.StartPostgres(t.Context(), filepath.Join(dir, "postgres"))
	require.NoError(t, err)
	second.Stop()
}

// fakePrograms writes programs that only print a version, and returns their folder.
func fakePrograms(t *testing.T, version string, names ...string) string {
	t.Helper()
	dir := dbtest.Folder(t)
	for _, name := range names {
		script := "#!/bin/sh\necho '" + name + " (PostgreSQL) " + version + "'\n"
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(script), 0o755))
	}
	return dir
}

// A database is started with the PostgreSQL version that created it, even if another version comes first on PATH. If
// that version is missing, the error names what to install, and nothing changes.
func TestTheVersionThatMadeTheDatabaseIsFound(t *testing.T) {
	dir := filepath.Join(dbtest.Folder(t), "postgres")
	server, err := embedded.StartPostgres(t.Context(), dir)
	require.NoError(t, err)
	server.Stop()
	fake := fakePrograms(t, "99.1", "postgres", "initdb", "pg_dump")
	t.Setenv("PATH", fake+":"+os.Getenv("PATH"))
	server, err = embedded.StartPostgres(t.Context(), dir)
	require.NoError(t, err)
	server.Stop()

	path, err := embedded.FindTool(t.Context(), "pg_dump", 50)
	require.NoError(t, err)
	require.Equal(t, filepath.Join(fake, "pg_dump"), path, "no older program reads from a newer server")
	path, err = embedded.FindTool(t.Context(), "pg_dump", 13)
	require.NoError(t, err)
	require.NotEqual(t, filepath.Join(fake, "pg_dump"), path, "the closest version is taken")
	_, err = embedded.FindTool(t.Context(), "pg_dump", 100)
	require.ErrorContains(t, err, "99.1")

	require.NoError(t, os.WriteFile(filepath.Join(dir, "PG_VERSION"), []byte("98\n"), 0o600))
	_, err = embedded.StartPostgres(t.Context(), dir)
	require.ErrorContains(t, err, "created by PostgreSQL 98")
	require.ErrorContains(t, err, "99.1")
	require.ErrorContains(t, err, "apt-get install postgresql-98")
}

// The server's log is kept across starts, and a large log is moved aside.
func TestTheLogIsAppendedAndRotated(t *testing.T) {
	t.Parallel()
	dir := dbtest.Folder(t)
	log := filepath.Join(dir, "postgres.log")
	for range 2 {
		server, err := embedded.StartPostgres(t.Context(), filepath.Join(dir, "postgres"))
		require.NoError(t, err)
		server.Stop()
	}
	content, err := os.ReadFile(log)
	require.NoError(t, err)
	require.Equal(t, 2, strings.Count(string(content), "starting PostgreSQL"))
	require.NoError(t, os.Truncate(log, 11<<20))
	server, err := embedded.StartPostgres(t.Context(), filepath.Join(dir, "postgres"))
	require.NoError(t, err)
	server.Stop()
	content, err = os.ReadFile(log)
	require.NoError(t, err)
	require.Equal(t, 1, strings.Count(string(content), "starting PostgreSQL"))
	info, err := os.Stat(log + ".1")
	require.NoError(t, err)
	require.EqualValues(t, 11<<20, info.Size())
}

func TestAnotherVersionsDatabaseIsRefusedUntouched(t *testing.T) {
	t.Parallel()
	dir := dbtest.Folder(t)
	data := filepath.Join(dir, "postgres")
	require.NoError(t, os.MkdirAll(data, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(data, "PG_VERSION"), []byte("9\n"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(data, "precious"), []byte("x"), 0o600))
	_, err := embedded.StartPostgres(t.Context(), data)
	require.ErrorContains(t, err, "PostgreSQL 9")
	require.FileExists(t, filepath.Join(data, "precious"))
}

func TestASecondInstanceGetsAClearError(t *testing.T) {
	t.Parallel()
	dir := dbtest.Folder(t)
	lock, err := embedded.LockDataDir(dir)
	require.NoError(t, err)
	_, err = embedded.LockDataDir(dir)
	require.ErrorIs(t, err, embedded.ErrDataDirInUse, "%v", err)
	require.NoError(t, lock.Close())
	lock, err = embedded.LockDataDir(dir)
	require.NoError(t, err)
	require.NoError(t, lock.Close())
}

// Servers start, answer and keep their data regardless of their folder's name.
func TestServersWorkInFoldersOfAnyName(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"with blanks  in it", `it's "quoted" back\slash`, "数据 稳定", "100% #1?x=y&z", "a, b",
		strings.Repeat("长", 40)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			requireServersIn(t, filepath.Join(dbtest.Folder(t), name))
		})
	}
	t.Run("a symbolic link", func(t *testing.T) {
		t.Parallel()
		dir := dbtest.Folder(t)
		require.NoError(t, os.Mkdir(filepath.Join(dir, "real"), 0o755))
		require.NoError(t, os.Symlink(filepath.Join(dir, "real"), filepath.Join(dir, "link")))
		requireServersIn(t, filepath.Join(dir, "link"))
		require.DirExists(t, filepath.Join(dir, "real", "postgres"))
	})
}

func requireServersIn(t *testing.T, dir string) {
	t.Helper()
	for range 2 { // the first start creates the data, the second finds it
		database, err := embedded.StartPostgres(t.Context(), filepath.Join(dir, "postgres"))
		require.NoError(t, err)
		pool, err := pg.Open(t.Context(), database.URL()+" search_path=public", 1)
		require.NoError(t, err)
		_, err = pool.Exec(`CREATE TABLE IF NOT EXISTS kept (n int)`)
		require.NoError(t, err)
		require.NoError(t, pool.Close())
		database.Stop()
	}
	queue, err := embedded.StartRedis(t.Context(), filepath.Join(dir, "redis"))
	require.NoError(t, err)
	defer queue.Stop()
	address, err := asynq.ParseRedisURI(queue.URL())
	require.NoError(t, err)
	client := asynq.NewClient(address)
	defer client.Close()
	require.NoError(t, client.Ping())
}

// If a folder cannot be written to, the error names it, and nothing is started.
func TestAFolderThatCannotBeWrittenToIsNamed(t *testing.T) {
	t.Parallel()
	file := os.Args[0]
	for dir, named := range map[string]string{"/proc/wending": "/proc/wending", filepath.Join(file, "data"): file} {
		_, err := embedded.LockDataDir(dir)
		require.ErrorContains(t, err, named)
		_, err = embedded.StartPostgres(t.Context(), filepath.Join(dir, "postgres"))
		require.ErrorContains(t, err, named)
		_, err = embedded.StartRedis(t.Context(), filepath.Join(dir, "redis"))
		require.ErrorContains(t, err, named)
	}
}

func TestRedisAnswersAndEnds(t *testing.T) {
	t.Parallel()
	server, err := embedded.StartRedis(t.Context(), filepath.Join(dbtest.Folder(t), "redis"))
	require.NoError(t, err)
	require.False(t, server.IsInProcess())
	path := strings.TrimPrefix(server.URL(), "redis-socket://")
	info, err := os.Stat(path)
	require.NoError(t, err)
	require.NotZero(t, info.Mode()&os.ModeSocket)
	server.Stop()
	_, err = os.Stat(path)
	require.True(t, os.IsNotExist(err))
}

func TestWithoutRedisServerTheQueueLivesInTheProcess(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	server, err := embedded.StartRedis(t.Context(), t.TempDir())
	require.NoError(t, err)
	require.True(t, server.IsInProcess())
	defer server.Stop()
	options, err := redis.ParseURL(server.URL())
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(options.Addr, "127.0.0.1:"))
	client := redis.NewClient(options)
	defer client.Close()
	require.NoError(t, client.Ping(t.Context()).Err())
	stranger := redis.NewClient(&redis.Options{Addr: options.Addr})
	defer stranger.Close()
	require.ErrorContains(t, stranger.FlushAll(t.Context()).Err(), "NOAUTH")
}
