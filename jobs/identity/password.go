package identity

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	_ "embed"
	"errors"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/alexedwards/argon2id"
	"golang.org/x/sync/semaphore"
	"golang.org/x/text/unicode/norm"
)

// Limits on a password's length, in characters.
const (
	MinPassword = 10
	MaxPassword = 256
)

// The reasons for refusing a password.
var (
	ErrPasswordShort  = errors.New("the password is too short")
	ErrPasswordLong   = errors.New("the password is too long")
	ErrPasswordCommon = errors.New("the password is easy to guess")
)

// common holds passwords that many people use, in lower case, from @zxcvbn-ts/language-common 4.1.3 (MIT, see
// static/licences).
//
//go:embed common.txt.gz
var common []byte

var isCommon = sync.OnceValue(func() map[string]bool {
	words := map[string]bool{}
	file, err := gzip.NewReader(bytes.NewReader(common))
	if err != nil {
		panic(err) // this cannot fail, because the list is compiled in
	}
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		words[lines.Text()] = true
	}
	if lines.Err() != nil {
		panic(lines.Err())
	}
	return words
})

// CheckPassword returns what is wrong with an account's new password; nil if it is good enough. Any characters are
// allowed.
func CheckPassword(password, userName string) error {
	text := normalised(password)
	switch length := utf8.RuneCountInString(text); {
	case length < MinPassword:
		return ErrPasswordShort
	case length > MaxPassword:
		return ErrPasswordLong
	}
	lower := strings.ToLower(text)
	name := strings.ToLower(normalised(userName))
	core := strings.TrimFunc(lower, func(r rune) bool { return !unicode.IsLetter(r) })
	isOfName := utf8.RuneCountInString(name) >= 3 && strings.Contains(lower, name) &&
		utf8.RuneCountInString(lower)-utf8.RuneCountInString(name) < 6
	if isCommon()[lower] || isCommon()[core] || isOfName || strings.Contains(lower, "wending") || isMonotonous(lower) {
		return ErrPasswordCommon
	}
	return nil
}

// isMonotonous reports whether a text has few distinct characters, or only consecutive ones such as abcd or 4321.
func isMonotonous(text string) bool {
	different, steps, last := map[rune]bool{}, 0, rune(0)
	for _, r := range text {
		different[r] = true
		if last != 0 && (r-last == 1 || last-r == 1 || r == last) {
			steps++
		}
		last = r
	}
	return len(different) < 5 || steps >= utf8.RuneCountInString(text)-2
}

func normalised(text string) string { return norm.NFKC.String(text) }

// params make a hash cost 19 MiB and about 30 ms, the minimum that OWASP recommends.
var params = &argon2id.Params{Memory: 19 << 10, Iterations: 2, Parallelism: 1, SaltLength: 16, KeyLength: 32}

// places limits the number of passwords that are hashed at once, because each takes params.Memory KiB.
var places = semaphore.NewWeighted(4)

// HashPassword returns the stored form of a password. It waits while too many are being hashed.
func HashPassword(ctx context.Context, password string) (string, error) {
	if err := places.Acquire(ctx, 1); err != nil {
		return "", err
	}
	defer places.Release(1)
	return argon2id.CreateHash(normalised(password), params)
}

// NewPassword returns the stored form of an account's new password, or the reason why it is not good enough.
func NewPassword(ctx context.Context, typed, userName string) (hash string, reason, err error) {
	if reason := CheckPassword(typed, userName); reason != nil {
		return "", reason, nil
	}
	hash, err = HashPassword(ctx, typed)
	return hash, nil, err
}

// unknown is the hash that a password is compared with if there is no account.
var unknown = sync.OnceValues(func() (string, error) {
	return argon2id.CreateHash("a password that nobody has", params)
})

// MatchesPassword reports whether a password matches a hash. Without a hash it takes the same time, so that timing does
// not reveal whether an account exists.
func MatchesPassword(ctx context.Context, password string, hash *string) (bool, error) {
	if err := places.Acquire(ctx, 1); err != nil {
		return false, err
	}
	defer places.Release(1)
	if utf8.RuneCountInString(password) > MaxPassword {
		password = ""
	}
	against := hash
	if against == nil {
		none, err := unknown()
		if err != nil {
			return false, err
		}
		against = &none
	}
	matches, err := argon2id.ComparePasswordAndHash(normalised(password), *against)
	return matches && hash != nil, err
}
