package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"regexp"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// newLogger returns the log of a process, in the configured format and level. It suppresses repeated failures.
func newLogger(w io.Writer, s Settings) *slog.Logger {
	var level slog.Level
	_ = level.UnmarshalText([]byte(s.LogLevel)) // the parser has already checked it
	options := &slog.HandlerOptions{Level: level}
	var handler slog.Handler = slog.NewTextHandler(w, options)
	if s.LogFormat == "json" {
		handler = slog.NewJSONHandler(w, options)
	}
	return slog.New(&calmHandler{Handler: handler, repeats: &repeats{seen: map[string]*failure{}}})
}

// catchOthers redirects to the log the messages that libraries would otherwise print themselves.
func catchOthers(log *slog.Logger) {
	slog.SetDefault(log) // redirects the standard log package, too
	redis.SetLogger(redisLog{log})
}

type redisLog struct{ log *slog.Logger }

// Printf implements the interface of go-redis.
func (l redisLog) Printf(ctx context.Context, format string, values ...any) {
	l.log.WarnContext(ctx, "the Redis client reports a failure, will retry", "error", fmt.Sprintf(format, values...))
}

// calmHandler logs a repeated failure at most once every few minutes, with the number of its occurrences: an outage has
// one cause, but many parts of the program retry every second. Failures are warnings and errors with an "error"
// attribute; two failures are considered the same if they differ only in digits, such as ids and ports.
type calmHandler struct {
	slog.Handler
	*repeats
}

type repeats struct {
	mu   sync.Mutex
	seen map[string]*failure
}

// failure records when a failure was last logged, and how many times it has been suppressed since.
type failure struct {
	at         time.Time
	suppressed int
}

// repeatAfter is the time after which a repeated failure is logged again, and mostFailures the maximum number of
// different failures that are tracked.
const (
	repeatAfter  = 5 * time.Minute
	mostFailures = 1000
)

var digits = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f-]{27}|[0-9]+`)

// Handle implements slog.Handler.
func (h *calmHandler) Handle(ctx context.Context, record slog.Record) error {
	if record.Level < slog.LevelWarn {
		return h.Handler.Handle(ctx, record)
	}
	cause := ""
	record.Attrs(func(one slog.Attr) bool {
		if one.Key == "error" {
			cause = one.Value.String()
		}
		return cause == ""
	})
	if cause == "" {
		return h.Handler.Handle(ctx, record)
	}
	suppressed, isDue := h.note(record.Message+"\x00"+digits.ReplaceAllString(cause, "#"), record.Time)
	if !isDue {
		return nil
	}
	if suppressed > 0 {
		record = record.Clone()
		record.AddAttrs(slog.Int("times_since_last_line", suppressed+1))
	}
	return h.Handler.Handle(ctx, record)
}

// note counts a failure. It returns whether the failure is to be logged now and, if so, how many times it was
// suppressed before.
func (r *repeats) note(key string, now time.Time) (suppressed int, isDue bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	last := r.seen[key]
	if last != nil && now.Sub(last.at) < repeatAfter {
		last.suppressed++
		return 0, false
	}
	if last != nil {
		suppressed = last.suppressed
	}
	if len(r.seen) >= mostFailures {
		clear(r.seen)
	}
	r.seen[key] = &failure{at: now}
	return suppressed, true
}

// WithAttrs implements slog.Handler.
func (h *calmHandler) WithAttrs(attributes []slog.Attr) slog.Handler {
	return &calmHandler{h.Handler.WithAttrs(attributes), h.repeats}
}

// WithGroup implements slog.Handler.
func (h *calmHandler) WithGroup(name string) slog.Handler {
	return &calmHandler{h.Handler.WithGroup(name), h.repeats}
}
