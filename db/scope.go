package db

import (
	"database/sql/driver"

	"github.com/google/uuid"
)

// DefaultProject is the project of everything that was created before projects existed, or without one.
var DefaultProject = uuid.MustParse("00000000-0000-4000-8000-000000000001")

// Scope is the project whose objects a statement reads or changes. Its zero value matches no object at all: a
// forgotten scope shows nothing.
type Scope struct {
	id    uuid.UUID
	isAll bool
}

// InProject is the scope of one project.
func InProject(id uuid.UUID) Scope { return Scope{id: id} }

// AllProjects is the scope of workers and commands, and of everybody in an installation without sign-in.
func AllProjects() Scope { return Scope{isAll: true} }

// Value is the scope as the parameter of a condition that Within writes: NULL means all. It implements driver.Valuer.
func (s Scope) Value() (driver.Value, error) {
	if s.isAll {
		return nil, nil
	}
	return s.id.String(), nil
}

// Home is the project of new objects created in the scope; for all projects it is the default one.
func (s Scope) Home() uuid.UUID {
	if s.isAll {
		return DefaultProject
	}
	return s.id
}

// IsAll reports that the scope is of all projects.
func (s Scope) IsAll() bool { return s.isAll }

// Within is the condition that a column of projects is within the scope that a statement has as parameter, such as $2.
func Within(column, parameter string) string {
	return "(CAST(" + parameter + " AS uuid) IS NULL OR " + column + " = " + parameter + ")"
}
