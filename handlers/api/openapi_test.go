package api

import (
	"encoding/json"
	"flag"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/danielgtaylor/huma/v2"
	"github.com/labstack/echo/v4"
	"github.com/stretchr/testify/require"

	"wending/db"
	"wending/handlers/people"
	"wending/jobs/library"
)

var update = flag.Bool("update", false, "rewrite openapi.json")

// The document is stored in the repository, so that a change of the API is visible in a review. `make generate`
// writes it.
func TestTheWrittenDocumentIsUpToDate(t *testing.T) {
	e := echo.New()
	document, err := json.MarshalIndent(Register(e, e.Group(""), e.Group(""),
		Config{Library: &library.Service{}, People: people.Config{Store: new(db.Store)}}), "", "  ")
	require.NoError(t, err)
	if *update {
		require.NoError(t, os.WriteFile("openapi.json", append(document, '\n'), 0o600))
	}
	written, err := os.ReadFile("openapi.json")
	require.NoError(t, err)
	require.Equal(t, string(document), strings.TrimSuffix(string(written), "\n"), "run 'make generate' and commit")
}

// Every operation describes what it does and which errors it may return, and has an example of the response.
func TestEveryOperationIsDescribed(t *testing.T) {
	t.Parallel()
	e := echo.New()
	document := Register(e, e.Group(""), e.Group(""),
		Config{Library: &library.Service{}, People: people.Config{Store: new(db.Store)}})
	operations := 0
	for path, item := range document.Paths {
		for _, operation := range []*huma.Operation{item.Get, item.Post, item.Put, item.Patch, item.Delete} {
			if operation == nil {
				continue
			}
			operations++
			require.NotEmpty(t, operation.Summary, path)
			require.NotEmpty(t, operation.OperationID, path)
			for status, response := range operation.Responses {
				for contentType, media := range response.Content {
					require.True(t, media.Schema.Format == "binary" || media.Example != nil || hasExamples(document, media.Schema),
						"%s %s: no example of %s %s", operation.OperationID, path, status, contentType)
				}
				if status[0] >= '4' {
					require.Regexp(t, `: [A-Z_]+`, response.Description, "codes of %s %s", path, status)
				}
			}
			for _, parameter := range operation.Parameters {
				require.NotEmpty(t, parameter.Description, "%s %s", path, parameter.Name)
			}
		}
	}
	require.Greater(t, operations, 12)
}

// hasExamples reports whether all properties of a schema have examples.
func hasExamples(document *huma.OpenAPI, schema *huma.Schema) bool {
	if schema == nil {
		return false
	}
	if schema.Ref != "" {
		schema = document.Components.Schemas.SchemaFromRef(schema.Ref)
	}
	if len(schema.Examples) > 0 || slices.ContainsFunc(schema.AnyOf, func(one *huma.Schema) bool {
		return hasExamples(document, one)
	}) {
		return true
	}
	for _, property := range schema.Properties {
		if len(property.Examples) > 0 || property.Ref != "" && hasExamples(document, property) || property.Items != nil &&
			hasExamples(document, property.Items) {
			return true
		}
	}
	return false
}
