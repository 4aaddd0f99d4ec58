package evaluate

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func values(standard string) map[string]string {
	return map[string]string{"question": "2 + 2 = ?", "standard_answer": standard, "level": "高"}
}

func compile(t testing.TB, kind Kind, config string) *Rule {
	t.Helper()
	rule, err := Compile(kind, json.RawMessage(config))
	require.NoError(t, err, config)
	return rule
}

func TestRulesJudge(t *testing.T) {
	t.Parallel()
	const pass, fail, skip = "pass", "fail", "skip"
	for _, test := range []struct {
		kind                     Kind
		config, answer, standard string
		want, reason             string
	}{
		{Exact, ``, " Paris ", "Paris", pass, ""},
		{Exact, `{}`, "paris", "Paris", fail, "“paris” ≠ “Paris”"},
		{Exact, `{"ignore_case":true}`, "PARIS", "paris", pass, ""},
		{Exact, `{"ignore_case":true}`, "STRASSE", "straße", pass, ""},
		{Exact, `{"ignore_whitespace":true}`, "a b\u3000c", "abc", pass, ""},
		{Exact, `{"ignore_punctuation":true}`, "巴黎。", "巴黎", pass, ""},
		{Exact, `{"ignore_punctuation":true}`, "Paris !", "Paris", pass, ""},
		{Exact, ``, "e\u0301", "é", pass, ""},
		{Exact, ``, "x", " ", skip, ""},
		{Exact, `{"expected":"{{level}}"}`, "高", "", pass, ""},
		{Exact, `{"expected":"{{nothing}}"}`, "{{nothing}}", "", pass, ""},
		{Contains, ``, "It is Paris.", "Paris", pass, ""},
		{Contains, ``, "It is Lyon.", "Paris", fail, "∌ “Paris”"},
		{Contains, `{"values":["a","b"]}`, "xbx", "", pass, ""},
		{Contains, `{"values":["a","b"],"mode":"all"}`, "xbx", "", fail, "∌ “a”"},
		{Contains, `{"values":["a","b"],"mode":"none"}`, "xbx", "", fail, "∋ “b”"},
		{Contains, `{"values":["A"],"ignore_case":true}`, "xax", "", pass, ""},
		{Contains, ``, "x", "", skip, ""},
		{Regex, `{"pattern":"^\\d+$"}`, "42", "", pass, ""},
		{Regex, `{"pattern":"^\\d+$"}`, "42 ", "", fail, `!~ /^\d+$/`},
		{Number, ``, "So 3 + 4 = 7, hence 1,234.50", "#### 1234.5", pass, ""},
		{Number, ``, "答案是４２。", "42", pass, ""},
		{Number, ``, "between 3-5", "5", pass, ""},
		{Number, ``, "it is -5", "-5", pass, ""},
		{Number, ``, "−5", "-5", pass, ""},
		{Number, ``, "0.1", "0.10000000000000000000000001", fail, "0.1 ≠ 0.10000000000000000000000001"},
		{Number, `{"tolerance":0.5}`, "41.5", "42", pass, ""},
		{Number, `{"tolerance":0.5}`, "41.4", "42", fail, "41.4 ≠ 42"},
		{Number, `{"tolerance":0.01,"relative":true}`, "99", "100", pass, ""},
		{Number, `{"tolerance":0.01,"relative":true}`, "98.9", "100", fail, "98.9 ≠ 100"},
		{Number, ``, "none", "42", fail, "– ≠ 42"},
		{Number, ``, "42", "", skip, ""},
		{Number, ``, "1e3", "1000", pass, ""},
		{JSONSchema, `{"schema":{"type":"object","required":["a"]}}`, "```json\n{\"a\":1}\n```", "", pass, ""},
		{JSONSchema, `{"schema":{"type":"object","properties":{"a":{"type":"string"}}}}`, `{"a":1}`, "", fail, "/a: got number, want string"},
		{JSONSchema, `{"schema":{"type":"object"}}`, `Sure! {"a":1}`, "", fail, "¬JSON: “Sure! {\"a\":1}”"},
		{JSONSchema, `{"schema":false}`, `1`, "", fail, "/: false schema"},
		{JSONPath, `{"path":"$.a[0].b","equals":2}`, `{"a":[{"b":2.0}]}`, "", pass, ""},
		{JSONPath, `{"path":"$.a[0].b","equals":3}`, `{"a":[{"b":2}]}`, "", fail, "“2” ≠ “3”"},
		{JSONPath, `{"path":"$.city"}`, `{"city":" 巴黎 "}`, "巴黎", pass, ""},
		{JSONPath, `{"path":"$.town"}`, `{"city":"巴黎"}`, "巴黎", fail, "$.town ∉"},
		{JSONPath, `{"path":"$..x","equals":{"k":[1,null]}}`, `{"a":{"x":{"k":[1.0,null]}}}`, "", pass, ""},
		{JSONPath, `{"path":"$.city"}`, `{}`, "", skip, ""},
		{Similarity, ``, "Paris", "Paris", pass, ""},
		{Similarity, `{"threshold":0.5}`, "Paris", "Lyon", fail, "0.00 < 0.50"},
		{Similarity, ``, "x", "", skip, ""},
		{Expression, `{"expression":"answer contains expected and latency_ms < 1000"}`, "It is Paris", "Paris", pass, ""},
		{Expression, `{"expression":"variables.level == \"高\""}`, "", "", pass, ""},
		{Expression, `{"expression":"len(answer) / 10"}`, "abcd", "", fail, "0.40 < 0.50"},
		{Expression, `{"expression":"len(answer) / 10","threshold":0.4}`, "abcd", "", pass, ""},
		{Expression, `{"expression":"sum(map(split(answer, \" \"), len(#))) == 4"}`, "ab cd", "", pass, ""},
		{Expression, `{"expression":"answer matches \"^[a-z]+$\""}`, "abcd", "", pass, ""},
		{Expression, `{"expression":"fromJSON(answer).a == 1"}`, `{"a":1}`, "", pass, ""},
		{Expression, `{"expression":"tokens + 1 == 8 and lower(\"A\" + \"b\") == \"ab\""}`, ``, "", pass, ""},
		{Latency, `{"max_ms":800}`, "", "", pass, ""},
		{Latency, `{"max_ms":799}`, "", "", fail, "800 ms > 799 ms"},
	} {
		t.Run(fmt.Sprintf("%s %s %.20q", test.kind, test.config, test.answer), func(t *testing.T) {
			t.Parallel()
			tokens := 7
			verdict := compile(t, test.kind, test.config).Evaluate(Subject{Answer: test.answer, Values: values(test.standard), LatencyMS: 800, Tokens: &tokens})
			if test.want == skip {
				require.Equal(t, Verdict{Status: Skipped}, verdict)
				return
			}
			require.Equal(t, Succeeded, verdict.Status, verdict.ErrorMessage)
			require.Equal(t, test.want == pass, *verdict.Passed, verdict.Reason)
			require.Equal(t, test.reason, verdict.Reason)
			require.True(t, *verdict.Score >= 0 && *verdict.Score <= 1)
		})
	}
}

func TestARuleScores(t *testing.T) {
	t.Parallel()
	subject := Subject{Answer: "Parim", Values: values("Paris")}
	require.InDelta(t, 0.8, *compile(t, Similarity, ``).Evaluate(subject).Score, 1e-9)
	require.Zero(t, *compile(t, Exact, ``).Evaluate(subject).Score)
	require.InDelta(t, 0.25, *compile(t, Expression, `{"expression":"0.25"}`).Evaluate(subject).Score, 1e-9)
	require.InDelta(t, 1, *compile(t, Expression, `{"expression":"7"}`).Evaluate(subject).Score, 1e-9)
}

func TestWhatARuleCannotJudge(t *testing.T) {
	t.Parallel()
	unknownTokens := compile(t, Expression, `{"expression":"tokens < 5"}`).Evaluate(Subject{})
	require.Equal(t, Failed, unknownTokens.Status)
	require.Equal(t, CodeExpression, unknownTokens.ErrorCode)
	require.Nil(t, unknownTokens.Passed)
	text := compile(t, Expression, `{"expression":"answer"}`).Evaluate(Subject{Answer: "x"})
	require.Equal(t, CodeExpression, text.ErrorCode)
	expectation := compile(t, Number, ``).Evaluate(Subject{Answer: "4", Values: values("four")})
	require.Equal(t, CodeExpectation, expectation.ErrorCode)
	require.Equal(t, "no number: “four”", expectation.ErrorMessage)
}

func TestWrongConfigurationsAreNamed(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		kind                Kind
		config, field, says string
	}{
		{Exact, `{"ignore_cases":true}`, "ignore_cases", "unknown"},
		{Exact, `{"ignore_case":"yes"}`, "ignore_case", "string"},
		{Exact, `[]`, "", "array"},
		{Exact, `{`, "", "not a JSON object"},
		{Exact, `{} {}`, "", "more than one"},
		{Contains, `{"mode":"some"}`, "mode", "any, all or none"},
		{Contains, `{"values":["a"," "]}`, "values", "blank"},
		{Regex, `{}`, "pattern", ""},
		{Regex, `{"pattern":"("}`, "pattern", "missing closing"},
		{Regex, `{"pattern":"a{999}b{999}c{999}d{999}e{999}f{999}"}`, "pattern", "large"},
		{Regex, `{"pattern":"(?=x)"}`, "pattern", "invalid"},
		{Number, `{"tolerance":-1}`, "tolerance", "from 0"},
		{Number, `{"tolerance":1e999}`, "tolerance", "from 0"},
		{JSONSchema, `{}`, "schema", ""},
		{JSONSchema, `{"schema":{"type":"nothing"}}`, "schema", "type"},
		{JSONSchema, `{"schema":{"$ref":"file:///etc/passwd"}}`, "schema", "other documents"},
		{JSONSchema, `{"schema":{"$ref":"http://127.0.0.1/x"}}`, "schema", "other documents"},
		{JSONPath, `{}`, "path", ""},
		{JSONPath, `{"path":"$["}`, "path", ""},
		{JSONPath, `{"path":"$..a..b"}`, "path", "at most"},
		{Similarity, `{"threshold":2}`, "threshold", "from 0 to 1"},
		{Expression, `{}`, "expression", ""},
		{Expression, `{"expression":"answer +"}`, "expression", "unexpected"},
		{Expression, `{"expression":"nothing > 1"}`, "expression", "unknown name"},
		{Expression, `{"expression":"repeat(answer, 9)"}`, "expression", "unknown"},
		{Latency, `{}`, "max_ms", ""},
		{Latency, `{"max_ms":1.5}`, "max_ms", "number"},
		{Latency, `{"max_ms":-1}`, "max_ms", "less"},
		{"nothing", `{}`, "kind", "not a rule"},
		{Exact, `{"expected":"` + strings.Repeat("x", MaxConfig) + `"}`, "", "64 KB"},
	} {
		_, err := Compile(test.kind, json.RawMessage(test.config))
		named := (*ConfigError)(nil)
		require.ErrorAs(t, err, &named, "%s %s", test.kind, cut(test.config, 100))
		require.Equal(t, test.field, named.Field, "%s %s: %v", test.kind, test.config, err)
		require.Contains(t, named.Detail, test.says)
	}
}

// hostile are rules and answers that would take for ever, or all memory, if nothing bounded them.
var hostile = map[string]struct {
	kind           Kind
	config, answer string
}{
	"a pattern that tries everything":     {Regex, `{"pattern":"(x+x+)+y"}`, strings.Repeat("x", 8<<20)},
	"a pattern of many states":            {Regex, `{"pattern":"(a?){1000}b"}`, strings.Repeat("a", 8<<20)},
	"a schema that doubles itself":        {JSONSchema, `{"schema":{"$defs":{"a":{"allOf":[{"properties":{"n":{"$ref":"#/$defs/a"}}},{"properties":{"n":{"$ref":"#/$defs/a"}}}]}},"$ref":"#/$defs/a"}}`, strings.Repeat(`{"n":`, 40) + "1" + strings.Repeat("}", 40)},
	"a pattern in a schema":               {JSONSchema, `{"schema":{"pattern":"(a?){1000}b"}}`, `"` + strings.Repeat("a", 900<<10) + `"`},
	"an answer of a million lists":        {JSONSchema, `{"schema":{"type":"object"}}`, strings.Repeat("[", 1<<20)},
	"an answer of eight megabytes":        {JSONPath, `{"path":"$..a","equals":1}`, `"` + strings.Repeat("a", 8<<20) + `"`},
	"predicates in predicates":            {Expression, `{"expression":"let a = 1..900; all(a, all(a, all(a, all(a, true))))"}`, ""},
	"ranges in predicates":                {Expression, `{"expression":"all(1..900000, all(1..900000, true))"}`, ""},
	"a text that doubles":                 {Expression, `{"expression":"let a = answer + answer; let b = a + a; let c = b + b; let d = c + c; let e = d + d; let f = e + e; let g = f + f; let h = g + g; let i = h + h; let j = i + i; len(j) > 0"}`, strings.Repeat("x", 20_000)},
	"lists of letters":                    {Expression, `{"expression":"len(map(1..20000, split(answer, \"\"))) > 0"}`, strings.Repeat("x", 20_000)},
	"JSON in JSON":                        {Expression, `{"expression":"all(1..20000, fromJSON(answer) != nil)"}`, "[" + strings.Repeat("1,", 9000) + "1]"},
	"patterns that are made as one goes":  {Expression, `{"expression":"all(1..20000, not (answer matches (\"(a?){900}b\" + \"\")))"}`, strings.Repeat("a", 20_000)},
	"a number without end":                {Number, `{}`, strings.Repeat("9", 8<<20)},
	"a number with a large exponent":      {Number, `{}`, "1e999999999"},
	"a long answer":                       {Similarity, `{}`, strings.Repeat("语", 2<<20)},
	"punctuation without end":             {Exact, `{"ignore_punctuation":true,"ignore_case":true,"ignore_whitespace":true}`, strings.Repeat("。 A", 2<<20)},
	"many letters searched for many more": {Contains, `{"values":["` + strings.Repeat("a", 30_000) + `b"],"ignore_case":true}`, strings.Repeat("a", 8<<20)},
}

// However hostile a rule and an answer are, a verdict comes: within seconds, in the worst case of a machine under the race
// detector, and a slow rule is soon switched off.
func TestHostileRulesEnd(t *testing.T) {
	t.Parallel()
	for name, test := range hostile {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rule := compile(t, test.kind, test.config)
			ended := make(chan Verdict, 1)
			go func() {
				for range slowMost {
					rule.Evaluate(Subject{Answer: test.answer, Values: values("42")})
				}
				ended <- rule.Evaluate(Subject{Answer: test.answer, Values: values("42")})
			}()
			select {
			case verdict := <-ended:
				require.Contains(t, []Status{Succeeded, Failed}, verdict.Status)
			case <-time.After(2 * time.Minute):
				t.Fatal("it does not end")
			}
		})
	}
}

// A rule that was slow three times judges no more: what it takes is bounded for the whole launch.
func TestASlowRuleIsSwitchedOff(t *testing.T) {
	t.Parallel()
	calls := 0
	rule := &Rule{judge: func(Subject, string) Verdict {
		calls++
		time.Sleep(slowAfter + time.Millisecond) // it is slow
		return decided(true, "")
	}}
	for range slowMost {
		require.True(t, *rule.Evaluate(Subject{}).Passed)
	}
	require.Equal(t, CodeLimit, rule.Evaluate(Subject{}).ErrorCode)
	require.Equal(t, slowMost, calls)
}

// Ten rules on an answer of usual length.
func BenchmarkTenRules(b *testing.B) {
	var rules []*Rule
	for kind, config := range map[Kind]string{
		Exact: `{"ignore_case":true}`, Contains: `{}`, Regex: `{"pattern":"第[一二三四五六七八九十百]+条"}`, Number: `{}`, Similarity: `{}`, Latency: `{"max_ms":500}`,
		JSONSchema: `{"schema":{"type":"object"}}`, JSONPath: `{"path":"$.a","equals":1}`, Expression: `{"expression":"len(answer) > 10 and not (answer contains \"抱歉\")"}`,
	} {
		rules = append(rules, compile(b, kind, config))
	}
	rules = append(rules, compile(b, Regex, `{"pattern":"^\\s*结论"}`))
	subject := Subject{Answer: strings.Repeat("根据《中华人民共和国民法典》第五百七十七条之规定，当事人一方不履行合同义务的，应当承担违约责任。", 40), Values: values("应当承担违约责任 42")}
	for b.Loop() {
		for _, rule := range rules {
			rule.Evaluate(subject)
		}
	}
}
