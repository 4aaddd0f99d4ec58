package handlers

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/labstack/echo/v4"

	"wending/handlers/request"
)

// ServeHTTP implements http.Handler. HEAD is answered like GET, with the same headers, rights and errors. net/http
// discards the body, and the handler stops as soon as the headers are known.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodHead {
		s.Handler.ServeHTTP(w, r)
		return
	}
	ctx, cancel := context.WithCancelCause(context.WithValue(r.Context(), headKey{}, true))
	defer cancel(nil)
	get := r.WithContext(ctx)
	get.Method = http.MethodGet
	head := &headWriter{ResponseWriter: w, end: cancel}
	defer func() {
		//nolint:errorlint // net/http compares it in the same way
		if reason := recover(); reason != nil && (reason != http.ErrAbortHandler || !head.isSent) {
			panic(reason)
		}
	}()
	s.Handler.ServeHTTP(head, get)
}

// headKey marks the context of a request whose method is HEAD.
type headKey struct{}

// methodOf returns the method that the client sent.
func methodOf(r *http.Request) string {
	if isHead, _ := r.Context().Value(headKey{}).(bool); isHead {
		return http.MethodHead
	}
	return r.Method
}

// settledAfter is the number of bytes of a body that net/http buffers to determine Content-Length. Once more has been
// written, the headers no longer change.
const settledAfter = 2048

// errHeadSent stops a handler that writes the body of a response to a HEAD request, once the headers are final.
var errHeadSent = errors.New("the headers have been sent, and HEAD has no body")

// headWriter accepts only as much of a body as net/http needs to determine the headers.
type headWriter struct {
	http.ResponseWriter
	end     context.CancelCauseFunc
	written int
	isSent  bool
}

func (w *headWriter) Write(b []byte) (int, error) {
	if w.isSent {
		return 0, errHeadSent
	}
	n, err := w.ResponseWriter.Write(b)
	if w.written += n; err == nil && w.written > settledAfter {
		err = w.FlushError()
	}
	return n, err
}

// FlushError is called by http.ResponseController. A response that is flushed is a stream, whose headers are final.
func (w *headWriter) FlushError() error {
	if w.isSent {
		return errHeadSent
	}
	w.isSent = true
	err := http.NewResponseController(w.ResponseWriter).Flush()
	w.end(errHeadSent)
	return err
}

// Unwrap is called by http.ResponseController.
func (w *headWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// methods lists all methods that routes use.
var methods = []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete}

// findMethods sets the context's Allow value for OPTIONS requests and for requests with a method that their path does
// not have. The router does not do that here, because it finds the catch-all routes of groups with middleware instead.
func (s *Server) findMethods(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		r := c.Request()
		if s.routes[r.Method+" "+c.Path()] {
			return next(c)
		}
		allowed := []string{http.MethodOptions}
		for _, method := range methods {
			found := c.Echo().NewContext(r, nil)
			c.Echo().Router().Find(method, echo.GetPath(r), found)
			if !s.routes[method+" "+found.Path()] {
				continue
			}
			allowed = append(allowed, method)
			if method == http.MethodGet {
				allowed = append(allowed, http.MethodHead)
			}
			c.SetPath(found.Path())
			c.SetParamNames(found.ParamNames()...)
			c.SetParamValues(found.ParamValues()...)
		}
		if len(allowed) > 1 {
			c.Set(echo.ContextKeyHeaderAllow, strings.Join(allowed, ", "))
		}
		return next(c)
	}
}

// nameMethods answers OPTIONS requests, and requests whose path does not support their method. The Allow header lists
// the path's methods.
func nameMethods(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		allowed, isOther := c.Get(echo.ContextKeyHeaderAllow).(string)
		if !isOther {
			return next(c)
		}
		c.Response().Header().Set(echo.HeaderAllow, allowed)
		if c.Request().Method == http.MethodOptions {
			return c.NoContent(http.StatusNoContent)
		}
		return request.NewFault(request.CodeMethodNotAllowed)
	}
}

// maxHeaderBytes is the maximum size of a request's line and headers. The HTTP server's own limit is larger, because
// the response to a request that exceeds it is neither JSON nor a page.
const maxHeaderBytes = 64 << 10

// refuseLargeHeaders refuses requests whose line and headers exceed maxHeaderBytes.
func refuseLargeHeaders(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		r := c.Request()
		size := len(r.Method) + len(r.RequestURI) + len(r.Proto) + len(r.Host)
		for name, values := range r.Header {
			for _, value := range values {
				size += len(name) + len(": \r\n") + len(value)
			}
		}
		if size > maxHeaderBytes {
			return request.NewFault(request.CodeHeadersTooLarge)
		}
		return next(c)
	}
}
