package marks

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"wending/db"
	"wending/views/text"
)

// heavy are answers that could make it slow to lay them out side by side.
var heavy = []struct {
	name    string
	answers int
	answer  func(n int) string
}{
	{"1 MB of paragraphs", 5, func(n int) string {
		return lines(11_000, func(k int) string {
			return fmt.Sprintf("第%d段：公司应当在收到申请之日起 %d 日内答复，逾期的，每日支付 %d 元，不得拒绝。", k, 30+(k*7+n)%9, 100+k)
		})
	}},
	{"one line of 100 KB", 5, func(n int) string {
		return strings.ReplaceAll(lines(1800, func(k int) string {
			return fmt.Sprintf("第%d项在%d日内答复，每日支付%d元，", k, 30+(k+n)%9, k)
		}), "\n", "")
	}},
	{"one word of 100 KB", 5, func(n int) string { return strings.Repeat(string(rune('a'+n))+"b", 50_000) }},
	{"a table of 5,000 rows", 5, func(n int) string {
		return lines(5000, func(k int) string {
			return fmt.Sprintf("| A-%d | 项目%d | %d 元 |", k, k%97, 100+k+k%(n+50)/(n+49))
		})
	}},
	{"20 different answers of 100 KB", 20, func(n int) string {
		return lines(1500, func(k int) string {
			return fmt.Sprintf("%d. 其%s第%d条规定，应当在 %d 日内答复；%s可以投诉。", k, strings.Repeat("乙", n*k%7), 30+k, 30+(n+k)%5,
				strings.Repeat("丙", (n+k)%5))
		})
	}},
	{"a table with a head of 10,000 cells", 3, func(n int) string {
		return strings.Repeat("|列", 10_000) + "|\n|---|\n" + lines(3000, func(k int) string {
			return fmt.Sprintf("| 项目%d的费用是%d元 |", k, k+n)
		})
	}},
	{"right to left", 5, func(n int) string {
		return lines(800, func(int) string {
			return fmt.Sprintf("يجب على الشركة الرد خلال %d يومًا.\u202e עברית %d", 30+n, n)
		})
	}},
	{"combining characters", 5, func(n int) string {
		return strings.Repeat("e\u0301\u0302"+strings.Repeat("\u0300", n), 20_000)
	}},
	{"a JSON text that is cut", 5, func(n int) string {
		return `{"list": [` + lines(3000, func(int) string {
			return fmt.Sprintf(`{"name": "甲%d", "amount": "%d 元"},`, n, n)
		}) + `{"name": "甲`
	}},
	{"words that all differ", 5, func(n int) string {
		return lines(30_000, func(k int) string { return fmt.Sprintf("w%dx%d", k*7919%100_003, n) })
	}},
}

// lines returns count lines, numbered from 0.
func lines(count int, line func(n int) string) string {
	var b strings.Builder
	for n := range count {
		b.WriteString(line(n))
		b.WriteByte('\n')
	}
	return b.String()
}

func processorTime(t *testing.T) time.Duration {
	t.Helper()
	var usage syscall.Rusage
	require.NoError(t, syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// On an ordinary machine, no question takes longer than half a second to lay out and to write; -v prints how long
// each takes. Slower machines are allowed more time.
func TestHeavyAnswersAreShownQuickly(t *testing.T) { //nolint:paralleltest // it measures the time of the process
	catalogue, err := text.NewCatalogue()
	require.NoError(t, err)
	ctx := text.WithLocale(t.Context(), catalogue.Locale(text.Languages[0], ""))
	for _, one := range heavy {
		q := Question{ID: "q", Href: "/q", Relation: func(string) Relation { return InWords }}
		for n := range one.answers {
			q.Answers = append(q.Answers, Distinct{Letter: string(rune('A' + n)), Text: one.answer(n),
				Runs: []db.Run{{RunIndex: n + 1}}})
		}
		start := processorTime(t)
		var page strings.Builder
		require.NoError(t, Align(q).Parts().Render(ctx, &page), one.name)
		took := processorTime(t) - start
		t.Logf("%s: %v, %d bytes", one.name, took.Round(time.Millisecond), page.Len())
		require.Less(t, took, 2*time.Second, one.name)
	}
}
