package agent

import (
	"net/http"
	"slices"

	"wending/jobs/agent/protocol"
)

// The kinds of failures after which another attempt may succeed.
const (
	RetryTimeout     = "timeout"
	RetryNetwork     = "network"
	RetryTooMany     = "429"
	RetryServerError = "5xx"
)

// RetryKinds lists all kinds. By default, calls to saved targets are retried after any of them.
var RetryKinds = []string{RetryTimeout, RetryNetwork, RetryTooMany, RetryServerError}

// RetryTyped lists the kinds that are retried if the agent's address was typed instead of saved as a target.
var RetryTyped = []string{RetryTimeout, RetryNetwork}

// MayRetry reports whether another attempt is allowed: whether the call failed in one of the ways listed in on.
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
