package access

import (
	"context"
	"encoding/hex"
	"net/http"
	"time"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"wending/db/audit"
	noted "wending/handlers/audit"
	"wending/handlers/request"
)

// recordedWithin is how long an answer waits for its entry in the audit.
const recordedWithin = 3 * time.Second

// record returns a context in which handlers say more of what a request does. What was done is recorded just before the answer
// begins: whoever has the answer finds the entry.
func (g *Guard) record(c echo.Context, rule Rule) (context.Context, *audit.Entry) {
	entry := &audit.Entry{Action: rule.action}
	ctx := noted.With(c.Request().Context(), entry)
	c.Response().Before(func() {
		entry.Status = c.Response().Status
		isNoted := entry.Action != rule.action // a handler says that it matters, whatever the answer
		if entry.Action == "" || entry.Actor == "" || !isNoted && !isWorthRecording(entry.Status) {
			return
		}
		adding, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordedWithin)
		defer cancel()
		if err := g.add(adding, *entry); err != nil {
			g.Failed(ctx, err)
			g.addLater(ctx, *entry)
		}
	})
	return ctx, entry
}

// add adds an entry.
func (g *Guard) add(ctx context.Context, entry audit.Entry) error {
	added, err := g.Audit.Add(ctx, entry)
	if err == nil {
		g.logEntry(ctx, added)
	}
	return err
}

// logEntry logs an entry that was added: with a copy of the log elsewhere, the database's entries can be checked against it.
func (g *Guard) logEntry(ctx context.Context, added audit.Entry) {
	g.Log.InfoContext(ctx, "audit", "seq", added.Seq, "action", added.Action, "actor", added.Actor, "object_id", added.ObjectID,
		"status", added.Status, "hash", hex.EncodeToString(added.Hash))
}

// addCounted adds the entries of what was counted in the hours that are over.
func (g *Guard) addCounted(ctx context.Context) {
	added, err := g.Audit.AddCounted(ctx)
	for _, entry := range added {
		g.logEntry(ctx, entry)
	}
	if err != nil && ctx.Err() == nil {
		g.Log.WarnContext(ctx, "could not add what was counted to the audit, will retry", "error", err)
	}
}

// maxLate bounds the entries that wait to be added.
const maxLate = 100_000

// addLater keeps an entry that could not be added until it can be; the log has it meanwhile.
func (g *Guard) addLater(ctx context.Context, entry audit.Entry) {
	g.Log.WarnContext(ctx, "an entry of the audit waits", "action", entry.Action, "actor", entry.Actor, "object", entry.Object, "object_id", entry.ObjectID,
		"address", entry.Address, "status", entry.Status, "request_id", entry.RequestID)
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.late) < maxLate {
		g.late = append(g.late, entry)
	}
}

// addLate adds the entries that waited, until one cannot be added yet.
func (g *Guard) addLate(ctx context.Context) {
	for {
		g.mu.Lock()
		if len(g.late) == 0 {
			g.mu.Unlock()
			return
		}
		entry := g.late[0]
		g.mu.Unlock()
		if err := g.add(ctx, entry); err != nil {
			return
		}
		g.mu.Lock()
		g.late = g.late[1:]
		g.mu.Unlock()
	}
}

// isWorthRecording holds for what was done, what was not allowed, and what may have been done before it failed.
func isWorthRecording(status int) bool {
	return status < http.StatusBadRequest || status == http.StatusForbidden || status >= http.StatusInternalServerError
}

// describe records in an entry who asks, and for what. A request of nobody for what is not public has done nothing and has no entry.
func (g *Guard) describe(ctx context.Context, entry *audit.Entry, info request.Info, asked ask) {
	if asked.rule.right != public && !info.Who.IsKnown() {
		entry.Action = ""
		return
	}
	entry.Actor, entry.Address, entry.Via, entry.RequestID = info.Actor.Who(), info.Actor.Address, info.Actor.Via, info.ID
	if info.Who.UserID != uuid.Nil {
		entry.ActorID = info.Who.UserID.String()
	}
	if info.Who.TokenID != uuid.Nil {
		entry.TokenID = info.Who.TokenID.String()
	}
	if info.Project.ID != uuid.Nil {
		entry.ProjectID, entry.ProjectName = info.Project.ID.String(), info.Project.Name
	}
	if entry.Action == "" {
		return
	}
	entry.Object, entry.ObjectID = audit.ObjectOf(entry.Action), asked.object
	if asked.object != "" && asked.rule.object != "" {
		if _, _, name, err := g.projectOf(ctx, asked); err == nil {
			entry.ObjectName = name
		}
	}
}
