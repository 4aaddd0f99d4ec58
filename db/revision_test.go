package db_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"wending/db/measure"
)

// When the rules change, a migration must request that the questions of finished tasks are assessed again.
func TestEveryRevisionOfTheRulesHasItsMigration(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("migrations/*.sql")
	require.NoError(t, err)
	for _, file := range files {
		content, err := os.ReadFile(file)
		require.NoError(t, err)
		if strings.Contains(string(content), fmt.Sprintf("Revision %d of measure.Assess", measure.Revision)) &&
			strings.Contains(string(content), "SET is_assessed = false") {
			return
		}
	}
	t.Fatalf("no migration has the tasks assessed again by revision %d", measure.Revision)
}
