package db

import (
	"database/sql/driver"

	"github.com/google/uuid"
)

// DefaultProject is the project of objects that were created before projects existed, or without naming a project.
var DefaultProject = uuid.MustParse("00000000-0000-4000-8000-000000000001")

// Scope is the project whose objects a statement reads or changes. Its zero value matches no object at all: a
// forgotten scope shows nothing.
type Scope struct {
	id    uuid.UUID
	isAll bool
}

// InProject returns the scope of one project.
func InProject(id uuid.UUID) Scope { return Scope{id: id} }

// AllProjects returns the scope of workers and commands, and of all requests to an installation without sign-in.
func AllProjects() Scope { return Scope{isAll: true} }

// Value returns the scope as a parameter for a condition that Within returned; NULL means all projects. It implements
// driver.Valuer.
func (s Scope) Value() (driver.Value, error) {
	if s.isAll {
		return nil, nil
	}
	return s.id.String(), nil
}

// Home returns the project in which the scope creates objects: its own or, if it covers all projects, the default one.
func (s Scope) Home() uuid.UUID {
	if s.isAll {
		return DefaultProject
	}
	return s.id
}

// IsAll reports whether the scope covers all projects.
func (s Scope) IsAll() bool { return s.isAll }

// Within returns an SQL condition: the project id in column is within the scope bound to parameter, such as $2.
func Within(column, parameter string) string {
	return "(CAST(" + parameter + " AS uuid) IS NULL OR " + column + " = " + parameter + ")"
}
