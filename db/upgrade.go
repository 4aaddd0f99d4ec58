package db

import (
	"context"
	"database/sql"
	"strings"

	"github.com/google/uuid"
	"go.mau.fi/util/confusable"
	"golang.org/x/text/unicode/norm"

	"wending/db/pg"
)

// upgradeSteps returns the upgrade steps that are written in Go, each with its place among the migrations.
func upgradeSteps() []pg.Step {
	return []pg.Step{{Version: 33, Up: fillSkeletons}}
}

// fillSkeletons stores skeletons (NameSkeleton) for accounts that older versions created. Among accounts that look
// alike, only the oldest gets one; the others are left unchanged. No new account can resemble any of them.
func fillSkeletons(ctx context.Context, tx *sql.Tx) error {
	rows, err := tx.QueryContext(ctx, `SELECT id, name FROM users ORDER BY created_at, id`)
	if err != nil {
		return err
	}
	defer rows.Close() //nolint:errcheck // all rows are read
	owners := map[string]uuid.UUID{}
	for rows.Next() {
		var id uuid.UUID
		var name string
		if err := rows.Scan(&id, &name); err != nil {
			return err
		}
		if skeleton := NameSkeleton(name); owners[skeleton] == uuid.Nil {
			owners[skeleton] = id
		}
	}
	if err := rows.Err(); err != nil {
		return err
	}
	for skeleton, id := range owners {
		if _, err := tx.ExecContext(ctx, `UPDATE users SET skeleton = $2 WHERE id = $1`, id, skeleton); err != nil {
			return err
		}
	}
	return nil
}

// NameSkeleton returns a text that is the same for all names that look alike (UTS #39), regardless of case: I, l and 1
// look alike, and so do i and I.
func NameSkeleton(name string) string {
	folded := strings.ToLower(confusable.Skeleton(strings.ToLower(norm.NFKC.String(name))))
	return strings.ReplaceAll(folded, "i", "l")
}
