package ui_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/a-h/templ"
	"github.com/stretchr/testify/require"

	"wending/views/ui"
)

func TestAButtonHasNoAttributesThatItDoesNotNeed(t *testing.T) {
	t.Parallel()
	for want, given := range map[string]templ.OrderedAttributes{
		` class="btn"`: ui.Button(ui.Primary, ui.Normal),
		` class="btn" data-variant="outline" data-size="sm"`: ui.Button(ui.Outline, ui.Small),
		` class="btn only-script" data-size="icon"`:          ui.Button(ui.Primary, ui.Square, "only-script"),
	} {
		var written strings.Builder
		require.NoError(t, templ.RenderAttributes(t.Context(), &written, given))
		require.Equal(t, want, written.String())
	}
}

// Pages use Button for all buttons.
func TestPagesMakeTheirButtonsWithButton(t *testing.T) {
	t.Parallel()
	require.NoError(t, filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".templ" {
			return err
		}
		content, err := os.ReadFile(path)
		require.NoError(t, err)
		require.NotContains(t, string(content), `class="btn`, path)
		return nil
	}))
}
