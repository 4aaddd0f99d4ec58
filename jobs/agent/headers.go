package agent

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/textproto"

	"github.com/tink-crypto/tink-go/v2/aead/subtle"
	"golang.org/x/net/http/httpguts"
)

// ErrHeadersInvalid says that a text is no JSON object of header names and texts.
var ErrHeadersInvalid = errors.New("agent headers must be a JSON object of names and texts")

// maxHeaders and maxHeaderBytes bound what a task may send along.
const (
	maxHeaders     = 50
	maxHeaderBytes = 16 << 10
)

// ParseHeaders reads headers written as a JSON object. Headers that belong to the connection are refused.
func ParseHeaders(text string) (map[string]string, error) {
	var headers map[string]string
	if len(text) > maxHeaderBytes || json.Unmarshal([]byte(text), &headers) != nil || headers == nil || len(headers) > maxHeaders {
		return nil, ErrHeadersInvalid
	}
	for name, content := range headers {
		if !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(content) {
			return nil, ErrHeadersInvalid
		}
		switch textproto.CanonicalMIMEHeaderKey(name) {
		case "Content-Length", "Transfer-Encoding", "Connection", "Upgrade", "Trailer", "Te", "Idempotency-Key":
			return nil, ErrHeadersInvalid
		}
	}
	return headers, nil
}

// Sealer encrypts headers for the database, whose readers must not learn them.
type Sealer struct{ aead *subtle.AESGCM }

// NewSealer returns a sealer for a secret: 32 bytes in base64, or any other text, which is hashed.
func NewSealer(secret string) (*Sealer, error) {
	key, err := base64.StdEncoding.DecodeString(secret)
	if err != nil || len(key) != 32 {
		hashed := sha256.Sum256([]byte("wending agent headers\x00" + secret))
		key = hashed[:]
	}
	aead, err := subtle.NewAESGCM(key)
	if err != nil {
		return nil, fmt.Errorf("SECRET_KEY: %w", err)
	}
	return &Sealer{aead}, nil
}

// Seal encrypts headers so that only Open with the same owner reads them; nil when there are none.
func (s *Sealer) Seal(headers map[string]string, owner string) ([]byte, error) {
	if len(headers) == 0 {
		return nil, nil
	}
	text, err := json.Marshal(headers)
	if err != nil {
		return nil, err
	}
	return s.aead.Encrypt(text, []byte(owner))
}

// Open decrypts what Seal made; nil gives nil.
func (s *Sealer) Open(sealed []byte, owner string) (map[string]string, error) {
	if sealed == nil {
		return nil, nil
	}
	text, err := s.aead.Decrypt(sealed, []byte(owner))
	if err != nil {
		return nil, errors.New("the agent's headers cannot be decrypted: SECRET_KEY is not the one they were stored with")
	}
	var headers map[string]string
	return headers, json.Unmarshal(text, &headers)
}
