package db

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"

	"github.com/lib/pq"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Migrate brings the schema of the PostgreSQL at url up to date. Several processes may call it at once: a
// session lock lets one of them work. A session is what a pooler in transaction mode does not give, so url
// must lead to the server itself.
func Migrate(ctx context.Context, url string) error {
	config, err := readURL(url)
	if err != nil {
		return err
	}
	connector, err := pq.NewConnectorConfig(config)
	if err != nil {
		return errors.New("DATABASE_URL cannot be used")
	}
	database := sql.OpenDB(connector)
	defer database.Close() //nolint:errcheck // done with it
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	locker, err := lock.NewPostgresSessionLocker()
	if err != nil {
		return err
	}
	provider, err := goose.NewProvider(goose.DialectPostgres, database, files, goose.WithSessionLocker(locker))
	if err != nil {
		return fmt.Errorf("read the migrations: %w", err)
	}
	if _, err := provider.Up(ctx); err != nil {
		return classify("migrate the database", err)
	}
	return nil
}
