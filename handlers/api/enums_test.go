package api

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Every constant of a type is in the list from which the document takes the type's values.
func TestEveryConstantIsInTheListOfItsType(t *testing.T) {
	t.Parallel()
	for _, enum := range enums() {
		if enum.Type == nil { // strings that share a list have no type of their own
			continue
		}
		folder := filepath.Join("..", "..", strings.TrimPrefix(enum.Type.PkgPath(), "wending/"))
		files, err := filepath.Glob(filepath.Join(folder, "*.go"))
		require.NoError(t, err)
		var constants []any
		for _, file := range files {
			parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
			require.NoError(t, err)
			ast.Inspect(parsed, func(node ast.Node) bool {
				spec, isSpec := node.(*ast.ValueSpec)
				if !isSpec || len(spec.Values) != 1 {
					return true
				}
				name, isNamed := spec.Type.(*ast.Ident)
				value, isText := spec.Values[0].(*ast.BasicLit)
				if isNamed && isText && name.Name == enum.Type.Name() {
					text, err := strconv.Unquote(value.Value)
					require.NoError(t, err)
					constants = append(constants, text)
				}
				return true
			})
		}
		require.ElementsMatch(t, constants, enum.Values, enum.Type)
	}
}
