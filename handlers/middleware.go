package handlers

import (
	"errors"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"wending/db"
	"wending/handlers/fault"
	"wending/handlers/request"
)

func isAPI(r *http.Request) bool { return strings.HasPrefix(r.URL.Path+"/", "/api/") }

// identify puts the request's language, actor and id into its context.
func (s *Server) identify(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		r := c.Request()
		actor := db.Actor{Address: c.RealIP(), Via: "page"}
		if isAPI(r) {
			actor.Via = "api"
		}
		lang, theme := request.Choices(r, s.DefaultLang)
		info := request.Info{Locale: s.catalogue.Locale(lang, theme), Actor: actor, ID: c.Response().Header().Get(echo.HeaderXRequestID)}
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
			level = slog.LevelDebug // polling would drown the rest
		}
		attributes := []any{
			"method", r.Method, "path", r.URL.Path, "status", response.Status, "bytes", response.Size,
			"duration_ms", time.Since(start).Milliseconds(), "request_id", request.From(r.Context()).ID,
		}
		if id := c.Param("taskId") + c.Param("task_id"); id != "" {
			attributes = append(attributes, "task_id", id)
		}
		s.Log.Log(r.Context(), level, "request", attributes...)
		return nil
	}
}

// refuseOtherSites refuses requests that change something and come from another site's page, and any request to a
// name that this site is not known by: a foreign name that resolves to our address would make another site's page
// look like our own.
func (s *Server) refuseOtherSites(next echo.HandlerFunc) echo.HandlerFunc {
	protection := http.NewCrossOriginProtection()
	return func(c echo.Context) error {
		r := c.Request()
		if err := protection.Check(r); err != nil {
			return fault.New("FORBIDDEN").WithCause(err)
		}
		host, _, err := net.SplitHostPort(r.Host)
		if err != nil {
			host = r.Host
		}
		local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
		address, isTCP := local.(*net.TCPAddr)
		isChecked := len(s.Hosts) > 0 || (isTCP && address.IP.IsLoopback())
		if isChecked && !isLocalName(host) && !slices.Contains(s.Hosts, strings.ToLower(host)) {
			return fault.New("FORBIDDEN").WithCause(errors.New("not a name of this site (ALLOWED_HOSTS): " + host))
		}
		return next(c)
	}
}

func isLocalName(host string) bool {
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return ip != nil || host == "localhost" || strings.HasSuffix(host, ".localhost")
}
