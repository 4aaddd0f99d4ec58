package access

import (
	"context"
	"net/http"
	"time"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"wending/db/audit"
	noted "wending/handlers/audit"
	"wending/handlers/request"
)

// recordedWithin is how long an answer waits for its entry in the audit.
const recordedWithin = 5 * time.Second

// record returns a context in which handlers say more of what a request does. What was done is recorded just before the answer
// begins: whoever has the answer finds the entry.
func (g *Guard) record(c echo.Context, rule Rule) (context.Context, *audit.Entry) {
	entry := &audit.Entry{Action: rule.action}
	ctx := noted.With(c.Request().Context(), entry)
	c.Response().Before(func() {
		entry.Status = c.Response().Status
		if entry.Action == "" || !isWorthRecording(entry.Status) && rule.right != public || entry.Actor == "" {
			return
		}
		adding, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordedWithin)
		defer cancel()
		added, err := g.Audit.Add(adding, *entry)
		if err != nil {
			g.Failed(ctx, err)
			return
		}
		// Whoever keeps the log elsewhere can tell that the database's entries are still those.
		g.Log.InfoContext(ctx, "audit", "seq", added.Seq, "action", added.Action, "actor", added.Actor, "object_id", added.ObjectID,
			"status", added.Status, "hash", added.Hash)
	})
	return ctx, entry
}

// isWorthRecording holds for what was done, what was not allowed, and what may have been done before it failed.
func isWorthRecording(status int) bool {
	return status < http.StatusBadRequest || status == http.StatusForbidden || status >= http.StatusInternalServerError
}

// describe says in an entry who asks, and for what.
func (g *Guard) describe(ctx context.Context, entry *audit.Entry, info request.Info, asked ask) {
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
