// Package secret encrypts values that must not be in the database in plain text.
package secret

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"time"

	"golang.org/x/crypto/argon2"
)

// ErrKey means that a value was sealed with a different key or for a different owner, or was changed.
var ErrKey = errors.New("cannot decrypt: SECRET_KEY is not the one the value was stored with")

// Reasons why a signature is invalid: a different key made it, or it belongs to a different message.
var (
	ErrSigner    = errors.New("cannot verify: SECRET_KEY is not the one the signature was made with")
	ErrSignature = errors.New("the signature does not match")
)

// Keys are the texts from which encryption keys are made. A text that encodes 32 bytes in base64 or hexadecimal is a
// key as it is; from any other text, a key is derived.
type Keys struct {
	// Current seals and opens values; the keys in Previous only open them.
	Current  string
	Previous []string
	// Salt is the installation's salt.
	Salt []byte
}

// Sealer encrypts values with AES-256-GCM. A sealed value is a header that names the key, a random nonce, the
// ciphertext and its tag. Values of early versions have no header. A Sealer is safe for concurrent use.
type Sealer struct {
	current key
	// all are the keys that may open a value, the current one first.
	all []key
}

type key struct {
	head []byte
	// root is the key from which the keys of signatures are derived.
	root []byte
	aead cipher.AEAD
	// early opens values that were sealed by versions without headers, which hashed a phrase only once.
	early cipher.AEAD
}

// HeadSize is the number of bytes at the beginning of a sealed value that name its key.
const HeadSize = 8

// mark begins the header; the key's id follows.
var mark = []byte("wnd\x02")

// NewSealer returns a sealer. Deriving a key from a phrase takes 64 MiB and about a tenth of a second.
func NewSealer(keys Keys) (*Sealer, error) {
	s := &Sealer{}
	for _, text := range append([]string{keys.Current}, keys.Previous...) {
		made, err := newKey(text, keys.Salt)
		if err != nil {
			return nil, fmt.Errorf("SECRET_KEY: %w", err)
		}
		s.all = append(s.all, made)
	}
	s.current = s.all[0]
	return s, nil
}

func newKey(text string, salt []byte) (k key, err error) {
	early := sha256.Sum256([]byte("wending agent headers\x00" + text))
	secret := strongKey(text)
	switch {
	case secret == nil: // the parameters are the second choice of RFC 9106, section 4
		secret = argon2.IDKey([]byte(text), salt, 3, 64<<10, 4, 32)
		debug.FreeOSMemory() // this much memory matters in a small process, and is not needed again
	case len(text) != hex.EncodedLen(32):
		early = [32]byte(secret)
	}
	if k.early, err = newAEAD(early[:]); err != nil {
		return k, err
	}
	id := sha256.Sum256(append([]byte("wending key id\x00"), secret...))
	k.head, k.root = append(bytes.Clone(mark), id[:HeadSize-len(mark)]...), secret
	k.aead, err = newAEAD(secret)
	return k, err
}

// strongKey returns the 32 bytes that a text encodes; nil means that the text is a phrase.
func strongKey(text string) []byte {
	if raw, err := base64.StdEncoding.DecodeString(text); err == nil && len(raw) == 32 {
		return raw
	}
	if raw, err := hex.DecodeString(text); err == nil && len(raw) == 32 {
		return raw
	}
	return nil
}

func newAEAD(secret []byte) (cipher.AEAD, error) {
	block, err := aes.NewCipher(secret)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}

// Knows reports whether head, the header of a value, names one of the sealer's keys.
func (s *Sealer) Knows(head []byte) bool {
	return slices.ContainsFunc(s.all, func(k key) bool { return bytes.Equal(k.head, head) })
}

// HasHead reports whether a value has a header that names its key, unlike values of early versions.
func HasHead(sealed []byte) bool { return bytes.HasPrefix(sealed, mark) }

// Head returns the header of every value that the current key seals.
func (s *Sealer) Head() []byte { return s.current.head }

// Seal encrypts a value as JSON; only Open with the same owner can decrypt it.
func (s *Sealer) Seal(value any, owner string) ([]byte, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	//nolint:gosec // the cipher generates its own nonce and takes none
	return s.current.aead.Seal(bytes.Clone(s.current.head), nil, text, []byte(owner)), nil
}

// Open decrypts a value made by Seal into value, or returns ErrKey. If sealed is nil, value is left unchanged.
func (s *Sealer) Open(sealed []byte, owner string, value any) error {
	if sealed == nil {
		return nil
	}
	for _, k := range s.all {
		if rest, isHis := bytes.CutPrefix(sealed, k.head); isHis {
			if text, err := k.aead.Open(nil, nil, rest, []byte(owner)); err == nil {
				return json.Unmarshal(text, value)
			}
		}
		if text, err := k.early.Open(nil, nil, sealed, []byte(owner)); err == nil {
			return json.Unmarshal(text, value)
		}
	}
	return ErrKey
}

// sign returns the signature of a message: HMAC-SHA256 with a key derived for the purpose (RFC 5869), preceded by the
// header that names the key.
func (k key) sign(purpose string, message []byte) []byte {
	derived, err := hkdf.Key(sha256.New, k.root, nil, "wending "+purpose, sha256.Size)
	if err != nil {
		panic(err) // only fails if the length is impossible
	}
	mac := hmac.New(sha256.New, derived)
	mac.Write(message)
	return mac.Sum(bytes.Clone(k.head))
}

// Sign returns a signature of a message with the current key. A signature for one purpose is invalid for
// another.
func (s *Sealer) Sign(purpose string, message []byte) []byte { return s.current.sign(purpose, message) }

// Verify returns ErrSigner if another key made a signature, and ErrSignature if the signature does not match
// the message.
func (s *Sealer) Verify(purpose string, message, signature []byte) error {
	for _, k := range s.all {
		if bytes.HasPrefix(signature, k.head) {
			if hmac.Equal(signature, k.sign(purpose, message)) {
				return nil
			}
			return ErrSignature
		}
	}
	return ErrSigner
}

// ticketPurpose is the purpose for which tickets are signed.
const ticketPurpose = "ticket"

// ticketTime is the number of bytes at the beginning of a ticket that encode the time until which it is valid.
const ticketTime = 8

// Ticket returns a text that, as part of an address, gives anyone access to a subject until the given time. It cannot
// be revoked.
func (s *Sealer) Ticket(subject string, until time.Time) string {
	ticket := binary.BigEndian.AppendUint64(nil, uint64(max(until.Unix(), 0)))
	signature := s.Sign(ticketPurpose, append(bytes.Clone(ticket), subject...))
	return base64.RawURLEncoding.EncodeToString(append(ticket, signature...))
}

// Admits reports whether a ticket gives access to a subject at the given time.
func (s *Sealer) Admits(subject, ticket string, now time.Time) bool {
	text, err := base64.RawURLEncoding.DecodeString(ticket)
	if err != nil || len(text) < ticketTime {
		return false
	}
	until, signature := text[:ticketTime], text[ticketTime:]
	return s.Verify(ticketPurpose, append(bytes.Clone(until), subject...), signature) == nil &&
		uint64(max(now.Unix(), 0)) < binary.BigEndian.Uint64(until)
}
