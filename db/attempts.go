package db

import (
	"encoding/json"
	"fmt"
	"time"

	"wending/db/pg"
)

// FailedAttempt describes an attempt at a call that failed and was followed by another attempt.
type FailedAttempt struct {
	// Attempt is the attempt's number, from 1.
	Attempt      int       `json:"attempt"`
	StartedAt    time.Time `json:"started_at"`
	LatencyMS    int       `json:"latency_ms"`
	ErrorCode    string    `json:"error_code"`
	ErrorMessage string    `json:"error_message"`
	// HTTPStatus is nil if no response arrived.
	HTTPStatus *int `json:"http_status"`
	// Body is the beginning of the response.
	Body string `json:"body"`
}

// Limits on the failed attempts that are stored for a run: their number, and sizes in bytes.
const (
	MaxFailedAttempts   = 10
	maxAttemptText      = 1800 // message and body together; with its other values, an attempt stays below 2 KB
	maxAttemptMessage   = 600
	MaxFailedAttemptRaw = 2 * maxAttemptText // the raw body, from which secrets are redacted before it is shortened to fit
)

// FailedAttempts are the failed attempts of a run, in order.
type FailedAttempts []FailedAttempt

// With returns the attempts with one more appended, its message and body shortened to their limits. If there are
// already MaxFailedAttempts, it returns them unchanged.
func (f FailedAttempts) With(one FailedAttempt) FailedAttempts {
	if len(f) == MaxFailedAttempts {
		return f
	}
	one.ErrorMessage = cutBytes(one.ErrorMessage, maxAttemptMessage)
	one.Body = cutBytes(one.Body, maxAttemptText-len(one.ErrorMessage))
	return append(f[:len(f):len(f)], one)
}

// cutBytes returns a text in storable form, cut to at most the given number of bytes without splitting a character.
func cutBytes(text string, most int) string {
	text = pg.StorableText(text)
	if len(text) <= most {
		return text
	}
	for most > 0 && text[most]&0xC0 == 0x80 {
		most--
	}
	return text[:most]
}

// Text returns the stored form: JSON, or an empty string if there are no attempts.
func (f FailedAttempts) Text() string {
	if len(f) == 0 {
		return ""
	}
	text, _ := json.Marshal(f) // cannot fail
	return string(text)
}

// Scan implements sql.Scanner for a nullable JSON column.
func (f *FailedAttempts) Scan(column any) error {
	*f = nil
	if column == nil {
		return nil
	}
	text, ok := column.([]byte)
	if !ok {
		return fmt.Errorf("failed attempts are stored as %T", column)
	}
	return json.Unmarshal(text, f)
}
