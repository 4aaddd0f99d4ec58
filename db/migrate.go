package db

import (
	"context"
	"embed"
	"io/fs"
	"strconv"
	"strings"

	"wending/db/pg"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Migrate brings the schema of the PostgreSQL database at url up to date. Several processes may call it at the same
// time. url must point to the server itself, not to a pooler.
func Migrate(ctx context.Context, url string) error {
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	return pg.Migrate(ctx, url, files, upgradeSteps()...)
}

// newestSchema returns the version of the newest migration.
func newestSchema() int64 {
	files, _ := migrations.ReadDir("migrations") // embedded, and sorted
	number, _, _ := strings.Cut(files[len(files)-1].Name(), "_")
	version, _ := strconv.ParseInt(number, 10, 64)
	return version
}

// Ready returns ErrUnavailable if the database does not answer, and a pg.NewerSchemaError if a newer version of the
// program has migrated it.
func (s *Store) Ready(ctx context.Context) error { return s.db.CheckSchema(ctx, newestSchema()) }
