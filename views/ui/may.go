package ui

import (
	"context"

	"wending/db/people"
)

type roleKey struct{}

// WithRole returns a context in which pages offer what a role may do.
func WithRole(ctx context.Context, role people.Role) context.Context {
	return context.WithValue(ctx, roleKey{}, role)
}

// May reports whether a page's reader may do what a role may do. It decides what pages offer, not what is allowed.
func May(ctx context.Context, need people.Role) bool {
	role, _ := ctx.Value(roleKey{}).(people.Role)
	return role.Allows(need)
}
