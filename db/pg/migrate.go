package pg

import (
	"context"
	"database/sql"
	"fmt"
	"io/fs"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
)

// Migrate applies the migrations in files that the PostgreSQL at url lacks. Several processes may call it at
// once: a session lock lets one of them work. A pooler in transaction mode has no sessions, so url must lead to
// the server itself.
func Migrate(ctx context.Context, url string, files fs.FS) error {
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
	provider, err := goose.NewProvider(goose.DialectPostgres, database, files, goose.WithSessionLocker(locker))
	if err != nil {
		return fmt.Errorf("read the migrations: %w", err)
	}
	if _, err := provider.Up(ctx); err != nil {
		return Classify("migrate the database", err)
	}
	return nil
}
