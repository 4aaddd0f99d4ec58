// Package guard decides which addresses may be called: an allowlist can restrict them. The machine's own services
// are never allowed, and addresses of an internal network only if the allowlist names them.
package guard

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"code.dny.dev/ssrf"
	"golang.org/x/net/idna"
)

// Guard decides which addresses may be called. It checks the address to which a connection is actually made, after
// name resolution, so that the name cannot be repointed in between.
type Guard struct {
	variable      string
	rules         []rule // empty means no allowlist
	allowLoopback bool
	public        *ssrf.Guardian
	// own are the addresses of this program's own servers. ownPorts are the ports of those on this machine, which are
	// refused at all of the machine's addresses.
	own      []netip.AddrPort
	ownPorts []uint16
	// local are the addresses of this machine.
	local []netip.Addr
	// demo is the demo agent's address, to which requests with its ticket may be sent; an invalid address means
	// that there is none.
	demo   netip.AddrPort
	ticket string
}

// Config states which addresses a Guard allows.
type Config struct {
	// Variable is the name of the setting that holds the allowlist; errors mention it.
	Variable string
	// Allowlist is a comma-separated list of host, host:port, *.domain, IP or CIDR. If it is empty, all public
	// addresses are allowed.
	Allowlist string
	// AllowLoopback allows loopback addresses if there is no allowlist.
	AllowLoopback bool
	// Own are the host:port addresses of this program's own servers, which are never called. An empty or
	// unspecified host means every address of this machine.
	Own []string
	// Demo is the IP:port address of the demo agent, and Ticket the value of TicketHeader in the requests of its
	// tasks: such requests are always allowed. An empty Demo means that there is no demo agent.
	Demo, Ticket string
}

// rule is one entry of the allowlist.
type rule struct {
	host   string // an exact name in lower case
	suffix string // ".domain" of *.domain
	prefix netip.Prefix
	port   uint16 // 0 means any
}

// NotAllowedError names the address that the guard refused, in its original form: the address to which it resolves
// may be internal and must not be disclosed.
type NotAllowedError struct {
	Address string
	// Variable is the name of the setting that would have to list the address.
	Variable string
}

func (e *NotAllowedError) Error() string {
	return fmt.Sprintf("The address %s is not allowed; see %s", e.Address, e.Variable)
}

// neverCalled are addresses of cloud metadata and platform services outside the link-local range.
var neverCalled = []netip.Prefix{
	netip.MustParsePrefix("168.63.129.16/32"),
	netip.MustParsePrefix("100.100.100.200/32"),
	netip.MustParsePrefix("fd00:ec2::/32"),
	netip.MustParsePrefix("fd20:ce::254/128"),
}

// New parses the allowlist and resolves the addresses in Own; the error names the entry that cannot be parsed or
// resolved.
func New(config Config) (*Guard, error) {
	guard := &Guard{variable: config.Variable, allowLoopback: config.AllowLoopback, public: ssrf.New(ssrf.WithAnyPort())}
	for entry := range strings.SplitSeq(config.Allowlist, ",") {
		entry = strings.ToLower(strings.TrimSpace(entry))
		if entry == "" {
			continue
		}
		r, err := parseRule(entry)
		if err != nil {
			return nil, fmt.Errorf("%s: %q is not a host, host:port, *.domain, IP or CIDR", config.Variable, entry)
		}
		guard.rules = append(guard.rules, r)
	}
	var err error
	if guard.local, err = localAddresses(); err != nil {
		return nil, err
	}
	for _, address := range config.Own {
		own, err := resolveOwn(address)
		if err != nil {
			return nil, err
		}
		for _, one := range own {
			if guard.isLocal(one.Addr()) {
				guard.ownPorts = append(guard.ownPorts, one.Port())
			}
		}
		guard.own = append(guard.own, own...)
	}
	if config.Demo != "" {
		if guard.demo, err = netip.ParseAddrPort(config.Demo); err != nil {
			return nil, err
		}
		guard.ticket = config.Ticket
	}
	return guard, nil
}

func parseRule(entry string) (rule, error) {
	if prefix, err := netip.ParsePrefix(entry); err == nil {
		return rule{prefix: prefix.Masked()}, nil
	}
	if ip, err := netip.ParseAddr(strings.Trim(entry, "[]")); err == nil {
		return rule{prefix: netip.PrefixFrom(ip.Unmap(), ip.Unmap().BitLen())}, nil
	}
	var r rule
	if host, port, err := net.SplitHostPort(entry); err == nil {
		number, err := strconv.ParseUint(port, 10, 16)
		if err != nil || number == 0 {
			return r, errors.New("no port")
		}
		r.port, entry = uint16(number), host
		if ip, err := netip.ParseAddr(host); err == nil {
			r.prefix = netip.PrefixFrom(ip.Unmap(), ip.Unmap().BitLen())
			return r, nil
		}
	}
	if domain, isWildcard := strings.CutPrefix(entry, "*."); isWildcard {
		r.suffix, entry = "."+domain, domain
	} else {
		r.host = entry
	}
	if entry == "" || strings.ContainsAny(entry, "/:*@ ") {
		return r, errors.New("no host")
	}
	return r, nil
}

// Host returns the form of a URL's host that is used for connecting: in lower case, without a trailing dot, and with
// other scripts in IDNA encoding. Two hosts are the same if their forms are equal; folding case alone would equate
// names that differ.
func Host(host string) string {
	if ascii, err := idna.Lookup.ToASCII(host); err == nil {
		host = ascii
	}
	return strings.TrimSuffix(strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, host), ".")
}

func (r rule) allowsHost(host string, port uint16) bool {
	if r.port != 0 && r.port != port {
		return false
	}
	host = Host(host)
	return (r.host != "" && r.host == host) || (r.suffix != "" && strings.HasSuffix(host, r.suffix))
}

func (r rule) allowsAddress(address netip.AddrPort) bool {
	return (r.port == 0 || r.port == address.Port()) && r.prefix.IsValid() && r.prefix.Contains(address.Addr())
}

// resolveOwn returns the addresses at which a server that listens on address can be reached.
func resolveOwn(address string) ([]netip.AddrPort, error) {
	host, portText, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("%q is not a host:port", address)
	}
	number, err := strconv.ParseUint(portText, 10, 16)
	if err != nil {
		return nil, fmt.Errorf("%q is not a host:port", address)
	}
	port := uint16(number)
	if host == "" {
		return []netip.AddrPort{netip.AddrPortFrom(netip.IPv4Unspecified(), port)}, nil
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		ips, _ := net.DefaultResolver.LookupNetIP(ctx, "ip", host) // a name without an address needs no guarding
		var own []netip.AddrPort
		for _, ip := range ips {
			own = append(own, netip.AddrPortFrom(ip.Unmap(), port))
		}
		return own, nil
	}
	return []netip.AddrPort{netip.AddrPortFrom(ip.Unmap(), port)}, nil
}

func localAddresses() (addresses []netip.Addr, err error) {
	interfaces, err := net.InterfaceAddrs()
	if err != nil {
		return nil, fmt.Errorf("list this machine's addresses: %w", err)
	}
	for _, one := range interfaces {
		if prefix, err := netip.ParsePrefix(one.String()); err == nil {
			addresses = append(addresses, prefix.Addr().Unmap())
		}
	}
	return addresses, nil
}

func (g *Guard) isLocal(ip netip.Addr) bool {
	return ip.IsLoopback() || ip.IsUnspecified() || slices.Contains(g.local, ip)
}

// isOwn reports whether one of this program's servers may be at the address.
func (g *Guard) isOwn(address netip.AddrPort) bool {
	return slices.Contains(g.own, address) || slices.Contains(g.ownPorts, address.Port()) && g.isLocal(address.Addr())
}

// Names reports whether the allowlist names the URL's host: only such agents receive the API key.
func (g *Guard) Names(u *url.URL) bool {
	host, port := hostPort(u)
	ip, err := netip.ParseAddr(host)
	return slices.ContainsFunc(g.rules, func(r rule) bool {
		return r.allowsHost(host, port) || (err == nil && r.allowsAddress(netip.AddrPortFrom(ip.Unmap(), port)))
	})
}

// CheckURL refuses a URL if its host is known to be forbidden before it is resolved. The address to which a name
// resolves is checked when a connection is made.
func (g *Guard) CheckURL(u *url.URL) error {
	host, port := hostPort(u)
	if strings.EqualFold(host, "localhost") {
		host = "127.0.0.1"
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		if g.allows(context.Background(), netip.AddrPortFrom(ip.Unmap(), port), g.Names(u)) {
			return nil
		}
		return &NotAllowedError{u.Host, g.variable}
	}
	if len(g.rules) == 0 || g.Names(u) || slices.ContainsFunc(g.rules, func(r rule) bool { return r.prefix.IsValid() }) {
		return nil // decided by the name's address when connecting
	}
	return &NotAllowedError{u.Host, g.variable}
}

func hostPort(u *url.URL) (host string, port uint16) {
	port = 80
	if u.Scheme == "https" {
		port = 443
	}
	if number, err := strconv.ParseUint(u.Port(), 10, 16); err == nil {
		port = uint16(number)
	}
	return u.Hostname(), port
}

// Dial connects to an address if the guard allows it.
func (g *Guard) Dial(ctx context.Context, network, address string) (net.Conn, error) {
	host, portText, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	port, err := strconv.ParseUint(portText, 10, 16)
	if err != nil {
		return nil, err
	}
	isNamed := slices.ContainsFunc(g.rules, func(r rule) bool { return r.allowsHost(host, uint16(port)) })
	dialer := net.Dialer{
		Timeout:   30 * time.Second,
		KeepAlive: 15 * time.Second,
		Control: func(_, resolved string, _ syscall.RawConn) error {
			target, err := netip.ParseAddrPort(resolved)
			if err != nil || !g.allows(ctx, netip.AddrPortFrom(target.Addr().Unmap().WithZone(""), target.Port()), isNamed) {
				return &NotAllowedError{address, g.variable}
			}
			return nil
		},
	}
	return dialer.DialContext(ctx, network, address)
}

// allows reports whether an address may be called. isNamed means that the allowlist names the host that resolved to the
// address; ctx is the context of the request, which may carry the demo's ticket.
func (g *Guard) allows(ctx context.Context, target netip.AddrPort, isNamed bool) bool {
	if g.demo.IsValid() && target == g.demo && isOfDemo(ctx) {
		return true
	}
	addresses := append(embeddedIPv4(target.Addr()), target.Addr())
	for _, ip := range addresses {
		if g.isOwn(netip.AddrPortFrom(ip, target.Port())) || ip.IsUnspecified() || ip.IsMulticast() ||
			ip.IsLinkLocalUnicast() || slices.ContainsFunc(neverCalled, func(p netip.Prefix) bool { return p.Contains(ip) }) {
			return false
		}
	}
	if len(g.rules) > 0 {
		return isNamed || slices.ContainsFunc(g.rules, func(r rule) bool { return r.allowsAddress(target) })
	}
	for _, ip := range addresses {
		if g.allowLoopback && ip.IsLoopback() {
			continue
		}
		network := "tcp4"
		if ip.Is6() {
			network = "tcp6"
		}
		if g.public.Safe(network, netip.AddrPortFrom(ip, target.Port()).String(), nil) != nil {
			return false
		}
	}
	return true
}

var (
	compatibleIPv4 = netip.MustParsePrefix("::/96")                     // RFC 4291 2.5.5.1
	nat64          = netip.MustParsePrefix("64:ff9b::/96")              // RFC 6052
	localNAT64     = netip.MustParsePrefix("64:ff9b:1::/48")            // RFC 8215
	sixToFour      = netip.MustParsePrefix("2002::/16")                 // RFC 3056
	teredo         = netip.MustParsePrefix("2001::/32")                 // RFC 4380
	isatap         = [2][4]byte{{0, 0, 0x5E, 0xFE}, {2, 0, 0x5E, 0xFE}} // RFC 5214 6.1
)

// embeddedIPv4 returns the IPv4 addresses that a gateway may translate an IPv6 address to. IPv4-mapped addresses
// (::ffff:0:0/96) need not be handled here: they were unmapped before.
func embeddedIPv4(ip netip.Addr) (embedded []netip.Addr) {
	if !ip.Is6() {
		return nil
	}
	b := ip.As16()
	add := func(places ...int) {
		embedded = append(embedded, netip.AddrFrom4([4]byte{b[places[0]], b[places[1]], b[places[2]], b[places[3]]}))
	}
	switch {
	case compatibleIPv4.Contains(ip) && !ip.IsLoopback() && !ip.IsUnspecified(), nat64.Contains(ip):
		add(12, 13, 14, 15)
	case localNAT64.Contains(ip): // only the network itself knows the length of its prefix (RFC 6052 2.2)
		add(6, 7, 9, 10)
		add(7, 9, 10, 11)
		add(9, 10, 11, 12)
		add(12, 13, 14, 15)
	case sixToFour.Contains(ip):
		add(2, 3, 4, 5)
	case teredo.Contains(ip):
		add(4, 5, 6, 7)
		for n := 12; n < 16; n++ {
			b[n] = ^b[n]
		}
		add(12, 13, 14, 15)
	case slices.Contains(isatap[:], [4]byte(b[8:12])):
		add(12, 13, 14, 15)
	}
	return embedded
}
