package pg

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"

	"github.com/lib/pq"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
)

// Step is a part of a migration that SQL alone cannot perform.
type Step struct {
	Version int64
	Up      func(ctx context.Context, tx *sql.Tx) error
}

// NewerSchemaError means that a newer version of the program has migrated the database: this version does not know
// the new tables, and must not write to the database.
type NewerSchemaError struct{ Found, Known int64 }

func (e *NewerSchemaError) Error() string {
	return fmt.Sprintf("a newer version of Wending has migrated this database (schema %d; this version knows %d): "+
		"start that version or a later one, or restore a backup made before the upgrade", e.Found, e.Known)
}

// CheckSchema returns ErrUnavailable if the database does not answer, and a NewerSchemaError if its schema is newer
// than the known version.
func (p *Pool) CheckSchema(ctx context.Context, known int64) error {
	return checkSchema(ctx, p.DB.DB, known)
}

func checkSchema(ctx context.Context, database *sql.DB, known int64) error {
	const newest = `SELECT coalesce(max(version_id), 0) FROM goose_db_version WHERE is_applied`
	const undefinedTable = "42P01"
	var found int64
	if err := database.QueryRowContext(ctx, newest).Scan(&found); err != nil {
		if refused := (*pq.Error)(nil); errors.As(err, &refused) && refused.Code == undefinedTable { // not migrated yet
			return nil
		}
		return Classify("read the schema's version", err)
	}
	if found > known {
		return &NewerSchemaError{found, known}
	}
	return nil
}

// Migrate applies the migrations in files, and the steps between them, that have not been applied to the PostgreSQL
// database at url. Several processes may call it at the same time: a session lock makes them work one after another. A
// pooler in transaction mode does not keep sessions, so url must point to the server itself. It returns a
// NewerSchemaError, and changes nothing, if migrations were applied that it does not know.
func Migrate(ctx context.Context, url string, files fs.FS, steps ...Step) error {
	config, err := readURL(url)
	if err != nil {
		return err
	}
	connector, err := open(config, nil)
	if err != nil {
		return err
	}
	database := sql.OpenDB(connector)
	defer database.Close() //nolint:errcheck // nothing to flush
	// Another process may be migrating for up to ten minutes.
	const askEverySecond, attempts = 1, 600
	locker, err := lock.NewPostgresSessionLocker(lock.WithLockTimeout(askEverySecond, attempts))
	if err != nil {
		return err
	}
	written := make([]*goose.Migration, len(steps))
	for n, step := range steps {
		written[n] = goose.NewGoMigration(step.Version, &goose.GoFunc{RunTx: step.Up}, nil)
	}
	provider, err := goose.NewProvider(goose.DialectPostgres, database, files, goose.WithSessionLocker(locker),
		goose.WithGoMigrations(written...),
		goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return fmt.Errorf("read the migrations: %w", err)
	}
	sources := provider.ListSources()
	if err := checkSchema(ctx, database, sources[len(sources)-1].Version); err != nil {
		return err
	}
	if _, err := provider.Up(ctx); err != nil {
		return Classify("migrate the database", err)
	}
	return nil
}
