// Package project carries through a context which project's objects may be read and where new ones belong.
package project

import (
	"context"

	"github.com/google/uuid"
)

// Default is the project of everything that was made before there were projects, or without one.
var Default = uuid.MustParse("00000000-0000-4000-8000-000000000001")

type key struct{}

// In returns a context in which tasks and the library's entries are those of one project. Without it – in workers and
// commands – they are those of all.
func In(ctx context.Context, id uuid.UUID) context.Context { return context.WithValue(ctx, key{}, id) }

// Only returns the project of a context as a parameter of statements: NULL means all.
func Only(ctx context.Context) uuid.NullUUID {
	id, isSet := ctx.Value(key{}).(uuid.UUID)
	return uuid.NullUUID{UUID: id, Valid: isSet}
}

// Of returns the project to which what is made in a context belongs.
func Of(ctx context.Context) uuid.UUID {
	if only := Only(ctx); only.Valid {
		return only.UUID
	}
	return Default
}
