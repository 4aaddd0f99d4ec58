package access

import (
	"context"
	"encoding/hex"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"wending/db/people"
	"wending/handlers/request"
)

// recordedWithin is the maximum time that storing an audit entry may delay a request or its response.
const recordedWithin = 3 * time.Second

// recording is the audit record of one request in progress.
type recording struct {
	request.AuditRecord
	guard *Guard
	// action is the action of the route's rule. A handler that sets a different Action has the request recorded regardless
	// of the response's status.
	action string
	// intent is the id of the intent that was stored before the request acted; uuid.Nil means that none was stored.
	intent uuid.UUID
}

// record returns a context in which handlers can add details to the audit record. The entry is stored just
// before the response begins, so a client that has the response finds the entry.
func (g *Guard) record(c echo.Context, rule Rule) (context.Context, *recording) {
	r := &recording{AuditRecord: request.AuditRecord{AuditEntry: people.AuditEntry{Action: rule.action}}, guard: g,
		action: rule.action}
	r.Begin = r.begin
	ctx := request.WithAudit(c.Request().Context(), &r.AuditRecord)
	c.Response().Before(func() { r.end(ctx, c.Response().Status) })
	return ctx, r
}

// begin stores the intent before the request acts, so that the record survives the death of the process.
func (r *recording) begin(ctx context.Context) (err error) {
	if r.Action == "" || r.Actor == "" || r.intent != uuid.Nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, recordedWithin)
	defer cancel()
	if r.intent, err = r.guard.Audit.Begin(ctx, r.AuditEntry); err != nil {
		return err
	}
	r.guard.hold(r.intent)
	return nil
}

// end records the outcome of a request, or discards the record.
func (r *recording) end(ctx context.Context, status int) {
	r.Status = status
	isNoted := r.Action != r.action
	if r.Action == "" || r.Actor == "" || !isNoted && !isWorthRecording(status) {
		r.Action = ""
		if r.intent == uuid.Nil {
			return
		}
	}
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordedWithin)
	defer cancel()
	if err := r.guard.settle(ending, r.intent, r.AuditEntry); err != nil {
		r.guard.Failed(ctx, err)
		r.guard.settleLater(ctx, r.intent, r.AuditEntry)
	}
}

// abandon ends the record of a request without a response: its outcome is recorded as unknown.
func (r *recording) abandon() {
	if r.intent != uuid.Nil {
		r.guard.release(r.intent)
	}
}

// settle replaces an intent with its entry, or drops the intent if the entry has no action.
func (g *Guard) settle(ctx context.Context, intent uuid.UUID, entry people.AuditEntry) (err error) {
	switch {
	case entry.Action == "":
		err = g.Audit.Drop(ctx, intent)
	case intent == uuid.Nil:
		entry, err = g.Audit.Add(ctx, entry)
	default:
		entry, err = g.Audit.Complete(ctx, intent, entry)
	}
	if err != nil {
		return err
	}
	g.release(intent)
	if entry.Action != "" {
		g.logEntry(ctx, entry)
	}
	return nil
}

// logEntry logs an entry that was added, so that the database's entries can be checked against a copy of the log
// kept elsewhere.
func (g *Guard) logEntry(ctx context.Context, added people.AuditEntry) {
	g.Log.InfoContext(ctx, "audit", "seq", added.Seq, "action", added.Action, "actor", added.Actor,
		"object_id", added.ObjectID,
		"status", added.Status, "hash", hex.EncodeToString(added.Hash))
	if added.IsUnsealed {
		g.Log.ErrorContext(ctx, "the audit log's seal is broken, see 'wending audit verify'", "seq", added.Seq)
	}
}

// hold keeps an intent of this process from being considered lost, until release is called.
func (g *Guard) hold(intent uuid.UUID) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.begun[intent] = struct{}{}
}

func (g *Guard) release(intent uuid.UUID) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.begun, intent)
}

// maxLate is the maximum number of entries that may wait to be stored.
const maxLate = 100_000

// unsettled is an entry that could not be stored when its request ended.
type unsettled struct {
	intent uuid.UUID
	entry  people.AuditEntry
}

// settleLater keeps an entry until it can be stored. In the meantime, the entry is in the log, and its intent is in the
// database.
func (g *Guard) settleLater(ctx context.Context, intent uuid.UUID, entry people.AuditEntry) {
	g.Log.WarnContext(ctx, "audit entry not stored, will retry", "action", entry.Action, "actor", entry.Actor,
		"object", entry.Object, "object_id", entry.ObjectID,
		"address", entry.Address, "status", entry.Status, "request_id", entry.RequestID)
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.late) < maxLate {
		g.late = append(g.late, unsettled{intent, entry})
		if intent != uuid.Nil {
			g.begun[intent] = struct{}{}
		}
	}
}

// settleLate stores the waiting entries, until one fails.
func (g *Guard) settleLate(ctx context.Context) error {
	for {
		g.mu.Lock()
		if len(g.late) == 0 {
			g.mu.Unlock()
			return nil
		}
		next := g.late[0]
		g.mu.Unlock()
		if err := g.settle(ctx, next.intent, next.entry); err != nil {
			return err
		}
		g.mu.Lock()
		g.late = g.late[1:]
		g.mu.Unlock()
	}
}

// lostAfter is how long after it was last held an intent is considered lost.
const lostAfter = time.Minute

// keepAudit stores the entries that are due: waiting entries, counts, and the intents of dead processes. While the
// database is unavailable no intent can be held, so none is considered lost until the database has been available for
// lostAfter; steadySince is when it became available.
func (g *Guard) keepAudit(ctx context.Context, steadySince *time.Time) {
	g.mu.Lock()
	begun := slices.Collect(maps.Keys(g.begun))
	g.mu.Unlock()
	err := g.Audit.Hold(ctx, begun)
	if err == nil {
		err = g.settleLate(ctx)
	}
	var counted, lost []people.AuditEntry
	if err == nil {
		counted, err = g.Audit.AddCounted(ctx)
	}
	if err == nil && time.Since(*steadySince) > lostAfter {
		lost, err = g.Audit.CloseLost(ctx, lostAfter)
	}
	for _, entry := range slices.Concat(counted, lost) {
		g.logEntry(ctx, entry)
	}
	if err != nil {
		*steadySince = time.Now()
		if ctx.Err() == nil {
			g.Log.WarnContext(ctx, "pending audit entries not added, will retry", "error", err)
		}
	}
}

// isWorthRecording reports whether a request did something, was not allowed, or may have done something before
// it failed.
func isWorthRecording(status int) bool {
	return status < http.StatusBadRequest || status == http.StatusForbidden || status >= http.StatusInternalServerError
}

// describe records the principal and the object in an entry. An anonymous request for something that is not public
// has done nothing, and gets no entry.
func (g *Guard) describe(ctx context.Context, entry *request.AuditEntry, info request.Info, asked ask) {
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
	entry.Object, entry.ObjectID = people.ObjectOfAction(entry.Action), asked.object
	if asked.object != "" && asked.rule.object != "" {
		if _, _, name, err := g.projectOf(ctx, asked); err == nil {
			entry.ObjectName = name
		}
	}
}
