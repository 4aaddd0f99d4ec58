package guard

import (
	"net/http"
	"time"
)

// Client returns an HTTP client that connects only to addresses that the guard allows. It keeps up to
// idlePerHost idle connections to each host and returns redirects instead of following them: a redirect could
// carry a request's headers to another host. Each function in adjust may change the client's transport before
// its first use.
func (g *Guard) Client(idlePerHost int, adjust ...func(*http.Transport)) *http.Client {
	transport := &http.Transport{
		Proxy:                  nil, // a proxy would resolve names and connect without the guard
		DialContext:            g.Dial,
		ForceAttemptHTTP2:      true,
		MaxIdleConnsPerHost:    idlePerHost,
		IdleConnTimeout:        time.Minute,
		TLSHandshakeTimeout:    10 * time.Second,
		MaxResponseHeaderBytes: 64 << 10,
	}
	for _, change := range adjust {
		change(transport)
	}
	return &http.Client{
		Transport:     doorkeeper{transport, g},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}
