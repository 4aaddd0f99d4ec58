package ui

import (
	"slices"
	"strings"

	"wending/db"
	"wending/jobs/agent/protocol"
	"wending/views/text"
)

// Failure describes why a call did not succeed.
type Failure struct {
	// Code is the run's error code; Message is the detail, in English or in the agent's own words.
	Code, Message string
}

// FailureOf returns why a run did not succeed; nil if it succeeded or never took place.
func FailureOf(run db.Run) *Failure {
	if run.ErrorCode == nil {
		return nil
	}
	failure := Failure{Code: *run.ErrorCode}
	if run.ErrorMessage != nil {
		failure.Message = *run.ErrorMessage
	}
	return &failure
}

// ShownCode returns the code as pages show it (spec/004 US-02 5).
func (f Failure) ShownCode() string {
	if f.Code == "TIMEOUT" {
		return "TIMEOUT_ERROR"
	}
	return f.Code
}

// The finish reasons of answers that are complete, and of answers that reached the maximum length.
const (
	FinishComplete  = string(protocol.FinishStop)
	FinishTruncated = string(protocol.FinishLength)
)

// Endings of a call that readers must see in addition to its status.
const (
	EndedTruncated = "truncated"
	EndedRefused   = "refused"
	EndedFiltered  = "filtered"
)

// EndedOf returns the Ended constant that applies to a run with this status, error code and finish reason; empty if
// none applies.
func EndedOf(status db.RunStatus, code, finish *string) string {
	switch {
	case status == db.RunSucceeded && finish != nil && *finish == FinishTruncated:
		return EndedTruncated
	case code != nil && *code == protocol.CodeRefused:
		return EndedRefused
	case code != nil && *code == protocol.CodeFiltered:
		return EndedFiltered
	}
	return ""
}

// remedied are the codes for which users can do something that the explanation does not mention.
var remedied = []string{
	protocol.CodeTimeout, protocol.CodeNetwork, protocol.CodeParse, protocol.CodeIncomplete, "HTTP_401", "HTTP_403",
	"HTTP_404", "HTTP_429",
}

// Remedy returns what can be done about the failure; empty if there is no general advice.
func (f Failure) Remedy(locale text.Locale) string {
	switch {
	case slices.Contains(remedied, f.Code):
		return locale.Text("run.remedy." + f.Code)
	case strings.HasPrefix(f.Code, "HTTP_5"):
		return locale.Text("run.remedy.HTTP_5XX")
	}
	return ""
}

// Text explains the code in the locale's words.
func (f Failure) Text(locale text.Locale) string {
	if status, isHTTP := strings.CutPrefix(f.Code, "HTTP_"); isHTTP {
		return locale.Text("run.error.HTTP", "Status", status)
	}
	key := "run.error." + f.Code
	if explained := locale.Text(key); explained != key {
		return explained
	}
	return f.Message
}
