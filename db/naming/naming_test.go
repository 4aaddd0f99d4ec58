package naming_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"wending/db/naming"
)

func TestNamesAreNormalisedOrRefused(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		" 李雷 ":                      "李雷",
		"ＬｉＬｅｉ":                     "LiLei",
		"Han\u00a0 \u3000Meimei":    "Han Meimei",
		"e\u0301va":                 "\u00e9va",
		strings.Repeat("长", 64):     strings.Repeat("长", 64),
		"tokens: how":               "tokens: how",
		"lilei · lilei@example.com": "lilei · lilei@example.com",
	} {
		name, err := naming.Check(text)
		require.NoError(t, err, text)
		require.Equal(t, want, name)
	}
	for text, want := range map[string]error{
		"":                           naming.ErrEmpty,
		strings.Repeat(" \u3000", 2): naming.ErrEmpty,
		strings.Repeat("长", 65):      naming.ErrLong,
		strings.Repeat("ﷺ", 10):      naming.ErrLong, // eighteen characters each
		"a\u0007b":                   naming.ErrInvisible,
		"a\nb":                       naming.ErrInvisible,
		"a\u202eb":                   naming.ErrInvisible,
		"a\u2066b":                   naming.ErrInvisible,
		"a\u200bb":                   naming.ErrInvisible,
		"a\u034fb":                   naming.ErrInvisible,
		"root\u3164":                 naming.ErrInvisible,
		"\u2800":                     naming.ErrInvisible,
		"a\xffb":                     naming.ErrInvisible,
		"a\ufffdb":                   naming.ErrInvisible,
		"Token:x":                    naming.ErrReserved,
		"ｔｏｋｅｎ：x":                    naming.ErrReserved,
		"127.0.0.1":                  naming.ErrReserved,
		"１２７.0.0.1":                  naming.ErrReserved,
		"::1":                        naming.ErrReserved,
	} {
		_, err := naming.Check(text)
		require.ErrorIs(t, err, want, "%q", text)
	}
}

// A text from elsewhere becomes a name that Check takes, unless it is reserved or nothing is left.
func TestNamesFromElsewhereAreCleaned(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"admin\u202e\u2066": "admin",
		"\u202enimda":       "nimda",
		"a\u200bb\u00adc":   "abc",
		"a\x00\tb\xff":      "a b",
		strings.Repeat(" ", 2) + "Han \u3000 Meimei" + strings.Repeat(" ", 1): "Han Meimei",
		strings.Repeat("ﷺ", 10):  "",
		strings.Repeat("长", 100): strings.Repeat("长", 64),
		"\u200b":                 "",
	} {
		cleaned := naming.Clean(text)
		if want == "" && cleaned == "" {
			continue
		}
		name, err := naming.Check(cleaned)
		require.NoError(t, err, text)
		require.Equal(t, cleaned, name)
		if want != "" {
			require.Equal(t, want, name)
		}
	}
}

func TestNamesThatLookAlikeShareASkeleton(t *testing.T) {
	t.Parallel()
	for _, alike := range [][2]string{
		{"admin", "аdmin"}, // a Cyrillic a
		{"admin", "АDMIN"}, // a Cyrillic A
		{"admin", "adrnin"},
		{"lilei", "Iilei"},
		{"lilei", "1ilei"},
		{"root", "rооt"},
		{"scope", "ѕсоре"},
		{"paypal", "𝔭𝒶𝓎𝕡𝕒𝓁"},
		{"李雷", "李雷"},
	} {
		require.Equal(t, naming.Skeleton(alike[0]), naming.Skeleton(alike[1]), alike)
	}
	for _, different := range [][2]string{{"admin", "admins"}, {"李雷", "李蕾"}, {"Li Lei", "Li Le"}, {"member viewer", "member editor"}, {"王一", "王二"}, {"user 2", "user 3"}} {
		require.NotEqual(t, naming.Skeleton(different[0]), naming.Skeleton(different[1]), different)
	}
}
