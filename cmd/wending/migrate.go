package main

import (
	"context"
	"errors"

	"wending/db"
)

type migrateCommand struct{}

// Run migrates the schema.
func (migrateCommand) Run(ctx context.Context, s *Settings) error {
	if s.DatabaseURL == "" {
		return errors.New("DATABASE_URL is not set; 'up' migrates its embedded database when it starts")
	}
	return db.Migrate(ctx, s.directURL(s.DatabaseURL))
}
