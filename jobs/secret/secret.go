// Package secret encrypts what the database must not hold in clear.
package secret

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
)

// ErrKey reports that a value was sealed with another key or for another owner, or was changed.
var ErrKey = errors.New("cannot decrypt: SECRET_KEY is not the one the value was stored with")

// Sealer encrypts values with AES-256-GCM: a random nonce, the ciphertext and its tag. It is safe for concurrent
// use.
type Sealer struct{ aead cipher.AEAD }

// NewSealer returns a sealer for a key: 32 bytes in base64, or any other text, which is hashed.
func NewSealer(text string) (*Sealer, error) {
	key, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(key) != 32 {
		hashed := sha256.Sum256([]byte("wending agent headers\x00" + text))
		key = hashed[:]
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("SECRET_KEY: %w", err)
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return nil, fmt.Errorf("SECRET_KEY: %w", err)
	}
	return &Sealer{aead}, nil
}

// Seal encrypts a value as JSON so that only Open with the same owner reads it.
func (s *Sealer) Seal(value any, owner string) ([]byte, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	return s.aead.Seal(nil, nil, text, []byte(owner)), nil
}

// Open decrypts what Seal made into value, or returns ErrKey. Nothing sealed leaves value as it is.
func (s *Sealer) Open(sealed []byte, owner string, value any) error {
	if sealed == nil {
		return nil
	}
	text, err := s.aead.Open(nil, nil, sealed, []byte(owner))
	if err != nil {
		return ErrKey
	}
	return json.Unmarshal(text, value)
}
