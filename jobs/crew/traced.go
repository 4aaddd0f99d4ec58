package crew

import (
	"context"
	"net/url"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"wending/jobs/agent"
	"wending/jobs/agent/protocol"
)

// The names of the spans of calls.
const (
	callsAgent   = "call agent"
	callsJudge   = "call judge"
	callsGrouper = "call grouping model"
)

// beginSpan begins the span of a unit's call, if calls are traced, in the trace that the request names. The caller must
// call end with the outcome. The span has no texts of questions, answers or errors, which may contain what operators
// must not see.
func (c *crew) beginSpan(ctx context.Context, name string, unit *claimed,
	request protocol.Request) (of context.Context, end func(protocol.Answer)) {
	if c.Tracer == nil {
		return ctx, func(protocol.Answer) {}
	}
	attributes := []attribute.KeyValue{
		attribute.String("wending.task_id", c.TaskID.String()), attribute.String("wending.launch_id", c.LaunchID.String()),
		attribute.Int64("wending.unit_id", unit.ID), attribute.Int64("wending.item_id", unit.Item.ID),
		attribute.Int("wending.variant", unit.Variant), attribute.Int("wending.run_index", unit.RunIndex),
		attribute.Int("wending.attempt", unit.attempt), attribute.String("wending.protocol", request.Protocol),
	}
	if address, err := url.Parse(request.URL); err == nil {
		attributes = append(attributes, attribute.String("server.address", address.Hostname()))
	}
	if request.Model != "" {
		attributes = append(attributes, attribute.String("gen_ai.request.model", request.Model))
	}
	ctx, span := c.Tracer.Start(agent.InTrace(ctx, request), name, trace.WithNewRoot(),
		trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(attributes...))
	return ctx, func(answer protocol.Answer) {
		span.SetAttributes(attribute.String("wending.status", string(answer.Status)),
			attribute.Int64("wending.latency_ms", answer.Latency.Milliseconds()))
		if answer.HTTPStatus != 0 {
			span.SetAttributes(attribute.Int("http.response.status_code", answer.HTTPStatus))
		}
		for name, count := range map[string]*int{"gen_ai.usage.input_tokens": answer.Usage.Input,
			"gen_ai.usage.output_tokens": answer.Usage.Output} {
			if count != nil {
				span.SetAttributes(attribute.Int(name, *count))
			}
		}
		if answer.Status != protocol.Succeeded {
			span.SetAttributes(attribute.String("error.type", answer.ErrorCode))
			span.SetStatus(codes.Error, answer.ErrorCode)
		}
		span.End()
	}
}
