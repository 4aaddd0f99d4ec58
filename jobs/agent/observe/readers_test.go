package observe

import (
	"testing"

	"github.com/stretchr/testify/require"

	"wending/jobs/agent/protocol"
)

// A protocol missing from this list would be read as the default one.
func TestEveryProtocolHasAReader(t *testing.T) {
	t.Parallel()
	for _, one := range protocol.All {
		if one.Name != protocol.Default {
			require.Contains(t, readers, one.Name)
		}
	}
	require.Len(t, readers, len(protocol.All)-1)
}
