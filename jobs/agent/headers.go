package agent

import (
	"encoding/json"
	"errors"
	"net/textproto"

	"golang.org/x/net/http/httpguts"
)

// ErrHeadersInvalid means that a text is not a JSON object of header names and string values.
var ErrHeadersInvalid = errors.New("agent headers must be a JSON object of string values")

// maxHeaders is the maximum number of headers of a task, and maxHeaderBytes is the maximum length of their JSON in
// bytes.
const (
	maxHeaders     = 50
	maxHeaderBytes = 16 << 10
)

// ParseHeaders parses headers written as a JSON object. It refuses Host, Idempotency-Key and headers that belong to the
// connection.
func ParseHeaders(text string) (map[string]string, error) {
	var headers map[string]string
	if len(text) > maxHeaderBytes || json.Unmarshal([]byte(text), &headers) != nil || headers == nil ||
		len(headers) > maxHeaders {
		return nil, ErrHeadersInvalid
	}
	for name, content := range headers {
		if !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(content) {
			return nil, ErrHeadersInvalid
		}
		switch textproto.CanonicalMIMEHeaderKey(name) {
		case "Host", "Content-Length", "Transfer-Encoding", "Connection", "Upgrade", "Trailer", "Te", "Idempotency-Key":
			return nil, ErrHeadersInvalid
		}
	}
	return headers, nil
}
