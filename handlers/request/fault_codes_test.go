package request_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"wending/handlers/request"
)

// Each code is written once: other code uses its constant.
func TestCodesAreConstants(t *testing.T) {
	t.Parallel()
	codes, files := request.FaultCodes(), 0
	require.NoError(t, filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		isOther := !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") ||
			path == filepath.Join("..", "request", "fault_codes.go")
		if err != nil || entry.IsDir() || isOther {
			return err
		}
		files++
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, path, nil, 0)
		require.NoError(t, err)
		ast.Inspect(file, func(node ast.Node) bool {
			if literal, is := node.(*ast.BasicLit); is && literal.Kind == token.STRING {
				text, err := strconv.Unquote(literal.Value)
				require.NoError(t, err)
				require.False(t, slices.Contains(codes, text), "%s: %q has a constant", set.Position(literal.Pos()), text)
			}
			return true
		})
		return nil
	}))
	require.Greater(t, files, 50)
}
