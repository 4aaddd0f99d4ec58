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
	"path/filepath"
	"strings"

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
	environment, err := pg.ToolEnvironment(url)
	if err != nil {
		return err
	}
	return tool(ctx, environment, "pg_dump", nil, w, "--format=custom", "--no-owner", "--no-privileges")
}

// Restore fills the database at url, which must be unused, with the output of Dump, completely or not at all.
func Restore(ctx context.Context, url string, dump io.Reader) error {
	if err := requireEmpty(ctx, url); err != nil {
		return err
	}
	environment, err := pg.ToolEnvironment(url)
	if err != nil {
		return err
	}
	database := "postgres"
	for _, one := range environment {
		if name, isName := strings.CutPrefix(one, "PGDATABASE="); isName {
			database = name
		}
	}
	return tool(ctx, environment, "pg_restore", dump, nil, "--no-owner", "--no-privileges", "--clean", "--if-exists",
		"--single-transaction", "--exit-on-error", "--dbname="+database)
}

// ofFreshSchema has, for each table, the number of rows that it may have while the installation is unused: rows
// inserted by migrations, and rows written by processes on their start.
var ofFreshSchema = map[string]int{"goose_db_version": math.MaxInt, "installation": 1, "audit_chain": 1, "projects": 1,
	"workers": math.MaxInt, "origins": math.MaxInt}

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

// tool runs one of PostgreSQL's programs against the database that the environment variables name.
func tool(ctx context.Context, environment []string, name string, in io.Reader, out io.Writer, args ...string) error {
	folder, err := embedded.FindPostgres()
	if err != nil {
		return err
	}
	path := filepath.Join(folder, name)
	if _, err := os.Stat(path); err != nil {
		if path, err = exec.LookPath(name); err != nil {
			return fmt.Errorf("%s is not installed: it comes with PostgreSQL's client", name)
		}
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
