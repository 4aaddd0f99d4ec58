package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The reasons why a statement on a project's table need not name a scope.
const (
	// ofReadTask means that the statement accepts the id of a task that its caller has read, or locked, within a scope.
	ofReadTask = "the id of a task read in scope"
	// ofWork means that the statement serves workers and schedules, which work in all projects.
	ofWork = "work of all projects"
	// ofFragment means that the declaration is part of a statement, which names the scope elsewhere.
	ofFragment = "a part of a statement that names it"
	// ofTestData means that the statement fills databases of tests.
	ofTestData = "data of tests"
)

// unscoped lists the declarations whose statements on projects' tables name no scope, each with the reason.
var unscoped = map[string]string{
	"db/dbtest SeedVariants": ofTestData,

	"db/entries taskUses": ofFragment, "db/entries schedules": ofFragment, "db/entries providers": ofFragment,
	"db/entries models":   ofFragment,
	"db/entries datasets": ofFragment,

	"db insertLaunch": ofReadTask, "db countLeft": ofReadTask, "db raiseAll": ofReadTask, "db raiseSome": ofReadTask,
	"db/engine firstRuns": ofReadTask, "db/engine conversationsOf": ofReadTask, "db/engine planMore": ofReadTask,
	"db computeVerdicts": ofReadTask, "db reopenTask": ofReadTask,
	"db computeTaskStatistics": ofReadTask, "db computeStability": ofReadTask, "db computeRanges": ofReadTask,
	"db computePassRateRange": ofReadTask, "db RestateStability": ofReadTask, "db findUnassessed": ofReadTask,
	"db/engine store": ofReadTask, "db/engine SetCeiling": ofReadTask, "db/outbox ofTasks": ofReadTask,
	"db/outbox ChannelsOf": ofReadTask, "db/review countOpen": ofReadTask,
	"db/outbox MarkPushing": ofReadTask, "db/report readComparable": ofReadTask, "db/report summariseItems": ofReadTask,
	"db/report clusters": ofReadTask, "db/report findHindrance": ofReadTask, "db/report where": ofReadTask,
	"db/report Whole": ofReadTask, "db/report EachScore": ofReadTask, "db/report AnswerKeys": ofReadTask,
	"db/report readExport": ofReadTask, "db/report itemStates": ofReadTask,
	"db/report sorts": ofFragment, "db/report numbersOfRuns": ofFragment, "db/report isCounted": ofFragment,
	"db/report Past": ofReadTask, "db/report PastOfJudge": ofReadTask, "db/report Measured": ofReadTask,
	"db/report readProgress": ofReadTask,
	"db/report Retrying":     ofReadTask, "db/report readVariantStatistics": ofReadTask,
	"db/report readSliceStatistics": ofReadTask, "db/review Assign": ofReadTask, "db/review Set": ofReadTask,
	"db/review lockTask": ofReadTask,
	"db/review change":   ofReadTask, "db/review verdictsOnRun": ofFragment, "db/review Draw": ofReadTask,
	"db/review DrawPairs": ofReadTask, "db/review Pairs": ofReadTask,
	"db/review Judged": ofReadTask, "db/review Fits": ofReadTask,
	"db/report countSettled": ofReadTask, "db/upkeep planRuns": ofReadTask, "db/upkeep insertRuns": ofReadTask,
	"db/upkeep Import": ofReadTask,

	"db insertUnits": ofWork, "db planRounds": ofWork, "db PlanRounds": ofWork, "db planLastRounds": ofWork,
	"db insertGroupingUnits": ofWork, "db PlanGroupings": ofWork, "db planLastGroupings": ofWork,
	"db/meaning Apply": ofWork, "db/meaning Import": ofReadTask, "db runLaunch": ofWork, "db startTask": ofWork,
	"db startLaunch": ofWork, "db LaunchCall": ofWork, "db closeTask": ofWork,
	"db FailLaunch": ofWork, "db StoreStatistics": ofWork, "db MarkAssessed": ofWork, "db/entries Due": ofWork,
	"db/entries Plan": ofWork, "db/engine hasCeilings": ofWork,
	"db/entries Fire": ofWork, "db/entries Unsummed": ofWork, "db/engine Exists": ofWork, "db/engine Prune": ofWork,
	"db/outbox Announce": ofWork, "db/outbox findOwn": ofWork,
	"db/outbox Claim": ofWork, "db/outbox Tidy": ofWork, "db/outbox AnnounceProgress": ofWork,
	"db/report UnassessedTask": ofWork,
	"db/upkeep lostEntries":    ofWork, "db/upkeep lostTargets": ofWork, "db/upkeep giveUp": ofWork,
	"db/upkeep Prune": ofWork, "db/upkeep Measure": ofWork, "db/upkeep readFigures": ofWork,
	"db/upkeep Figures": ofWork, "db/upkeep SavedAddresses": ofWork,
}

// projectTables returns an expression that matches the tables whose rows belong to a project.
func projectTables(t *testing.T) *regexp.Regexp {
	t.Helper()
	migrations, err := filepath.Glob("../../db/migrations/*.sql")
	require.NoError(t, err)
	added := regexp.MustCompile(`ALTER TABLE (\w+) ADD COLUMN project_id`)
	var tables []string
	for _, migration := range migrations {
		content, err := os.ReadFile(migration)
		require.NoError(t, err)
		for _, found := range added.FindAllStringSubmatch(string(content), -1) {
			if found[1] != "spending" { // its rows are sums over projects, and are never read one by one
				tables = append(tables, found[1])
			}
		}
	}
	require.Contains(t, tables, "evaluation_tasks")
	return regexp.MustCompile(`\b(FROM|JOIN|UPDATE|INTO) (` + strings.Join(tables, "|") + `)\b`)
}

// scopedBy matches the ways in which a declaration names a scope, or the project itself.
var scopedBy = regexp.MustCompile(`project_id|\bWithin\(|taskWithin\(|scope (db\.)?Scope\b`)

// Every statement on a table of projects names the scope, or only works on objects that its caller found within
// one.
func TestEveryStatementNamesItsScope(t *testing.T) {
	t.Parallel()
	onProjects, seen := projectTables(t), []string{}
	require.NoError(t, filepath.WalkDir("../../db", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		require.NoError(t, err)
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, path, source, 0)
		require.NoError(t, err)
		for _, declared := range file.Decls {
			for name, node := range declarations(declared) {
				text := string(source[set.Position(node.Pos()).Offset:set.Position(node.End()).Offset])
				if !onProjects.MatchString(text) || scopedBy.MatchString(text) {
					continue
				}
				name = strings.TrimPrefix(filepath.ToSlash(filepath.Dir(path)), "../../") + " " + name
				if !slices.Contains(seen, name) {
					seen = append(seen, name)
				}
			}
		}
		return nil
	}))
	require.ElementsMatch(t, slices.Collect(maps.Keys(unscoped)), seen,
		"statements on projects' tables that name no scope")
}

// declarations returns the functions, constants and variables that a declaration creates, by name.
func declarations(declared ast.Decl) map[string]ast.Node {
	found := map[string]ast.Node{}
	switch declared := declared.(type) {
	case *ast.FuncDecl:
		found[declared.Name.Name] = declared
	case *ast.GenDecl:
		for _, spec := range declared.Specs {
			if values, is := spec.(*ast.ValueSpec); is {
				found[values.Names[0].Name] = values
			}
		}
	}
	return found
}
