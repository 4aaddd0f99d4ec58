package request_test

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"wending/handlers/request"
)

// As many callers enter as there are slots; the next one waits for its turn, and is refused if no slot becomes free.
func TestAGateLetsOnlySoManyThrough(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		registry := prometheus.NewRegistry()
		gate := request.NewGates(registry).Probes
		var leaves []func()
		for range 4 {
			leave, err := gate.Enter(t.Context())
			require.NoError(t, err)
			leaves = append(leaves, leave)
		}
		start := time.Now()
		_, err := gate.Enter(t.Context())
		require.ErrorIs(t, err, request.ErrBusy)
		require.Equal(t, request.Patience, time.Since(start))
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
		require.ErrorIs(t, err, request.ErrBusy, "leaving twice gave one place back")

		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		_, err = gate.Enter(ctx)
		require.ErrorIs(t, err, context.Canceled, "waiting ends with the request")
	})
}

// One visitor gets at most half of the slots, regardless of its number of requests; the other half is left to other
// visitors.
func TestNobodyKeepsOthersOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		gate := request.NewGates(nil).Exports
		greedy, other := request.WithVisitor(t.Context(), "greedy"), request.WithVisitor(t.Context(), "other")
		var leaves []func()
		for range 3 {
			leave, err := gate.Enter(greedy)
			require.NoError(t, err)
			leaves = append(leaves, leave)
		}
		var crowd sync.WaitGroup
		for range 20 {
			crowd.Go(func() {
				_, err := gate.Enter(greedy)
				if !errors.Is(err, request.ErrBusy) {
					t.Error("more than its share", err)
				}
			})
		}
		synctest.Wait()
		start := time.Now()
		_, err := gate.Enter(other)
		require.NoError(t, err)
		require.Zero(t, time.Since(start), "at once, though others wait")
		crowd.Wait()

		leaves[0]()
		leaves[0]()
		leave, err := gate.Enter(greedy)
		require.NoError(t, err)
		_, err = gate.Enter(greedy)
		require.ErrorIs(t, err, request.ErrBusy, "leaving twice gave one place back")
		leave()
	})
}

// One visitor follows at most 100 of the 1,000 streams.
func TestNobodyHasAllStreams(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		gate := request.NewGates(nil).Followers
		greedy := request.WithVisitor(t.Context(), "greedy")
		for range 100 {
			_, err := gate.Enter(greedy)
			require.NoError(t, err)
		}
		_, err := gate.Enter(greedy)
		require.ErrorIs(t, err, request.ErrBusy)
		for n := range 900 {
			_, err := gate.Enter(request.WithVisitor(t.Context(), strconv.Itoa(n/100)))
			require.NoError(t, err)
		}
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
