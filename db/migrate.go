package db

import (
	"context"
	"embed"
	"io/fs"

	"wending/db/pg"
)

//go:embed migrations/*.sql
var migrations embed.FS

// Migrate brings the schema of the PostgreSQL at url up to date. Several processes may call it at once. url must lead
// to the server itself, not to a pooler.
func Migrate(ctx context.Context, url string) error {
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return err
	}
	return pg.Migrate(ctx, url, files, upgradeSteps()...)
}
