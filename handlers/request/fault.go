package request

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"
	"github.com/shopspring/decimal"

	"wending/db"
	"wending/db/entries"
	"wending/db/measure"
	"wending/db/people"
	"wending/db/report"
	"wending/db/review"
	"wending/jobs/archive"
	"wending/jobs/dataset"
	"wending/jobs/evaluate"
	"wending/jobs/identity"
	"wending/jobs/secret"
	"wending/jobs/tasks"
	"wending/views/text"
)

// RetryAfter is the number of seconds after which a request refused with SERVICE_UNAVAILABLE may be retried, as the
// value of the header Retry-After.
const RetryAfter = "5"

// IsInternal reports whether an error is the server's own, which operators must know about, as opposed to a client's
// error or overload.
func IsInternal(err error) bool {
	return FaultOf(err).Status() >= http.StatusInternalServerError && !errors.Is(err, ErrBusy) &&
		!errors.Is(err, tasks.ErrNoSlot) && !errors.Is(err, ErrRetired) && !errors.As(err, new(*tasks.DiskFullError))
}

// ErrRetired means that a newer version of the program has migrated the database, so this process answers no more
// requests.
var ErrRetired = errors.New("a newer version has migrated the database")

// FaultCodes returns all codes in alphabetical order.
func FaultCodes() []string { return slices.Sorted(maps.Keys(statuses)) }

// StatusOf returns the HTTP status of a code.
func StatusOf(code string) int { return statuses[code] }

func notFoundCode(kind db.Kind) string { return strings.ToUpper(string(kind)) + "_NOT_FOUND" }

// notFound returns the fault for an object that does not exist; kinds without a code of their own share CodeNotFound.
func notFound(kind db.Kind) *Fault {
	if _, hasOwn := statuses[notFoundCode(kind)]; hasOwn {
		return NewFault(notFoundCode(kind))
	}
	return NewFault(CodeNotFound)
}

// Fault is an error that is shown to a user or an API client. It does not change; the With… methods return copies. The
// cause is only logged.
type Fault struct {
	code string
	// key and args select the message in the catalogue and fill it in; an empty key means "error." followed by the code.
	key   string
	args  map[string]any
	limit *Limit
	// rows are the errors in individual rows of a dataset.
	rows []dataset.RowError
	// field is the invalid field; it is empty if the code implies the field. row is the field's line in an archive.
	field string
	row   int
	// others are faults in other fields.
	others []*Fault
	status int
	cause  error
}

// NewFault returns the fault with the given code.
func NewFault(code string) *Fault {
	status, isKnown := statuses[code]
	if !isKnown {
		panic("unknown code " + code)
	}
	return &Fault{code: code, status: status}
}

// WithCause returns a copy of the fault with the error that caused it, which is logged.
func (f Fault) WithCause(cause error) *Fault {
	f.cause = cause
	return &f
}

// WithMessage returns a copy of the fault with the message that the catalogue has under the given key.
func (f Fault) WithMessage(key string) *Fault {
	f.key = key
	return &f
}

// With returns a copy of the fault with a value for a placeholder of its message.
func (f Fault) With(name string, value any) *Fault {
	f.args = maps.Clone(f.args)
	if f.args == nil {
		f.args = map[string]any{}
	}
	f.args[name] = value
	return &f
}

// withStatus returns a copy of the fault with a status other than its code's.
func (f Fault) withStatus(status int) *Fault {
	f.status = status
	return &f
}

// Error implements error, for the log.
func (f *Fault) Error() string {
	if f.cause != nil {
		return f.code + ": " + f.cause.Error()
	}
	return f.code
}

// Unwrap returns the cause.
func (f *Fault) Unwrap() error { return f.cause }

// Code returns the fault's code.
func (f *Fault) Code() string { return f.code }

// Status returns the fault's HTTP status.
func (f *Fault) Status() int { return f.status }

// Message returns the fault's message in the locale's language.
func (f *Fault) Message(locale text.Locale) string {
	args := maps.Clone(f.args)
	if args == nil {
		args = map[string]any{}
	}
	if f.limit != nil {
		args["Range"] = f.limit.told(locale)
	}
	key := f.key
	if key == "" {
		key = "error." + f.code
	}
	return locale.TextWith(key, args)
}

// Beside returns the fault's message for display next to the field that it is about, without the field's name.
func (f *Fault) Beside(locale text.Locale) string {
	switch {
	case f.limit == nil:
		return f.Message(locale)
	case f.limit.key == requiredKey:
		return locale.Text("error.beside.required")
	case f.limit.key == ruleKey:
		return locale.Text("error.beside.rule", "Detail", f.limit.told(locale))
	}
	return locale.Text("error.beside", "Range", f.limit.told(locale))
}

// RowDetail is the error in one row of a dataset, or in one field, with its message in a reader's language.
type RowDetail struct {
	Row     int    `json:"row" doc:"Row number as shown in a spreadsheet" example:"3"`
	Column  string `json:"column" doc:"Name of the column; empty if the error concerns the whole row" example:"question"`
	Message string `json:"message" example:"question 为空"`
}

// Details returns the errors in fields and rows, with messages in the locale's language, and their total number, which
// is larger than the list if only the first are listed.
func (f *Fault) Details(locale text.Locale) (details []RowDetail, total int) {
	if f.field != "" || f.row > 0 {
		details = append(details, RowDetail{Row: f.row, Column: f.field, Message: f.Message(locale)})
	}
	for _, other := range f.others {
		details = append(details, RowDetail{Column: other.field, Message: other.Message(locale)})
	}
	for _, row := range f.rows {
		details = append(details, RowDetail{row.Row, row.Column, locale.TextWith("dataset.row."+row.Problem, row.Args)})
	}
	total, _ = f.args["Count"].(int)
	return details, max(total, len(details))
}

// Limit describes the valid values of a parameter, for messages.
type Limit struct {
	key  string
	args map[string]any
}

// told returns the description in the locale's language.
func (l Limit) told(locale text.Locale) string {
	if why, isText := l.args["Detail"].(string); isText && l.key == ruleKey {
		return locale.Text(ruleKey, "Detail", locale.Reason(why))
	}
	return locale.TextWith(l.key, l.args)
}

// Between allows integers in the given range, both ends included.
func Between(least, most int) Limit {
	return Limit{"error.range.number", map[string]any{"Min": least, "Max": most}}
}

// ValuesBetween allows lists whose number of values is in the given range, both ends included.
func ValuesBetween(least, most int) Limit {
	return Limit{"error.range.count", map[string]any{"Want": fmt.Sprintf("%d–%d", least, most)}}
}

// OneOf allows one of the choices.
func OneOf(choices ...string) Limit {
	if len(choices) == 0 {
		return Limit{key: "error.range.no_choice"}
	}
	return Limit{"error.range.choice", map[string]any{"Choices": strings.Join(choices, ", ")}}
}

// TextUpTo allows text with at most the given number of characters, without control characters such as line breaks.
func TextUpTo(most int) Limit { return Limit{"error.range.text", map[string]any{"Max": most}} }

// ValidText allows strings, as opposed to other JSON values.
func ValidText() Limit { return Limit{key: "error.range.string"} }

// Required allows any text that is not empty.
func Required() Limit { return Limit{key: requiredKey} }

const requiredKey = "error.range.required"

// Boolean allows true or false.
func Boolean() Limit { return Limit{key: "error.range.boolean"} }

// JSONObject allows a JSON object.
func JSONObject() Limit { return Limit{key: "error.range.json"} }

// ValidPoll allows the valid polling settings of an agent.
func ValidPoll() Limit { return Limit{key: "error.range.poll"} }

// ValidRate allows N/s, N/m or unlimited.
func ValidRate() Limit { return Limit{key: "error.range.rate"} }

// LongTextUpTo allows text, possibly of several lines, with at most the given number of characters.
func LongTextUpTo(most int) Limit { return Limit{"error.range.long", map[string]any{"Max": most}} }

// ValidRule describes what is wrong with a rule's configuration. why is a reason as reason.Because returns it.
func ValidRule(why string) Limit { return Limit{ruleKey, map[string]any{"Detail": why}} }

// ValidRuleValue allows the valid values of one member of an evaluator's configuration.
func ValidRuleValue(kind evaluate.Type) Limit {
	return Limit{key: map[evaluate.Type]string{
		evaluate.Share: "error.range.share", evaluate.Amount: "error.range.amount", evaluate.JSON: "error.range.json_value",
		evaluate.Truth: "error.range.boolean", evaluate.Line: "error.range.string", evaluate.Lines: "error.range.lines",
		evaluate.Hundred: "error.range.rating", evaluate.Votes: "error.range.votes",
		evaluate.Temperature: "error.range.temperature",
		evaluate.Dimensions:  "error.range.dimensions", evaluate.Template: "error.range.template",
	}[kind]}
}

const ruleKey = "error.range.rule"

// Unique allows a name that no other entry of the kind has.
func Unique() Limit { return Limit{key: "error.range.unique"} }

// RunsToReplay allows only a question or unit that has runs, because a replay shows runs.
func RunsToReplay() Limit { return Limit{key: "error.range.replay"} }

// SensitivePattern allows words, and RE2 patterns between slashes, with at most the given number of characters.
func SensitivePattern(most int) Limit {
	return Limit{"error.range.pattern", map[string]any{"Max": most}}
}

// RatedDimensions allows up to the given number of dimensions that reviewers rate.
func RatedDimensions(most int) Limit {
	return Limit{"error.range.dimensions", map[string]any{"Most": most}}
}

// NoDimensions allows no ratings, because the project has no dimensions.
func NoDimensions() Limit { return Limit{key: "error.range.unrated"} }

// Existing allows only ids of existing objects.
func Existing() Limit { return Limit{key: "error.range.existing"} }

// Unlike allows a name that cannot be confused with the given name of another account.
func Unlike(name string) Limit { return Limit{"error.range.unlike", map[string]any{"Name": name}} }

// OtherThan allows any value except that of the parameter with the given name.
func OtherThan(name string) Limit { return Limit{"error.range.other", map[string]any{"Name": name}} }

// VisibleName allows a name of at most the given number of characters, all of them visible.
func VisibleName(most int) Limit { return Limit{"error.range.name", map[string]any{"Max": most}} }

// UnreservedName allows a name that looks neither like an address nor like a token's name.
func UnreservedName() Limit { return Limit{key: "error.range.name.unreserved"} }

// ValidAddress allows an http or https address.
func ValidAddress() Limit { return Limit{key: "error.range.address"} }

// ValidTraceURL allows a template for links to the agents' tracing system, of at most the given number of characters.
func ValidTraceURL(most int) Limit {
	return Limit{"error.range.trace_url", map[string]any{"Max": most}}
}

// Reachable allows an address that the allowlist in the given setting permits.
func Reachable(variable string) Limit {
	return Limit{"error.range.reachable", map[string]any{"Variable": variable}}
}

// ValidPrice allows a decimal number that is not negative.
func ValidPrice() Limit { return Limit{key: "error.range.price"} }

// ValidCost allows a decimal number above 0.
func ValidCost() Limit { return Limit{key: "error.range.cost"} }

// ValidAdaptive allows the settings of adaptive runs.
func ValidAdaptive() Limit { return Limit{key: "error.range.adaptive"} }

// ValidHeaders allows a JSON object of header names and values.
func ValidHeaders() Limit { return Limit{key: "error.range.headers"} }

// ValidEntries allows existing entries of the library.
func ValidEntries() Limit { return Limit{key: "error.range.saved"} }

// ValidWebhookSecret allows a secret as defined by Standard Webhooks.
func ValidWebhookSecret() Limit { return Limit{key: "error.range.webhook_secret"} }

// ValidAddresses allows at most the given number of e-mail addresses.
func ValidAddresses(most int) Limit {
	return Limit{"error.range.addresses", map[string]any{"Max": most}}
}

// AskingTask allows only a task that sends questions to agents, rather than one with imported answers.
func AskingTask() Limit { return Limit{key: "error.range.asking_task"} }

// ValidTask allows the id of a task.
func ValidTask() Limit { return Limit{key: "error.range.task"} }

// ValidCron allows a cron expression.
func ValidCron() Limit { return Limit{key: "error.range.cron"} }

// ValidCronField allows the valid values of the given field of a cron expression; value is the invalid value that was
// given.
func ValidCronField(field, value string) Limit {
	return Limit{"cron.wrong." + field, map[string]any{"Value": value}}
}

// CronNever allows only cron expressions that fire at least once.
func CronNever() Limit { return Limit{key: "error.range.cron_never"} }

// CronOften allows cron expressions that fire at intervals of at least the given number of minutes.
func CronOften(least int) Limit {
	return Limit{"error.range.cron_often", map[string]any{"Min": least}}
}

// ValidTimezone allows a name in the IANA time zone database.
func ValidTimezone() Limit { return Limit{key: "error.range.timezone"} }

// ValidAlertLimit allows the valid limits of an alert.
func ValidAlertLimit() Limit { return Limit{key: "error.range.alert"} }

// ValidMargin allows a valid margin of a comparison.
func ValidMargin() Limit { return Limit{key: "error.range.margin"} }

// ValidPassword allows an acceptable password. problem says what is wrong with the rejected one: short, long, common,
// different (from its repetition), same (as the current one) or wrong. least is the minimum number of characters.
func ValidPassword(problem string, least int) Limit {
	return Limit{"error.range.password." + problem, map[string]any{"Min": least}}
}

// ValidAccount allows the name or id of an account.
func ValidAccount() Limit { return Limit{key: "error.range.account"} }

// ValidMoment allows a time in RFC 3339 format, or a day.
func ValidMoment() Limit { return Limit{key: "error.range.moment"} }

// NonEmpty allows a single value that is not empty.
func NonEmpty() Limit { return Limit{key: "error.range.one"} }

// ParameterFault returns the fault of a parameter whose value the limit does not allow.
func ParameterFault(name string, limit Limit) *Fault {
	f := NewFault(CodeParameterInvalid)
	f.args, f.limit = map[string]any{"Name": name}, &limit
	return f
}

// FieldFault is like ParameterFault, but for a field of a form; the fault's details also contain the field's name.
func FieldFault(name string, limit Limit) *Fault {
	f := ParameterFault(name, limit)
	f.field = name
	return f
}

// UnknownFieldFault returns the fault of a field that an operation does not know; its message suggests the most similar
// known field.
func UnknownFieldFault(name string, known []string) *Fault {
	name = shortened(name)
	f := NewFault(CodeParameterInvalid).WithMessage("error.unknown.field").With("Name", name)
	if len(known) > 0 {
		f = f.WithMessage("error.unknown.field.near").With("Near", nearest(name, known))
	}
	f.field = name
	return f
}

// Parameter returns the name of the parameter or field that the fault is about; empty if it is about something else.
func (f *Fault) Parameter() string {
	if f.code != CodeParameterInvalid {
		return ""
	}
	name, _ := f.args["Name"].(string)
	return name
}

// UnknownParameterFault is like UnknownFieldFault, but for query parameters. known is never empty, because every
// operation accepts some.
func UnknownParameterFault(name string, known []string) *Fault {
	name = shortened(name)
	return NewFault(CodeParameterInvalid).WithMessage("error.unknown.parameter").With("Name", name).With(
		"Near", nearest(name, known))
}

// maxShownName is the maximum number of characters of an unknown name that a message repeats.
const maxShownName = 64

func shortened(name string) string {
	runes := []rune(strings.ToValidUTF8(name, "\uFFFD"))
	if len(runes) > maxShownName {
		return string(runes[:maxShownName]) + "…"
	}
	return string(runes)
}

// nearest returns the known name that is most similar to the given one, by edit distance.
func nearest(name string, known []string) string {
	likeness := func(other string) float64 { return measure.Similarity([]byte(strings.ToLower(name)), []byte(other)) }
	return slices.MaxFunc(slices.Sorted(slices.Values(known)), func(a, b string) int {
		return cmp.Compare(likeness(a), likeness(b))
	})
}

// JoinFaults returns the first fault, with the others added to its details if they are about a field.
func JoinFaults(faults ...*Fault) *Fault {
	first := *faults[0]
	for _, other := range faults[1:] {
		if other.field != "" {
			first.others = append(first.others, other)
		}
	}
	return &first
}

// DatasetFault converts an error from reading a dataset into a fault.
func DatasetFault(err error) *Fault {
	var refused *dataset.Error
	if !errors.As(err, &refused) {
		if errors.Is(err, context.Canceled) { // the client no longer waits for a response
			return NewFault(CodeRequestInvalid).WithCause(err)
		}
		return NewFault(CodeInternalError).WithCause(err)
	}
	f := NewFault(refused.Code).WithMessage("dataset." + refused.Problem).WithCause(err)
	f.args, f.rows = refused.Args, refused.Details
	return f
}

// ArchiveFault converts an error in an archive into a fault.
func ArchiveFault(wrong *archive.Error) *Fault {
	f := NewFault(CodeArchiveInvalid).WithMessage("archive." + wrong.Problem).WithCause(wrong)
	f.args = map[string]any{"File": wrong.File, "Line": strconv.Itoa(wrong.Line), "Member": wrong.Member}
	maps.Copy(f.args, wrong.Args)
	switch {
	case wrong.Want != "" && wrong.Member == "":
		f.key = "archive.line"
	case wrong.File == "":
		f.key = "error.ARCHIVE_INVALID"
	}
	if wrong.Want != "" {
		f.limit = &Limit{"error.range." + wrong.Want, wrong.Args}
	}
	f.field, f.row = wrong.Member, wrong.Line
	return f
}

// FaultOf converts any error that a handler returns into a fault; errors that it does not know become internal errors.
func FaultOf(err error) *Fault {
	var known *Fault
	if errors.As(err, &known) {
		return known
	}
	if described := ofType(err); described != nil {
		return described
	}
	for _, one := range sentinels {
		if !errors.Is(err, one.err) {
			continue
		}
		found := NewFault(one.code)
		if one.message != "" {
			found = found.WithMessage(one.message)
		}
		return found.WithCause(err)
	}
	var routing *echo.HTTPError
	switch {
	case !errors.As(err, &routing):
	case routing.Code == http.StatusRequestEntityTooLarge:
		return NewFault(CodeRequestTooLarge).WithCause(err)
	case routing.Code == http.StatusNotFound:
		return NewFault(CodeNotFound).WithCause(err)
	case routing.Code >= 400 && routing.Code < 500:
		return NewFault(CodeRequestInvalid).WithCause(err).withStatus(routing.Code)
	}
	return NewFault(CodeInternalError).WithCause(err)
}

// sentinels lists the errors that carry no values; the first match applies. If message is empty, the code's own message
// is used.
var sentinels = []struct {
	err           error
	code, message string
}{
	{report.ErrSearchTooSlow, CodeServiceUnavailable, "error.SEARCH_TOO_SLOW"},
	{db.ErrNotFound, CodeNotFound, ""},
	{db.ErrNothingToRun, CodeTaskStateConflict, "error.NOTHING_TO_RETRY"},
	{review.ErrAllSampled, CodeTaskStateConflict, "error.ALL_SAMPLED"},
	{tasks.ErrNotGrouped, CodeTaskStateConflict, "error.NOT_GROUPED"},
	{db.ErrAsksNobody, CodeTaskStateConflict, "error.ASKS_NOBODY"},
	{db.ErrConflict, CodeTaskStateConflict, ""},
	{ErrStale, CodeForbidden, "error.stale"},
	// The secret was discarded when the key was lost, or another key is in use.
	{secret.ErrKey, CodeTaskStateConflict, "failure.SECRET_KEY_CHANGED"},
	{people.ErrLastAdmin, CodeTaskStateConflict, "users.last_admin"},
	{identity.ErrOfProvider, CodeForbidden, "users.of_provider.only"},
	{identity.ErrDisabled, CodeForbidden, "login.disabled"},
	{identity.ErrNoGroup, CodeForbidden, "login.no_group"},
	{identity.ErrForbidden, CodeForbidden, ""},
	{identity.ErrNotFinished, CodeTaskNotFinished, ""},
	{ErrBusy, CodeServiceUnavailable, "error.BUSY"},
	{ErrRetired, CodeServiceUnavailable, "error.RETIRED"},
	{tasks.ErrNoSlot, CodeServiceUnavailable, "error.AGENT_BUSY"},
	{db.ErrUnstorable, CodeRequestInvalid, ""},
	{db.ErrUnavailable, CodeServiceUnavailable, ""},
}

// ofType converts errors that carry values for their message; it returns nil for other errors.
func ofType(err error) *Fault {
	var (
		missing  *db.NotFoundError
		conflict *review.ConflictError
		exceeded *people.QuotaExceededError
		invalid  *archive.Error
		spent    *tasks.BudgetError
		full     *db.ProjectFullError
		variable *tasks.UnknownVariableError
		refused  *tasks.InvalidError
		left     *db.RunsLeftError
		grouping *review.GroupingConflictError
		regroup  *tasks.RegroupError
		leaving  *tasks.SensitiveError
		file     *dataset.Error
		noRoom   *tasks.DiskFullError
	)
	switch {
	case errors.As(err, &file):
		return DatasetFault(err)
	case errors.As(err, &leaving):
		return sensitiveFault(leaving).WithCause(err)
	case errors.As(err, &noRoom):
		return NewFault(CodeServiceUnavailable).WithMessage("error.DISK_FULL").With(
			"Percent", noRoom.Percent()).WithCause(err)
	case errors.As(err, &left) && left.Left < 1:
		return NewFault(CodeTaskStateConflict).WithMessage("error.MOST_RUNS").WithCause(err)
	case errors.As(err, &left):
		return ParameterFault("runs", Between(1, left.Left)).WithCause(err)
	case errors.As(err, &refused):
		return TaskFault(refused).WithCause(err)
	case errors.As(err, &invalid):
		return ArchiveFault(invalid)
	case errors.As(err, &missing):
		return notFound(missing.Kind).WithCause(err)
	case errors.Is(err, entries.ErrNameTaken), errors.Is(err, people.ErrNameTaken):
		return FieldFault("name", Unique()).WithCause(err)
	case errors.As(err, &exceeded):
		return NewFault(CodeQuotaExceeded).WithMessage("quota.exceeded."+exceeded.What).With(
			"Most", exceeded.Most).With("Used", exceeded.Used).WithCause(err)
	case errors.As(err, &spent):
		return NewFault(CodeTaskStateConflict).WithMessage("error."+spent.Reason).With(
			"Ceiling", spent.Ceiling.String()).With("Currency", spent.Currency).
			With("Left", decimal.Max(decimal.Zero, spent.Left).String()).WithCause(err)
	case errors.As(err, &full):
		return NewFault(CodeQuotaExceeded).WithMessage("quota.exceeded."+full.What).With("Most", full.Most).WithCause(err)
	case errors.As(err, &conflict):
		return NewFault(CodeReviewConflict).WithCause(err)
	case errors.As(err, &grouping):
		return NewFault(CodeReviewConflict).WithMessage("error.GROUPING_CONFLICT").WithCause(err)
	case errors.As(err, &regroup):
		return ParameterFault("groups", Limit{"error.range.groups." + string(regroup.Problem),
			map[string]any{"Run": regroup.Run, "Other": regroup.Other}}).WithCause(err)
	case errors.As(err, &variable):
		return FieldFault("evaluators", Limit{"error.range.variable", map[string]any{
			"Evaluator": variable.Evaluator, "Variable": variable.Variable, "Nearest": variable.Nearest,
		}}).WithCause(err)
	}
	return nil
}
