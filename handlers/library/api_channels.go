package library

import (
	"context"
	"net/http"
	"slices"
	"strconv"

	"github.com/danielgtaylor/huma/v2"
	"github.com/google/uuid"

	"wending/db"
	"wending/db/entries"
	"wending/db/outbox"
	"wending/handlers/request"
	"wending/handlers/rest"
	"wending/jobs/courier/notify"
	"wending/views/notice"
	"wending/views/paths"
)

// Channel is an address to which messages about tasks are sent. Its secrets are never returned.
type Channel struct {
	EntryHead
	Kind      notify.Kind `json:"kind"`
	URL       *string     `json:"url" doc:"The part that is not secret: a webhook's URL without its query, or a chat program's host; null for e-mail" example:"https://oapi.dingtalk.com/…"`
	To        []string    `json:"to" doc:"Recipients of e-mails; only for kind email"`
	HasSecret bool        `json:"has_secret"`
	Events    []string    `json:"events" values:"subscriptions"`
	Lang      string      `json:"lang" values:"languages"`
	IsDefault bool        `json:"is_default" doc:"Notified about every task that does not name its channels"`
	LastTest
}

func (e *endpoints) viewChannel(row entries.Channel) (Channel, error) {
	c := Channel{
		EntryHead: headOf(row.Entry), Kind: notify.Kind(row.Kind), To: []string{}, HasSecret: row.SealedSecret != nil,
		Events: slices.Clone([]string(row.Events)),
		Lang:   row.Lang, IsDefault: row.IsDefault, LastTest: lastTest(row.Test),
	}
	if row.URL != "" {
		c.URL = &row.URL
	}
	c.To = append(c.To, entries.Recipients(row)...)
	return c, nil
}

type channelFields struct {
	Name      string      `json:"name" maxLength:"64" example:"评测群"`
	Kind      notify.Kind `json:"kind"`
	URL       string      `json:"url,omitempty" format:"uri" doc:"Required for every kind but email; stored encrypted"`
	To        []string    `json:"to,omitempty" doc:"Recipients of e-mails; only for kind email"`
	Secret    string      `json:"secret,omitempty" doc:"Key for signing messages of the kinds webhook (whsec_…, Standard Webhooks), dingtalk and feishu; stored encrypted, never returned"`
	Events    []string    `json:"events,omitempty" values:"subscriptions" doc:"Events to send; the default is finished, failed, stopped and alert"`
	Lang      string      `json:"lang,omitempty" values:"languages" doc:"Language of the messages" default:"zh-CN"`
	IsDefault bool        `json:"is_default,omitempty"`
}

// Delivery is a message that was sent, or is to be sent, to a channel.
type Delivery struct {
	ID             int64        `json:"id" example:"17"`
	WebhookID      string       `json:"webhook_id" doc:"Id of the message; the same for every attempt" example:"msg_6f0d3c1e2b7a4c559a600f4b8f6a1d21"`
	Event          outbox.Event `json:"event"`
	Sequence       int          `json:"sequence" doc:"For progress, the percentage reached: 25, 50 or 75; for result, the number of the batch, from 1"`
	Status         outbox.State `json:"status"`
	TaskID         *uuid.UUID   `json:"task_id" doc:"null for a test message"`
	TaskName       *string      `json:"task_name"`
	LaunchID       *uuid.UUID   `json:"launch_id"`
	Attempts       int          `json:"attempts" example:"1"`
	NextAttemptAt  *rest.Moment `json:"next_attempt_at" doc:"When it is sent next; null unless PENDING"`
	ResponseStatus *int         `json:"response_status" doc:"HTTP status of the last attempt; null if there was no response" example:"200"`
	Error          *string      `json:"error" doc:"Why the last attempt failed; null if it succeeded or there was none"`
	CreatedAt      rest.Moment  `json:"created_at"`
	EndedAt        *rest.Moment `json:"ended_at"`
}

func newDelivery(d outbox.Delivery) Delivery {
	described := Delivery{
		ID: d.ID, WebhookID: notify.WebhookID(d.MessageID), Event: d.Event, Sequence: d.Sequence, Status: d.State,
		TaskID: d.TaskID, TaskName: d.TaskName,
		LaunchID: d.LaunchID, Attempts: d.Attempts, ResponseStatus: d.ResponseStatus, Error: d.Error,
		CreatedAt: rest.Moment(d.CreatedAt),
		EndedAt:   rest.MomentOf(d.EndedAt),
	}
	if d.State == outbox.Pending {
		next := rest.Moment(d.NextAt)
		described.NextAttemptAt = &next
	}
	return described
}

type sentOutput struct {
	Body struct {
		Status         outbox.State `json:"status" enum:"SENT,FAILED" example:"SENT"`
		ResponseStatus *int         `json:"response_status" doc:"HTTP status; null if there was no response" example:"200"`
		Error          *string      `json:"error" example:"HTTP 500"`
	}
}

type deliveriesInput struct {
	EntryPath
	rest.PageQuery
}

type deliveryInput struct {
	EntryPath
	Delivery string `path:"delivery_id" doc:"Id of the delivery" example:"17"`
}

// registerChannels registers the endpoints that only channels have.
func (e *endpoints) registerChannels(api huma.API) {
	path := paths.API + "/channels/{id}"
	rest.Register(api, e.Failed, rest.Endpoint{
		Method: http.MethodPost, Path: path + "/test", ID: "test-channel", Tag: "library",
		Summary:     "Send a channel a test message",
		Description: "The response is 200 even if the channel rejects the message; `error` then holds the reason.",
		Faults:      []string{request.CodeNotFound},
	}, e.testChannel)
	rest.Register(api, e.Failed, rest.Endpoint{
		Method: http.MethodGet, Path: path + "/deliveries", ID: "list-deliveries", Tag: "library",
		Summary:     "List the messages sent to a channel, newest first",
		Description: "Deliveries are listed for 30 days after they end.", Faults: []string{request.CodeNotFound},
	}, e.listDeliveries)
	rest.Register(api, e.Failed, rest.Endpoint{
		Method: http.MethodPost, Path: path + "/deliveries/{delivery_id}/send", ID: "send-delivery", Tag: "library",
		Status:      http.StatusAccepted,
		Summary:     "Send a delivery again",
		Description: "The webhook-id stays the same. 409 while the message is being sent, and for test messages.",
		Faults:      []string{request.CodeNotFound, request.CodeTaskStateConflict},
	}, e.sendDelivery)
}

func (e *endpoints) testChannel(ctx context.Context, input *entryInput) (*sentOutput, error) {
	_, row, err := find(ctx, input.EntryPath, e.Library.Entries.Channels)
	if err != nil {
		return nil, err
	}
	leave, err := request.From(ctx).Gates.Probes.Enter(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	outcome, err := e.Library.TestChannel(ctx, request.ScopeOf(ctx), row,
		notice.Test(request.From(ctx).Locale.In(row.Lang), row))
	if err != nil {
		return nil, err
	}
	output := &sentOutput{}
	output.Body.Status = outbox.Sent
	if outcome.Error != "" {
		output.Body.Status, output.Body.Error = outbox.GivenUp, &outcome.Error
	}
	if outcome.Status != 0 {
		output.Body.ResponseStatus = &outcome.Status
	}
	return output, nil
}

func (e *endpoints) listDeliveries(ctx context.Context, input *deliveriesInput) (*entriesOutput[Delivery], error) {
	id, _, err := find(ctx, input.EntryPath, e.Library.Entries.Channels)
	if err != nil {
		return nil, err
	}
	page := input.Window()
	found, total, err := e.Library.Outbox.List(ctx, id, page.Offset(), page.Size)
	return pageOf(page, found, total, newDelivery), err
}

func (e *endpoints) sendDelivery(ctx context.Context, input *deliveryInput) (*entryOutput[Delivery], error) {
	id, _, err := find(ctx, input.EntryPath, e.Library.Entries.Channels)
	if err != nil {
		return nil, err
	}
	number, err := strconv.ParseInt(input.Delivery, 10, 64)
	if err != nil {
		return nil, &db.NotFoundError{Kind: entries.KindEntry}
	}
	if _, err := e.Library.Outbox.Get(ctx, id, number); err != nil {
		return nil, err
	}
	if err := e.Library.Outbox.SendAgain(ctx, id, number); err != nil {
		return nil, err
	}
	d, err := e.Library.Outbox.Get(ctx, id, number)
	return &entryOutput[Delivery]{newDelivery(d)}, err
}
