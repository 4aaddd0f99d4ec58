package guard

import (
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheGuardDecidesByAddress(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		allowlist string
		loopback  bool
		url       string
		isAllowed bool
	}{
		{"", false, "https://8.8.8.8/", true},
		{"", false, "http://agent.example/", true}, // decided by its address when it is called
		{"", false, "http://127.0.0.1:9000/", false},
		{"", true, "http://127.0.0.1:9000/", true},
		{"", true, "http://localhost:9000/", true},
		{"", false, "http://localhost:9000/", false},
		{"", true, "http://[::1]:9000/", true},
		{"", true, "http://10.0.0.1/", false},
		{"", true, "http://192.168.1.1/", false},
		{"", true, "http://169.254.169.254/", false},
		{"", true, "http://168.63.129.16/", false},
		{"", true, "http://100.100.100.200/", false},
		{"", true, "http://[fe80::1]/", false},
		{"", true, "http://[fd00:ec2::254]/", false},
		{"", true, "http://[::ffff:169.254.169.254]/", false},
		{"", true, "http://0.0.0.0:9000/", false},
		{"", true, "http://127.0.0.1:8080/", false}, // one of our own servers
		{"127.0.0.0/8", false, "http://127.0.0.1:8080/", false},
		{"127.0.0.0/8", false, "http://127.0.0.2:8080/", false}, // also leads to our own server
		{"127.0.0.0/8, ::1", false, "http://[::1]:8080/", false},
		{"127.0.0.0/8", false, "http://127.0.0.2:9000/", true},
		{"", false, "http://[64:ff9b::a9fe:a9fe]/", false}, // 169.254.169.254 in IPv6
		{"64:ff9b::/32", false, "http://[64:ff9b::a9fe:a9fe]/", false},
		{"64:ff9b::/32", false, "http://[64:ff9b:1::a9fe:a9fe]/", false},
		{"64:ff9b::/32", false, "http://[64:ff9b:1:a9fe:a9:fe00::]/", false},
		{"64:ff9b::/32", false, "http://[64:ff9b::808:808]/", true},
		{"::/0", false, "http://[::a9fe:a9fe]/", false},
		{"::/0", false, "http://[2002:a9fe:a9fe::]/", false},
		{"::/0", false, "http://[2001:0:a9fe:a9fe::1]/", false},
		{"::/0", false, "http://[2001:0:808:808::5601:5601]/", false},
		{"::/0", false, "http://[2001:db8::0:5efe:a9fe:a9fe]/", false},
		{"::/0", false, "http://[2002:7f00:1::]:8080/", false},
		{"", false, "http://[64:ff9b::a00:1]/", false},
		{"169.254.0.0/16", false, "http://169.254.169.254/", false},
		{"10.0.0.0/8", false, "http://10.1.2.3/", true},
		{"10.0.0.0/8", false, "http://8.8.8.8/", false},
		{"10.1.2.3:8000", false, "http://10.1.2.3:8000/", true},
		{"10.1.2.3:8000", false, "http://10.1.2.3/", false},
		{"*.corp.example, api.example:8443", false, "https://llm.corp.example/", true},
		{"*.corp.example, api.example:8443", false, "https://corp.example/", false},
		{"*.corp.example, api.example:8443", false, "https://api.example:8443/", true},
		{"*.corp.example, api.example:8443", false, "https://api.example/", false},
		{"api.example", true, "http://127.0.0.1:9000/", false},
	} {
		guard, err := New(Config{Allowlist: test.allowlist, AllowLoopback: test.loopback, Own: []string{"0.0.0.0:8080"}})
		require.NoError(t, err)
		u, err := url.Parse(test.url)
		require.NoError(t, err)
		require.Equal(t, test.isAllowed, guard.CheckURL(u) == nil, "%+v", test)
	}
	for _, bad := range []string{"http://x", "a b", "*.", "10.0.0.0/99", "x:99999"} {
		_, err := New(Config{Allowlist: bad})
		require.Error(t, err, bad)
	}
}

// Own servers are recognised by each of their addresses, and a URL without a port has the default port of its
// scheme.
func TestTheGuardKnowsPortsAndOwnAddresses(t *testing.T) {
	t.Parallel()
	guard, err := New(Config{Allowlist: "agent.example:443,127.0.0.0/8",
		Own: []string{":7001", "localhost:7002", "0.0.0.0:7003"}})
	require.NoError(t, err)
	for address, isAllowed := range map[string]bool{
		"https://agent.example/": true, "http://agent.example/": true, // decided by its address
		"http://127.0.0.1:7001/": false, "http://127.0.0.9:7001/": false, "http://127.0.0.1:7002/": false,
		"http://127.0.0.2:7003/": false,
		"http://127.0.0.1:7004/": true,
	} {
		u, err := url.Parse(address)
		require.NoError(t, err)
		require.Equal(t, isAllowed, guard.CheckURL(u) == nil, address)
		require.Equal(t, strings.HasPrefix(address, "https") || strings.Contains(address, "127.0.0"), guard.Names(u), address)
	}
	require.Contains(t, guard.local, netip.MustParseAddr("127.0.0.1"), "this machine's own addresses are known")
	for _, bad := range []string{"nowhere", "host:port", "host:70000"} {
		_, err := New(Config{Own: []string{bad}})
		require.Error(t, err, bad)
	}
}
