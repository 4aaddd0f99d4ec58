package evaluate

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"wending/jobs/reason"
)

func values(standard string) map[string]string {
	return map[string]string{"question": "2 + 2 = ?", "standard_answer": standard, "level": "高"}
}

func compile(t testing.TB, kind Kind, config string) *Rule {
	t.Helper()
	rule, err := Compile(t.Context(), kind, json.RawMessage(config))
	require.NoError(t, err, config)
	return rule
}

func verdictOf(t testing.TB, rule *Rule, subject Subject) Verdict {
	t.Helper()
	verdict, err := rule.Evaluate(t.Context(), subject)
	require.NoError(t, err)
	return verdict
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
		{Exact, `{}`, "paris", "Paris", fail, `["differs","paris","Paris"]`},
		{Exact, `{"ignore_case":true}`, "PARIS", "paris", pass, ""},
		{Exact, `{"ignore_case":true}`, "STRASSE", "straße", pass, ""},
		{Exact, `{"ignore_whitespace":true}`, "a b\u3000c", "abc", pass, ""},
		{Exact, `{"ignore_punctuation":true}`, "巴黎。", "巴黎", pass, ""},
		{Exact, `{"ignore_punctuation":true}`, "Paris !", "Paris", pass, ""},
		{Exact, ``, "e\u0301", "é", pass, ""},
		{Exact, ``, "ＡＢＣ　１２，３（ｘ）", "ABC 12,3(x)", pass, ""},
		{Exact, ``, "ﬁnal Ⅳ", "final IV", fail, `["differs","ﬁnal Ⅳ","final IV"]`},
		{Exact, ``, "m²", "m2", fail, `["differs","m²","m2"]`},
		{Exact, `{"ignore_case":true}`, "ｐａｒｉｓ！", "PARIS!", pass, ""},
		{Contains, ``, "答案是１２％。", "12%", pass, ""},
		{Contains, `{"values":["ａ"]}`, "xax", "", pass, ""},
		{Contains, `{"values":["ｶﾞ"],"mode":"none"}`, "ガ", "", fail, `["contains.found","ｶﾞ"]`},
		{Exact, ``, "x", " ", skip, ""},
		{Exact, `{"expected":"{{level}}"}`, "高", "", pass, ""},
		{Exact, `{"expected":"{{nothing}}"}`, "{{nothing}}", "", pass, ""},
		{Contains, ``, "It is Paris.", "Paris", pass, ""},
		{Contains, ``, "It is Lyon.", "Paris", fail, `["contains.none","Paris"]`},
		{Contains, `{"values":["a","b"]}`, "xbx", "", pass, ""},
		{Contains, `{"values":["a","b"],"mode":"all"}`, "xbx", "", fail, `["contains.missing","a"]`},
		{Contains, `{"values":["a","b"],"mode":"none"}`, "xbx", "", fail, `["contains.found","b"]`},
		{Contains, `{"values":["A"],"ignore_case":true}`, "xax", "", pass, ""},
		{Contains, ``, "x", "", skip, ""},
		{Regex, `{"pattern":"^\\d+$"}`, "42", "", pass, ""},
		{Regex, `{"pattern":"^\\d+$"}`, "42 ", "", fail, `["regex","^\\d+$"]`},
		{Number, ``, "So 3 + 4 = 7, hence 1,234.50", "#### 1234.5", pass, ""},
		{Number, ``, "答案是４２。", "42", pass, ""},
		{Number, ``, "between 3-5", "5", pass, ""},
		{Number, ``, "it is -5", "-5", pass, ""},
		{Number, ``, "−5", "-5", pass, ""},
		{Number, ``, "0.1", "0.10000000000000000000000001", fail, `["number.differs","0.1","0.10000000000000000000000001"]`},
		{Number, `{"tolerance":0.5}`, "41.5", "42", pass, ""},
		{Number, `{"tolerance":0.5}`, "41.4", "42", fail, `["number.differs","41.4","42"]`},
		{Number, `{"tolerance":0.01,"relative":true}`, "99", "100", pass, ""},
		{Number, `{"tolerance":0.01,"relative":true}`, "98.9", "100", fail, `["number.differs","98.9","100"]`},
		{Number, ``, "none", "42", fail, `["number.none","42"]`},
		{Number, ``, "42", "", skip, ""},
		{Number, ``, "1e3", "1000", pass, ""},
		{Number, ``, "见 No.42", "42", pass, ""},
		{Number, ``, "答案是...42", "42", pass, ""},
		{Number, ``, "面积为10㎡。", "10", pass, ""},
		{Number, ``, "10m²", "10", pass, ""},
		{Number, ``, "方案1，200元", "200", pass, ""},
		{Number, ``, "–5", "-5", pass, ""},
		{Number, ``, "about .5", "0.5", pass, ""},
		{Number, ``, "GPT-4", "4", pass, ""},
		{Number, `{"tolerance":1e-6}`, "1.0000001", "1", pass, ""},
		{Exact, ``, "\xff", "\xfe", fail, `["differs","�","�"]`},
		{JSONPath, `{"path":"$[?(@.p > 3)].n"}`, `[{"p":5,"n":"y"}]`, "y", pass, ""},
		{JSONPath, `{"path":"$.a"}`, `{"a":{"b":"<1>"}}`, `{"b":"<1>"}`, pass, ""},
		{JSONPath, `{"path":"$.a"}`, `{"a":[1,2]}`, "[1, 2]", pass, ""},
		{JSONPath, `{"path":"$.a"}`, `{"a":42.0}`, "42", pass, ""},
		{JSONPath, `{"path":"$.a","equals":1.2345678901234567891e19}`, `{"a":12345678901234567890}`, "", fail,
			`["path.differs","$.a","12345678901234567890","1.2345678901234567891e19"]`},
		{JSONSchema, `{"schema":{"type":"object"}}`, "\ufeff{}", "", pass, ""},
		{Expression, `{"expression":"not (answer contains \"sorry\")"}`, strings.Repeat("x", 30_000) + "sorry", "", fail,
			`["expression.false"]`},
		{JSONSchema, `{"schema":{"type":"object","required":["a"]}}`, "```json\n{\"a\":1}\n```", "", pass, ""},
		{JSONSchema, `{"schema":{"type":"object","properties":{"a":{"type":"string"}}}}`, `{"a":1}`, "", fail,
			`["schema.type","/a","number","string"]`},
		{JSONSchema, `{"schema":{"type":"object"}}`, `Sure! {"a":1}`, "", pass, ""},
		{JSONSchema, `{"schema":{"type":"object"}}`, `no JSON {here`, "", fail, `["json.none","no JSON {here"]`},
		{JSONSchema, `{"schema":{"type":"object","required":["a"]}}`, "<think>{\"b\":1}</think>\n{\"a\":1}", "", pass, ""},
		{JSONSchema, `{"schema":{"type":"object","required":["a"]}}`, "<think>{\"a\":1}", "", fail,
			`["json.none","<think>{\"a\":1}"]`},
		{JSONSchema, `{"schema":{"type":"object","required":["a"]}}`,
			"Here it is [1]:\n```json\n{\"a\":1}\n```\nAs you asked [2].", "", pass, ""},
		{JSONSchema, `{"schema":{"type":"array"}}`, "The list: [1, 2]", "", pass, ""},
		{JSONSchema, `{"schema":{"type":"object"}}`, `It is {'a': 1}`, "", fail, `["json.none","It is {'a': 1}"]`},
		{JSONSchema, `{"schema":{"type":"integer"}}`, "```json\n42\n```", "", pass, ""},
		{JSONSchema, `{"schema":{"type":"string","format":"email"}}`, `"notmail"`, "", fail,
			`["schema.format","/","notmail","email"]`},
		{JSONSchema, `{"schema":{"type":"string","format":"email"}}`, `"a@b.cn"`, "", pass, ""},
		{JSONSchema, `{"schema":{"properties":{"d":{"format":"date"}}}}`, `{"d":"2024-02-30"}`, "", fail,
			`["schema.format","/d","2024-02-30","date"]`},
		{JSONSchema, `{"schema":{"format":"uri"}}`, `"not a uri"`, "", fail, `["schema.format","/","not a uri","uri"]`},
		{JSONSchema, `{"schema":{"$schema":"http://json-schema.org/draft-07/schema#","format":"date-time"}}`,
			`"2024-01-01T00:00:00Z"`, "", pass, ""},
		{JSONSchema, `{"schema":{"required":["a","b"]}}`, `{"c":1}`, "", fail, `["schema.required","/","a","b"]`},
		{JSONSchema, `{"schema":{"enum":["x",2]}}`, `"y"`, "", fail, `["schema.choice","/","x","2"]`},
		{JSONSchema, `{"schema":{"minimum":0.5}}`, `0.25`, "", fail, `["schema.small","/","0.25","0.5"]`},
		{JSONPath, `{"path":"$.city"}`, "巴黎：{\"city\":\"巴黎\"}", "巴黎", pass, ""},
		{JSONSchema, `{"schema":false}`, `1`, "", fail, `["schema.false","/"]`},
		{JSONPath, `{"path":"$.a[0].b","equals":2}`, `{"a":[{"b":2.0}]}`, "", pass, ""},
		{JSONPath, `{"path":"$.a[0].b","equals":3}`, `{"a":[{"b":2}]}`, "", fail, `["path.differs","$.a[0].b","2","3"]`},
		{JSONPath, `{"path":"$.city"}`, `{"city":" 巴黎 "}`, "巴黎", pass, ""},
		{JSONPath, `{"path":"$.town"}`, `{"city":"巴黎"}`, "巴黎", fail, `["path.none","$.town"]`},
		{JSONPath, `{"path":"$..x","equals":{"k":[1,null]}}`, `{"a":{"x":{"k":[1.0,null]}}}`, "", pass, ""},
		{JSONPath, `{"path":"$.city"}`, `{}`, "", skip, ""},
		{Similarity, ``, "Paris", "Paris", pass, ""},
		{Similarity, `{"threshold":0.5}`, "Paris", "Lyon", fail, `["similarity","0","0.5"]`},
		{Similarity, ``, "x", "", skip, ""},
		{Expression, `{"expression":"answer contains expected and latency_ms < 1000"}`, "It is Paris", "Paris", pass, ""},
		{Expression, `{"expression":"variables.level == \"高\""}`, "", "", pass, ""},
		{Expression, `{"expression":"len(answer) / 10"}`, "abcd", "", fail, `["expression.below","0.4","0.5"]`},
		{Expression, `{"expression":"len(answer) / 10","threshold":0.4}`, "abcd", "", pass, ""},
		{Expression, `{"expression":"sum(map(split(answer, \" \"), len(#))) == 4"}`, "ab cd", "", pass, ""},
		{Expression, `{"expression":"answer matches \"^[a-z]+$\""}`, "abcd", "", pass, ""},
		{Expression, `{"expression":"fromJSON(answer).a == 1"}`, `{"a":1}`, "", pass, ""},
		{Expression, `{"expression":"tokens + 1 == 8 and lower(\"A\" + \"b\") == \"ab\""}`, ``, "", pass, ""},
		{Latency, `{"max_ms":800}`, "", "", pass, ""},
		{Latency, `{"max_ms":799}`, "", "", fail, `["latency","800","799"]`},
	} {
		t.Run(fmt.Sprintf("%s %s %.20q", test.kind, test.config, test.answer), func(t *testing.T) {
			t.Parallel()
			tokens := 7
			verdict := verdictOf(t, compile(t, test.kind, test.config),
				Subject{Answer: test.answer, Values: values(test.standard), LatencyMS: 800, Tokens: &tokens})
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
	require.InDelta(t, 0.8, *verdictOf(t, compile(t, Similarity, ``), subject).Score, 1e-9)
	require.Zero(t, *verdictOf(t, compile(t, Exact, ``), subject).Score)
	require.InDelta(t, 0.25, *verdictOf(t, compile(t, Expression, `{"expression":"0.25"}`), subject).Score, 1e-9)
	require.InDelta(t, 1, *verdictOf(t, compile(t, Expression, `{"expression":"7"}`), subject).Score, 1e-9)
}

func TestWhatARuleCannotJudge(t *testing.T) {
	t.Parallel()
	unknownTokens := verdictOf(t, compile(t, Expression, `{"expression":"tokens < 5"}`), Subject{})
	require.Equal(t, Failed, unknownTokens.Status)
	require.Equal(t, CodeExpression, unknownTokens.ErrorCode)
	require.Nil(t, unknownTokens.Passed)
	require.Equal(t, CodeExpression, verdictOf(t, compile(t, Expression, `{"expression":"1/0"}`), Subject{}).ErrorCode)
	require.Equal(t, CodeLimit, verdictOf(t, compile(t, Number, ``),
		Subject{Answer: "1e1000", Values: values("0")}).ErrorCode)
	require.Equal(t, CodeExpectation, verdictOf(t, compile(t, Exact, `{"ignore_punctuation":true}`),
		Subject{Answer: "", Values: values("!")}).ErrorCode)
	text := verdictOf(t, compile(t, Expression, `{"expression":"answer"}`), Subject{Answer: "x"})
	require.Equal(t, CodeExpression, text.ErrorCode)
	expectation := verdictOf(t, compile(t, Number, ``), Subject{Answer: "4", Values: values("four")})
	require.Equal(t, CodeExpectation, expectation.ErrorCode)
	require.Equal(t, `["expected.number","four"]`, expectation.ErrorMessage)
}

// The variables that an expression looks up are known even without a question.
func TestTheVariablesOfAnExpressionAreKnown(t *testing.T) {
	t.Parallel()
	for expression, want := range map[string][]string{
		`variables.level == "高" or answer contains variables["城市"]`: {"level", "城市"},
		`let v = variables.typo; v == ""`:                           {"typo"},
		`any(split(answer, " "), # == variables.word)`:              {"word"},
		`answer == expected and {"variables": 1}.variables == 1.0`:  nil,
	} {
		variables, err := VariablesOf(t.Context(), Expression, json.RawMessage(fmt.Sprintf(`{"expression":%q}`, expression)))
		require.NoError(t, err)
		require.Equal(t, want, variables, expression)
	}
	variables, err := VariablesOf(t.Context(), Exact, nil)
	require.NoError(t, err)
	require.Nil(t, variables)
}

func TestWrongConfigurationsAreNamed(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		kind                Kind
		config, field, says string
	}{
		{Exact, `{"ignore_cases":true}`, "ignore_cases", "unknown"},
		{Exact, `{"ignore_case":"yes"}`, "ignore_case", "string"},
		{Exact, `[]`, "", "not a JSON object"},
		{Exact, `{`, "", "not a JSON object"},
		{Exact, `{} {}`, "", "not a JSON object"},
		{Exact, `{}]`, "", "not a JSON object"},
		{Exact, `null`, "", "not a JSON object"},
		{Exact, `{"IGNORE_CASE":true}`, "IGNORE_CASE", "unknown"},
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
		{Similarity, `{"threshold":2}`, "threshold", "from 0 to 1"},
		{Expression, `{}`, "expression", ""},
		{Expression, `{"expression":"answer +"}`, "expression", "unexpected"},
		{Expression, `{"expression":"nothing > 1"}`, "expression", "unknown name"},
		{Expression, `{"expression":"now().Year() > 1"}`, "expression", "unknown"},
		{Latency, `{}`, "max_ms", ""},
		{Latency, `{"max_ms":1.5}`, "max_ms", "number"},
		{Latency, `{"max_ms":-1}`, "max_ms", "less"},
		{"nothing", `{}`, "kind", "not a rule"},
		{Exact, `{"expected":"` + strings.Repeat("x", MaxConfig) + `"}`, "", "64 KB"},
	} {
		_, err := Compile(t.Context(), test.kind, json.RawMessage(test.config))
		named := (*ConfigError)(nil)
		require.ErrorAs(t, err, &named, "%s %s", test.kind, reason.Cut(test.config, 100))
		require.Equal(t, test.field, named.Field, "%s %s: %v", test.kind, test.config, err)
		require.Contains(t, named.Detail, test.says)
	}
}

// hostile has rules and answers that, without limits, would run forever, take all memory, or end the process.
var hostile = map[string]struct {
	kind           Kind
	config, answer string
}{
	"a pattern that tries everything": {Regex, `{"pattern":"(x+x+)+y"}`, strings.Repeat("x", 8<<20)},
	"a pattern of many states":        {Regex, `{"pattern":"(a?){1000}b"}`, strings.Repeat("a", 8<<20)},
	"a number without end":            {Number, `{}`, strings.Repeat("9", 8<<20)},
	"a number with a large exponent":  {Number, `{}`, "1e999999999"},
	"a long answer":                   {Similarity, `{}`, strings.Repeat("语", 2<<20)},
	"punctuation without end": {Exact, `{"ignore_punctuation":true,"ignore_case":true,"ignore_whitespace":true}`,
		strings.Repeat("。 A", 2<<20)},
	"many texts searched for in many": {Contains,
		`{"values":[` + strings.TrimSuffix(strings.Repeat(`"aaaab",`, 8000), ",") + `]}`, strings.Repeat("a", 8<<20)},
	"a schema that doubles itself": {JSONSchema,
		`{"schema":{"$defs":{"a":{"allOf":[{"properties":{"n":{"$ref":"#/$defs/a"}}},{"properties":{"n":{"$ref":"#/$defs/a"}}}]}},"$ref":"#/$defs/a"}}`, strings.Repeat(`{"n":`, 40) + "1" + strings.Repeat("}", 40)},
	"a schema that doubles under not": {JSONSchema,
		`{"schema":{"$defs":{"a":{"type":"array","items":{"$ref":"#/$defs/a"},"contains":{"$ref":"#/$defs/a"}}},"not":{"$ref":"#/$defs/a"}}}`, strings.Repeat("[", 40) + "1" + strings.Repeat("]", 40)},
	"errors that remember long paths": {JSONSchema,
		`{"schema":{"$defs":{"a":{"prefixItems":[{"$ref":"#/$defs/a"}],"items":false}},"$ref":"#/$defs/a"}}`,
		strings.Repeat("[", 5000) + "1" + strings.Repeat(",1", 400_000) + strings.Repeat("]", 5000)},
	"a pattern in a schema": {JSONSchema, `{"schema":{"pattern":"(a?){1000}b"}}`,
		`"` + strings.Repeat("a", 900<<10) + `"`},
	"numbers with large exponents": {JSONSchema, `{"schema":{"items":{"type":"integer"}}}`,
		"[1" + strings.Repeat(",1e999999", 110_000) + "]"},
	"an answer of a million lists": {JSONSchema, `{"schema":{"type":"object"}}`, strings.Repeat("[", 1<<20)},
	"a path of unions": {JSONPath,
		`{"path":"$` + strings.Repeat("[0,0,0,0,0,0,0,0,0,0]", 90) + `","equals":1}`,
		strings.Repeat("[", 95) + "1" + strings.Repeat("]", 95)},
	"a path that matches patterns": {JSONPath, `{"path":"$[?search(@,'(x+x+)+(a?){1000}y')]","equals":1}`,
		`["` + strings.Repeat("x", 900<<10) + `"]`},
	"an answer of eight megabytes": {JSONPath, `{"path":"$..a","equals":1}`, `"` + strings.Repeat("a", 8<<20) + `"`},
	"predicates in predicates": {Expression,
		`{"expression":"let a = 1..900; all(a, all(a, all(a, all(a, true))))"}`, ""},
	"medians of a large list": {Expression, `{"expression":"let r=1..900000;all(1..60000,median(r)>0)"}`, ""},
	"a text that doubles": {Expression, `{"expression":"len(reduce(1..40, #acc + #acc, answer)) > 0"}`,
		strings.Repeat("x", 20_000)},
	"a list that doubles": {Expression, `{"expression":"len(string(reduce(1..40,[#acc,#acc],1)))>0"}`, ""},
	"a list too deep for the stack": {Expression,
		`{"expression":"let x=reduce(1..1040,` + strings.Repeat("[", 900) + "#acc" + strings.Repeat("]", 900) +
			`,1);len(string(x))>0"}`, ""},
	"a text repeated": {Expression, `{"expression":"len(repeat(repeat(answer, 100000), 100000)) > 0"}`,
		"xxxxxxxxxx"},
	"a pattern for each number": {Expression,
		`{"expression":"all(1..20000, not (answer matches \"(a|a|b|[^c])*(x+x+)+y{20}z\"))"}`, strings.Repeat("x", 20_000)},
}

// Even a hostile rule and a hostile answer lead to a verdict, and this process survives: at worst a child process
// ends.
func TestHostileRulesEnd(t *testing.T) {
	t.Parallel()
	for name, test := range hostile {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rule, err := Compile(t.Context(), test.kind, json.RawMessage(test.config))
			if err != nil {
				require.ErrorAs(t, err, new(*ConfigError))
				return
			}
			verdict := verdictOf(t, rule, Subject{Answer: test.answer, Values: values("42")})
			require.Contains(t, []Status{Succeeded, Failed}, verdict.Status)
			if verdict.Status == Failed {
				require.Equal(t, CodeLimit, verdict.ErrorCode, verdict.ErrorMessage)
			}
		})
	}
}

// Rules that would take forever to compile are refused.
func TestHostileConfigurationsAreRefused(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		kind   Kind
		config string
	}{
		"predicates in predicates": {Expression,
			`{"expression":"` + strings.Repeat("(", 24) + "true" + strings.Repeat("?:true)", 24) + `"}`},
		"a schema nested without end": {JSONSchema,
			`{"schema":` + strings.Repeat(`{"not":`, 7000) + "true" + strings.Repeat("}", 7000) + "}"},
		"exponents without end": {JSONSchema,
			`{"schema":{"allOf":[` + strings.TrimSuffix(strings.Repeat(`{"minimum":1e999999},`, 800), ",") + `]}}`},
		"a repetition of a repetition": {Regex, `{"pattern":"(?:` + strings.Repeat("a", 1980) + `){1000}"}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := Compile(t.Context(), test.kind, json.RawMessage(test.config))
			require.ErrorAs(t, err, new(*ConfigError))
		})
	}
}

// A rule that exceeded a limit three times stops judging, so that its cost is bounded for the whole launch. The next
// child process judges other rules and answers.
func TestARuleThatTakesTooMuchIsSwitchedOff(t *testing.T) {
	t.Parallel()
	rule := compile(t, Expression, `{"expression":"answer == \"well\" or len(reduce(1..40, #acc + #acc, \"x\")) > 0"}`)
	for range limitedMost - 1 {
		require.Equal(t, CodeLimit, verdictOf(t, rule, Subject{Answer: "bad"}).ErrorCode)
		require.True(t, *verdictOf(t, rule, Subject{Answer: "well"}).Passed, "the next one is judged")
	}
	require.Equal(t, CodeLimit, verdictOf(t, rule, Subject{Answer: "bad"}).ErrorCode)
	require.Equal(t, CodeLimit, verdictOf(t, rule, Subject{Answer: "well"}).ErrorCode)
	require.True(t, *verdictOf(t, compile(t, Expression, `{"expression":"answer == \"well\""}`),
		Subject{Answer: "well"}).Passed)
}

// A caller that no longer needs a verdict waits neither for a free child process nor for the verdict, and this does not
// count against the rule.
func TestJudgingEndsWithItsContext(t *testing.T) {
	t.Parallel()
	full := newPool()
	for range cap(full.working) {
		full.working <- struct{}{}
	}
	ended, end := context.WithCancel(t.Context())
	end()
	_, err := full.ask(ended, order{Rules: []ordered{{Kind: Expression, Config: []byte(`{"expression":"true"}`)}}})
	require.ErrorIs(t, err, context.Canceled)
	_, err = Compile(ended, Expression, json.RawMessage(`{"expression":"1 + 1 == 2"}`))
	require.ErrorIs(t, err, context.Canceled)

	rule := compile(t, Expression, `{"expression":"answer == \"well\" or len(reduce(1..40, #acc + #acc, \"x\")) > 0"}`)
	for range limitedMost {
		soon, stop := context.WithTimeout(t.Context(), 10*time.Millisecond)
		_, err = rule.Evaluate(soon, Subject{Answer: "bad"})
		stop()
		require.ErrorIs(t, err, context.DeadlineExceeded)
	}
	require.True(t, *verdictOf(t, rule, Subject{Answer: "well"}).Passed)
	_, err = EvaluateAll(ended, []*Rule{rule, rule}, Subject{Answer: "well"})
	require.ErrorIs(t, err, context.Canceled)
}

// Rules judge together as each would alone, even if one of them exceeds a limit or has nothing to compare with.
func TestRulesJudgeTogether(t *testing.T) {
	t.Parallel()
	rules := []*Rule{
		compile(t, Expression, `{"expression":"len(answer) == 1"}`), compile(t, Exact, ``),
		compile(t, JSONPath, `{"path":"$"}`),
		compile(t, Expression, `{"expression":"len(reduce(1..40, #acc + #acc, answer)) > 0"}`),
		compile(t, JSONSchema, `{"schema":{"type":"integer"}}`),
	}
	verdicts, err := EvaluateAll(t.Context(), rules, Subject{Answer: "7", Values: values("")})
	require.NoError(t, err)
	require.True(t, *verdicts[0].Passed)
	require.Equal(t, Skipped, verdicts[1].Status)
	require.Equal(t, Skipped, verdicts[2].Status)
	require.Equal(t, CodeLimit, verdicts[3].ErrorCode)
	require.True(t, *verdicts[4].Passed)
	verdicts, err = EvaluateAll(t.Context(), append(rules[:3:3], rules[4]), Subject{Answer: "7", Values: values("7")})
	require.NoError(t, err)
	for n, verdict := range verdicts {
		require.True(t, *verdict.Passed, n)
	}
}

// Ten rules on an answer of typical length.
func BenchmarkTenRules(b *testing.B) {
	var rules []*Rule
	for kind, config := range map[Kind]string{
		Exact: `{"ignore_case":true}`, Contains: `{}`, Regex: `{"pattern":"第[一二三四五六七八九十百]+条"}`, Number: `{}`,
		Similarity: `{}`, Latency: `{"max_ms":500}`,
		JSONSchema: `{"schema":{"type":"object"}}`, JSONPath: `{"path":"$.a","equals":1}`,
		Expression: `{"expression":"len(answer) > 10 and not (answer contains \"抱歉\")"}`,
	} {
		rules = append(rules, compile(b, kind, config))
	}
	rules = append(rules, compile(b, Regex, `{"pattern":"^\\s*结论"}`))
	subject := Subject{Answer: strings.Repeat("根据《中华人民共和国民法典》第五百七十七条之规定，当事人一方不履行合同义务的，应当承担违约责任。", 40),
		Values: values("应当承担违约责任 42")}
	for b.Loop() {
		_, err := EvaluateAll(b.Context(), rules, subject)
		require.NoError(b, err)
	}
}

// Error messages of libraries, which are in English, are never shown: a refused configuration or answer is
// explained in sentences of the catalogues.
func TestLibrariesErrorsAreSentences(t *testing.T) {
	t.Parallel()
	because := func(t *testing.T, why, key string, values ...string) {
		t.Helper()
		require.Equal(t, reason.Because(key, values...), why)
		_, isOne := reason.Read(why)
		require.True(t, isOne, why)
	}
	for _, test := range []struct {
		kind   Kind
		config string
		key    string
		values []string
	}{
		{Expression, `{"expression": "answer +"}`, "expression.ends", []string{"1", "8"}},
		{Expression, `{"expression": "nope > 1"}`, "expression.unknown", []string{"1", "1", "nope"}},
		{Expression, `{"expression": "answer > 1"}`, "expression.types", []string{"1", "8", "string", "number"}},
		{Expression, `{"expression": "answer.x"}`, "expression.absent", []string{"1", "8", "x"}},
		{Expression, `{"expression": "len(1)"}`, "expression.fails", []string{"1", "1", "len(1)"}},
		{JSONSchema, `{"schema": {"type": "thing"}}`, "schema.choice",
			[]string{"/type", "array", "boolean", "integer", "null", "number"}},
		{JSONSchema, `{"schema": {"$ref": "other.json"}}`, "schema.refers", []string{"wending:///other.json"}},
		{JSONSchema, `{"schema": {"$ref": "#/$defs/a"}}`, "schema.reference", []string{"#/$defs/a"}},
		{JSONPath, `{"path": "$.a[", "equals": 1}`, "path.invalid", []string{"5", "$.a["}},
		{Regex, `{"pattern": "(a"}`, "regex.closing", []string{"(a"}},
		{Regex, `{"pattern": "a(?=b)"}`, "regex.perl", []string{"(?="}},
		{Regex, `{"pattern": "*"}`, "regex.repeat", []string{"*"}},
	} {
		_, err := Compile(t.Context(), test.kind, json.RawMessage(test.config))
		require.Error(t, err, test.config)
		because(t, Explain(err), test.key, test.values...)
	}
	for _, test := range []struct {
		kind           Kind
		config, answer string
		key            string
		values         []string
	}{
		{Expression, `{"expression": "int(answer) > 1"}`, "abc", "expression.convert", []string{"1", "1", "abc"}},
		{Expression, `{"expression": "fromJSON(answer).a"}`, "abc", "expression.json", []string{"1", "1"}},
		{Expression, `{"expression": "split(answer, \",\")[5] == \"\""}`, "a,b", "expression.index",
			[]string{"1", "19", "5", "2"}},
		{Expression, `{"expression": "1 % (len(answer) - 3)"}`, "abc", "expression.zero", []string{"1", "3"}},
		{Expression, `{"expression": "fromJSON(answer) + 1"}`, "{}", "expression.types",
			[]string{"1", "18", "object", "number"}},
		{JSONSchema, `{"schema": {"uniqueItems": true}}`, "[1, 2, 1]", "schema.unique", []string{"/", "1", "3"}},
		{JSONSchema, `{"schema": {"oneOf": [true, true]}}`, "[1]", "schema.oneof", []string{"/"}},
		{JSONSchema, `{"schema": {"properties": {"a": {"multipleOf": 5}}}}`, `{"a": 7}`, "schema.multiple",
			[]string{"/a", "7", "5"}},
		{JSONSchema, `{"schema": {"dependentRequired": {"a": ["b"]}}}`, `{"a": 7}`, "schema.depends",
			[]string{"/", "a", "b"}},
		{JSONSchema, `{"schema": {"not": {"type": "object"}}}`, `{"a": 7}`, "schema.not", []string{"/"}},
	} {
		rule, err := Compile(t.Context(), test.kind, json.RawMessage(test.config))
		require.NoError(t, err, test.config)
		verdict := verdictOf(t, rule, Subject{Answer: test.answer})
		because(t, cmp.Or(verdict.Reason, verdict.ErrorMessage), test.key, test.values...)
	}
}
