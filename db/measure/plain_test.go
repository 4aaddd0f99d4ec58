package measure_test

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"

	"wending/db/measure"
)

// plainByTheBook implements the description of Plain, rune by rune, without shortcuts.
func plainByTheBook(text string) string {
	runes := []rune(cases.Fold().String(norm.NFKC.String(text)))
	isDigit := func(n int) bool { return n >= 0 && n < len(runes) && unicode.IsDigit(runes[n]) }
	isAtLineStart := func(n int) bool {
		for n--; n >= 0 && runes[n] != '\n'; n-- {
			if !unicode.IsSpace(runes[n]) && !strings.ContainsRune(">+-*", runes[n]) {
				return false
			}
		}
		return true
	}
	var kept strings.Builder
	for n, r := range runes {
		last, _ := utf8.DecodeLastRuneInString(kept.String())
		switch {
		case unicode.IsSpace(r):
			if isDigit(n+1) && unicode.IsDigit(last) {
				kept.WriteByte(' ')
			}
		case r == ',' && isDigit(n-1) && isDigit(n+1) && isDigit(n+2) && isDigit(n+3) && !isDigit(n+4):
		case strings.ContainsRune(".,:/", r) && isDigit(n-1) && isDigit(n+1), r == '%' && isDigit(n-1):
			kept.WriteRune(r)
		case strings.ContainsRune("-−", r) && isDigit(n+1) && (n == 0 || !unicode.IsLetter(runes[n-1]) && !isDigit(n-1)):
			kept.WriteByte('-')
		case unicode.IsPunct(r), strings.ContainsRune("`~|", r), strings.ContainsRune(">+", r) && isAtLineStart(n):
		default:
			kept.WriteRune(r)
		}
	}
	return kept.String()
}

// The fast path for ASCII and Chinese gives the same result as the Unicode tables.
func TestPlainHasNoShortcutsThatShow(t *testing.T) {
	t.Parallel()
	alphabet := []string{"a", "Z", "0", "7", "1,200", " ", "\n", "\r\n", "\t", ".", ",", ":", "/", "%", "-", "−", ">", "+",
		"*", "|", "`", "~", "#", "_", "(", ")",
		"违", "约", "不", "、", "。", "《", "》", "「", "【", "，", "：", "％", "Ａ", "ｚ", "９", "（", "～", "＞", "＋", "－", "—", "…", "“",
		"”", "‘", "’", "•", "·", "\u3000", "\u00a0",
		"é", "e\u0301", "①", "㎡", "℃", "ﬁ", "ß", "İ", "か\u3099", "ｶﾞ", "👍🏽", "שלום", "\u202e", "\u0301", "\x00", "\ufffd",
		"\xff", "\xe4\xb8"}
	random := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		var text strings.Builder
		most := len(alphabet)
		if random.IntN(2) == 0 { // without characters that need the tables
			most = 54
		}
		for range random.IntN(12) {
			text.WriteString(alphabet[random.IntN(most)])
		}
		require.Equal(t, plainByTheBook(text.String()), measure.Plain(text.String()), "%q", text.String())
	}
}

// The time of Plain for a Chinese text, as a multiple of a loop over its characters; and the factor for twice the
// length, where 2 is linear.
func BenchmarkPlain(b *testing.B) {
	chinese := strings.Repeat("根据第30条的规定，公司应当在收到“书面申请”之日起 30 日内作出答复……\n", 300)
	for name, text := range map[string]string{"chinese": chinese, "marks": strings.Repeat(">+-*", len(chinese)/4),
		"tables": strings.Repeat("é①"+chinese[:300], 100)} {
		b.Run(name, func(b *testing.B) {
			letters := 0
			for b.Loop() {
				plain := timeOf(func() { measure.Plain(text) }, 20)
				bare := timeOf(func() {
					for _, r := range text {
						if unicode.IsLetter(r) || unicode.IsPunct(r) || unicode.IsSymbol(r) {
							letters++
						}
					}
				}, 200)
				b.ReportMetric(float64(plain)/float64(max(1, bare)), "x-bare-loop")
				b.ReportMetric(float64(timeOf(func() { measure.Plain(text + text) }, 20))/float64(plain), "x-half")
			}
			require.Positive(b, letters)
		})
	}
}

// timeOf returns how long a function takes: the shortest of several measurements.
func timeOf(run func(), times int) time.Duration {
	least := time.Duration(1 << 62)
	for range times {
		start := time.Now()
		run()
		least = min(least, time.Since(start))
	}
	return max(least, 1)
}
