package secret_test

import (
	"encoding/base64"
	"testing"

	"github.com/stretchr/testify/require"

	"wending/jobs/secret"
)

const owner = "6f0d3c1e-0000-4000-8000-000000000001"

// Values that versions before this package stored (with Tink's AES-GCM) must stay readable.
func TestValuesSealedByEarlierVersionsAreReadable(t *testing.T) {
	t.Parallel()
	for key, sealed := range map[string]string{
		"a secret for tests":                           "/bVpTfhyD5ISMdU6zae2GDsBqL44wVhsxy+ltN3QD2S4BxoIxCVuTAfqhBzh/tyA6Q8LRhbHw39xOz1ZTg==",
		"MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=": "jhZJ8Js3QbVMSCXTiPFoS1Yt1Jp02MCZxMbRzPuOoPRTgnSoXyEbkbsauEBY8zgwoT3PFo/OdjL+tb85FA==",
	} {
		sealer, err := secret.NewSealer(key)
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
	sealer, err := secret.NewSealer("one")
	require.NoError(t, err)
	other, err := secret.NewSealer("two")
	require.NoError(t, err)
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
