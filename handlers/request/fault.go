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

// RetryAfter is the number of seconds after which a request refused with SERVICE_UNAVAILABLE may be retried:
// the value of the header Retry-After.
const RetryAfter = "5"

// IsInternal reports whether an error is an internal one that operators must know about, as opposed to a client's
// error or overload.
func IsInternal(err error) bool {
	return FaultOf(err).Status() >= http.StatusInternalServerError && !errors.Is(err, ErrBusy) &&
		!errors.Is(err, tasks.ErrNoSlot) && !errors.Is(err, ErrRetired) && !errors.As(err, new(*tasks.DiskFullError))
}

// ErrRetired means that a newer version of the program has migrated the database, so that this process answers no
// more requests.
var ErrRetired = errors.New("a newer version has migrated the database")

// FaultCodes returns all codes in alphabetical order.
func FaultCodes() []string { return slices.Sorted(maps.Keys(statuses)) }

// StatusOf returns the HTTP status of a code.
func StatusOf(code string) int { return statuses[code] }

func notFoundCode(kind db.Kind) string { return strings.ToUpper(string(kind)) + "_NOT_FOUND" }

// notFound returns the fault of an object that does not exist; kinds without their own code share one.
func notFound(kind db.Kind) *Fault {
	if _, hasOwn := statuses[notFoundCode(kind)]; hasOwn {
		return NewFault(notFoundCode(kind))
	}
	return NewFault(CodeNotFound)
}

// Fault is an error that a user or an API client sees. It does not change; the With… methods return copies. The
// cause is only logged.
type Fault struct {
	code string
	// key, with args, names the message; empty means "error." followed by the code.
	key   string
	args  map[string]any
	limit *Limit
	// rows are the errors in individual rows of a dataset.
	rows []dataset.RowError
	// field is the invalid field; empty means that the code implies it. row is its line in an archive.
	field string
	row   int
	// others are faults of other fields.
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

// WithCause returns the fault with the error that caused it.
func (f Fault) WithCause(cause error) *Fault {
	f.cause = cause
	return &f
}

// WithMessage returns the fault with a different message from the catalogue.
func (f Fault) WithMessage(key string) *Fault {
	f.key = key
	return &f
}

// With returns the fault with a value that its message contains.
func (f Fault) With(name string, value any) *Fault {
	f.args = maps.Clone(f.args)
	if f.args == nil {
		f.args = map[string]any{}
	}
	f.args[name] = value
	return &f
}

// withStatus returns the fault with a status that differs from its code's.
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

// Message returns the fault's message in a locale.
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

// Beside returns the fault's message in a locale, for display next to the field that it is about.
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

// RowDetail is the error in one row of a dataset, in a locale.
type RowDetail struct {
	Row     int    `json:"row" doc:"Row number as shown in a spreadsheet" example:"3"`
	Column  string `json:"column" doc:"Name of the column; empty if the error concerns the whole row" example:"question"`
	Message string `json:"message" example:"question 为空"`
}

// Details returns the errors in rows, and the number of invalid rows, whether listed or not.
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

// Limit describes the valid values of a parameter.
type Limit struct {
	key  string
	args map[string]any
}

// told returns the description in a locale.
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

// TextUpTo allows texts with at most the given number of characters, and without control characters.
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

// LongTextUpTo allows texts with at most the given number of characters, which may have several lines.
func LongTextUpTo(most int) Limit { return Limit{"error.range.long", map[string]any{"Max": most}} }

// ValidRule describes the fault in a rule's configuration. why is a reason in the form that reason.Because returns.
func ValidRule(why string) Limit { return Limit{ruleKey, map[string]any{"Detail": why}} }

// ValidRuleValue allows the valid values of a member of an evaluator's configuration.
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

// RunsToReplay allows only a question or unit that has runs, because a link to a replay needs some.
func RunsToReplay() Limit { return Limit{key: "error.range.replay"} }

// SensitivePattern allows words, and RE2 patterns between slashes, with at most the given number of characters.
func SensitivePattern(most int) Limit {
	return Limit{"error.range.pattern", map[string]any{"Max": most}}
}

// Existing allows only ids of existing objects.
func Existing() Limit { return Limit{key: "error.range.existing"} }

// Unlike allows a name that does not look like another account's.
func Unlike(name string) Limit { return Limit{"error.range.unlike", map[string]any{"Name": name}} }

// OtherThan allows any value except the one that another parameter has.
func OtherThan(name string) Limit { return Limit{"error.range.other", map[string]any{"Name": name}} }

// VisibleName allows a name whose characters are all visible.
func VisibleName(most int) Limit { return Limit{"error.range.name", map[string]any{"Max": most}} }

// UnreservedName allows a name that is neither an address nor like the name of a token.
func UnreservedName() Limit { return Limit{key: "error.range.name.unreserved"} }

// ValidAddress allows an http or https address.
func ValidAddress() Limit { return Limit{key: "error.range.address"} }

// ValidTraceURL allows a template of addresses in the agents' tracing.
func ValidTraceURL(most int) Limit {
	return Limit{"error.range.trace_url", map[string]any{"Max": most}}
}

// Reachable allows an address that the allowlist in a setting permits.
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

// ValidEntries allows entries of the library.
func ValidEntries() Limit { return Limit{key: "error.range.saved"} }

// ValidWebhookSecret allows a secret of Standard Webhooks.
func ValidWebhookSecret() Limit { return Limit{key: "error.range.webhook_secret"} }

// ValidAddresses allows at most the given number of e-mail addresses.
func ValidAddresses(most int) Limit {
	return Limit{"error.range.addresses", map[string]any{"Max": most}}
}

// AskingTask allows only a task that sends questions to agents.
func AskingTask() Limit { return Limit{key: "error.range.asking_task"} }

// ValidTask allows the id of a task.
func ValidTask() Limit { return Limit{key: "error.range.task"} }

// ValidCron allows a cron expression.
func ValidCron() Limit { return Limit{key: "error.range.cron"} }

// ValidCronField allows the valid values of a field of a cron expression; value is the invalid one.
func ValidCronField(field, value string) Limit {
	return Limit{"cron.wrong." + field, map[string]any{"Value": value}}
}

// CronNever allows cron expressions that fire at some time.
func CronNever() Limit { return Limit{key: "error.range.cron_never"} }

// CronOften allows cron expressions whose times are at least the given number of minutes apart.
func CronOften(least int) Limit {
	return Limit{"error.range.cron_often", map[string]any{"Min": least}}
}

// ValidTimezone allows a name in the IANA time zone database.
func ValidTimezone() Limit { return Limit{key: "error.range.timezone"} }

// ValidAlertLimit allows the valid limits of an alert.
func ValidAlertLimit() Limit { return Limit{key: "error.range.alert"} }

// ValidMargin allows the margins of a comparison.
func ValidMargin() Limit { return Limit{key: "error.range.margin"} }

// ValidPassword allows a good password; problem is what is wrong with the rejected one: short, long, common,
// different (from the repetition) or wrong.
func ValidPassword(problem string, least int) Limit {
	return Limit{"error.range.password." + problem, map[string]any{"Min": least}}
}

// ValidAccount allows the name or id of an account.
func ValidAccount() Limit { return Limit{key: "error.range.account"} }

// ValidMoment allows a time in RFC 3339 format, or a day.
func ValidMoment() Limit { return Limit{key: "error.range.moment"} }

// NonEmpty allows a single value that is not empty.
func NonEmpty() Limit { return Limit{key: "error.range.one"} }

// ParameterFault returns the fault of a parameter outside its limit.
func ParameterFault(name string, limit Limit) *Fault {
	f := NewFault(CodeParameterInvalid)
	f.args, f.limit = map[string]any{"Name": name}, &limit
	return f
}

// FieldFault is like ParameterFault, for a field of a form; the details of the fault also name the field.
func FieldFault(name string, limit Limit) *Fault {
	f := ParameterFault(name, limit)
	f.field = name
	return f
}

// UnknownFieldFault returns the fault of a field that an operation does not know, with the most similar known field.
func UnknownFieldFault(name string, known []string) *Fault {
	name = shortened(name)
	f := NewFault(CodeParameterInvalid).WithMessage("error.unknown.field").With("Name", name)
	if len(known) > 0 {
		f = f.WithMessage("error.unknown.field.near").With("Near", nearest(name, known))
	}
	f.field = name
	return f
}

// Parameter returns the name of the parameter that the fault is about; empty if it is about something else.
func (f *Fault) Parameter() string {
	if f.code != CodeParameterInvalid {
		return ""
	}
	name, _ := f.args["Name"].(string)
	return name
}

// UnknownParameterFault is like UnknownFieldFault, for query parameters; some are accepted by every operation.
func UnknownParameterFault(name string, known []string) *Fault {
	name = shortened(name)
	return NewFault(CodeParameterInvalid).WithMessage("error.unknown.parameter").With("Name", name).With(
		"Near", nearest(name, known))
}

// maxShownName is how many characters of an unknown name are shown.
const maxShownName = 64

func shortened(name string) string {
	runes := []rune(strings.ToValidUTF8(name, "\uFFFD"))
	if len(runes) > maxShownName {
		return string(runes[:maxShownName]) + "…"
	}
	return string(runes)
}

// nearest returns the name that is most similar to another, by edit distance.
func nearest(name string, known []string) string {
	likeness := func(other string) float64 { return measure.Similarity([]byte(strings.ToLower(name)), []byte(other)) }
	return slices.MaxFunc(slices.Sorted(slices.Values(known)), func(a, b string) int {
		return cmp.Compare(likeness(a), likeness(b))
	})
}

// JoinFaults returns the first of faults, with the details of all others that are about other fields.
func JoinFaults(faults ...*Fault) *Fault {
	first := *faults[0]
	for _, other := range faults[1:] {
		if other.field != "" {
			first.others = append(first.others, other)
		}
	}
	return &first
}

// DatasetFault returns the fault of an error from the reader of datasets.
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

// ArchiveFault returns the fault of an invalid archive.
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

// FaultOf classifies any error that a handler returns.
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

// sentinels lists the errors that carry no values; the first match counts. If message is empty, the code's own is used.
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
	// the secret was given up when the key was lost, or another key is in use
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

// ofType classifies errors that carry values for their message; it returns nil for other errors.
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
