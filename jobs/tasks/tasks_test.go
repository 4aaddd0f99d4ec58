package tasks_test

import (
	"bytes"
	"errors"
	"log/slog"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"wending/jobs/blob"
	"wending/jobs/tasks"
)

// All spellings of an agent's address share one rate limit.
func TestSpellingsOfAnAddressHaveOneOrigin(t *testing.T) {
	t.Parallel()
	for origin, spellings := range map[string][]string{
		"http://127.0.0.1:19501": {"http://127.0.0.1:19501/a", "http://127.0.0.1:019501/b?c", "HTTP://127.0.0.1:0019501",
			"http://[::ffff:127.0.0.1]:19501", "http://[::ffff:7f00:1]:19501"},
		"http://agent.example:80": {"http://agent.example/", "http://AGENT.Example", "http://agent.example.:80/",
			"http://agent.example:080/x"},
		"https://agent.example:443":   {"https://agent.example", "https://Agent.example.:443"},
		"http://[2001:db8::1]:8000":   {"http://[2001:db8::1]:8000/", "http://[2001:DB8:0:0::1]:8000/"},
		"http://agent.example:19501":  {"http://agent.example:19501"},
		"https://agent.example:19501": {"https://agent.example:19501"},
	} {
		for _, spelling := range spellings {
			u, err := url.Parse(spelling)
			require.NoError(t, err)
			require.Equal(t, origin, tasks.Origin(u), spelling)
		}
	}
}

// Hosts of different servers have different origins, even if they look alike.
func TestNamesThatLookAlikeHaveTheirOwnOrigins(t *testing.T) {
	t.Parallel()
	of := func(address string) string {
		u, err := url.Parse(address)
		require.NoError(t, err)
		return tasks.Origin(u)
	}
	require.NotEqual(t, of("https://dify.ai"), of("https://d\u0130fy.ai"), "a dotted capital I is not an i")
	require.Equal(t, of("https://\u5317\u4eac.cn"), of("https://xn--1lq90i.cn"))
}

// No task exceeds the site's limit.
func TestTheCeilingHoldsForTasksAboveIt(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		ceiling, rate string
		interval      time.Duration
		isCeiling     bool
	}{
		{"unlimited", "unlimited", 0, false},
		{"unlimited", "10/s", 100 * time.Millisecond, false},
		{"5/s", "unlimited", 200 * time.Millisecond, true},
		{"5/s", "10/s", 200 * time.Millisecond, true},
		{"5/s", "5/s", 200 * time.Millisecond, false},
		{"5/s", "1/s", time.Second, false},
		{"30/m", "1/s", 2 * time.Second, true},
	} {
		interval, isCeiling, err := (&tasks.Service{RateCeiling: test.ceiling}).CallInterval(test.rate)
		require.NoError(t, err)
		require.Equal(t, test.interval, interval, "%+v", test)
		require.Equal(t, test.isCeiling, isCeiling, "%+v", test)
	}
	_, _, err := (&tasks.Service{RateCeiling: "unlimited"}).CallInterval("fast")
	require.Error(t, err)
}

// New work is refused on a full disk, but not on one that cannot be measured, which is logged.
func TestADiskThatIsNotMeasuredRefusesNothing(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	service := &tasks.Service{Log: slog.New(slog.NewTextHandler(&log, nil))}
	require.NoError(t, service.HasRoom())
	service.Space = func() (blob.Space, error) { return blob.Space{}, errors.New("input/output error") }
	require.NoError(t, service.HasRoom())
	require.Contains(t, log.String(), "input/output error")
	service.Space = func() (blob.Space, error) { return blob.Space{Free: 1, Total: 100}, nil }
	full := (*tasks.DiskFullError)(nil)
	require.ErrorAs(t, service.HasRoom(), &full)
}
