package handlers_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"wending/db/dbtest"
	"wending/handlers"
)

// Each request has a span by its route, in the client's trace if it named one; paths, queries and headers, which may
// contain secrets, are not in it. Static files, monitoring and received spans have none.
func TestRequestsAreTracedByTheirRoute(t *testing.T) {
	t.Parallel()
	kept := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(kept))
	s := newSiteAt(t, dbtest.URL(t), 0, handlers.Access{}, func(c *handlers.Config) { c.Tracer = provider.Tracer("") })
	id := s.create(t, "http://127.0.0.1:9/agent", map[string]string{"file@q.csv": "question,standard_answer\n一,a\n"})
	kept.Reset()
	const trace = "4bf92f3577b34da6a3ce929d0e0e4736"
	for _, path := range []string{"/tasks/" + id + "?search=sesame", "/shared/sesame", "/nowhere/sesame", "/livez",
		"/readyz", "/static/x/sesame.js", "/metrics"} {
		request, err := http.NewRequest(http.MethodGet, s.URL+path, nil)
		require.NoError(t, err)
		request.Header.Set("Authorization", "Bearer sesame")
		request.Header.Set("traceparent", "00-"+trace+"-00f067aa0ba902b7-01")
		s.do(t, request)
	}
	odd, err := http.NewRequest("SESAME", s.URL+"/tasks", nil)
	require.NoError(t, err)
	s.do(t, odd)
	s.sends(t, nil)
	var told []string
	for _, span := range kept.GetSpans() {
		values := map[string]string{}
		for _, one := range span.Attributes {
			values[string(one.Key)] = one.Value.String()
		}
		require.NotContains(t, fmt.Sprint(span), "sesame")
		require.Equal(t, values["wending.task_id"] != "", strings.Contains(span.Name, ":taskId"))
		require.Equal(t, span.Name != "other /tasks", span.SpanContext.TraceID().String() == trace)
		told = append(told, span.Name+" "+values["http.response.status_code"])
	}
	slices.Sort(told)
	require.Equal(t, []string{"GET /* 404", "GET /shared/:secret 404", "GET /tasks/:taskId 200", "other /tasks 405"}, told)
}
