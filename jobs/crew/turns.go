package crew

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"time"

	"wending/db"
	"wending/db/engine"
	"wending/jobs/agent/protocol"
)

// openTurn is the turn of a conversation that a unit asks next.
type openTurn struct {
	engine.NextTurn
	// isTooLong reports that the history is longer than a request may contain.
	isTooLong bool
}

// readTurn reads the next turn of a unit's conversation and its history from the database, because another worker may
// have asked the earlier turns. If that fails, the unit is parked. A unit that has no turn left, or now belongs to
// another worker, must be returned.
func (a *asking) readTurn(c *crew, unit *claimed) (may, isParked bool) {
	next, isTooLong, err := engine.NewConversations(c.Store).Next(c.calls, unit.Unit, protocol.MaxRendered)
	switch {
	case errors.Is(err, db.ErrConflict):
		return false, false
	case err != nil:
		c.Log.WarnContext(c.calls, "next turn not read, will retry", "unit_id", unit.ID, "error", err)
		c.supply.park(*unit, time.Second)
		return false, true
	}
	a.turn, unit.Item = &openTurn{next, isTooLong}, next.Item
	return true, false
}

// reference matches a reference in a text to a file of an earlier turn: {{asset:path}}.
var reference = regexp.MustCompile(`\{\{\s*asset:([^{}]+?)\s*\}\}`)

// refer replaces references to files of earlier turns with the files' addresses, which point to the agent or, for
// inline files, to this site. References to missing files are left unchanged.
func (c *crew) refer(ctx context.Context, unit *claimed, request *protocol.Request) {
	texts := []*string{&request.Question}
	for _, text := range []*string{request.SystemPrompt, request.UserContext} {
		if text != nil {
			texts = append(texts, text)
		}
	}
	for n := range request.History { // questions of earlier turns may contain references, too
		texts = append(texts, &request.History[n].Content)
	}
	if !slices.ContainsFunc(texts, func(text *string) bool { return reference.MatchString(*text) }) {
		return
	}
	earlier, err := engine.NewAssets(c.Store).Earlier(ctx, unit.Item.ID, unit.Variant, unit.RunIndex)
	if err != nil {
		c.Log.WarnContext(ctx, "files of earlier turns not read, sending their names unchanged", "unit_id", unit.ID,
			"error", err)
		return
	}
	addresses := map[string]string{}
	for _, one := range earlier {
		switch {
		case one.OriginalURL != nil:
			addresses[one.Path] = *one.OriginalURL
		case c.AssetURL != nil:
			addresses[one.Path] = c.AssetURL(c.TaskID, one.ID, c.filesUntil(time.Now()))
		}
	}
	put := func(text string) string {
		return reference.ReplaceAllStringFunc(text, func(place string) string {
			if address, isThere := addresses[reference.FindStringSubmatch(place)[1]]; isThere {
				return address
			}
			return place
		})
	}
	request.Question = put(request.Question)
	for n := range request.History {
		if request.History[n].Role == protocol.RoleUser {
			request.History[n].Content = put(request.History[n].Content)
		}
	}
	for _, text := range []**string{&request.SystemPrompt, &request.UserContext} {
		if *text != nil {
			rendered := put(**text)
			*text = &rendered
		}
	}
}

// filesUntil returns the time until which an agent may fetch the files that a request refers to. It allows for all
// attempts of a call that begins now, for the waits between them, and for another hour, because clocks differ and
// agents may fetch late. It is rounded to a full hour, so that a request repeated soon has the same body.
func (c *crew) filesUntil(now time.Time) time.Time {
	attempt := time.Duration(c.Task.TimeoutSeconds)*time.Second + maxPostpone
	calls := time.Duration(c.Task.MaxRetries+1) * attempt
	return now.Add(calls + time.Hour).Truncate(time.Hour).Add(time.Hour)
}

// endTurn decides how a conversation continues after the answer to a turn.
func (c *crew) endTurn(asked *openTurn, answer protocol.Answer, conversationID string) *engine.Turn {
	if answer.Status == protocol.Succeeded {
		return &engine.Turn{ConversationID: conversationID, Later: asked.Later}
	}
	return &engine.Turn{ConversationID: asked.ConversationID, Later: asked.Later,
		Stops: c.Task.OnTurnFailure == db.TurnFailureStops}
}
