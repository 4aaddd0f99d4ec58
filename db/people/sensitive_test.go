package people_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"wending/db/people"
)

func TestSensitivePatternsAreFoundAsTheyAreWritten(t *testing.T) {
	t.Parallel()
	var finder people.Finder
	for _, text := range []string{"绝密", "ABC公司", `/\d{17}[0-9X]/`} {
		pattern, err := people.ParsePattern(text)
		require.NoError(t, err, text)
		finder = append(finder, pattern)
	}
	for text, want := range map[string][]string{
		"这是绝密文件":                 {"绝密"},
		"这是绝\u200b密文件":           {"绝密"},
		"ａｂｃ公司":                  {"ABC公司"},
		"身份证 11010519491231002X": {`/\d{17}[0-9X]/`},
		"身份证 １１０１０５１９４９１２３１００２Ｘ": {`/\d{17}[0-9X]/`},
		"绝大多数机密": nil,
		"":       nil,
	} {
		require.Equal(t, want, finder.Find(t.Context(), text), text)
	}
}

// An expression that would keep a processor busy for minutes is not accepted.
func TestSensitivePatternsAreBounded(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"/(?:.?.?.?.?){1000}x/", `/(\pL{1,500}){2}x/`, "/(/", "/x*/", ""} {
		_, err := people.ParsePattern(text)
		require.ErrorIs(t, err, people.ErrPattern, text)
	}
	for _, text := range []string{`/1[3-9]\d{9}/`, `/[A-Z]{2}\d{6,8}/`, `/(?i)confidential|secret|内部资料/`, "/a{100}/"} {
		_, err := people.ParsePattern(text)
		require.NoError(t, err, text)
	}
}
