package db_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"wending/db"
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
		name, err := db.CheckName(text)
		require.NoError(t, err, text)
		require.Equal(t, want, name)
	}
	for text, want := range map[string]error{
		"":                           db.ErrNameEmpty,
		strings.Repeat(" \u3000", 2): db.ErrNameEmpty,
		strings.Repeat("长", 65):      db.ErrNameLong,
		strings.Repeat("ﷺ", 10):      db.ErrNameLong, // a single character that NFKC expands to eighteen
		"a\u0007b":                   db.ErrNameInvisible,
		"a\nb":                       db.ErrNameInvisible,
		"a\u202eb":                   db.ErrNameInvisible,
		"a\u2066b":                   db.ErrNameInvisible,
		"a\u200bb":                   db.ErrNameInvisible,
		"a\u034fb":                   db.ErrNameInvisible,
		"root\u3164":                 db.ErrNameInvisible,
		"\u2800":                     db.ErrNameInvisible,
		"a\xffb":                     db.ErrNameInvisible,
		"a\ufffdb":                   db.ErrNameInvisible,
		"Token:x":                    db.ErrNameReserved,
		"ｔｏｋｅｎ：x":                    db.ErrNameReserved,
		"127.0.0.1":                  db.ErrNameReserved,
		"１２７.0.0.1":                  db.ErrNameReserved,
		"::1":                        db.ErrNameReserved,
	} {
		_, err := db.CheckName(text)
		require.ErrorIs(t, err, want, "%q", text)
	}
}

// A text from another system becomes a name that Check accepts, unless it is reserved or nothing is left of it.
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
		cleaned := db.CleanName(text)
		if want == "" && cleaned == "" {
			continue
		}
		name, err := db.CheckName(cleaned)
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
		require.Equal(t, db.NameSkeleton(alike[0]), db.NameSkeleton(alike[1]), alike)
	}
	for _, different := range [][2]string{{"admin", "admins"}, {"李雷", "李蕾"}, {"Li Lei", "Li Le"}, {"member viewer", "member editor"}, {"王一", "王二"}, {"user 2", "user 3"}} {
		require.NotEqual(t, db.NameSkeleton(different[0]), db.NameSkeleton(different[1]), different)
	}
}
