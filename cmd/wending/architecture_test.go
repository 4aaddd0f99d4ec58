package main

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// rooms lists the packages from top to bottom: each may import the packages below it in the list, and those in leaves.
var rooms = []string{
	"cmd/wending",
	"cmd/judgecheck",
	"handlers",
	"handlers/web",
	"handlers/web/create",
	"handlers/tools",
	"handlers/api",
	"handlers/library",
	"handlers/transfer",
	"handlers/replay",
	"handlers/people",
	"handlers/access",
	"handlers/pages",
	"handlers/rest",
	"handlers/form",
	"handlers/reading",
	"handlers/request",
	"views/taskpages",
	"views/saved",
	"views/notice",
	"views/summary",
	"views/judging",
	"views/results",
	"views/marks",
	"views/system",
	"views/replay",
	"views/help",
	"views/ui",
	"jobs",
	"jobs/crew",
	"jobs/archive",
	"jobs/courier",
	"jobs/library",
	"jobs/identity",
	"jobs/tasks",
	"db/upkeep",
	"db/dbtest",
	"db/people",
	"db/review",
	"db/engine",
	"db/report",
	"db/tasklist",
	"db/entries",
	"db",
	"db/outbox",
	"db/meaning",
	"db/pg/embedded",
	"db/pg",
}

// leaves take and return plain values, and import only other leaves.
var leaves = []string{
	"cmd/docs", "cmd/gate",
	"db/event", "db/measure", "db/measure/blocks", "db/measure/claim", "db/measure/facts", "db/measure/passage",
	"jobs/agent", "jobs/agent/agenttest", "jobs/agent/guard", "jobs/agent/observe", "jobs/agent/protocol",
	"jobs/agent/wire", "jobs/answers", "jobs/blob", "jobs/blob/blobtest", "jobs/courier/notify", "jobs/cron",
	"jobs/dataset", "jobs/dataset/datasettest", "jobs/evaluate", "jobs/export", "jobs/reason", "jobs/secret",
	"static",
	"views/markdown", "views/paths", "views/text",
}

// strangers maps libraries to the only packages that may import them.
var strangers = map[string][]string{
	"github.com/labstack/echo/v4": {"handlers", "handlers/web", "handlers/web/create", "handlers/library",
		"handlers/transfer",
		"handlers/replay", "handlers/people", "handlers/access", "handlers/pages", "handlers/api", "handlers/request",
		"handlers/rest"},
	"github.com/danielgtaylor/huma/v2": {"handlers/api", "handlers/library", "handlers/rest",
		"handlers/replay", "handlers/people", "handlers/transfer"},
	"github.com/jmoiron/sqlx": {"db", "db/engine", "db/upkeep", "db/dbtest",
		"db/entries", "db/report", "db/tasklist", "db/outbox", "db/meaning", "db/people", "db/pg", "db/review"},
	"github.com/lib/pq": {"db", "db/engine", "db/upkeep", "db/dbtest",
		"db/entries", "db/report", "db/tasklist", "db/outbox", "db/meaning", "db/people", "db/pg", "db/review"},
	"github.com/hibiken/asynq":         {"jobs"},
	"github.com/nicksnyder/go-i18n/v2": {"views/text"},
	"github.com/getsentry/sentry-go":   {"cmd/wending"},
	"github.com/a-h/templ": {"views/replay", "handlers/pages", "handlers/web", "handlers/web/create",
		"views/ui", "views/results", "views/saved", "views/summary", "views/taskpages", "views/system",
		"views/markdown", "views/help", "views/judging", "views/marks"},
	"github.com/modelcontextprotocol/go-sdk":   {"handlers/tools"},
	"github.com/klauspost/compress/flate":      {"jobs/export"},
	"github.com/klauspost/compress/zstd":       {"db/event"},
	"github.com/alexedwards/argon2id":          {"jobs/identity"},
	"go.mau.fi/util":                           {"db"},
	"github.com/coreos/go-oidc/v3/oidc":        {"handlers/access"},
	"github.com/go-ldap/ldap/v3":               {"handlers/access"},
	"github.com/go-webauthn/webauthn":          {"handlers/access"},
	"github.com/minio/minio-go/v7":             {"jobs/blob"},
	"github.com/gabriel-vasile/mimetype":       {"jobs/courier"},
	"golang.org/x/image":                       {"jobs/courier"},
	"github.com/robfig/cron/v3":                {"jobs/cron"},
	"go.yaml.in/yaml/v3":                       {"cmd/gate"},
	"github.com/wneessen/go-mail":              {"jobs/courier/notify"},
	"github.com/expr-lang/expr":                {"jobs/evaluate"},
	"github.com/ohler55/ojg/jp":                {"jobs/evaluate"},
	"github.com/santhosh-tekuri/jsonschema/v6": {"jobs/evaluate"},
	"github.com/xuri/excelize/v2":              {"jobs/dataset", "jobs/dataset/datasettest"},
	"go.opentelemetry.io/otel/sdk":             {"jobs"},
	"go.opentelemetry.io/otel/exporters":       {"jobs"},
	"go.opentelemetry.io/proto/otlp":           {"handlers/replay"},
}

// floors are the folders from top to bottom: no package, not even a leaf, may import from a folder above its own.
var floors = []string{"cmd", "handlers", "views", "jobs", "db"}

const maxLines = 4000

// maxImports bounds the imports among packages. Each import is one more package that a reader of the importing package
// has to know, and imports accumulate one at a time. When this limit is reached, merge two packages that belong
// together, or move a name to the package that uses it.
const maxImports = 559

// Packages import only what the lists above allow, and none outgrows what one person can read in an afternoon.
func TestTheLayoutHolds(t *testing.T) {
	t.Parallel()
	imports, lines := map[string]map[string]bool{}, map[string]int{}
	root := filepath.Join("..", "..")
	require.NoError(t, filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		folder, err := filepath.Rel(root, filepath.Dir(path))
		require.NoError(t, err)
		isTemplate := strings.HasSuffix(path, ".templ")
		isGenerated := strings.HasSuffix(path, "_templ.go")
		if !isTemplate && filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		content, err := os.ReadFile(path)
		require.NoError(t, err)
		if !isGenerated {
			lines[folder] += strings.Count(string(content), "\n")
		}
		if !strings.HasPrefix(folder, "db") {
			require.NotContains(t, string(content), ".Pool()", "%s: statements stand in db", path)
		}
		if isTemplate { // a template's imports are in its generated file
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, content, parser.ImportsOnly)
		require.NoError(t, err)
		if imports[folder] == nil {
			imports[folder] = map[string]bool{}
		}
		for _, spec := range file.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			require.NoError(t, err)
			imports[folder][imported] = true
		}
		return nil
	}))
	require.Greater(t, len(imports), 20)
	for folder, imported := range imports {
		place := slices.Index(rooms, folder)
		isLeaf := slices.Contains(leaves, folder)
		require.True(t, place >= 0 || isLeaf, "%s has no place in the layout", folder)
		for path := range imported {
			own, isOwn := strings.CutPrefix(path, "wending/")
			if floor := slices.Index(floors, strings.Split(own, "/")[0]); isOwn && floor >= 0 {
				require.GreaterOrEqual(t, floor, slices.Index(floors, strings.Split(folder, "/")[0]),
					"%s imports %s, which stands above it", folder, own)
			}
			isBetweenDoors := strings.HasPrefix(folder, "handlers/web") && own == "handlers/api"
			require.False(t, isBetweenDoors, "%s imports the API: what pages and the API share stands below both", folder)
			switch {
			case !isOwn:
				for library, users := range strangers {
					if path == library || strings.HasPrefix(path, library+"/") {
						require.Contains(t, users, folder, "%s imports %s", folder, library)
					}
				}
			case slices.Contains(leaves, own):
			case isLeaf:
				t.Errorf("%s is a leaf and imports %s", folder, own)
			default:
				require.Greater(t, slices.Index(rooms, own), place, "%s imports %s, against the arrows", folder, own)
			}
		}
	}
	own := 0
	for _, imported := range imports {
		for path := range imported {
			if strings.HasPrefix(path, "wending/") {
				own++
			}
		}
	}
	require.LessOrEqual(t, own, maxImports, "there are too many imports among packages")
	for folder, n := range lines {
		require.LessOrEqual(t, n, maxLines, "%s has too many lines: split it", folder)
	}
}
