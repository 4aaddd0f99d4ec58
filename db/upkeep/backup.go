package upkeep

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/lib/pq"

	"wending/db/pg"
	"wending/db/pg/embedded"
)

// ErrNotEmpty means that the database is in use: a restore never overwrites tasks, accounts, the audit or the
// library.
var ErrNotEmpty = errors.New("the database is in use; restore into an empty one")

// Dump writes the database at url as one snapshot; other processes may keep working with it.
func Dump(ctx context.Context, url string, w io.Writer) error {
	return tool(ctx, url, "pg_dump", nil, w, "--format=custom", "--no-owner", "--no-privileges")
}

// Patience is how long pg_restore may go without reading more of a dump. It processes what it has read in milliseconds.
const Patience = time.Minute

var errStalled = errors.New("it reads no further: a block of the dump is damaged")

// CheckDump returns an error unless the output of Dump is complete and undamaged. It needs no database. It stops
// pg_restore if nothing has been read for the given time: if a block's compressed data ends too early, pg_restore would
// read the block again and again, for ever.
func CheckDump(ctx context.Context, dump io.Reader, patience time.Duration) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	stall := time.AfterFunc(patience, func() { stop(errStalled) })
	defer stall.Stop()
	path, err := embedded.NewestTool(ctx, "pg_restore")
	if err != nil {
		return err
	}
	var said bytes.Buffer
	command := exec.CommandContext(ctx, path, "--file=/dev/null") // the dump is converted to SQL, which is discarded
	command.Env = []string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C.UTF-8"}
	command.Stdin, command.Stderr = stalling{dump, stall, patience}, &said
	if err := command.Run(); err != nil {
		if errors.Is(context.Cause(ctx), errStalled) {
			return fmt.Errorf("pg_restore: %w", errStalled)
		}
		return fmt.Errorf("pg_restore: %w: %s", err, strings.TrimSpace(said.String()))
	}
	return nil
}

// stalling is a reader whose timer runs while nobody reads from it.
type stalling struct {
	io.Reader
	timer    *time.Timer
	patience time.Duration
}

func (s stalling) Read(p []byte) (int, error) {
	s.timer.Stop()
	defer s.timer.Reset(s.patience)
	return s.Reader.Read(p)
}

// Restore fills the database at url, which must be unused, with the output of Dump, completely or not at all.
func Restore(ctx context.Context, url string, dump io.Reader) error {
	if err := requireEmpty(ctx, url); err != nil {
		return err
	}
	database := "postgres"
	environment, err := pg.ToolEnvironment(url)
	if err != nil {
		return err
	}
	for _, one := range environment {
		if name, isName := strings.CutPrefix(one, "PGDATABASE="); isName {
			database = name
		}
	}
	return tool(ctx, url, "pg_restore", dump, nil, "--no-owner", "--no-privileges", "--clean", "--if-exists",
		"--single-transaction", "--exit-on-error", "--dbname="+database)
}

// ofFreshSchema has, for each table, the number of rows that it may have while the installation is unused: rows
// inserted by migrations, and rows written by processes on their start.
var ofFreshSchema = map[string]int{"goose_db_version": math.MaxInt, "installation": 1, "audit_chain": 1, "projects": 1,
	"workers": math.MaxInt, "origins": math.MaxInt, "refused_processes": math.MaxInt}

// requireEmpty returns ErrNotEmpty, naming the non-empty tables, if the database is in use.
func requireEmpty(ctx context.Context, url string) error {
	pool, err := pg.Open(ctx, url, 1)
	if err != nil {
		return err
	}
	defer pool.Close() //nolint:errcheck // only read
	var tables []string
	const listTables = `SELECT tablename FROM pg_tables WHERE schemaname = current_schema() ORDER BY tablename`
	if err := sqlx.SelectContext(ctx, pool, &tables, listTables); err != nil {
		return pg.Classify("look for tables", err)
	}
	var used []string
	for _, table := range tables {
		var hasMore bool
		statement := `SELECT EXISTS (SELECT FROM ` + pq.QuoteIdentifier(table) + ` OFFSET $1)`
		if err := sqlx.GetContext(ctx, pool, &hasMore, statement, ofFreshSchema[table]); err != nil {
			return pg.Classify("look into "+table, err)
		}
		if hasMore {
			used = append(used, table)
		}
	}
	if len(used) > 0 {
		return fmt.Errorf("%w (it has rows in %s)", ErrNotEmpty, strings.Join(used, ", "))
	}
	return nil
}

// tool runs one of PostgreSQL's client programs, in the server's version, against the database at url.
func tool(ctx context.Context, url, name string, in io.Reader, out io.Writer, args ...string) error {
	environment, err := pg.ToolEnvironment(url)
	if err != nil {
		return err
	}
	major, err := serverMajor(ctx, url)
	if err != nil {
		return err
	}
	path, err := embedded.FindTool(ctx, name, major)
	if err != nil {
		return err
	}
	var said bytes.Buffer
	command := exec.CommandContext(ctx, path, args...)
	command.Env = append([]string{"PATH=" + os.Getenv("PATH"), "LC_ALL=C.UTF-8", "PGCONNECT_TIMEOUT=10"}, environment...)
	command.Stdin, command.Stdout, command.Stderr = in, out, &said
	if err := command.Run(); err != nil {
		return fmt.Errorf("%s: %w: %s", name, err, strings.TrimSpace(said.String()))
	}
	return nil
}

// serverMajor returns the major version of the PostgreSQL server at url.
func serverMajor(ctx context.Context, url string) (major int, err error) {
	pool, err := pg.Open(ctx, url, 1)
	if err != nil {
		return 0, err
	}
	defer pool.Close() //nolint:errcheck // only read
	err = pool.GetContext(ctx, &major, `SELECT current_setting('server_version_num')::int / 10000`)
	return major, pg.Classify("read the server's version", err)
}
