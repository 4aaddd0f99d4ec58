package guard

import (
	"context"
	"crypto/subtle"
	"net/http"
	"net/netip"
	"net/url"
)

// TicketHeader is the header in which the tasks of the demo carry its ticket. Headers are never shown, and a copy of a
// task keeps them only if it calls the same origin. So only the demo's tasks and their copies reach the demo agent;
// typing its address into another task is not enough.
const TicketHeader = "Wending-Demo"

// Ticket returns the headers that carry a ticket; nil if the ticket is empty.
func Ticket(ticket string) map[string]string {
	if ticket == "" {
		return nil
	}
	return map[string]string{TicketHeader: ticket}
}

// ticketKey marks the context of a request that carries the demo's ticket.
type ticketKey struct{}

func isOfDemo(ctx context.Context) bool { return ctx.Value(ticketKey{}) != nil }

// isDemo reports whether a URL contains the demo agent's own address; the ticket is not valid for a name that resolves
// to that address.
func (g *Guard) isDemo(u *url.URL) bool {
	host, port := hostPort(u)
	ip, err := netip.ParseAddr(host)
	return err == nil && g.demo.IsValid() && netip.AddrPortFrom(ip, port) == g.demo
}

func (g *Guard) isTicket(ticket string) bool {
	return g.ticket != "" && subtle.ConstantTimeCompare([]byte(ticket), []byte(g.ticket)) == 1
}

// CheckRequest is like CheckURL, but allows a request to the demo agent if its headers carry the demo's ticket.
func (g *Guard) CheckRequest(u *url.URL, headers map[string]string) error {
	if g.isDemo(u) && g.isTicket(headers[TicketHeader]) {
		return nil
	}
	return g.CheckURL(u)
}

// doorkeeper is a transport that checks the tickets of requests to the demo agent. A connection is reused for other
// requests, so every request to that address is checked, not only the one that opens the connection.
type doorkeeper struct {
	*http.Transport
	guard *Guard
}

func (d doorkeeper) RoundTrip(request *http.Request) (*http.Response, error) {
	if d.guard.isDemo(request.URL) {
		if d.guard.isTicket(request.Header.Get(TicketHeader)) {
			request = request.WithContext(context.WithValue(request.Context(), ticketKey{}, true))
		} else if err := d.guard.CheckURL(request.URL); err != nil {
			if request.Body != nil {
				_ = request.Body.Close()
			}
			return nil, err
		}
	}
	return d.Transport.RoundTrip(request)
}
