package evaluate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/file"

	"wending/jobs/reason"
)

// environment returns the values that an expression can use, keyed by name.
func environment(s Subject, expected string) map[string]any {
	variables := s.Values
	if variables == nil {
		variables = map[string]string{}
	}
	var tokens any
	if s.Tokens != nil {
		tokens = *s.Tokens
	}
	return map[string]any{
		"question": s.Values["question"], "answer": s.Answer, "expected": expected, "variables": variables,
		"latency_ms": s.LatencyMS, "tokens": tokens,
	}
}

// unsteady lists functions of the language whose results change between calls.
var unsteady = []string{"now"}

func newExpression(config json.RawMessage) (*Rule, error) {
	c := struct {
		Expected   string  `json:"expected"`
		Expression string  `json:"expression"`
		Threshold  float64 `json:"threshold"`
	}{Threshold: 0.5}
	if err := ReadConfig(config, &c); err != nil {
		return nil, err
	}
	switch {
	case strings.TrimSpace(c.Expression) == "":
		return nil, &ConfigError{Field: "expression"}
	case utf8.RuneCountInString(c.Expression) > maxExpression:
		return nil, wrong("expression", nil, "config.long", strconv.Itoa(maxExpression))
	case !(c.Threshold >= 0 && c.Threshold <= 1):
		return nil, limitedTo("threshold", Share, "a number from 0 to 1")
	}
	none := 0 // only its type matters
	options := []expr.Option{expr.Env(environment(Subject{Tokens: &none}, "")), expr.AsAny()}
	for _, name := range unsteady {
		options = append(options, expr.DisableBuiltin(name))
	}
	program, err := expr.Compile(c.Expression, options...)
	if err != nil {
		return nil, &ConfigError{Field: "expression", Detail: reason.Cut(err.Error(), 2*reason.MaxShown),
			Why: expressionProblem(c.Expression, err)}
	}
	named := &variableNames{}
	tree := program.Node()
	ast.Walk(&tree, named)
	return &Rule{expected: c.Expected, variables: named.names, judge: func(s Subject, expected string) Verdict {
		result, err := expr.Run(program, environment(s, expected))
		if err != nil {
			if strings.Contains(err.Error(), "memory budget exceeded") {
				return limited()
			}
			return failed(CodeExpression, expressionProblem(c.Expression, err))
		}
		var score float64
		switch result := result.(type) {
		case bool:
			return decided(result, reason.Because("expression.false"))
		case int:
			score = float64(result)
		case float64:
			score = result
		default:
			return failed(CodeExpression, reason.Because("expression.kind", kinds.Replace(fmt.Sprintf("%T", result))))
		}
		if math.IsNaN(score) || math.IsInf(score, 0) {
			return failed(CodeExpression, reason.Because("expression.number"))
		}
		score = min(1, max(0, score))
		return scored(score, score >= c.Threshold, reason.Because("expression.below", figure(score), figure(c.Threshold)))
	}}, nil
}

// variableNames collects the names of the variables that an expression looks up, as in variables.level or
// variables["level"].
type variableNames struct{ names []string }

// Visit implements ast.Visitor.
func (v *variableNames) Visit(node *ast.Node) {
	member, isMember := (*node).(*ast.MemberNode)
	if !isMember {
		return
	}
	of, isName := member.Node.(*ast.IdentifierNode)
	name, isText := member.Property.(*ast.StringNode)
	if isName && isText && of.Value == "variables" {
		v.names = append(v.names, name.Value)
	}
}

// VariablesOf returns the names of the variables that an evaluator's expression looks up; none for other kinds, and
// none for a configuration that cannot be used. The only error is the context's.
func VariablesOf(ctx context.Context, kind Kind, config json.RawMessage) ([]string, error) {
	if kind != Expression {
		return nil, nil
	}
	rule, err := Compile(ctx, kind, config)
	if err != nil {
		return nil, ctx.Err()
	}
	return rule.variables, nil
}

// expressionProblems maps the error messages of the expression library to sentences: the groups of a pattern are
// the sentence's values, after the line and the column.
var expressionProblems = []struct {
	says *regexp.Regexp
	key  string
}{
	{regexp.MustCompile(`^unknown name (.+)$`), "expression.unknown"},
	{regexp.MustCompile(`^(?:unexpected token EOF|unexpected end|literal not terminated)`), "expression.ends"},
	{regexp.MustCompile(`^unexpected token \w+\("(.*)"\)`), "expression.token"},
	{regexp.MustCompile(`mismatched types (.+) and (.+)\)$`), "expression.types"},
	{regexp.MustCompile(`^invalid operation: (?:int|int64|float|bool)\((.*)\)$`), "expression.convert"},
	{regexp.MustCompile(`^invalid operation: (.+) [-+*/%<>=!^]+ (.+)$`), "expression.types"},
	{regexp.MustCompile(`^index out of range: (\S+) \(array length is (\S+)\)`), "expression.index"},
	{regexp.MustCompile(`divide by zero`), "expression.zero"},
	{regexp.MustCompile(`^cannot (?:fetch|get) (.+) from`), "expression.absent"},
	{regexp.MustCompile(`has no (?:field|method) (\S+)$`), "expression.absent"},
	{regexp.MustCompile(`^error parsing regexp`), "expression.regex"},
}

// kinds replaces the names of Go types with words that users know.
var kinds = strings.NewReplacer("map[string]interface {}", "object", "[]interface {}", "list", "<nil>", "null",
	"float64", "number", "int", "number")

// expressionProblem returns why an expression cannot be compiled or evaluated, in the form of reason.Because.
func expressionProblem(expression string, err error) string {
	place := (*file.Error)(nil)
	if !errors.As(err, &place) {
		return reason.Because("expression.fault")
	}
	at := []string{strconv.Itoa(place.Line), strconv.Itoa(place.Column + 1)}
	for _, problem := range expressionProblems {
		found := problem.says.FindStringSubmatch(place.Message)
		if found == nil {
			continue
		}
		values := found[1:]
		if problem.key == "expression.types" {
			values = []string{kinds.Replace(values[0]), kinds.Replace(values[1])}
		}
		return reason.Because(problem.key, append(at, values...)...)
	}
	if notJSON := (*json.SyntaxError)(nil); errors.As(place.Prev, &notJSON) {
		return reason.Because("expression.json", at...)
	}
	part := []rune(expression)
	part = part[min(max(place.From, 0), len(part)):]
	return reason.Because("expression.fails", append(at, reason.Cut(string(part), maxPart))...)
}
