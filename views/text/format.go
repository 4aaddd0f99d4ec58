package text

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Run returns the short name of a run of a question: #3 or, in a task with several variants, 2#3.
func Run(variants, variant, runIndex int) string {
	name := "#" + strconv.Itoa(runIndex)
	if variants > 1 {
		name = strconv.Itoa(variant) + name
	}
	return name
}

// Number formats an integer with separators: 20,000.
func Number(n int) string {
	digits := strconv.Itoa(n)
	sign := ""
	if n < 0 {
		sign, digits = "-", digits[1:]
	}
	for at := len(digits) - 3; at > 0; at -= 3 {
		digits = digits[:at] + "," + digits[at:]
	}
	return sign + digits
}

// Percent formats a share between 0 and 1 with one decimal: 87.4%; nil means unknown.
func Percent(share *float64) string {
	if share == nil {
		return "–"
	}
	return strconv.FormatFloat(100**share, 'f', 1, 64) + "%"
}

// Score formats a mean score between 0 and 1 with three decimals: 0.874; nil means unknown.
func Score(score *float64) string {
	if score == nil {
		return "–"
	}
	return strconv.FormatFloat(*score, 'f', 3, 64)
}

// Significant formats a number with the given number of significant digits and no exponent: 0.0000396, 1230.
func Significant(value float64, digits int) string {
	rounded, err := strconv.ParseFloat(strconv.FormatFloat(value, 'e', digits-1, 64), 64)
	if err != nil { // near the largest possible number, rounding may overflow
		rounded = value
	}
	return strconv.FormatFloat(rounded, 'f', -1, 64)
}

// Probability formats a p-value with two significant digits: 0.012, < 0.001.
func Probability(p float64) string {
	if p < 0.001 {
		return "< 0.001"
	}
	return Significant(p, 2)
}

// Signed formats a difference with its sign, without one if it is rounded to 0: +12.0, −1,401.
func Signed(difference float64, decimals int) string {
	digits := strconv.FormatFloat(math.Abs(difference), 'f', decimals, 64)
	if strings.Trim(digits, "0.") == "" {
		return digits
	}
	whole, fraction, hasFraction := strings.Cut(digits, ".")
	if n, err := strconv.Atoi(whole); err == nil {
		digits = Number(n)
	}
	if hasFraction {
		digits += "." + fraction
	}
	if difference < 0 {
		return "−" + digits
	}
	return "+" + digits
}

// Millis formats a latency in milliseconds: 401 ms. nil means unknown.
func Millis[N int | float64](ms *N) string {
	if ms == nil {
		return "–"
	}
	return Number(int(math.Round(float64(*ms)))) + " ms"
}

// RunMillis formats the latency of a run on its card as spec/004 prescribes it: 30000ms. nil means unknown.
func RunMillis(ms *int) string {
	if ms == nil {
		return "–"
	}
	return strconv.Itoa(*ms) + "ms"
}

// Cost formats a cost: 0.42 USD. nil means unknown; the currency may be unknown, too.
func Cost(cost, currency *string) string {
	switch {
	case cost == nil:
		return "–"
	case currency == nil:
		return *cost
	}
	return *cost + " " + *currency
}

// Span formats a number of milliseconds for the axes of plots: 401 ms, 1.5 s, 20 s.
func Span(ms float64) string {
	switch {
	case ms < 1000:
		return fmt.Sprintf("%.0f ms", ms)
	case ms < 10_000:
		return strconv.FormatFloat(math.Round(ms/100)/10, 'f', -1, 64) + " s"
	}
	return fmt.Sprintf("%.0f s", ms/1000)
}

// Clock formats seconds since a start as m:ss or h:mm:ss.
func Clock(seconds float64) string {
	total := int(math.Round(seconds))
	if total < 3600 {
		return fmt.Sprintf("%d:%02d", total/60, total%60)
	}
	return fmt.Sprintf("%d:%02d:%02d", total/3600, total/60%60, total%60)
}

// Duration formats a duration in the locale's words: 401 ms, 9.0 秒, 31 秒, 2 分 5 秒, 1 小时 51 分.
func Duration(locale Locale, d time.Duration) string {
	switch {
	case d < time.Second:
		return Span(float64(d.Milliseconds()))
	case d < 9950*time.Millisecond:
		return locale.Text("duration.seconds", "N", fmt.Sprintf("%.1f", d.Seconds()))
	case d < 59500*time.Millisecond:
		return locale.Text("duration.seconds", "N", fmt.Sprintf("%.0f", d.Seconds()))
	case d < time.Hour:
		d = d.Round(time.Second)
		return locale.Text("duration.minutes", "M", int(d.Minutes()), "S", int(d.Seconds())%60)
	}
	d = d.Round(time.Minute)
	return locale.Text("duration.hours", "H", int(d.Hours()), "M", int(d.Minutes())%60)
}

// Seconds is like Duration, but takes a number of seconds; nil means unknown.
func Seconds(locale Locale, seconds *float64) string {
	if seconds == nil {
		return "–"
	}
	return Duration(locale, time.Duration(*seconds*float64(time.Second)))
}

// Bytes formats a size in the unit that fits it.
func Bytes(n int) string {
	switch {
	case n < 1024:
		return fmt.Sprintf("%d B", n)
	case n < 1<<20:
		return fmt.Sprintf("%.1f KB", float64(n)/1024)
	}
	if n < 1<<30 {
		return fmt.Sprintf("%.1f MB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%.1f GB", float64(n)/(1<<30))
}

// Shown makes bytes from an agent displayable: invalid UTF-8 and NUL are visibly replaced, and the text is cut after
// limit characters.
func Shown(text []byte, limit int) string {
	return Cut(strings.ReplaceAll(strings.ToValidUTF8(string(text), "\uFFFD"), "\x00", "\u2400"), limit)
}

// Cut returns the first limit characters of a text, with … if there are more.
func Cut(text string, limit int) string {
	if head, isCut := Head(text, limit); isCut {
		return head + "…"
	}
	return text
}

// Head returns the first limit characters of a text, and whether there are more.
func Head(text string, limit int) (head string, isCut bool) {
	if len(text) <= limit {
		return text, false
	}
	end := 0
	for range limit {
		if end >= len(text) {
			return text, false
		}
		_, size := utf8.DecodeRuneInString(text[end:])
		end += size
	}
	return text[:end], end < len(text)
}
