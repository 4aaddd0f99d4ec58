package admission_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"wending/handlers/admission"
)

// As many enter as there are places; the next waits for its turn, and is refused if none comes.
func TestAGateLetsOnlySoManyThrough(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		registry := prometheus.NewRegistry()
		gate := admission.NewGates(registry).Probes
		var leaves []func()
		for range 4 {
			leave, err := gate.Enter(t.Context())
			require.NoError(t, err)
			leaves = append(leaves, leave)
		}
		start := time.Now()
		_, err := gate.Enter(t.Context())
		require.ErrorIs(t, err, admission.ErrBusy)
		require.Equal(t, admission.Patience, time.Since(start))
		require.Equal(t, 1.0, count(t, registry, "wending_refused_total", "probes"))
		require.Equal(t, 4.0, count(t, registry, "wending_places", "probes"))

		start = time.Now()
		time.AfterFunc(time.Second, leaves[0])
		leave, err := gate.Enter(t.Context())
		require.NoError(t, err)
		require.Equal(t, time.Second, time.Since(start))
		leave()
		leave()
		leaves[0]()
		_, err = gate.Enter(t.Context())
		require.NoError(t, err)
		_, err = gate.Enter(t.Context())
		require.ErrorIs(t, err, admission.ErrBusy, "leaving twice gave one place back")

		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		_, err = gate.Enter(ctx)
		require.ErrorIs(t, err, context.Canceled, "waiting ends with the request")
	})
}

func count(t *testing.T, registry *prometheus.Registry, name, kind string) float64 {
	t.Helper()
	families, err := registry.Gather()
	require.NoError(t, err)
	for _, family := range families {
		for _, metric := range family.Metric {
			if family.GetName() == name && metric.Label[0].GetValue() == kind {
				return metric.GetCounter().GetValue() + metric.GetGauge().GetValue()
			}
		}
	}
	t.Fatal("no such metric", name, kind)
	return 0
}
