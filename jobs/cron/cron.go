// Package cron computes the next time of a five-field cron expression in a time zone, and formats times in Beijing
// time, as pages show them. The database uses UTC.
package cron

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
)

// Reasons for refusing an expression or a time zone.
var (
	ErrExpression = errors.New("not a five-field cron expression")
	ErrNever      = errors.New("the cron expression never fires")
	ErrTimezone   = errors.New("not a time zone of the IANA database")
)

// FieldError is an ErrExpression caused by one field.
type FieldError struct {
	// Field is one of Fields, and Value is its text in the expression.
	Field, Value string
}

func (e *FieldError) Error() string { return "the field " + e.Field + " is " + e.Value }

// Is makes errors.Is(err, ErrExpression) true.
func (e *FieldError) Is(other error) bool { return other == ErrExpression }

// Fields are the names of an expression's fields, in order.
var Fields = []string{"minute", "hour", "day", "month", "weekday"}

// Plan is a parsed expression in a time zone.
type Plan struct {
	fields *cron.SpecSchedule
	zone   *time.Location
	// isFixed reports that the expression names hours, so its times follow the local clock. Otherwise it fires at
	// intervals, regardless of clock changes.
	isFixed bool
}

var parser = cron.NewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow)

// macros maps the names that may be used instead of an expression to the expressions that they stand for.
var macros = map[string]string{
	"@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *", "@monthly": "0 0 1 * *", "@weekly": "0 0 * * 0",
	"@daily": "0 0 * * *", "@midnight": "0 0 * * *",
	"@hourly": "0 * * * *",
}

// Parse parses an expression in a time zone. The expression has five fields (minute, hour, day of the month, month, day
// of the week) or is a name such as @daily. For an invalid expression, Parse returns ErrExpression, or a *FieldError if
// one of the five fields is invalid; ErrNever if the expression never fires; and ErrTimezone for an unknown time zone.
func Parse(expression, timezone string) (Plan, error) {
	if named, isMacro := macros[strings.ToLower(strings.TrimSpace(expression))]; isMacro {
		expression = named
	}
	fields := strings.Fields(expression)
	if len(fields) != len(Fields) || strings.Contains(expression, "TZ=") {
		return Plan{}, ErrExpression
	}
	for n, field := range fields {
		if n == len(Fields)-1 {
			fields[n] = withSunday(field)
		}
		alone := []string{"*", "*", "*", "*", "*"}
		alone[n] = fields[n]
		if _, err := parser.Parse(strings.Join(alone, " ")); err != nil {
			return Plan{}, &FieldError{Fields[n], field}
		}
	}
	parsed, err := parser.Parse(strings.Join(fields, " "))
	if err != nil {
		return Plan{}, fmt.Errorf("%w: %w", ErrExpression, err)
	}
	zone, err := time.LoadLocation(timezone)
	if err != nil || timezone == "" || timezone == "Local" {
		return Plan{}, ErrTimezone
	}
	spec := parsed.(*cron.SpecSchedule)
	plan := Plan{fields: spec, zone: zone, isFixed: !strings.HasPrefix(fields[1], "*")}
	if plan.Next(time.Now()).IsZero() {
		return Plan{}, ErrNever
	}
	return plan, nil
}

// withSunday replaces day 7, which like 0 means Sunday but is not accepted by the parser: 5-7 becomes 5-6,0.
func withSunday(field string) string {
	parts := strings.Split(field, ",")
	for n, part := range parts {
		days, step, hasStep := strings.Cut(part, "/")
		first, last, isRange := strings.Cut(days, "-")
		switch {
		case part == "7":
			parts[n] = "0"
		case !isRange || last != "7":
		case !hasStep && first == "7":
			parts[n] = "0"
		case !hasStep:
			parts[n] = first + "-6,0"
		default:
			parts[n] = steps(first, step, part)
		}
	}
	return strings.Join(parts, ",")
}

// steps lists every step-th day from first to 7, with 0 for 7; it returns part if first or step is not a number.
func steps(first, step, part string) string {
	day, err := strconv.Atoi(first)
	by, wrong := strconv.Atoi(step)
	if err != nil || wrong != nil || day < 0 || by < 1 {
		return part
	}
	var days []string
	for ; day <= 7; day += by {
		days = append(days, strconv.Itoa(day%7))
	}
	return strings.Join(days, ",")
}

// Next returns the first time after a given one; the zero time if there is none for years. If the expression names
// hours, a time that is skipped when clocks go forward fires at the change, and a time that is repeated when they go
// back fires only once, at its first occurrence.
func (p Plan) Next(after time.Time) time.Time {
	spec := *p.fields
	if !p.isFixed {
		spec.Location = p.zone
		return spec.Next(after.In(p.zone))
	}
	// The local time is treated as if it were UTC, in which every minute occurs exactly once.
	spec.Location = time.UTC
	local := after.In(p.zone)
	wall := time.Date(local.Year(), local.Month(), local.Day(), local.Hour(), local.Minute(), local.Second(),
		local.Nanosecond(), time.UTC).Add(-margin)
	for {
		if wall = spec.Next(wall); wall.IsZero() {
			return wall
		}
		if next := p.moment(wall); next.After(after) {
			return next
		}
	}
}

// margin exceeds any clock change: Samoa once skipped a whole day.
const margin = 26 * time.Hour

// moment returns when the local clock first shows a time, or skips it.
func (p Plan) moment(wall time.Time) time.Time {
	at := time.Date(wall.Year(), wall.Month(), wall.Day(), wall.Hour(), wall.Minute(), 0, 0, p.zone)
	_, before := at.Add(-margin).Zone()
	_, after := at.Add(margin).Zone()
	if before == after {
		return at
	}
	// early uses the offset before the change, so that a local time that occurs twice means its first occurrence. A
	// skipped time has neither offset, and means the change itself.
	early := wall.Add(-time.Duration(before) * time.Second)
	if _, offset := early.In(p.zone).Zone(); offset == before {
		return early.In(p.zone)
	}
	late := wall.Add(-time.Duration(after) * time.Second)
	if _, offset := late.In(p.zone).Zone(); offset == after {
		return late.In(p.zone)
	}
	return p.change(late, early)
}

// change returns when the clocks go forward between two times.
func (p Plan) change(low, high time.Time) time.Time {
	_, offset := low.In(p.zone).Zone()
	for high.Sub(low) > time.Second {
		middle := low.Add(high.Sub(low) / 2).Truncate(time.Second)
		if !middle.After(low) {
			break
		}
		if _, of := middle.In(p.zone).Zone(); of == offset {
			low = middle
		} else {
			high = middle
		}
	}
	return high.Truncate(time.Second).In(p.zone)
}

// day is the number of minutes in a day without a clock change.
const day = 24 * 60

// Shortest returns the shortest interval between two of the plan's times, in minutes, ignoring days on which clocks
// change; at most a day.
func (p Plan) Shortest() (minutes int) {
	var times []int
	for hour := range 24 {
		for minute := range 60 {
			if p.fields.Hour&(1<<uint(hour)) != 0 && p.fields.Minute&(1<<uint(minute)) != 0 {
				times = append(times, hour*60+minute)
			}
		}
	}
	minutes = day
	for n := range times[1:] {
		minutes = min(minutes, times[n+1]-times[n])
	}
	if overnight := day - times[len(times)-1] + times[0]; overnight < minutes && p.hasNeighbouringDays() {
		minutes = overnight
	}
	return minutes
}

// hasNeighbouringDays reports whether the plan includes two consecutive days. It checks four years, in which every
// date occurs.
func (p Plan) hasNeighbouringDays() bool {
	days := *p.fields
	days.Minute, days.Hour, days.Location = 1, 1, time.UTC
	begin := time.Date(2028, 1, 1, 0, 0, 0, 0, time.UTC)
	for last := begin; ; {
		next := days.Next(last)
		if next.IsZero() || next.After(begin.AddDate(4, 0, 0)) {
			return false
		}
		if last != begin && next.Sub(last) == 24*time.Hour {
			return true
		}
		last = next
	}
}

// Missed counts the plan's times between after (exclusive) and upTo (inclusive), and stops once the count is most.
func (p Plan) Missed(after, upTo time.Time, most int) (count int) {
	for next := p.Next(after); !next.IsZero() && !next.After(upTo) && count < most; next = p.Next(next) {
		count++
	}
	return count
}

// Shape lists the values that an expression names, field by field, each in ascending order; a field that is *
// lists none.
type Shape struct{ Minutes, Hours, Days, Months, Weekdays []int }

// Shape returns the values that the expression names.
func (p Plan) Shape() Shape {
	return Shape{named(p.fields.Minute, 0, 59), named(p.fields.Hour, 0, 23), named(p.fields.Dom, 1, 31),
		named(p.fields.Month, 1, 12), named(p.fields.Dow, 0, 6)}
}

// star is the bit that the parser sets for * and */n.
const star = 1 << 63

func named(bits uint64, least, most int) (values []int) {
	for value := least; value <= most; value++ {
		if bits&(1<<uint(value)) != 0 {
			values = append(values, value)
		}
	}
	if bits&star != 0 && len(values) == most-least+1 {
		return nil
	}
	return values
}
