package evaluate

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"strings"
	"unicode/utf8"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/vm"
)

// What an expression may take. Of answers and other texts it sees the beginning; what it makes of them, and every pass of
// a predicate, is spent from the same budget.
const (
	maxText   = 20_000 // characters
	maxSpent  = 4 << 20
	passCosts = 64
)

// safeBuiltins are those of the language that take no longer, and need no more memory, than what they are given.
var safeBuiltins = []string{
	"all", "any", "one", "none", "filter", "find", "findIndex", "findLast", "findLastIndex", "count", "sum", "map", "len", "type", "abs", "ceil", "floor", "round",
	"int", "float", "trim", "trimPrefix", "trimSuffix", "hasPrefix", "hasSuffix", "indexOf", "lastIndexOf", "max", "min", "mean", "median", "first", "last",
	"keys", "values", "get",
}

// Names of the functions that stand in for what could take too much.
const (
	passName    = "__pass"
	addName     = "__add"
	matchesName = "__matches"
)

// metered puts the functions that are metered in the places of what they stand in for.
type metered struct{}

// Visit implements ast.Visitor.
func (metered) Visit(node *ast.Node) {
	call := func(name string, arguments ...ast.Node) ast.Node {
		return &ast.CallNode{Callee: &ast.IdentifierNode{Value: name}, Arguments: arguments}
	}
	switch n := (*node).(type) {
	case *ast.PredicateNode:
		n.Node = &ast.ConditionalNode{Cond: call(passName), Exp1: n.Node, Exp2: n.Node}
	case *ast.BinaryNode:
		switch n.Operator {
		case "+":
			ast.Patch(node, call(addName, n.Left, n.Right))
		case "matches":
			ast.Patch(node, call(matchesName, n.Left, n.Right))
		}
	}
}

// budget is what one evaluation may still spend.
type budget struct{ left int }

func (b *budget) spend(cost int) error {
	if b.left -= cost; b.left < 0 {
		return errLimit
	}
	return nil
}

// environment is what an expression can name.
func environment(s Subject, expected string, b *budget) map[string]any {
	variables := map[string]string{}
	for name, value := range s.Values {
		variables[name] = beginning(value)
	}
	var tokens any
	if s.Tokens != nil {
		tokens = *s.Tokens
	}
	text := func(text string) (string, error) { return text, b.spend(len(text)) }
	return map[string]any{
		"question": beginning(s.Values["question"]), "answer": beginning(s.Answer), "expected": beginning(expected), "variables": variables,
		"latency_ms": s.LatencyMS, "tokens": tokens,
		passName: func() (bool, error) { return true, b.spend(passCosts) },
		addName: func(one, other any) (any, error) {
			if left, isText := one.(string); isText {
				right, isText := other.(string)
				if !isText {
					return nil, fmt.Errorf("a text and a %T cannot be added", other)
				}
				return left + right, b.spend(len(left) + len(right))
			}
			return add(one, other)
		},
		matchesName: func(text, expression string) (bool, error) {
			compiled, err := compilePattern(expression)
			if err != nil {
				return false, err
			}
			if err := b.spend(compiled.instructions); err != nil {
				return false, err
			}
			return compiled.matches(text)
		},
		"lower":  func(given string) (string, error) { return text(strings.ToLower(given)) },
		"upper":  func(given string) (string, error) { return text(strings.ToUpper(given)) },
		"string": func(value any) (string, error) { return text(fmt.Sprint(value)) },
		"split": func(given, by string) ([]string, error) {
			parts := strings.SplitN(given, by, maxText)
			return parts, b.spend(len(given) + 16*len(parts))
		},
		"fromJSON": func(given string) (any, error) {
			if err := b.spend(16 * len(given)); err != nil {
				return nil, err
			}
			var value any
			err := json.Unmarshal([]byte(given), &value)
			return value, err
		},
	}
}

// add adds numbers.
func add(one, other any) (any, error) {
	if a, isInt := one.(int); isInt {
		if b, isInt := other.(int); isInt {
			return a + b, nil
		}
	}
	a, isNumber := number(one)
	b, areNumbers := number(other)
	if !isNumber || !areNumbers {
		return nil, fmt.Errorf("a %T and a %T cannot be added", one, other)
	}
	return a + b, nil
}

func number(value any) (float64, bool) {
	switch value := value.(type) {
	case int:
		return float64(value), true
	case float64:
		return value, true
	}
	return 0, false
}

func beginning(text string) string {
	if utf8.RuneCountInString(text) <= maxText {
		return text
	}
	return string([]rune(text)[:maxText])
}

func newExpression(config json.RawMessage) (*Rule, error) {
	c := struct {
		Expected   string  `json:"expected"`
		Expression string  `json:"expression"`
		Threshold  float64 `json:"threshold"`
	}{Threshold: 0.5}
	if err := read(config, &c); err != nil {
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
	options := []expr.Option{expr.Env(environment(Subject{Tokens: &none}, "", &budget{})), expr.DisableAllBuiltins(), expr.Patch(metered{}), expr.AsAny()}
	for _, name := range safeBuiltins {
		options = append(options, expr.EnableBuiltin(name))
	}
	program, err := expr.Compile(c.Expression, options...)
	if err != nil {
		return nil, wrong("expression", "%s", cut(err.Error(), 2*maxShown))
	}
	return &Rule{expected: c.Expected, judge: func(s Subject, expected string) Verdict {
		result, err := run(program, environment(s, expected, &budget{maxSpent}))
		if err != nil {
			if errors.Is(err, errLimit) || strings.Contains(err.Error(), "memory budget exceeded") {
				return limited()
			}
			return failed(CodeExpression, firstLine(err.Error()))
		}
		switch result := result.(type) {
		case bool:
			return decided(result, "false")
		default:
			score, isNumber := number(result)
			if !isNumber || math.IsNaN(score) {
				return failed(CodeExpression, fmt.Sprintf("neither true or false nor a number: %T", result))
			}
			score = min(1, max(0, score))
			return scored(score, score >= c.Threshold, fmt.Sprintf("%.2f < %.2f", score, c.Threshold))
		}
	}}, nil
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

func run(program *vm.Program, environment map[string]any) (result any, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("%v", cause)
		}
	}()
	return expr.Run(program, maps.Clone(environment))
}
