package db_test

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/tools/go/packages"

	"wending/db/dbtest"
)

// PostgreSQL accepts every statement under db whose text consists of constants and of functions that return one
// expression, even if no other test runs it.
func TestEveryStatementIsUnderstood(t *testing.T) {
	t.Parallel()
	loaded, err := packages.Load(&packages.Config{
		Mode: packages.NeedName | packages.NeedFiles | packages.NeedImports | packages.NeedSyntax | packages.NeedTypes |
			packages.NeedTypesInfo,
		Dir: "..",
	}, "./db/...")
	require.NoError(t, err)
	found := statements{texts: map[string]string{}, functions: map[types.Object]returned{}}
	for _, one := range loaded {
		require.Empty(t, one.Errors)
		found.declare(one)
	}
	for _, one := range loaded {
		// Excluded are statements between two migrations, which refer to other tables, and statements that fill test
		// databases, which other tests run.
		if !strings.HasSuffix(one.PkgPath, "/upgrade") && !strings.HasSuffix(one.PkgPath, "/dbtest") {
			found.collect(one)
		}
	}
	require.Greater(t, len(found.texts), 300)
	_, tables := dbtest.Open(t)
	for text, place := range found.texts {
		prepared, err := tables.Prepare(numbered(text))
		if err == nil {
			err = prepared.Close()
		}
		assert.NoError(t, err, "%s:\n%s", place, text)
	}
}

// begun matches the beginning of a complete statement.
var begun = regexp.MustCompile(`^\s*(SELECT|INSERT INTO|UPDATE|DELETE FROM|WITH|MERGE INTO)\s`)

var named = regexp.MustCompile(`(^|[^:\w]):([a-z_][a-z_0-9]*)`)

// numbered replaces a statement's named parameters with numbers.
func numbered(text string) string {
	numbers := map[string]int{}
	return named.ReplaceAllStringFunc(text, func(match string) string {
		before, name, _ := strings.Cut(match, ":")
		if numbers[name] == 0 {
			numbers[name] = len(numbers) + 1
		}
		return fmt.Sprintf("%s$%d", before, numbers[name])
	})
}

// statements collects the texts of statements, with the position of each.
type statements struct {
	texts     map[string]string
	functions map[types.Object]returned
}

// returned is a function that only returns an expression.
type returned struct {
	info       *types.Info
	parameters []types.Object
	result     ast.Expr
}

// declare records the functions of a package that only return one expression.
func (s statements) declare(of *packages.Package) {
	for _, file := range of.Syntax {
		for _, declared := range file.Decls {
			function, isFunction := declared.(*ast.FuncDecl)
			if !isFunction || function.Recv != nil || function.Body == nil || len(function.Body.List) != 1 {
				continue
			}
			last, isReturn := function.Body.List[0].(*ast.ReturnStmt)
			if !isReturn || len(last.Results) != 1 {
				continue
			}
			one := returned{info: of.TypesInfo, result: last.Results[0]}
			for _, field := range function.Type.Params.List {
				for _, name := range field.Names {
					one.parameters = append(one.parameters, of.TypesInfo.Defs[name])
				}
			}
			s.functions[of.TypesInfo.Defs[function.Name]] = one
		}
	}
}

// partsOf returns the constants of a package that are parts of other texts.
func partsOf(of *packages.Package) map[types.Object]bool {
	parts := map[types.Object]bool{}
	for _, file := range of.Syntax {
		ast.Inspect(file, func(node ast.Node) bool {
			if sum, isSum := node.(*ast.BinaryExpr); isSum {
				for _, operand := range []ast.Expr{sum.X, sum.Y} {
					if name, isName := operand.(*ast.Ident); isName {
						parts[of.TypesInfo.Uses[name]] = true
					}
				}
			}
			return true
		})
	}
	return parts
}

// collect records the largest expressions of a package that are complete statements.
func (s statements) collect(of *packages.Package) {
	used := partsOf(of)
	for _, file := range of.Syntax {
		ast.Inspect(file, func(node ast.Node) bool {
			if declared, isSpec := node.(*ast.ValueSpec); isSpec && used[of.TypesInfo.Defs[declared.Names[0]]] {
				return false // a part is read where it is used
			}
			expression, isExpression := node.(ast.Expr)
			if !isExpression {
				return true
			}
			text, isKnown := s.text(of.TypesInfo, expression, nil)
			if !isKnown { // if the whole sum is not constant, its parts are not statements
				_, isSum := node.(*ast.BinaryExpr)
				return !isSum
			}
			if begun.MatchString(text) {
				s.texts[text] = of.Fset.Position(node.Pos()).String()
			}
			return false
		})
	}
}

// text returns the value of an expression, given the values of the function's parameters.
func (s statements) text(info *types.Info, expression ast.Expr,
	values map[types.Object]string) (text string, isKnown bool) {
	if value := info.Types[expression].Value; value != nil && value.Kind() == constant.String {
		return constant.StringVal(value), true
	}
	switch of := expression.(type) {
	case *ast.ParenExpr:
		return s.text(info, of.X, values)
	case *ast.Ident:
		text, isKnown = values[info.Uses[of]]
		return text, isKnown
	case *ast.BinaryExpr:
		left, hasLeft := s.text(info, of.X, values)
		right, hasRight := s.text(info, of.Y, values)
		return left + right, hasLeft && hasRight && of.Op == token.ADD
	case *ast.CallExpr:
		return s.call(info, of, values)
	}
	return "", false
}

// call returns the value of a call to a function that returns one expression.
func (s statements) call(info *types.Info, of *ast.CallExpr,
	values map[types.Object]string) (text string, isKnown bool) {
	name := of.Fun
	if selected, isSelected := name.(*ast.SelectorExpr); isSelected {
		name = selected.Sel
	}
	called, isIdent := name.(*ast.Ident)
	if !isIdent {
		return "", false
	}
	function, isKnown := s.functions[info.Uses[called]]
	if !isKnown || len(function.parameters) != len(of.Args) {
		return "", false
	}
	given := map[types.Object]string{}
	for n, argument := range of.Args {
		if given[function.parameters[n]], isKnown = s.text(info, argument, values); !isKnown {
			return "", false
		}
	}
	return s.text(function.info, function.result, given)
}
