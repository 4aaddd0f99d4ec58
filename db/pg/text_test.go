package pg_test

import (
	"strings"
	"testing"

	"github.com/lib/pq"
	"github.com/stretchr/testify/require"

	"wending/db/dbtest"
	"wending/db/pg"
)

// PostgreSQL receives an argument of type Texts byte for byte, as it would receive a pq.StringArray.
func TestTextsArriveAsTheyAre(t *testing.T) {
	t.Parallel()
	store, _ := dbtest.Open(t)
	texts := []string{"", "a", `"`, `\`, `\"{},NULL`, "NULL", "长答案\n\t", strings.Repeat(`x"\`, 10_000), " blank ", "☃"}
	var arg pg.Texts
	for _, text := range texts {
		arg = append(arg, []byte(text))
	}
	var got pq.StringArray
	require.NoError(t, store.Pool().GetContext(t.Context(), &got, "SELECT $1::text[]", arg))
	require.Equal(t, texts, []string(got))
	var nulls []bool
	require.NoError(t, store.Pool().SelectContext(t.Context(), &nulls, "SELECT x IS NULL FROM unnest($1::text[]) x",
		pg.Texts{nil, []byte("a"), nil, {}}))
	require.Equal(t, []bool{true, false, true, false}, nulls)
	var none []bool
	require.NoError(t, store.Pool().SelectContext(t.Context(), &none, "SELECT true FROM unnest($1::text[]) x", pg.Texts{}))
	require.Empty(t, none)
}

func TestWhatPostgreSQLRefusesIsReplaced(t *testing.T) {
	t.Parallel()
	for text, stored := range map[string]string{"a": "a", "a\x00b": "a␀b", "\xffa": "�a", "长": "长"} {
		got, isSame := pg.StorableBytes([]byte(text))
		require.Equal(t, stored, string(got))
		require.Equal(t, text == stored, isSame)
		require.Equal(t, stored, pg.StorableText(text))
	}
}
