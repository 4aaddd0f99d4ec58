package wire

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// ignoring accepts everything and keeps nothing.
type ignoring struct{}

func (ignoring) Open(string)             {}
func (ignoring) Take(Event) bool         { return true }
func (ignoring) TakeText(string, []byte) {}

type endless struct {
	text string
	read int
}

func (e *endless) Read(p []byte) (int, error) {
	for n := range p {
		p[n] = e.text[n%len(e.text)]
	}
	n := len(p) / len(e.text) * len(e.text)
	e.read += n
	return n, nil
}

// An endless stream of pings, spaces and unknown events does not increase memory, and reading stops at MaxRead.
func TestAnEndlessStreamIsLeft(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"pings": ": ping\n\ndata: {\"event\":\"ping\"}\n\n", "blanks": "      \n",
	} {
		var stream Stream
		source := &endless{text: text}
		require.NoError(t, stream.Read(source, ignoring{}), name)
		require.True(t, stream.TooLarge, name)
		require.Less(t, cap(stream.w.buf), 1<<20, name)
		require.Less(t, source.read, MaxRead+1<<20, name)
	}
}

func TestATextIsOneValueOrNone(t *testing.T) {
	t.Parallel()
	v, ok := Parse([]byte(" {\"a\":[1,\"x\\u4e2d\"]}\n"))
	require.True(t, ok)
	list, _ := v.Get("a")
	require.Equal(t, "x中", string(list.Items[1].Text))
	for _, text := range []string{"", "{", "{} {}", "plain"} {
		_, ok := Parse([]byte(text))
		require.False(t, ok, text)
	}
}
