package wire

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestATextIsCutBetweenCharacters(t *testing.T) {
	t.Parallel()
	for _, one := range []struct {
		text  string
		limit int
		want  string
	}{
		{"abc", 3, "abc"}, {"abc", 2, "ab"}, {"abc", 0, ""}, {"abc", -1, ""}, {"", 0, ""},
		{"中文", 5, "中"}, {"中文", 3, "中"}, {"中文", 2, ""}, {"a😀", 4, "a"},
		{"\x80\x80\x80\x80\x80\x80", 5, "\x80\x80\x80\x80\x80"},
	} {
		require.Equal(t, one.want, Cut(one.text, one.limit), "%q %d", one.text, one.limit)
		require.Equal(t, one.want, string(Cut([]byte(one.text), one.limit)), "%q %d", one.text, one.limit)
	}
}
