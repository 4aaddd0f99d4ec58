package protocol

import (
	"encoding/json"
	"time"

	"wending/db/event"
)

// Status is how a call ended.
type Status string

// The possible outcomes of a call.
const (
	Succeeded Status = "SUCCEEDED"
	Failed    Status = "FAILED"
	TimedOut  Status = "TIMEOUT"
)

// Statuses lists all outcomes.
var Statuses = []Status{Succeeded, Failed, TimedOut}

// Error codes of calls that did not succeed, in addition to HTTP_<status>.
const (
	CodeTimeout           = "TIMEOUT"
	CodeNetwork           = "NETWORK_ERROR"
	CodeAddressNotAllowed = "ADDRESS_NOT_ALLOWED"
	CodeAgent             = "AGENT_ERROR"
	CodeParse             = "PARSE_ERROR"
	CodeIncomplete        = "INCOMPLETE_RESPONSE"
	CodeTooLarge          = "RESPONSE_TOO_LARGE"
	CodeRefused           = "REFUSED"
	CodeFiltered          = "CONTENT_FILTERED"
	CodeNoAnswer          = "NO_ANSWER"
	// CodeInterrupted means that another worker continues the call, so it has no outcome here.
	CodeInterrupted = "CALL_INTERRUPTED"
)

// Request is one question to one agent.
type Request struct {
	// Protocol is the name of one of the protocols in All.
	Protocol string
	URL      string
	Headers  map[string]string
	// Question and the texts that belong to it; a text that is nil is absent.
	Question       string
	StandardAnswer string
	SystemPrompt   *string
	UserContext    *string
	// Variables are the row's other values, for use in Template.
	Variables map[string]string
	// IsTurn reports that the question is a turn of a conversation. SessionID is new for each conversation. History holds
	// the earlier turns, oldest first. ConversationID is the agent's own id for the conversation, empty until it is known.
	// BegunIn is the session in which the agent's conversation began; it differs from SessionID if an earlier launch asked
	// the first turns.
	IsTurn         bool
	SessionID      string
	ConversationID string
	BegunIn        string
	History        []Message
	Stream         bool
	// Model is the name of the model, for protocols that have one.
	Model string
	// Template is a JSON object that replaces the protocol's body: its strings may contain {{question}},
	// {{session_id}} and other names; nil means that there is none.
	Template json.RawMessage
	// ExtraPayload is a JSON object whose members are merged into the body, overriding the fields above; nil means
	// that there is none.
	ExtraPayload json.RawMessage
	// IsTooLong reports that a prompt became too long once its variables were filled in, so that no request can be
	// made.
	IsTooLong bool
	// IdempotencyKey is new for each call and the same for each of its attempts, so that the agent can recognise a retry.
	IdempotencyKey string
	// TraceID is the W3C trace id of the call, 32 hexadecimal digits; empty means that the client creates one. It is
	// not sent if Headers have a traceparent of their own.
	TraceID string
	// Timeout is the time from the call's start to the answer's last byte.
	Timeout time.Duration
	// Poll describes how to wait for an agent that accepts jobs; nil means that the agent answers directly. Accepted is
	// called when the agent accepts a job. Job is the job that an earlier request started and that this one waits for; nil
	// means that there is none. Closing Leaving ends the wait early; nil means that nothing does.
	Poll     *Poll
	Accepted func(Job)
	Job      *Job
	Leaving  <-chan struct{}
	// Events receives the events of the call; nil means that they are discarded.
	Events event.Sink
	// RawLimit is how many bytes of the raw body are kept in Answer.Raw.
	RawLimit int
}

// Poll describes how to poll for the result of a job that an agent has accepted. Paths such as data.url or
// items[0].status point to values in JSON.
type Poll struct {
	// URLPath is the path of the status URL in the response to the question, or header:NAME.
	URLPath         string `json:"url_path" doc:"Path of the job's status address in the response, such as data.url, or header:NAME for a response header"`
	IntervalSeconds int    `json:"interval_seconds" doc:"Seconds between two polls"`
	// DonePath is the path of the job's state in a status: one of DoneValues, one of FailedValues, or anything else
	// while the job is running; ResultPath is the path of the answer.
	DonePath     string   `json:"done_path" doc:"Path of the job's state in the status"`
	DoneValues   []string `json:"done_values" doc:"States that mean that the job is done"`
	FailedValues []string `json:"failed_values" doc:"States that mean that the job failed; any other state means that it is still running"`
	ResultPath   string   `json:"result_path" doc:"Path of the answer in the status of a job that is done"`
	// CancelURLPath is the path, in the response, of the URL to which a POST cancels the job; empty means that jobs
	// cannot be cancelled.
	CancelURLPath string `json:"cancel_url_path,omitempty" doc:"Path of an address in the response to which a POST cancels the job; absent if jobs cannot be cancelled"`
}

// Job is a job that an agent has accepted.
type Job struct {
	StatusURL string `json:"status_url"`
	// CancelURL is empty if the job cannot be cancelled.
	CancelURL string    `json:"cancel_url,omitempty"`
	StartedAt time.Time `json:"started_at"`
	// AgentTraceID is the agent's own id for the call that it accepted; empty if it returned none.
	AgentTraceID string `json:"agent_trace_id,omitempty"`
}

// Message is a question or an answer in a conversation's history.
type Message struct {
	// Role is user or assistant.
	Role    string `json:"role"`
	Content string `json:"content"`
}

// Answer is the outcome of a call.
type Answer struct {
	Status Status
	// Text is the answer byte for byte, or the part that had arrived when the call failed; nil means that nothing
	// had arrived.
	Text []byte
	// Reasoning is the agent's reasoning text, kept separate from the answer.
	Reasoning []byte
	// ErrorCode and ErrorMessage are empty if Status is Succeeded.
	ErrorCode, ErrorMessage string
	Latency                 time.Duration
	// Finish is why the answer ended, as reported by the agent.
	Finish Finish
	// FirstToken is the time from the call's start to the first piece of the answer's text, not of its reasoning; zero
	// means that the answer was not streamed.
	FirstToken time.Duration
	Usage      Usage
	// ConversationID is the agent's own id for the conversation from now on; empty means that it returned none.
	ConversationID string
	// AgentTraceID is the agent's own id for the call; empty means that it returned none.
	AgentTraceID string
	// RetryAfter is how long the agent asked clients to wait; zero means that it did not ask.
	RetryAfter time.Duration
	// RefusesStream reports that, instead of answering, the agent replied that it does not stream.
	RefusesStream bool
	// HTTPStatus is zero if no response arrived.
	HTTPStatus  int
	ContentType string
	// LooksLike is the label of the protocol to which an unreadable answer seems to belong; empty if none is known.
	LooksLike string
	// IsSilent reports that the connection broke before anything arrived.
	IsSilent bool
	// Raw is the beginning of the body, up to the request's RawLimit.
	Raw []byte
}

// IsRead reports whether the response was complete and understood, even if the agent did not answer the
// question.
func (a Answer) IsRead() bool {
	return a.Status == Succeeded || a.ErrorCode == CodeRefused || a.ErrorCode == CodeFiltered ||
		a.ErrorCode == CodeNoAnswer
}

// Failure returns the answer of a call that failed.
func Failure(code, message string) Answer {
	return Answer{Status: Failed, ErrorCode: code, ErrorMessage: message}
}
