package people_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"wending/db"
	"wending/db/people"
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
		name, err := people.CheckName(text)
		require.NoError(t, err, text)
		require.Equal(t, want, name)
	}
	for text, want := range map[string]error{
		"":                           people.ErrNameEmpty,
		strings.Repeat(" \u3000", 2): people.ErrNameEmpty,
		strings.Repeat("长", 65):      people.ErrNameLong,
		strings.Repeat("ﷺ", 10):      people.ErrNameLong, // a single character that NFKC expands to eighteen
		"a\u0007b":                   people.ErrNameInvisible,
		"a\nb":                       people.ErrNameInvisible,
		"a\u202eb":                   people.ErrNameInvisible,
		"a\u2066b":                   people.ErrNameInvisible,
		"a\u200bb":                   people.ErrNameInvisible,
		"a\u034fb":                   people.ErrNameInvisible,
		"root\u3164":                 people.ErrNameInvisible,
		"\u2800":                     people.ErrNameInvisible,
		"a\xffb":                     people.ErrNameInvisible,
		"a\ufffdb":                   people.ErrNameInvisible,
		"Token:x":                    people.ErrNameReserved,
		"ｔｏｋｅｎ：x":                    people.ErrNameReserved,
		"127.0.0.1":                  people.ErrNameReserved,
		"１２７.0.0.1":                  people.ErrNameReserved,
		"::1":                        people.ErrNameReserved,
	} {
		_, err := people.CheckName(text)
		require.ErrorIs(t, err, want, "%q", text)
	}
}

// A text from another system becomes a name that CheckName accepts, unless it is reserved or nothing is left of it.
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
		cleaned := people.CleanName(text)
		if want == "" && cleaned == "" {
			continue
		}
		name, err := people.CheckName(cleaned)
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
	for _, different := range [][2]string{{"admin", "admins"}, {"李雷", "李蕾"}, {"Li Lei", "Li Le"},
		{"member viewer", "member editor"}, {"王一", "王二"}, {"user 2", "user 3"}} {
		require.NotEqual(t, db.NameSkeleton(different[0]), db.NameSkeleton(different[1]), different)
	}
}
