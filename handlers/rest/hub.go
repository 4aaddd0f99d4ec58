package rest

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// ReadEvery is the interval at which watched topics are read even if no change is announced.
const ReadEvery = 500 * time.Millisecond

// Hub reads the states of watched topics, each only once for all its watchers. K identifies a topic, and V is its
// state.
type Hub[K comparable, V any] struct {
	read   func(context.Context, K) (V, error)
	mu     sync.Mutex
	topics map[K]*topic[V]
}

type topic[V any] struct {
	watchers int           // guarded by Hub.mu
	changed  chan struct{} // guarded by Hub.mu; closed when the state changes
	reading  sync.Mutex    // held by the watcher that is reading for all
	latest   atomic.Pointer[snapshot[V]]
}

// snapshot is a state, and the time at which reading it began.
type snapshot[V any] struct {
	state V
	at    time.Time
}

// NewHub returns a hub that reads its topics with read.
func NewHub[K comparable, V any](read func(context.Context, K) (V, error)) *Hub[K, V] {
	return &Hub[K, V]{read: read, topics: map[K]*topic[V]{}}
}

// Announce tells the watchers of a topic that its state has changed.
func (h *Hub[K, V]) Announce(key K) { h.announce(func(k K) bool { return k == key }) }

// AnnounceAll tells all watchers that the state of their topic may have changed.
func (h *Hub[K, V]) AnnounceAll() { h.announce(func(K) bool { return true }) }

func (h *Hub[K, V]) announce(concerns func(K) bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for key, topic := range h.topics {
		if concerns(key) {
			close(topic.changed)
			topic.changed = make(chan struct{})
		}
	}
}

// Watch starts watching a topic. The caller must close the watcher.
func (h *Hub[K, V]) Watch(key K) *Watcher[K, V] {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.topics[key]
	if t == nil {
		t = &topic[V]{changed: make(chan struct{})}
		h.topics[key] = t
	}
	t.watchers++
	return &Watcher[K, V]{hub: h, key: key, topic: t, changed: t.changed}
}

// Watcher follows one topic.
type Watcher[K comparable, V any] struct {
	hub     *Hub[K, V]
	key     K
	topic   *topic[V]
	changed chan struct{}
}

// Changed returns a channel that is closed when a change is announced after the last call of Fresh.
func (w *Watcher[K, V]) Changed() <-chan struct{} { return w.changed }

// Fresh reads the topic's state from the source, and returns it.
func (w *Watcher[K, V]) Fresh(ctx context.Context) (V, error) {
	w.hub.mu.Lock()
	w.changed = w.topic.changed
	w.hub.mu.Unlock()
	w.topic.reading.Lock()
	defer w.topic.reading.Unlock()
	return w.read(ctx)
}

// Latest returns a state that is at most ReadEvery/2 old, reading it if necessary. While another watcher is reading, it
// returns the last state that was read.
func (w *Watcher[K, V]) Latest(ctx context.Context) (V, error) {
	latest := w.topic.latest.Load()
	if latest == nil {
		return w.Fresh(ctx)
	}
	if time.Since(latest.at) < ReadEvery/2 || !w.topic.reading.TryLock() {
		return latest.state, nil
	}
	defer w.topic.reading.Unlock()
	return w.read(ctx)
}

func (w *Watcher[K, V]) read(ctx context.Context) (V, error) {
	at := time.Now()
	state, err := w.hub.read(ctx, w.key)
	if err == nil {
		w.topic.latest.Store(&snapshot[V]{state, at})
	}
	return state, err
}

// Close stops watching the topic.
func (w *Watcher[K, V]) Close() {
	w.hub.mu.Lock()
	defer w.hub.mu.Unlock()
	if w.topic.watchers--; w.topic.watchers == 0 {
		delete(w.hub.topics, w.key)
	}
}
