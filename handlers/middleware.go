package handlers

import (
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/labstack/echo-contrib/echoprometheus"
	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"wending/db"
	"wending/db/people"
	"wending/handlers/request"
	"wending/static"
	"wending/views/paths"
)

// identify stores the request's language, actor and id in its context.
func (s *Server) identify(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		r := c.Request()
		actor := db.Actor{Address: c.RealIP(), Via: db.ViaPage}
		if request.IsAPI(r) {
			actor.Via = db.ViaAPI
		}
		lang, theme := request.Choices(r, s.DefaultLang)
		info := request.Info{Locale: s.catalogue.Locale(lang, theme), Actor: actor, IsSecure: s.guard.IsSecure(r),
			Confirmation: r.URL.Query().Get(request.ConfirmParameter),
			ID:           c.Response().Header().Get(echo.HeaderXRequestID), Gates: s.gates}
		if !s.Access.HasAccounts {
			info.Role = people.Admin
		}
		c.SetRequest(r.WithContext(request.With(r.Context(), info)))
		return next(c)
	}
}

func (s *Server) logRequests(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		start := time.Now()
		err := next(c)
		if err != nil {
			c.Error(err)
		}
		r, response := c.Request(), c.Response()
		level := slog.LevelInfo
		if r.Method == http.MethodGet && response.Status < 400 {
			level = slog.LevelDebug // polling would otherwise fill the log
		}
		attributes := []any{
			"method", methodOf(r), "path", loggedPath(c), "status", response.Status, "bytes", response.Size,
			"duration_ms", time.Since(start).Milliseconds(), "client", c.RealIP(),
			"request_id", request.From(r.Context()).ID,
		}
		if id := c.Param("taskId") + c.Param("task_id"); id != "" {
			attributes = append(attributes, "task_id", id)
		}
		if who := request.From(c.Request().Context()).Who; who.Name != "" {
			attributes = append(attributes, "actor", who.Name)
		}
		s.Log.Log(r.Context(), level, "request", attributes...)
		return nil
	}
}

// traceRequests exports a span for each request, named after its route because paths and queries may contain secrets.
// Requests for static files, probes and metrics get no span, nor do requests that deliver spans, which may be our own.
func traceRequests(tracer trace.Tracer) echo.MiddlewareFunc {
	omitted := []string{paths.Live, paths.Ready, paths.Health, paths.Metrics, paths.Traces}
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			r := c.Request()
			if strings.HasPrefix(c.Path(), static.Prefix) || slices.Contains(omitted, c.Path()) {
				return next(c)
			}
			method := knownMethod(r)
			attributes := []attribute.KeyValue{attribute.String("http.request.method", method),
				attribute.String("http.route", c.Path()), attribute.String("wending.request_id", request.From(r.Context()).ID)}
			if id := c.Param("taskId") + c.Param("task_id"); id != "" {
				attributes = append(attributes, attribute.String("wending.task_id", id))
			}
			ctx, span := tracer.Start(
				propagation.TraceContext{}.Extract(r.Context(), propagation.HeaderCarrier(r.Header)),
				method+" "+c.Path(), trace.WithSpanKind(trace.SpanKindServer),
				trace.WithAttributes(attributes...))
			defer span.End()
			c.SetRequest(r.WithContext(ctx))
			err := next(c)
			status := c.Response().Status
			span.SetAttributes(attribute.Int("http.response.status_code", status))
			if status >= http.StatusInternalServerError {
				span.SetStatus(codes.Error, "")
			}
			return err
		}
	}
}

// loggedPath returns a request's path without a share link's secret. A path without a route may contain such a secret
// too, for example if a character was added to the link.
func loggedPath(c echo.Context) string {
	path := c.Request().URL.Path
	switch {
	case c.Param("secret") != "":
		return c.Path()
	case strings.HasPrefix(path, paths.Shared+"/"):
		return paths.Shared + "/…"
	}
	return path
}

// stuckAfter is how long a client may read nothing before it is considered gone. Its response holds memory and perhaps
// a database connection, which others need.
const stuckAfter = 30 * time.Second

// endStuckReaders gives every write of a response a deadline. It must come before every middleware that may write.
func endStuckReaders(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		c.Response().Writer = &patientWriter{ResponseWriter: c.Response().Writer,
			connection: http.NewResponseController(c.Response().Writer)}
		return next(c)
	}
}

// patientWriter sets a deadline before every write. The last deadline also applies to what the server sends after the
// handler has returned.
type patientWriter struct {
	http.ResponseWriter
	connection *http.ResponseController
	set        time.Time
}

// Write writes b in pieces, because a slow client can read one piece in time, but perhaps not the whole of a large
// text.
func (w *patientWriter) Write(b []byte) (written int, err error) {
	const piece = 64 << 10
	for {
		w.postpone()
		n, err := w.ResponseWriter.Write(b[written:min(len(b), written+piece)])
		if written += n; err != nil || written == len(b) {
			return written, err
		}
	}
}

func (w *patientWriter) WriteHeader(status int) {
	w.postpone()
	w.ResponseWriter.WriteHeader(status)
}

func (w *patientWriter) FlushError() error {
	w.postpone()
	return w.connection.Flush()
}

func (w *patientWriter) postpone() {
	if now := time.Now(); now.Sub(w.set) >= time.Second {
		w.set = now
		_ = w.connection.SetWriteDeadline(now.Add(stuckAfter)) // not every writer supports deadlines
	}
}

// Unwrap is called by http.ResponseController.
func (w *patientWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// maxRequestID is the maximum length, in bytes, of a request id from a client.
const maxRequestID = 64

// dropOddRequestID removes a client's request id, which would be logged and sent back, unless it is short and consists
// of ASCII letters, digits, "-", "_" and ".".
func dropOddRequestID(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		header := c.Request().Header
		id := header.Get(echo.HeaderXRequestID)
		isOdd := func(r rune) bool {
			return r > 'z' || !strings.ContainsRune("-_.", r) && !unicode.IsLetter(r) && !unicode.IsDigit(r)
		}
		if len(id) > maxRequestID || strings.ContainsFunc(id, isOdd) {
			header.Del(echo.HeaderXRequestID)
		}
		return next(c)
	}
}

// keepPrivate sets headers that keep responses out of caches and other sites' pages and, on a site with HTTPS, keep
// browsers on HTTPS. Compiled-in files with a version in their address set their own headers.
func (s *Server) keepPrivate(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		header := c.Response().Header()
		if request.From(c.Request().Context()).IsSecure {
			strict := "max-age=31536000; includeSubDomains"
			if s.Access.HSTSWithoutSubdomains {
				strict = "max-age=31536000"
			}
			header.Set(echo.HeaderStrictTransportSecurity, strict)
		}
		header.Set("Cross-Origin-Opener-Policy", "same-origin")
		header.Set("Cross-Origin-Resource-Policy", "same-origin")
		header.Set(echo.HeaderCacheControl, "no-store")
		return next(c)
	}
}

// measureRequests counts requests by route. Values that a client may invent (unknown paths, methods and hosts) share
// one label, because every label stays in memory. Streams of events last as long as their clients want, so only the
// number of open ones is measured.
func measureRequests(registry *prometheus.Registry) echo.MiddlewareFunc {
	streams := prometheus.NewGauge(prometheus.GaugeOpts{Name: "wending_streams",
		Help: "Open streams of events, which the metrics of requests leave out."})
	registry.MustRegister(streams)
	measured := requestMetrics(registry)
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		measure := measured(next)
		return func(c echo.Context) error {
			switch c.Path() {
			case paths.APITasks + "/:task_id/progress", paths.APITasks + "/:task_id/units/:unit_id/events":
			default:
				return measure(c)
			}
			streams.Inc()
			defer streams.Dec()
			return next(c)
		}
	}
}

func requestMetrics(registry *prometheus.Registry) echo.MiddlewareFunc {
	return echoprometheus.NewMiddlewareWithConfig(echoprometheus.MiddlewareConfig{
		Subsystem: "wending", Registerer: registry,
		Skipper: func(c echo.Context) bool { return strings.HasPrefix(c.Path(), static.Prefix) },
		LabelFuncs: map[string]echoprometheus.LabelValueFunc{
			"host":   func(echo.Context, error) string { return "" },
			"method": func(c echo.Context, _ error) string { return knownMethod(c.Request()) },
		},
	})
}

// knownMethod returns the method of a request for metrics and traces, or "other" if it is none of the usual ones:
// clients can invent methods.
func knownMethod(r *http.Request) string {
	method := methodOf(r)
	if method == http.MethodHead || method == http.MethodOptions || slices.Contains(methods, method) {
		return method
	}
	return "other"
}

// refuseOtherSites refuses requests from another site's page that change something or cost work. It also refuses any
// request to a host name that is not one of this site's, if the site's names are known or nobody signs in: if someone
// else's name resolved to our address, another site's page would look like one of ours.
func (s *Server) refuseOtherSites(next echo.HandlerFunc) echo.HandlerFunc {
	protection := http.NewCrossOriginProtection()
	return func(c echo.Context) error {
		r := c.Request()
		if err := protection.Check(r); err != nil {
			return request.NewFault(request.CodeForbidden).WithCause(err)
		}
		if origin := r.Header.Get(echo.HeaderOrigin); request.IsAPI(r) && origin != "" && !isSameOrigin(origin, r.Host) {
			return request.NewFault(request.CodeForbidden).
				WithCause(errors.New("the request comes from a page of another site: " + origin))
		}
		host, _, err := net.SplitHostPort(r.Host)
		if err != nil {
			host = r.Host
		}
		local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
		address, isTCP := local.(*net.TCPAddr)
		isChecked := len(s.Hosts) > 0 || !s.Access.HasAccounts || (isTCP && address.IP.IsLoopback())
		if isChecked && !isLocalName(host) && !slices.Contains(s.Hosts, strings.ToLower(host)) {
			return request.NewFault(request.CodeForbidden).
				WithCause(errors.New("not a host name of this site (ALLOWED_HOSTS): " + host))
		}
		return next(c)
	}
}

// isSameOrigin reports whether a page's origin has the requested host. The scheme is ignored, because a proxy in
// front may use HTTPS.
func isSameOrigin(origin, host string) bool {
	u, err := url.Parse(origin)
	return err == nil && strings.EqualFold(u.Host, host)
}

func isLocalName(host string) bool {
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return ip != nil || host == "localhost" || strings.HasSuffix(host, ".localhost")
}

// refuseRetired refuses requests once the process is retired, because their statements may not fit the tables of a
// newer version. Probes and metrics, which tell operators about the process, and static files, which are compiled in,
// remain available.
func (s *Server) refuseRetired(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		select {
		case <-s.Retired:
		default:
			return next(c)
		}
		switch path := c.Path(); {
		case strings.HasPrefix(path, static.Prefix),
			slices.Contains([]string{paths.Live, paths.Ready, paths.Health, paths.Metrics}, path):
			return next(c)
		}
		return request.ErrRetired
	}
}
