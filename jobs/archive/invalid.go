package archive

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"wending/jobs/tasks"
)

// Error describes a fault in an archive and its location.
type Error struct {
	// File is the name of the faulty file in the archive; empty means the archive as a whole.
	File string
	// Line counts from 1; 0 means the whole file.
	Line int
	// Member is the faulty member, such as evaluations[2].score; empty means the whole line.
	Member string
	// Problem is the key of the message in the catalogues, one of Problems; Args are its arguments.
	Problem string
	// Want is, for ProblemValue, the key of the text that describes valid values, one of Wanted; Args are its
	// arguments.
	Want string
	Args map[string]any
}

// Error implements error.
func (e *Error) Error() string {
	return fmt.Sprintf("archive: %s, line %d: %s: %s %s %v", e.File, e.Line, e.Member, e.Problem, e.Want, e.Args)
}

// The faults that an archive may have.
const (
	ProblemFormat  = "format"
	ProblemMissing = "missing"
	ProblemTwice   = "twice"
	ProblemDamaged = "damaged"
	ProblemLarge   = "large"
	ProblemLong    = "long"
	ProblemSlow    = "slow"
	ProblemEmpty   = "empty"
	ProblemMany    = "many"
	ProblemValue   = "value"
	ProblemChanged = "changed"
	ProblemUnknown = "unknown"
	ProblemParts   = "parts"
)

// Problems lists all problems.
var Problems = []string{
	ProblemFormat, ProblemMissing, ProblemTwice, ProblemDamaged, ProblemLarge, ProblemLong, ProblemSlow, ProblemEmpty,
	ProblemMany, ProblemValue, ProblemChanged, ProblemUnknown, ProblemParts,
}

// The keys, below error.range in the catalogues, of texts that describe valid values. Some of the texts also describe
// parameters of requests.
const (
	wantAdaptive = "adaptive"
	wantAddress  = "address"
	wantAmount   = "amount"
	wantBoolean  = "boolean"
	wantBytes    = "bytes"
	wantChoice   = "choice"
	wantCost     = "cost"
	wantCount    = "count"
	wantFile     = "file"
	wantJSON     = "json"
	wantKnown    = "known"
	wantList     = "list"
	wantMember   = "member"
	wantNumber   = "number"
	wantOnce     = "once"
	wantPath     = "path"
	wantPoll     = "poll"
	wantPrice    = "price"
	wantRate     = "rate"
	wantRequired = "required"
	wantRule     = "rule"
	wantShare    = "share"
	wantStorable = "storable"
	wantString   = "string"
	wantText     = "text"
	wantTime     = "time"
	wantTurn     = "turn"
	wantUUID     = "uuid"
)

// Wanted lists all keys that Error.Want may have.
var Wanted = []string{
	wantAdaptive, wantAddress, wantAmount, wantBoolean, wantBytes, wantChoice, wantCost, wantCount, wantFile, wantJSON,
	wantKnown, wantList, wantMember, wantNumber, wantOnce, wantPath, wantPoll, wantPrice, wantRate, wantRequired,
	wantRule, wantShare, wantStorable, wantString, wantText, wantTime, wantTurn, wantUUID,
}

// checker checks the values of one line and keeps the first error.
type checker struct{ wrong *Error }

// err returns the first error; nil means that there is none.
func (c *checker) err() error {
	if c.wrong == nil {
		return nil
	}
	return c.wrong
}

// require records an error for a member unless the condition holds. arguments are names and values for the
// message.
func (c *checker) require(is bool, member, want string, arguments ...any) {
	if is || c.wrong != nil {
		return
	}
	c.wrong = valueError(member, want, arguments...)
}

// accept records the error that package tasks found in a member; nil means that it found none.
func (c *checker) accept(member string, wrong *tasks.InvalidError) {
	switch {
	case wrong == nil:
	case wrong.Problem == tasks.Missing:
		c.require(false, member, wantRequired)
	case wrong.Problem == tasks.TooLong:
		c.require(false, member, wantText, "Max", wrong.Max)
	case wrong.Problem == tasks.OutOfRange:
		c.require(false, member, wantNumber, "Min", wrong.Min, "Max", wrong.Max)
	case wrong.Problem == tasks.NotAdaptive:
		c.require(false, member, wantAdaptive)
	case wrong.Problem == tasks.NotACost:
		c.require(false, member, wantCost)
	default:
		c.require(false, member, wantChoice, "Choices", strings.Join(wrong.Choices, ", "))
	}
}

func valueError(member, want string, arguments ...any) *Error {
	e := &Error{Member: member, Problem: ProblemValue, Want: want, Args: map[string]any{}}
	for n := 0; n+1 < len(arguments); n += 2 {
		e.Args[arguments[n].(string)] = arguments[n+1]
	}
	return e
}

// name checks a text of one line; most is its maximum length in characters.
func (c *checker) name(member, text string, most int) {
	c.require(utf8.RuneCountInString(text) <= most && !strings.ContainsFunc(text, unicode.IsControl), member, wantText,
		"Max", most)
}

// text checks a text that may have several lines; most is its maximum length in characters.
func (c *checker) text(member string, text *string, most int) {
	if text != nil {
		c.require(utf8.RuneCountInString(*text) <= most && !strings.ContainsRune(*text, 0), member, wantStorable, "Max", most)
	}
}

func (c *checker) present(member, text string) {
	c.require(strings.TrimSpace(text) != "", member, wantRequired)
}

func (c *checker) number(member string, number *int, least, most int) {
	if number != nil {
		c.require(*number >= least && *number <= most, member, wantNumber, "Min", least, "Max", most)
	}
}

func (c *checker) share(member string, number *float64) {
	if number != nil {
		c.require(*number >= 0 && *number <= 1, member, wantShare)
	}
}

func (c *checker) time(member string, m *moment) {
	c.require(m == nil || !m.isWrong, member, wantTime)
}

func choose[T ~string](c *checker, member string, choice T, choices ...T) {
	c.require(slices.Contains(choices, choice), member, wantChoice, "Choices", strings.Join(texts(choices), ", "))
}

func texts[T ~string](list []T) []string {
	all := make([]string, len(list))
	for place, one := range list {
		all[place] = string(one)
	}
	return all
}

// lastMoment is the last second of the year 9999 in Beijing time, which pages and the API show: a year of five
// digits cannot be written in JSON.
var lastMoment = time.Date(9999, 12, 31, 15, 59, 59, 0, time.UTC)

// moment is a time from 1970 to 9999. Times outside this range are reported when their line is checked.
type moment struct {
	time.Time
	isWrong bool
}

func momentOf(t *time.Time) *moment {
	if t == nil {
		return nil
	}
	return &moment{Time: *t}
}

// UnmarshalJSON implements json.Unmarshaler.
func (m *moment) UnmarshalJSON(text []byte) error {
	isTime := json.Unmarshal(text, &m.Time) == nil
	m.isWrong = !isTime || m.UTC().Year() < 1970 || m.After(lastMoment)
	return nil
}

func (m *moment) time() *time.Time {
	if m == nil {
		return nil
	}
	return &m.Time
}

// list is a list of at most maxList values: a line of many empty values would take many times its size in memory.
type list[T listed] []T

// listed is implemented by the elements of a list. listName is the member that holds the list, for errors.
type listed interface{ listName() string }

// numerous is implemented by values that may occur more than maxList times in a list.
type numerous interface{ listLimit() int }

func limitOfList(one any) int {
	if many, is := one.(numerous); is {
		return many.listLimit()
	}
	return maxList
}

const maxList = 256

// UnmarshalJSON implements json.Unmarshaler.
func (l *list[T]) UnmarshalJSON(text []byte) error {
	*l = nil
	if string(text) == "null" {
		return nil
	}
	var one T
	most := limitOfList(one)
	decoder := strict(text)
	if opening, err := decoder.Token(); err != nil || opening != json.Delim('[') {
		return valueError(one.listName(), wantList, "Max", most)
	}
	for ; decoder.More(); one = *new(T) {
		if len(*l) == most {
			return valueError(one.listName(), wantList, "Max", most)
		}
		if err := decoder.Decode(&one); err != nil {
			wrong := explain(err)
			wrong.Member = strings.TrimSuffix(one.listName()+"["+strconv.Itoa(len(*l)+1)+"]."+wrong.Member, ".")
			return wrong
		}
		*l = append(*l, one)
	}
	return nil
}

// listOf converts texts to a list.
func listOf[T interface {
	~string
	listed
}](texts []string) list[T] {
	all := list[T]{}
	for _, text := range texts {
		all = append(all, T(text))
	}
	return all
}

// textsOf converts a list to texts.
func textsOf[T interface {
	~string
	listed
}](all list[T]) []string {
	return texts(all)
}

func strict(text []byte) *json.Decoder {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	return decoder
}

// decode reads a line that is one JSON object without unknown members. Its error is an *Error.
func decode(line []byte, into any) error {
	decoder := strict(line)
	if err := decoder.Decode(into); err != nil {
		return explain(err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return valueError("", wantJSON)
	}
	return checkNames(line)
}

// freeMembers are the members whose objects have user-defined names; foreignMembers are those that agents wrote, which
// are kept as they are.
var (
	freeMembers    = []string{"config", "ratings", "parts"}
	foreignMembers = []string{"input", "output", "raw"}
)

// maxNames is the maximum number of members of an object, except for the manifest's parts.
const maxNames = 10_000

// object is the object or list that encloses a position in a JSON text; for an object, names are the names so far.
type object struct {
	names map[string]bool
	// most is the maximum number of names.
	most int
	last string
	// isFree reports that members may have any name, and isForeign that they may also have the same name.
	isFree     bool
	isForeign  bool
	isList     bool
	expectName bool
}

// checkNames returns an *Error if an object of a valid JSON text has a duplicate name, where the decoder would use
// the last one, or a name that differs from a known one only in case, which the decoder would accept.
func checkNames(text []byte) error {
	within := []object{{isList: true}}
	for n := 0; n < len(text); n++ {
		here := &within[len(within)-1]
		switch text[n] {
		case '{', '[':
			isFree := here.isFree || slices.Contains(freeMembers, here.last)
			isForeign := here.isForeign || slices.Contains(foreignMembers, here.last)
			most := maxNames
			if len(within) == 2 && here.last == "parts" {
				most = maxParts
			}
			within = append(within, object{names: map[string]bool{}, most: most, isFree: isFree, isForeign: isForeign,
				isList: text[n] == '[', expectName: text[n] == '{'})
		case '}', ']':
			within = within[:len(within)-1]
		case ',':
			here.expectName = !here.isList
		case '"':
			end := n + 1 + stringEnd(text[n+1:])
			if here.expectName {
				if err := here.take(text[n : end+1]); err != nil {
					return err
				}
			}
			n = end
		}
	}
	return nil
}

// stringEnd returns the position of a string's closing quote in a valid JSON text that begins after its opening quote.
func stringEnd(text []byte) int {
	for end := 0; ; end++ {
		end += bytes.IndexByte(text[end:], '"')
		before := bytes.TrimRight(text[:end], `\`)
		if (end-len(before))%2 == 0 {
			return end
		}
	}
}

// take adds a name, still in quotes, to an object.
func (o *object) take(quoted []byte) error {
	name := ""
	if err := json.Unmarshal(quoted, &name); err != nil {
		return valueError("", wantJSON)
	}
	if o.isForeign {
		o.expectName = false
		return nil
	}
	isOther := strings.ContainsFunc(name, func(r rune) bool { return r > unicode.MaxASCII || unicode.IsUpper(r) })
	switch {
	case !o.isFree && isOther:
		return valueError(shorten(name), wantMember)
	case o.names[name]:
		return valueError(shorten(name), wantOnce)
	case len(o.names) == o.most:
		return valueError(shorten(name), wantList, "Max", o.most)
	}
	o.names[name], o.last, o.expectName = true, name, false
	return nil
}

// explain converts a decoder error into an *Error.
func explain(err error) *Error {
	var known *Error
	if errors.As(err, &known) {
		return known
	}
	if unquoted, isUnknown := strings.CutPrefix(err.Error(), "json: unknown field "); isUnknown {
		if name, err := strconv.Unquote(unquoted); err == nil {
			return valueError(shorten(name), wantMember)
		}
	}
	var mistyped *json.UnmarshalTypeError
	if !errors.As(err, &mistyped) {
		return valueError("", wantJSON)
	}
	// The part before the last dot is the name of an embedded type.
	member := mistyped.Field[strings.LastIndex(mistyped.Field, ".")+1:]
	switch mistyped.Type.Kind() {
	case reflect.String:
		return valueError(member, wantString)
	case reflect.Bool:
		return valueError(member, wantBoolean)
	case reflect.Int:
		return valueError(member, wantNumber, "Min", 0, "Max", maxInt)
	case reflect.Float64:
		return valueError(member, wantAmount)
	}
	return valueError(member, wantJSON)
}

// shorten returns the first 80 characters of a text, without control characters, for a message.
func shorten(text string) string {
	runes := []rune(strings.ToValidUTF8(text, "\uFFFD"))
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return -1
		}
		return r
	}, string(runes[:min(len(runes), 80)]))
}
