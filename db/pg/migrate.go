package pg

import (
	"context"
	"database/sql"
	"fmt"
	"io/fs"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
)

// Step is a part of a migration that SQL alone cannot perform.
type Step struct {
	Version int64
	Up      func(ctx context.Context, tx *sql.Tx) error
}

// Migrate applies the migrations in files, and the steps between them, that have not been applied to the PostgreSQL
// at url. Several processes may call it at once: a session lock lets only one of them work at a time. A pooler in
// transaction mode does not keep sessions, so url must lead to the server itself.
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
	locker, err := lock.NewPostgresSessionLocker()
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
	if _, err := provider.Up(ctx); err != nil {
		return Classify("migrate the database", err)
	}
	return nil
}
