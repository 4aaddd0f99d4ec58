package review

import (
	"context"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"

	"wending/db/pg"
)

// Rubric is what a project asks of its reviewers besides a verdict.
type Rubric struct {
	// Instructions are shown beside the answers.
	Instructions string     `db:"review_instructions"`
	Dimensions   Dimensions `db:"review_dimensions"`
}

// Dimension is a quality that reviewers rate: with one of its choices or, if it has none, with a whole number.
type Dimension struct {
	Name    string   `json:"name" doc:"Name, at most 40 characters, without a colon" example:"语气"`
	Choices []string `json:"choices,omitempty" doc:"2 to 10 choices of at most 40 characters each; absent for a dimension that is rated with numbers" example:"[\"得体\",\"生硬\"]"`
	Min     *int     `json:"min,omitempty" doc:"Lowest number; absent for a dimension with choices" example:"1"`
	Max     *int     `json:"max,omitempty" doc:"Highest number; absent for a dimension with choices" example:"5"`
}

// Dimensions are the dimensions of a rubric, in the order in which pages list them.
type Dimensions []Dimension

// Limits on rubrics: the length of the instructions in characters, the number of dimensions, the number of choices of
// a dimension, the length of a name or choice in characters, and the size of the numbers.
const (
	MaxInstructions    = 4000
	MaxDimensions      = 10
	MaxChoices         = 10
	MaxDimensionLength = 40
	maxRating          = 1000
)

// ErrDimension means that a dimension is not valid, or that the text of one cannot be parsed.
var ErrDimension = errors.New("not a name with 2 to 10 choices or a range of numbers")

// Validate returns ErrDimension if a dimension is not valid, two have the same name, or there are too many.
func (d Dimensions) Validate() error {
	if len(d) > MaxDimensions {
		return ErrDimension
	}
	for n, one := range d {
		if !one.isValid() || slices.ContainsFunc(d[:n], func(other Dimension) bool { return other.Name == one.Name }) {
			return ErrDimension
		}
	}
	return nil
}

func (d Dimension) isValid() bool {
	if !isShort(d.Name) || strings.ContainsAny(d.Name, ":：") {
		return false
	}
	if len(d.Choices) == 0 {
		return d.Min != nil && d.Max != nil && -maxRating <= *d.Min && *d.Min < *d.Max && *d.Max <= maxRating
	}
	for n, choice := range d.Choices {
		if !isShort(choice) || strings.ContainsAny(choice, "|｜") || slices.Contains(d.Choices[:n], choice) {
			return false
		}
	}
	return len(d.Choices) >= 2 && len(d.Choices) <= MaxChoices && d.Min == nil && d.Max == nil
}

// isShort reports whether a text can be a name or a choice: it is trimmed, not empty, on one line and not too long.
func isShort(one string) bool {
	return one != "" && one == strings.TrimSpace(one) && utf8.RuneCountInString(one) <= MaxDimensionLength &&
		!strings.ContainsFunc(one, unicode.IsControl)
}

var rangeText = regexp.MustCompile(`^(-?\d{1,4}) ?[-–~～至] ?(-?\d{1,4})$`)

// ParseDimension parses a dimension as people write it: "语气：得体 | 生硬" or "准确性: 1-5". It returns ErrDimension if
// the text has another form; whether the dimension is valid is for Validate to say.
func ParseDimension(line string) (Dimension, error) {
	at := strings.IndexAny(line, ":：")
	if at < 0 {
		return Dimension{}, ErrDimension
	}
	_, colon := utf8.DecodeRuneInString(line[at:])
	d, rated := Dimension{Name: strings.TrimSpace(line[:at])}, strings.TrimSpace(line[at+colon:])
	if found := rangeText.FindStringSubmatch(rated); found != nil {
		least, _ := strconv.Atoi(found[1])
		most, _ := strconv.Atoi(found[2])
		d.Min, d.Max = &least, &most
		return d, nil
	}
	for _, choice := range strings.FieldsFunc(rated, func(r rune) bool { return r == '|' || r == '｜' }) {
		d.Choices = append(d.Choices, strings.TrimSpace(choice))
	}
	if len(d.Choices) == 0 {
		return d, ErrDimension
	}
	return d, nil
}

// String returns the dimension in the form that ParseDimension parses.
func (d Dimension) String() string {
	if len(d.Choices) == 0 {
		return fmt.Sprintf("%s: %d-%d", d.Name, *d.Min, *d.Max)
	}
	return d.Name + ": " + strings.Join(d.Choices, " | ")
}

// Allows reports whether value is a rating on the dimension: a choice, or a whole number as encoding/json decodes it.
func (d Dimension) Allows(value any) bool {
	switch value := value.(type) {
	case string:
		return slices.Contains(d.Choices, value)
	case float64:
		return len(d.Choices) == 0 && value == math.Trunc(value) && value >= float64(*d.Min) && value <= float64(*d.Max)
	}
	return false
}

// Named returns the dimension with the given name.
func (d Dimensions) Named(name string) (one Dimension, isThere bool) {
	at := slices.IndexFunc(d, func(one Dimension) bool { return one.Name == name })
	if at < 0 {
		return one, false
	}
	return d[at], true
}

// Names returns the names of the dimensions.
func (d Dimensions) Names() (names []string) {
	for _, one := range d {
		names = append(names, one.Name)
	}
	return names
}

// Scan implements sql.Scanner.
func (d *Dimensions) Scan(stored any) error { return scanJSON(stored, d) }

// Value implements driver.Valuer. nil stays NULL.
func (d Dimensions) Value() (driver.Value, error) {
	if d == nil {
		return nil, nil //nolint:nilnil // NULL
	}
	written, err := json.Marshal(d)
	return string(written), err
}

// Ratings are a reviewer's ratings, keyed by dimension: each is a string for a choice, or a float64 for a number.
type Ratings map[string]any

// Scan implements sql.Scanner.
func (r *Ratings) Scan(stored any) error { return scanJSON(stored, r) }

// Value implements driver.Valuer.
func (r Ratings) Value() (driver.Value, error) { return r.String(), nil }

// String returns the ratings as a JSON object.
func (r Ratings) String() string {
	if len(r) == 0 {
		return "{}"
	}
	written, err := json.Marshal(map[string]any(r))
	if err != nil {
		return "{}" // strings and numbers can be encoded
	}
	return string(written)
}

func scanJSON(stored, to any) error {
	text, isBytes := stored.([]byte)
	if !isBytes {
		return fmt.Errorf("a column of type json holds a %T", stored)
	}
	return json.Unmarshal(text, to)
}

// RatingText returns a rating as pages and sheets show it.
func RatingText(value any) string {
	if number, isNumber := value.(float64); isNumber {
		return strconv.FormatFloat(number, 'f', -1, 64)
	}
	return fmt.Sprint(value)
}

// RubricOf returns the rubric of a task's project.
func (r Reviews) RubricOf(ctx context.Context, taskID uuid.UUID) (rubric Rubric, err error) {
	const read = `
		SELECT p.review_instructions, p.review_dimensions
		FROM evaluation_tasks t
		JOIN projects p ON p.id = t.project_id
		WHERE t.id = $1`
	err = r.db.GetContext(ctx, &rubric, read, taskID)
	return rubric, pg.Classify("read the rubric", err)
}
