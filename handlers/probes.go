package handlers

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"wending/db"
	"wending/db/pg"
	"wending/handlers/request"
)

// Probes report the state of a process, web or worker, to a supervisor or a load balancer.
type Probes struct {
	Store   *db.Store
	Version string
}

// The states of a probe's checks.
const (
	probeOK      = "ok"
	probeAway    = "unavailable"
	probeNewer   = "newer"
	probeUnknown = "unknown"
)

// health is the response to a probe. Checks are absent from /livez.
type health struct {
	Status  string            `json:"status"`
	Version string            `json:"version"`
	Checks  map[string]string `json:"checks,omitempty"`
	Message string            `json:"message,omitempty"`
}

// Live returns 200 as long as the process responds. It checks nothing else, because a restart would not help.
func (p Probes) Live(w http.ResponseWriter, _ *http.Request) {
	p.answer(w, http.StatusOK, health{Status: probeOK})
}

// Ready returns 200 if the process can do its work, and 503 if the database is unavailable or has a newer schema. Redis
// is not checked: without it everything still works, with a delay of a few seconds.
func (p Probes) Ready(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), 3*time.Second)
	defer cancel()
	status := http.StatusOK
	now := health{Status: probeOK, Checks: map[string]string{"database": probeOK, "schema": probeOK}}
	if err := p.Store.Ready(ctx); err != nil {
		status, now.Status = http.StatusServiceUnavailable, probeAway
		if newer := (*pg.NewerSchemaError)(nil); errors.As(err, &newer) {
			now.Checks["schema"], now.Message = probeNewer, newer.Error()
		} else {
			now.Checks["database"], now.Checks["schema"] = probeAway, probeUnknown
			now.Message = "the database does not answer"
		}
	}
	p.answer(w, status, now)
}

func (p Probes) answer(w http.ResponseWriter, status int, now health) {
	now.Version = p.Version
	w.Header().Set("Content-Type", "application/json")
	if status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", request.RetryAfter)
	}
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(now) // an error means that the client has disconnected
}
