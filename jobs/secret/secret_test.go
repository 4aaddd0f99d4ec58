package secret_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"wending/jobs/secret"
)

const owner = "6f0d3c1e-0000-4000-8000-000000000001"

// strong returns a key of 32 bytes.
func strong(n byte) string { return base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{n}, 32)) }

func newSealer(t *testing.T, current string, previous ...string) *secret.Sealer {
	t.Helper()
	salt := []byte("a salt of the installation")
	sealer, err := secret.NewSealer(secret.Keys{Current: current, Previous: previous, Salt: salt})
	require.NoError(t, err)
	return sealer
}

// A new key seals; values sealed with the previous key can still be opened.
func TestAPreviousKeyOpensWhatItSealed(t *testing.T) {
	t.Parallel()
	old := newSealer(t, strong(1))
	sealed, err := old.Seal("secret", owner)
	require.NoError(t, err)
	both := newSealer(t, strong(2), strong(1))
	var opened string
	require.NoError(t, both.Open(sealed, owner, &opened))
	require.Equal(t, "secret", opened)
	require.ErrorIs(t, newSealer(t, strong(2)).Open(sealed, owner, &opened), secret.ErrKey)

	again, err := both.Seal("secret", owner)
	require.NoError(t, err)
	require.True(t, bytes.HasPrefix(again, both.Head()), "the value names its key")
	require.False(t, bytes.HasPrefix(sealed, both.Head()))
	require.Len(t, both.Head(), secret.HeadSize)
	require.ErrorIs(t, old.Open(again, owner, &opened), secret.ErrKey)
	require.Equal(t, both.Head(), newSealer(t, strong(2)).Head(), "the key's id does not change")
}

// A phrase is turned into a key with the installation's salt; 32 bytes in hexadecimal are used directly as a key.
func TestAPhraseIsStretched(t *testing.T) {
	t.Parallel()
	salted := func(key, salt string) []byte {
		sealer, err := secret.NewSealer(secret.Keys{Current: key, Salt: []byte(salt)})
		require.NoError(t, err)
		return sealer.Head()
	}
	require.NotEqual(t, salted("a phrase", "salt of one"), salted("a phrase", "salt of another"))
	inHex := strings.Repeat("07", 32)
	require.Equal(t, salted(inHex, "salt of one"), salted(inHex, "salt of another"))
	require.Equal(t, salted(inHex, ""), salted(strong(7), ""))

	hashed := sha256.Sum256([]byte("wending key id\x00" + "a phrase"))
	require.NotEqual(t, hashed[:4], salted("a phrase", "salt of one")[4:])
}

// Values that versions before this package stored (with Tink's AES-GCM) must remain readable.
func TestValuesSealedByEarlierVersionsAreReadable(t *testing.T) {
	t.Parallel()
	for key, sealed := range map[string]string{
		"a secret for tests":                           "/bVpTfhyD5ISMdU6zae2GDsBqL44wVhsxy+ltN3QD2S4BxoIxCVuTAfqhBzh/tyA6Q8LRhbHw39xOz1ZTg==",
		"MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=": "jhZJ8Js3QbVMSCXTiPFoS1Yt1Jp02MCZxMbRzPuOoPRTgnSoXyEbkbsauEBY8zgwoT3PFo/OdjL+tb85FA==",
	} {
		sealer, err := secret.NewSealer(secret.Keys{Current: key, Salt: []byte("salt")})
		require.NoError(t, err)
		stored, err := base64.StdEncoding.DecodeString(sealed)
		require.NoError(t, err)
		var headers map[string]string
		require.NoError(t, sealer.Open(stored, owner, &headers))
		require.Equal(t, map[string]string{"Authorization": "Bearer 稳定"}, headers)
	}
}

func TestAValueOpensForItsOwnerAndKeyOnly(t *testing.T) {
	t.Parallel()
	sealer, other := newSealer(t, strong(1)), newSealer(t, strong(2))
	sealed, err := sealer.Seal(map[string]string{"A": "b"}, owner)
	require.NoError(t, err)
	again, err := sealer.Seal(map[string]string{"A": "b"}, owner)
	require.NoError(t, err)
	require.NotEqual(t, sealed, again, "the nonce is random")

	var headers map[string]string
	require.NoError(t, sealer.Open(sealed, owner, &headers))
	require.Equal(t, map[string]string{"A": "b"}, headers)
	require.ErrorIs(t, sealer.Open(sealed, "another", &headers), secret.ErrKey)
	require.ErrorIs(t, other.Open(sealed, owner, &headers), secret.ErrKey)
	sealed[len(sealed)-1] ^= 1
	require.ErrorIs(t, sealer.Open(sealed, owner, &headers), secret.ErrKey)
	require.NoError(t, sealer.Open(nil, owner, &headers), "nothing sealed is not an error")
}

// A ticket gives access to one subject until it expires, even after SECRET_KEY was replaced. A changed ticket is
// refused.
func TestTicketsExpireAndCannotBeChanged(t *testing.T) {
	t.Parallel()
	old, now := newSealer(t, strong(1)), time.Unix(1_800_000_000, 0)
	ticket := old.Ticket("/files/a", now.Add(time.Minute))
	require.True(t, old.Admits("/files/a", ticket, now))
	require.True(t, newSealer(t, strong(2), strong(1)).Admits("/files/a", ticket, now))
	require.False(t, newSealer(t, strong(2)).Admits("/files/a", ticket, now))
	require.False(t, old.Admits("/files/b", ticket, now))
	require.False(t, old.Admits("/files/a", ticket, now.Add(time.Minute)))
	raw, err := base64.RawURLEncoding.DecodeString(ticket)
	require.NoError(t, err)
	for n := range raw {
		changed := bytes.Clone(raw)
		changed[n] ^= 1
		require.False(t, old.Admits("/files/a", base64.RawURLEncoding.EncodeToString(changed), now), n)
		require.False(t, old.Admits("/files/a", base64.RawURLEncoding.EncodeToString(raw[:n]), now), n)
	}
	require.False(t, old.Admits("/files/a", "%", now))
	require.False(t, old.Admits("a/files/", old.Ticket("/files/", time.Unix('a', 0)), now))
}
