package password_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"wending/jobs/password"
)

func TestWeakPasswordsAreRefused(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]error{
		"":                          password.ErrShort,
		"Xk4!q":                     password.ErrShort,
		"稳定的回答很重要":                  password.ErrShort,
		"稳定的回答对我们都很重要":              nil,
		"Password2026!":             password.ErrCommon,
		"password123":               password.ErrCommon,
		"ＰＡＳＳＷＯＲＤ１２３":               password.ErrCommon,
		"aaaaaaaaaaaaaa":            password.ErrCommon,
		"123456789012":              password.ErrCommon,
		"abcdefghijklmn":            password.ErrCommon,
		"lilei2026!":                password.ErrCommon,
		"wending-2026-x":            password.ErrCommon,
		"correct horse battery":     nil,
		"Vf7 rather odd":            nil,
		strings.Repeat("ab1 x", 60): password.ErrLong,
	} {
		require.ErrorIs(t, password.Check(text, "LiLei"), want, text)
	}
}

func TestOnlyTheRightPasswordMatches(t *testing.T) {
	t.Parallel()
	hash, err := password.Hash(t.Context(), "correct horse battery")
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(hash, "$argon2id$v=19$m=19456,t=2,p=1$"), hash)
	again, err := password.Hash(t.Context(), "correct horse battery")
	require.NoError(t, err)
	require.NotEqual(t, hash, again, "the salt is random")
	for text, want := range map[string]bool{"correct horse battery": true, "Correct horse battery": false, "": false} {
		matches, err := password.Matches(t.Context(), text, &hash)
		require.NoError(t, err)
		require.Equal(t, want, matches, text)
	}
	matches, err := password.Matches(t.Context(), "a password that nobody has", nil)
	require.NoError(t, err)
	require.False(t, matches, "without an account nothing matches")
}

// The time taken by a refusal does not reveal whether an account exists.
func BenchmarkMatches(b *testing.B) {
	hash, err := password.Hash(b.Context(), "correct horse battery")
	require.NoError(b, err)
	for name, stored := range map[string]*string{"account": &hash, "no account": nil} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				_, _ = password.Matches(b.Context(), "wrong", stored)
			}
		})
	}
}
