package agent

import (
	"net/http"
	"slices"

	"wending/jobs/agent/protocol"
)

// The kinds of failures that another attempt may mend.
const (
	RetryTimeout     = "timeout"
	RetryNetwork     = "network"
	RetryTooMany     = "429"
	RetryServerError = "5xx"
)

// RetryKinds are all of them: what saved targets retry unless they say otherwise.
var RetryKinds = []string{RetryTimeout, RetryNetwork, RetryTooMany, RetryServerError}

// RetryTyped are those that are retried of an address that was typed.
var RetryTyped = []string{RetryTimeout, RetryNetwork}

// MayRetry reports whether the call failed in one of the ways that another attempt is made after.
func MayRetry(a protocol.Answer, on []string) bool {
	kind := ""
	switch {
	case a.ErrorCode == protocol.CodeTimeout:
		kind = RetryTimeout
	case a.ErrorCode == protocol.CodeNetwork:
		kind = RetryNetwork
	case a.HTTPStatus == http.StatusTooManyRequests:
		kind = RetryTooMany
	case a.HTTPStatus >= 500:
		kind = RetryServerError
	}
	return kind != "" && slices.Contains(on, kind)
}
