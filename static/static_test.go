package static_test

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// ownProperty matches a use of a form's own property that a control with the same name would shadow.
var ownProperty = regexp.MustCompile(`\b(?:form|event\.target)\.(?:dataset|action|method|target|title|id)\b`)

// A control shadows the form's property of the same name: if a select is named dataset, form.dataset is that select.
// Attributes cannot be shadowed.
func TestScriptsReadTheAttributesOfForms(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("assets/js/*.js")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		script, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Empty(t, ownProperty.FindAllString(string(script), -1), file)
	}
}
