package tasks

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"wending/db"
	"wending/db/engine"
	"wending/db/report"
	"wending/jobs/agent"
	"wending/jobs/agent/protocol"
	"wending/jobs/secret"
)

// KnownNames returns the names of values that every row has.
func KnownNames() []string {
	return []string{"question", "standard_answer", "question_id", "system_prompt", "user_context"}
}

// Values returns the values that templates can use for a row of the dataset, keyed by name. names are the dataset's
// other columns.
func Values(item db.Item, names []string) map[string]string {
	values := map[string]string{}
	for n, name := range names {
		if n < len(item.Variables) {
			values[name] = item.Variables[n]
		}
	}
	values["question"], values["standard_answer"], values["question_id"] = item.Question, item.StandardAnswer,
		item.QuestionID
	values["system_prompt"], values["user_context"] = TextOf(item.SystemPrompt), TextOf(item.UserContext)
	return values
}

// Request returns the request that sends a question to the target of one of the task's variants; secrets are the
// target's. The caller adds the idempotency key of the call.
func Request(task db.Task, variant db.Variant, secrets Target, item db.Item) protocol.Request {
	target, values := task.Targets[variant.Target-1], Values(item, task.VariableNames)
	request := protocol.Request{
		Protocol: target.Protocol, URL: secrets.URL, Headers: secrets.Headers, Template: secrets.Template,
		ExtraPayload: secrets.Payload, Poll: secrets.Poll,
		Question: item.Question, StandardAnswer: item.StandardAnswer, SystemPrompt: item.SystemPrompt,
		UserContext: item.UserContext,
		Variables:   values, Stream: task.UseStream && !target.IsUnstreamed,
		Timeout: time.Duration(task.TimeoutSeconds) * time.Second,
	}
	if target.Kind == db.TargetModel {
		request.Model = TextOf(target.Model)
	}
	if system := TextOf(variant.SystemTemplate); system != "" {
		rendered := protocol.Render(system, values)
		request.SystemPrompt, request.IsTooLong = &rendered, len(rendered) > protocol.MaxRendered
	}
	if user := TextOf(variant.UserTemplate); user != "" {
		request.Question = protocol.Render(user, values)
		request.IsTooLong = request.IsTooLong || len(request.Question) > protocol.MaxRendered
		if protocol, _ := protocol.Of(target.Protocol); !protocol.NamesContext() {
			request.UserContext = nil // the template contains the context itself
		}
	}
	return request
}

// Continue turns a request into a turn of a conversation, with the history of the conversation.
func Continue(request *protocol.Request, task db.Task, variant db.Variant, turn engine.NextTurn, sessionID string) {
	request.IsTurn, request.SessionID, request.ConversationID, request.BegunIn = true, sessionID,
		turn.ConversationID, sessionID
	spoken, _ := protocol.Of(request.Protocol)
	if request.ConversationID == "" && spoken.TakesSession() {
		request.ConversationID = sessionID
	}
	isBegun := false
	for _, exchange := range turn.History {
		asked := Request(task, variant, Target{}, exchange.Item)
		text := asked.User()
		if spoken.NamesContext() {
			text = asked.Question
		}
		request.History = append(request.History,
			protocol.Message{Role: protocol.RoleUser, Content: text},
			protocol.Message{Role: protocol.RoleAssistant, Content: exchange.Answer})
		if !isBegun && turn.ConversationID != "" && TextOf(exchange.ConversationID) == turn.ConversationID {
			request.BegunIn, isBegun = SessionID(exchange.LaunchID, exchange.UnitID), true
		}
	}
}

// SessionID returns the name of a unit's conversation.
func SessionID(launchID uuid.UUID, unitID int64) string {
	return uuid.NewSHA1(launchID, []byte(strconv.FormatInt(unitID, 10))).String()
}

// IdempotencyKey returns a key that is the same for every attempt of a unit's question on any worker, and unique
// across installations: an agent that has seen the key before may return the same answer.
func IdempotencyKey(launchID uuid.UUID, unitID int64, item db.Item) string {
	key := fmt.Sprintf("wending-%s-%d", launchID, unitID)
	if item.Turn != nil {
		key += fmt.Sprintf("-%d", *item.Turn)
	}
	return key
}

// TraceID returns the W3C trace id of a unit's calls with an idempotency key: all attempts belong to one trace. Its
// first half is the unit's id, by which spans find their run; its second half proves that the id was not made up. SQL
// statements compute it in the same way (db.TraceOfTurn).
func TraceID(unitID int64, idempotencyKey string) string {
	sum := sha256.Sum256([]byte(idempotencyKey))
	return fmt.Sprintf("%016x%x", unitID, sum[:8])
}

// Identify gives a request the idempotency key of a unit's call, and the trace id that belongs to it.
func Identify(request *protocol.Request, unitID int64, idempotencyKey string) {
	request.IdempotencyKey = idempotencyKey
	request.TraceID = agent.TraceID(request.Headers, TraceID(unitID, idempotencyKey))
}

// Input is the request that was sent for a run, without its secrets.
type Input struct {
	Protocol string
	// URL lacks its query.
	URL string
	// Body is the JSON that was sent; OmitsPayload reports that the extra payload of a typed address is left out of it.
	Body         json.RawMessage
	OmitsPayload bool
}

// Input returns the request that was sent for a run of a task. Headers and the query of the address are secret, as is
// the payload for a typed address; the payload of a saved target is shown, as it is in the library.
func (s *Service) Input(ctx context.Context, task db.Task, run db.WholeRun) (Input, error) {
	if err := task.CheckAsking(); err != nil {
		return Input{}, err
	}
	items, err := report.New(s.Store).ItemsByID(ctx, []int64{run.ItemID})
	if err != nil {
		return Input{}, err
	}
	if len(items) == 0 || run.Variant > len(task.Variants) {
		return Input{}, &db.NotFoundError{Kind: db.KindRun}
	}
	variant := task.Variants[run.Variant-1]
	target := task.Targets[variant.Target-1]
	secrets, err := Open(s.Sealer, target)
	if err != nil && !errors.Is(err, secret.ErrKey) {
		return Input{}, err
	}
	input := Input{Protocol: target.Protocol, OmitsPayload: target.Kind == db.TargetURL && secrets.Payload != nil}
	input.URL, _, _ = strings.Cut(secrets.URL, "?")
	if input.OmitsPayload {
		secrets.Payload = nil
	}
	request := Request(task, variant, secrets, items[0])
	Identify(&request, run.UnitID, IdempotencyKey(run.LaunchID, run.UnitID, items[0]))
	if items[0].Series != nil {
		turn, isTooLong, err := engine.NewConversations(s.Store).HistoryOf(ctx, run.Run, task.ID, protocol.MaxRendered)
		if err != nil {
			return Input{}, err
		}
		Continue(&request, task, variant, turn, SessionID(run.LaunchID, run.UnitID))
		request.IsTooLong = request.IsTooLong || isTooLong
	}
	// A body that cannot be built is shown as null.
	if input.Body, err = request.Body(); err != nil {
		input.Body = json.RawMessage("null")
	}
	return input, nil
}

// TextOf returns the text to which a pointer from Given points; empty for nil.
func TextOf(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}
