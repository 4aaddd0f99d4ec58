package evaluate

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"unicode/utf8"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
)

// environment is what an expression can name.
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
		"question": s.Values["question"], "answer": s.Answer, "expected": expected, "variables": variables, "latency_ms": s.LatencyMS, "tokens": tokens,
	}
}

// unsteady are functions of the language whose results change by themselves.
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
		return nil, wrong("expression", "more than %d characters", maxExpression)
	case !(c.Threshold >= 0 && c.Threshold <= 1):
		return nil, limitedTo("threshold", Share, "a number from 0 to 1")
	}
	none := 0 // for its type
	options := []expr.Option{expr.Env(environment(Subject{Tokens: &none}, "")), expr.AsAny()}
	for _, name := range unsteady {
		options = append(options, expr.DisableBuiltin(name))
	}
	program, err := expr.Compile(c.Expression, options...)
	if err != nil {
		return nil, wrong("expression", "%s", cut(err.Error(), 2*maxShown))
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
			return failed(CodeExpression, cut(firstLine(err.Error()), maxShown))
		}
		var score float64
		switch result := result.(type) {
		case bool:
			return decided(result, Because("expression.false"))
		case int:
			score = float64(result)
		case float64:
			score = result
		default:
			return failed(CodeExpression, Because("expression.kind", fmt.Sprintf("%T", result)))
		}
		if math.IsNaN(score) || math.IsInf(score, 0) {
			return failed(CodeExpression, Because("expression.number"))
		}
		score = min(1, max(0, score))
		return scored(score, score >= c.Threshold, Because("expression.below", figure(score), figure(c.Threshold)))
	}}, nil
}

// variableNames collects the names under which an expression looks variables up: variables.level, variables["level"].
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

// VariablesOf returns the names of variables that an evaluator's expression looks up; none for other kinds, and for a
// configuration that cannot be used.
func VariablesOf(kind Kind, config json.RawMessage) []string {
	if kind != Expression {
		return nil
	}
	rule, err := Compile(kind, config)
	if err != nil {
		return nil
	}
	return rule.variables
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}
