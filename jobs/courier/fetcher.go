package courier

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"wending/jobs/agent/guard"
	"wending/jobs/reason"
	"wending/jobs/tasks"
)

// Fetcher downloads files through its own Guard. It is safe for concurrent use.
type Fetcher struct{ http *http.Client }

// maxRedirects is how many redirects Fetch follows, each through the guard. Fetch decides which headers to pass on.
const maxRedirects = 3

// NewFetcher returns a client that only connects to addresses permitted by allowed.
func NewFetcher(allowed *guard.Guard) *Fetcher {
	return &Fetcher{allowed.Client(4, func(transport *http.Transport) {
		transport.ResponseHeaderTimeout = time.Minute
		// Files are stored in the form in which they are sent, and a small response cannot unpack to a huge file.
		transport.DisableCompression = true
	})}
}

// Close drops idle connections; a nil Fetcher has none.
func (c *Fetcher) Close() {
	if c != nil {
		c.http.CloseIdleConnections()
	}
}

// fetchError is a failure after which another attempt may succeed, with a message that users may see.
type fetchError struct {
	why   string
	cause error
}

func (e *fetchError) Error() string { return e.why }
func (e *fetchError) Unwrap() error { return e.cause }

// idleFor is how long a download may stall.
const idleFor = 30 * time.Second

// lively is a writer that extends a deadline with every write.
type lively struct {
	io.Writer
	alarm *time.Timer
}

func (l lively) Write(p []byte) (int, error) {
	l.alarm.Reset(idleFor)
	return l.Writer.Write(p)
}

var errTooLarge = errors.New("too large")

// Fetch downloads the file at the given address, at most limit bytes. headers are sent only to origin.
func (c *Fetcher) Fetch(ctx context.Context, address, origin string, headers map[string]string, limit int64,
	to io.Writer) (size int64, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	idle := time.AfterFunc(idleFor+time.Minute, cancel) // the first bytes may take longer
	defer idle.Stop()
	to = lively{to, idle}
	for redirects := 0; ; redirects++ {
		response, err := c.get(ctx, address, origin, headers)
		if err != nil {
			return 0, err
		}
		next, isRedirect := redirectOf(response)
		if !isRedirect {
			defer response.Body.Close() //nolint:errcheck // read to its end or abandoned
			return receive(response, limit, to)
		}
		_ = response.Body.Close()
		if redirects == maxRedirects {
			return 0, final("file.redirects", strconv.Itoa(maxRedirects))
		}
		address = next
	}
}

func (c *Fetcher) get(ctx context.Context, address, origin string, headers map[string]string) (*http.Response, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, final("file.address")
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, final("file.address")
	}
	request.Header.Set("User-Agent", "wending")
	request.Header.Set("Accept-Encoding", "identity")
	if origin != "" && tasks.OriginOf(address) == origin {
		for name, value := range headers {
			request.Header.Set(name, value)
		}
	}
	response, err := c.http.Do(request)
	if refused := (*guard.NotAllowedError)(nil); errors.As(err, &refused) {
		return nil, final("file.refused", refused.Address, refused.Variable)
	}
	if err != nil {
		return nil, &fetchError{reason.Because("file.unreached"), err}
	}
	return response, nil
}

// redirectOf returns the address to which a response redirects.
func redirectOf(response *http.Response) (address string, isRedirect bool) {
	switch response.StatusCode {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect,
		http.StatusPermanentRedirect:
		if next, err := response.Location(); err == nil {
			return next.String(), true
		}
	}
	return "", false
}

// receive writes a response's body, of at most limit bytes, and returns its size in bytes.
func receive(response *http.Response, limit int64, to io.Writer) (size int64, err error) {
	switch status := response.StatusCode; {
	case status == http.StatusOK:
	case status == http.StatusRequestTimeout, status == http.StatusTooManyRequests, status == http.StatusTooEarly,
		status >= 500:
		return 0, &fetchError{reason.Because("file.http", strconv.Itoa(status)), nil}
	default:
		return 0, final("file.http", strconv.Itoa(status))
	}
	if encoding := response.Header.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
		return 0, final("file.compressed", encoding)
	}
	if response.ContentLength > limit {
		return 0, errTooLarge
	}
	size, err = io.Copy(to, io.LimitReader(response.Body, limit+1))
	if size > limit {
		return size, errTooLarge
	}
	if err != nil {
		return size, &fetchError{reason.Because("file.cut"), err}
	}
	return size, nil
}
