package request

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"net/http"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// client is a reader that reads a piece each time it is allowed to.
type client struct {
	header http.Header
	let    chan struct{}
	got    bytes.Buffer
	broken error
}

func newClient() *client { return &client{header: http.Header{}, let: make(chan struct{})} }

func (c *client) Header() http.Header { return c.header }
func (c *client) WriteHeader(int)     {}
func (c *client) Write(b []byte) (int, error) {
	<-c.let
	if c.broken != nil {
		return 0, c.broken
	}
	return c.got.Write(b)
}

// content returns n bytes in which no two pieces are equal.
func content(n int) []byte {
	made := make([]byte, n)
	random := rand.NewChaCha8([32]byte{1})
	_, _ = random.Read(made)
	return made
}

// writeAll writes in chunks of odd sizes.
func writeAll(w http.ResponseWriter, text []byte) error {
	for n := 1; len(text) > 0; n = (n*3 + 1) % 100_000 {
		size := min(len(text), n)
		if _, err := w.Write(text[:size]); err != nil {
			return err
		}
		text = text[size:]
	}
	return nil
}

// requireReturned checks that the whole pool is free again.
func requireReturned(t *testing.T, pool *RelayPool) {
	t.Helper()
	memory, disk := pool.Waiting()
	require.Zero(t, memory)
	require.Zero(t, disk)
}

func TestAQuickReaderGetsEverythingInOrder(t *testing.T) {
	t.Parallel()
	pool, c, text, isMade := NewRelayPool(), newClient(), content(5_000_001), false
	close(c.let)
	var w http.ResponseWriter = c
	err := pool.Through(&w, func() error {
		require.NotEqual(t, c, w)
		require.NoError(t, http.NewResponseController(w).Flush(), "nothing was written yet")
		return writeAll(w, text)
	}, func() { isMade = true })
	require.NoError(t, err)
	require.True(t, isMade)
	require.Equal(t, http.ResponseWriter(c), w, "the client's own writer is back")
	require.True(t, bytes.Equal(text, c.got.Bytes()))
	requireReturned(t, pool)
}

// A reader that reads nothing delays the producer for patience at most, and still gets everything.
func TestAStuckReaderHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		pool, c, text := NewRelayPool(), newClient(), content(9_000_000)
		var w http.ResponseWriter = c
		start := time.Now()
		made := make(chan time.Duration, 1)
		ended := make(chan error)
		go func() {
			ended <- pool.Through(&w, func() error { return writeAll(w, text) }, func() { made <- time.Since(start) })
		}()
		require.Equal(t, patience, <-made)
		synctest.Wait() // until the rest, less than a piece, has been passed on
		memory, disk := pool.Waiting()
		require.EqualValues(t, (maxPieces+1)*piece, memory, "one of them is being sent")
		require.EqualValues(t, len(text)-(maxPieces+1)*piece, disk)
		close(c.let)
		require.NoError(t, <-ended)
		require.True(t, bytes.Equal(text, c.got.Bytes()))
		requireReturned(t, pool)
	})
}

// If there is no room, the producer waits for the reader.
func TestWithoutRoomTheReaderIsWaitedFor(t *testing.T) {
	t.Parallel()
	for name, pool := range map[string]*RelayPool{"on disk": newRelayPool(9*piece, 3*piece),
		"in memory": newRelayPool(2*piece, 3*piece)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c, text, isMade := newClient(), content(40*piece), make(chan struct{})
				var w http.ResponseWriter = c
				ended := make(chan error)
				go func() {
					ended <- pool.Through(&w, func() error { return writeAll(w, text) }, func() { close(isMade) })
				}()
				for range 10 {
					c.let <- struct{}{}
					time.Sleep(time.Second)
				}
				select {
				case <-isMade:
					t.Fatal("there was no room for all of it")
				default:
				}
				close(c.let)
				require.NoError(t, <-ended)
				require.True(t, bytes.Equal(text, c.got.Bytes()))
			})
		})
	}
}

func TestTheClientsFailureEndsTheMaking(t *testing.T) {
	t.Parallel()
	pool, c := NewRelayPool(), newClient()
	c.broken = errors.New("gone")
	close(c.let)
	var w http.ResponseWriter = c
	var failure error
	err := pool.Through(&w, func() error {
		failure = writeAll(w, content(5_000_000))
		return failure
	}, func() {})
	require.ErrorIs(t, err, c.broken)
	require.ErrorIs(t, failure, c.broken)
	requireReturned(t, pool)
}

// A response that fails or panics midway sends nothing more, and returns everything to the pool.
func TestWhatFailsMidwaySendsNothingMore(t *testing.T) {
	t.Parallel()
	for _, panics := range []bool{false, true} {
		pool, c, broken := NewRelayPool(), newClient(), errors.New("broken")
		var w http.ResponseWriter = c
		through := func() error {
			return pool.Through(&w, func() error {
				require.NoError(t, writeAll(w, content(5*piece+1)))
				close(c.let)
				if panics {
					panic(broken)
				}
				return broken
			}, func() {})
		}
		if panics {
			require.PanicsWithError(t, "broken", func() { _ = through() })
		} else {
			require.ErrorIs(t, through(), broken)
		}
		require.Less(t, c.got.Len(), 5*piece+1)
		require.Equal(t, http.ResponseWriter(c), w)
		requireReturned(t, pool)
	}
}

// The temporary file has no name, so nothing is left behind after a crash.
func TestNothingIsLeftOnDisk(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	pool, c := newRelayPool(piece, 99*piece), newClient()
	var w http.ResponseWriter = c
	err := pool.Through(&w, func() error {
		if err := writeAll(w, content(9*piece)); err != nil {
			return err
		}
		entries, err := os.ReadDir(dir)
		require.NoError(t, err)
		require.Empty(t, entries)
		close(c.let)
		return nil
	}, func() {})
	require.NoError(t, err)
	require.Equal(t, 9*piece, c.got.Len())
}
