package request

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/semaphore"
)

// Patience is the maximum time that work waits for a slot.
const Patience = 3 * time.Second

// Gates limit how much costly work of each kind runs at once, so that heavy load cannot bring the process down: work
// that gets no slot in time is refused. One visitor gets at most half of a gate's slots, so that no visitor can lock
// out the others.
type Gates struct {
	// Files is for reading uploaded files and comparing the facts of answers: one slot per core, at least 2.
	Files *Gate
	// Imports is for importing archives (including their upload), files of answers and review workbooks: 2 slots.
	Imports *Gate
	// Spans is for reading and storing agents' spans: 4 slots.
	Spans *Gate
	// Probes is for tests of agents, models, evaluators and channels: 4 slots.
	Probes *Gate
	// SignIns is for checking passwords: 16 slots, because a check is slow by design.
	SignIns *Gate
	// Pages is for rendering pages of results: 8 slots.
	Pages *Gate
	// Exports is for reading reports and results from the database: 5 slots, because each holds one of the process's
	// connections.
	Exports *Gate
	// Responses stores finished responses for slow clients, so that they hold no slot while they read.
	Responses *RelayPool
	// Followers is for streams of a task's or a call's progress: 1,000 slots, of which one visitor gets at most 100.
	Followers *Gate
}

// NewGates returns gates that count their refusals in metrics of the registry.
func NewGates(registry prometheus.Registerer) *Gates {
	refused := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "wending_refused_total",
		Help: "Requests refused because the maximum amount of work of their kind was running, by kind.",
	}, []string{"kind"})
	places := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "wending_places", Help: "Maximum amount of work that may run at once, by kind.",
	}, []string{"kind"})
	responses := NewRelayPool()
	waiting := func(where string, bytes func() int64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "wending_waiting_bytes", Help: "Bytes of responses that wait for slow readers.",
			ConstLabels: prometheus.Labels{"where": where},
		}, func() float64 { return float64(bytes()) })
	}
	if registry != nil {
		registry.MustRegister(refused, places,
			waiting("memory", func() int64 { memory, _ := responses.Waiting(); return memory }),
			waiting("disk", func() int64 { _, disk := responses.Waiting(); return disk }))
	}
	gate := func(kind string, size int) *Gate {
		places.WithLabelValues(kind).Set(float64(size))
		return &Gate{
			places: semaphore.NewWeighted(int64(size)), refused: refused.WithLabelValues(kind), share: int64(size+1) / 2,
			shares: map[string]*share{},
		}
	}
	followers := gate("followers", 1000)
	followers.share = 100
	return &Gates{
		Files: gate("files", max(2, runtime.GOMAXPROCS(0))), Imports: gate("imports", 2), Spans: gate("spans", 4),
		Probes:  gate("probes", 4),
		SignIns: gate("sign-ins", 16), Pages: gate("pages", 8), Exports: gate("exports", 5),
		Followers: followers, Responses: responses,
	}
}

type visitor struct{}

// WithVisitor returns a context for the work of a visitor: an account, a token, or the address of a client that has
// neither. Gates limit each visitor's share of the slots; work without a visitor is limited only by the total.
func WithVisitor(ctx context.Context, name string) context.Context {
	return context.WithValue(ctx, visitor{}, name)
}

// Gate lets a limited number of callers through at once.
type Gate struct {
	places  *semaphore.Weighted
	refused prometheus.Counter
	// share is the maximum number of slots that one visitor can have.
	share int64

	mu     sync.Mutex
	shares map[string]*share
}

// share counts the slots of one visitor, who has some or is waiting for one.
type share struct {
	places *semaphore.Weighted
	users  int // how many callers have a slot or wait for one; guarded by Gate.mu
}

// Enter waits up to Patience for a slot. It returns ErrBusy if none becomes free in that time, in total or within the
// share of the context's visitor. leave releases the slot; it may be called more than once.
func (g *Gate) Enter(ctx context.Context) (leave func(), err error) {
	waiting, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	giveBack, err := g.enterShare(waiting)
	if err == nil {
		if err = g.places.Acquire(waiting, 1); err != nil {
			giveBack()
		}
	}
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		g.refused.Inc()
		return nil, ErrBusy
	}
	return sync.OnceFunc(func() {
		g.places.Release(1)
		giveBack()
	}), nil
}

// enterShare takes one of the slots that the context's visitor may have, as soon as one is free. giveBack releases it.
func (g *Gate) enterShare(ctx context.Context) (giveBack func(), err error) {
	name, _ := ctx.Value(visitor{}).(string)
	if name == "" {
		return func() {}, nil
	}
	g.mu.Lock()
	own := g.shares[name]
	if own == nil {
		own = &share{places: semaphore.NewWeighted(g.share)}
		g.shares[name] = own
	}
	own.users++
	g.mu.Unlock()
	forget := func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		if own.users--; own.users == 0 {
			delete(g.shares, name)
		}
	}
	if err := own.places.Acquire(ctx, 1); err != nil {
		forget()
		return nil, err
	}
	return func() {
		own.places.Release(1)
		forget()
	}, nil
}

// ErrBusy means that no slot of a gate became free in time.
var ErrBusy = errors.New("too much work of this kind is already running")
