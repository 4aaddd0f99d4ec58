package identity

import (
	"context"
	"errors"
	"maps"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"

	"wending/db/people"
)

// MaxViewQuery is the maximum length of the query of a saved view, in characters.
const MaxViewQuery = 4000

// The reasons for refusing a saved view.
var (
	ErrViewKind      = errors.New("unknown kind of view")
	ErrViewEmpty     = errors.New("a view needs at least one filter or an order")
	ErrViewLong      = errors.New("the query is too long")
	ErrViewParameter = errors.New("views do not keep this parameter")
)

// columnPrefix is the prefix of parameters that are named after columns of datasets.
const columnPrefix = "column."

// viewParameters lists the page parameters that views of each kind keep: filters and orders, but not the page number.
var viewParameters = map[people.ViewKind][]string{
	people.QuestionViews: {
		"filter", "review", "reason", "sort", "search", "series", "variant", "finish_reason", "error_code",
		"min_latency_ms", "max_latency_ms", "min_total_tokens", "max_total_tokens", "min_cost", "max_cost",
		columnPrefix + "<name>",
	},
	people.TaskViews: {"query", "status", "group", "older", "columns"},
	shareFilters: {
		"filter", "review", "reason", "reviewer", "assigned", "sample", "search", "series", "variant", "finish_reason",
		"error_code", "min_latency_ms", "max_latency_ms", "min_total_tokens", "max_total_tokens", "min_cost", "max_cost",
		columnPrefix + "<name>",
	},
}

// shareFilters is the kind under which the filters of links to answers are checked, in the same way as a view of
// questions.
const shareFilters people.ViewKind = "share"

// ViewParameters returns the parameters that views of a kind keep.
func ViewParameters(kind string) []string { return viewParameters[people.ViewKind(kind)] }

// View holds the values of a view that a page or a program saves.
type View struct{ Name, Query string }

// checkView returns a view's values in their stored form, and adds their faults to c.
func checkView(c *checks, kind people.ViewKind, given View) (name, query string) {
	name = c.name(given.Name)
	if !slices.Contains(people.ViewKinds, kind) {
		c.fail("kind", ErrViewKind)
		return name, ""
	}
	values := c.query("query", kind, given.Query)
	return name, values.Encode()
}

// query parses the query in a field, without its empty values. It is a fault if the query has a parameter that views of
// the kind do not keep, or no parameters at all.
func (c *checks) query(field string, kind people.ViewKind, text string) url.Values {
	values, err := url.ParseQuery(strings.TrimPrefix(strings.TrimSpace(text), "?"))
	if err != nil || !utf8.ValidString(text) || strings.ContainsRune(text, 0) || strings.Contains(text, "%00") {
		c.fail(field, ErrViewEmpty)
		return nil
	}
	for parameter, all := range values {
		if !isKept(kind, parameter) {
			*c = append(*c, &FieldError{Field: field, Err: ErrViewParameter, Of: string(kind)})
			return nil
		}
		if values[parameter] = slices.DeleteFunc(all, func(value string) bool {
			return value == ""
		}); len(values[parameter]) == 0 {
			delete(values, parameter) // forms send empty values for fields left empty
		}
	}
	switch query := values.Encode(); {
	case query == "":
		c.fail(field, ErrViewEmpty)
	case utf8.RuneCountInString(query) > MaxViewQuery:
		*c = append(*c, &FieldError{Field: field, Err: ErrViewLong, Most: MaxViewQuery})
	}
	return values
}

// isKept reports whether views of a kind keep a parameter.
func isKept(kind people.ViewKind, parameter string) bool {
	isColumn := kind != people.TaskViews && strings.HasPrefix(parameter, columnPrefix)
	return isColumn || slices.Contains(viewParameters[kind], parameter)
}

// ShareFilters parses the filters of a link to answers: a query like the one in the address of the answers page. Faults
// are returned as FieldErrors of "filters".
func ShareFilters(query string) (url.Values, error) {
	var c checks
	values := c.query("filters", shareFilters, query)
	return values, c.err()
}

// FiltersIn returns the parameters of a page's query that can be filters of a link.
func FiltersIn(query url.Values) url.Values {
	filters := maps.Clone(query)
	maps.DeleteFunc(filters, func(parameter string, _ []string) bool { return !isKept(shareFilters, parameter) })
	return filters
}

// AddView saves a view for a project. Faults are returned as FieldErrors of "name", "kind" and "query".
func (s Service) AddView(ctx context.Context, projectID uuid.UUID, kind people.ViewKind, given View,
	by string) (view people.View, err error) {
	var c checks
	view = people.View{ID: uuid.New(), ProjectID: projectID, Kind: kind, CreatedBy: by}
	view.Name, view.Query = checkView(&c, kind, given)
	if err := c.err(); err != nil {
		return view, err
	}
	if err := s.store.AddView(ctx, view); err != nil {
		return view, viewTaken(err)
	}
	return s.store.View(ctx, projectID, view.ID)
}

// ChangeView replaces the name and the query of a view of a project, and returns the view before and after the
// change.
func (s Service) ChangeView(ctx context.Context, projectID, id uuid.UUID,
	change func(*View)) (before, after people.View, err error) {
	if before, err = s.store.View(ctx, projectID, id); err != nil {
		return before, after, err
	}
	given := View{before.Name, before.Query}
	change(&given)
	var c checks
	after = before
	after.Name, after.Query = checkView(&c, before.Kind, given)
	if err := c.err(); err != nil {
		return before, after, err
	}
	if err := s.store.ChangeView(ctx, after); err != nil {
		return before, after, viewTaken(err)
	}
	after, err = s.store.View(ctx, projectID, id)
	return before, after, err
}

// RemoveView removes a view of a project and returns it as it was.
func (s Service) RemoveView(ctx context.Context, projectID, id uuid.UUID) (view people.View, err error) {
	if view, err = s.store.View(ctx, projectID, id); err != nil {
		return view, err
	}
	return view, s.store.RemoveView(ctx, projectID, id)
}

// viewTaken turns people.ErrNameTaken into a FieldError of "name".
func viewTaken(err error) error {
	if errors.Is(err, people.ErrNameTaken) {
		return &FieldError{Field: "name", Err: people.ErrNameTaken}
	}
	return err
}
