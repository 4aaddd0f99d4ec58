package jobs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"wending/jobs/agent"
)

// TracingConfig describes the collector to which spans are exported.
type TracingConfig struct {
	// Endpoint is the collector's base address for OTLP over HTTP; empty means that nothing is traced.
	Endpoint string
	// Headers are sent with each export: pairs of name=value, separated by commas, with percent-encoded values.
	Headers string
	Version string
	Log     *slog.Logger
}

// exportTime is the maximum duration of one export, and flushTime is how long the last spans may take when the process
// ends.
const (
	exportTime = 10 * time.Second
	flushTime  = 2 * time.Second
)

// NewTracer returns a tracer of requests and calls, and a function that exports the remaining spans; the tracer is nil
// if there is no collector. Spans are exported in the background, and are dropped if the collector is slow or
// unavailable, so that nothing waits for it.
func NewTracer(ctx context.Context, config TracingConfig) (tracer trace.Tracer, flush func(), err error) {
	flush = func() {}
	if config.Endpoint == "" {
		return nil, flush, nil
	}
	at, err := url.Parse(config.Endpoint)
	if err != nil || at.Scheme != "http" && at.Scheme != "https" || at.Host == "" || at.User != nil {
		return nil, flush, errors.New("OTEL_EXPORTER_OTLP_ENDPOINT must be an address such as http://127.0.0.1:4318")
	}
	headers := map[string]string{}
	for pair := range strings.SplitSeq(config.Headers, ",") {
		name, value, isPair := strings.Cut(strings.TrimSpace(pair), "=")
		decoded, err := url.PathUnescape(value)
		if pair != "" && (!isPair || name == "" || err != nil) {
			return nil, flush, errors.New("OTEL_EXPORTER_OTLP_HEADERS must be name=value, separated by commas")
		}
		if pair != "" {
			headers[strings.TrimSpace(name)] = strings.TrimSpace(decoded)
		}
	}
	exporter, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(at.JoinPath("v1/traces").String()),
		otlptracehttp.WithHeaders(headers), otlptracehttp.WithTimeout(exportTime),
		otlptracehttp.WithCompression(otlptracehttp.GzipCompression))
	if err != nil {
		return nil, flush, fmt.Errorf("OTEL_EXPORTER_OTLP_ENDPOINT: %w", err)
	}
	provider := sdktrace.NewTracerProvider(
		sdktrace.WithBatcher(loggedExporter{exporter, config.Log}, sdktrace.WithExportTimeout(exportTime)),
		sdktrace.WithIDGenerator(agent.SpanIDs{}),
		sdktrace.WithResource(resource.NewSchemaless(attribute.String("service.name", "wending"),
			attribute.String("service.version", config.Version))))
	flush = func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTime)
		defer cancel()
		_ = provider.Shutdown(ctx) // the exporter logs its failures
	}
	return provider.Tracer("wending"), flush, nil
}

// loggedExporter logs failed exports, whose spans are lost.
type loggedExporter struct {
	sdktrace.SpanExporter
	log *slog.Logger
}

// ExportSpans implements sdktrace.SpanExporter.
func (e loggedExporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	if err := e.SpanExporter.ExportSpans(ctx, spans); err != nil {
		e.log.WarnContext(ctx, "spans not exported, dropping them", "spans", len(spans), "error", err)
	}
	return nil
}
