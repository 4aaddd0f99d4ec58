package request

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"wending/jobs/dataset"
	"wending/jobs/tasks"
)

// ConfirmParameter is the query parameter of requests that start a launch, on pages and in the API. Its value consists
// of the confirmations, separated by commas, that the responses to earlier attempts contained.
const ConfirmParameter = "confirm_sensitive"

// confirmations matches the values of ConfirmParameter. A launch needs at most four confirmations, because it is
// checked in a few steps.
var confirmations = regexp.MustCompile(`^[0-9a-f]{16}(,[0-9a-f]{16}){0,3}$`)

// The audit's actions for a request that was refused because of what it would have sent, and for a request whose
// sensitive content a person confirmed.
const (
	WithheldAction  = "task.withhold"
	ConfirmedAction = "task.confirm_sensitive"
)

// confirmedContent is the audit's record of confirmed content: where it is, but not its text.
type confirmedContent struct {
	// Action is the audit's action of the request.
	Action string `json:"action"`
	Count  int    `json:"count"`
	// Places are the first of the Count places.
	Places []tasks.SensitiveMatch `json:"places"`
}

// Confirmed reports whether a request confirms the sensitive content that it would send. It records in the audit log
// log what was confirmed, or that the content is forbidden.
func Confirmed(ctx context.Context, found *tasks.SensitiveError) bool {
	record, isRecorded := ctx.Value(auditKey{}).(*AuditRecord)
	if found.Confirmation == "" {
		Note(ctx, func(e *AuditEntry) {
			e.Action, e.Before, e.After = WithheldAction, "", asJSON(map[string]any{"places": found.Matches})
		})
		return false
	}
	given := From(ctx).Confirmation
	isGiven := confirmations.MatchString(given) && slices.Contains(strings.Split(given, ","), found.Confirmation)
	switch {
	case isRecorded && isGiven:
		record.addConfirmed(found)
	case isRecorded && record.confirmed != nil: // an earlier step was confirmed, but this one is not, so nothing is sent
		record.Action, record.After, record.confirmed = record.confirmed.Action, "", nil
	}
	return isGiven
}

func (r *AuditRecord) addConfirmed(found *tasks.SensitiveError) {
	if r.confirmed == nil {
		r.confirmed = &confirmedContent{Action: r.Action}
	}
	r.confirmed.Count += found.Places
	r.confirmed.Places = append(r.confirmed.Places, found.Matches...)
	r.Action, r.Before, r.After = ConfirmedAction, "", asJSON(r.confirmed)
}

// Unconfirmed is sensitive content that a person must confirm before it is sent.
type Unconfirmed struct {
	Places []SensitivePlace
	// Total is the number of places, of which Places are the first.
	Total int
	// Confirmation is the value of ConfirmParameter with which the request will be accepted.
	Confirmation string
}

// SensitivePlace is a place with sensitive content: a question, a row of a file, or a prompt, whose Row is 0.
type SensitivePlace struct {
	Row             int
	IsInFile        bool
	Column, Pattern string
}

// UnconfirmedContent returns the content that must be confirmed before a request is repeated; nil if err is not about
// such content.
func UnconfirmedContent(ctx context.Context, err error) *Unconfirmed {
	var found *tasks.SensitiveError
	if !errors.As(err, &found) || found.Confirmation == "" {
		return nil
	}
	u := &Unconfirmed{Total: found.Places, Confirmation: found.Confirmation}
	if given := From(ctx).Confirmation; confirmations.MatchString(given) { // an earlier step is confirmed already
		if both := given + "," + found.Confirmation; confirmations.MatchString(both) {
			u.Confirmation = both
		}
	}
	for _, one := range found.Matches {
		u.Places = append(u.Places, SensitivePlace{one.Row, found.InFile && one.Row > 0, one.Column, one.Pattern})
	}
	return u
}

// sensitiveFault returns the fault of a launch that would send content that its project forbids, or allows only after a
// person has confirmed it.
func sensitiveFault(wrong *tasks.SensitiveError) *Fault {
	first, code, problem := wrong.Matches[0], CodeSensitiveContent, "sensitive"
	if wrong.Confirmation != "" {
		code, problem = CodeUnconfirmed, "unconfirmed"
	}
	f := NewFault(code).With("Column", first.Column).With("Pattern", first.Pattern).With("Places", wrong.Places).
		With("Row", strconv.Itoa(first.Row))
	kind := ""
	switch {
	case first.Row == 0:
		kind = ".prompt"
	case wrong.InFile:
		kind = ".row"
	}
	f = f.WithMessage("error." + code + kind)
	for _, one := range wrong.Matches {
		f.rows = append(f.rows, dataset.RowError{Row: one.Row, Column: one.Column, Problem: problem,
			Args: map[string]any{"Pattern": one.Pattern}})
	}
	return f
}
