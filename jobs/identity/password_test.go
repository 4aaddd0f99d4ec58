package identity_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"wending/jobs/identity"
)

func TestWeakPasswordsAreRefused(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]error{
		"":                          identity.ErrPasswordShort,
		"Xk4!q":                     identity.ErrPasswordShort,
		"稳定的回答很重要":                  identity.ErrPasswordShort,
		"稳定的回答对我们都很重要":              nil,
		"Password2026!":             identity.ErrPasswordCommon,
		"password123":               identity.ErrPasswordCommon,
		"ＰＡＳＳＷＯＲＤ１２３":               identity.ErrPasswordCommon,
		"aaaaaaaaaaaaaa":            identity.ErrPasswordCommon,
		"123456789012":              identity.ErrPasswordCommon,
		"abcdefghijklmn":            identity.ErrPasswordCommon,
		"lilei2026!":                identity.ErrPasswordCommon,
		"wending-2026-x":            identity.ErrPasswordCommon,
		"correct horse battery":     nil,
		"Vf7 rather odd":            nil,
		strings.Repeat("ab1 x", 60): identity.ErrPasswordLong,
	} {
		require.ErrorIs(t, identity.CheckPassword(text, "LiLei"), want, text)
	}
}

func TestOnlyTheRightPasswordMatches(t *testing.T) {
	t.Parallel()
	hash, err := identity.HashPassword(t.Context(), "correct horse battery")
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(hash, "$argon2id$v=19$m=19456,t=2,p=1$"), hash)
	again, err := identity.HashPassword(t.Context(), "correct horse battery")
	require.NoError(t, err)
	require.NotEqual(t, hash, again, "the salt is random")
	for text, want := range map[string]bool{"correct horse battery": true, "Correct horse battery": false, "": false} {
		matches, err := identity.MatchesPassword(t.Context(), text, &hash)
		require.NoError(t, err)
		require.Equal(t, want, matches, text)
	}
	matches, err := identity.MatchesPassword(t.Context(), "a password that nobody has", nil)
	require.NoError(t, err)
	require.False(t, matches, "without an account nothing matches")
}

// The time taken by a refusal does not reveal whether an account exists.
func BenchmarkMatches(b *testing.B) {
	hash, err := identity.HashPassword(b.Context(), "correct horse battery")
	require.NoError(b, err)
	for name, stored := range map[string]*string{"account": &hash, "no account": nil} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				_, _ = identity.MatchesPassword(b.Context(), "wrong", stored)
			}
		})
	}
}
