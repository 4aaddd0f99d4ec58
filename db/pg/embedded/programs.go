package embedded

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// ErrNoPostgres means that the machine has no PostgreSQL server binaries.
var ErrNoPostgres = errors.New(
	"no PostgreSQL server found on this machine; install one (Debian, Ubuntu: apt-get install postgresql) or set " +
		"DATABASE_URL")

// OldestMajor is the oldest major version of PostgreSQL that the statements and migrations work on.
const OldestMajor = 13

// program is one of PostgreSQL's programs on this machine.
type program struct {
	path string
	// version is complete, such as 15.18.
	version string
	major   int
}

// folders are where Debian, Red Hat and PostgreSQL's own build install PostgreSQL's programs.
var folders = []string{"/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin", "/usr/local/pgsql/bin"}

// programs returns the installed versions of one of PostgreSQL's programs: those on PATH in their order, then those in
// the folders of distributions, the newest first. Wrappers that choose a version themselves are left out.
func programs(ctx context.Context, name string) (found []program) {
	add := func(folder string) (added []program) {
		path, err := filepath.EvalSymlinks(filepath.Join(folder, name))
		isKnown := slices.ContainsFunc(found, func(p program) bool { return p.path == path })
		if err != nil || filepath.Base(path) != name || isKnown {
			return nil
		}
		output, err := exec.CommandContext(ctx, path, "--version").Output() //nolint:gosec // PATH is the operator's
		// "postgres (PostgreSQL) 15.18 (Debian …)"
		fields := strings.Fields(string(output))
		if err != nil || len(fields) < 3 {
			return nil
		}
		return []program{{path, fields[2], majorOf(fields[2])}}
	}
	for _, folder := range filepath.SplitList(os.Getenv("PATH")) {
		if filepath.IsAbs(folder) {
			found = append(found, add(folder)...)
		}
	}
	var others []program
	for _, pattern := range folders {
		matching, _ := filepath.Glob(pattern) // the patterns are valid
		for _, folder := range matching {
			others = append(others, add(folder)...)
		}
	}
	slices.SortStableFunc(others, func(a, b program) int { return b.major - a.major })
	return append(found, others...)
}

// majorOf returns the major version in a version such as 15.18, 18beta1 or 15; 0 if there is none.
func majorOf(version string) int {
	end := strings.IndexFunc(version, func(r rune) bool { return r < '0' || r > '9' })
	if end >= 0 {
		version = version[:end]
	}
	major, _ := strconv.Atoi(version)
	return major
}

// serverFor returns the folder of the binaries for the database in dir: those of the version that created it or, for a
// new database, the first on PATH or else the newest.
func serverFor(ctx context.Context, dir string) (folder string, err error) {
	installed := slices.DeleteFunc(programs(ctx, "postgres"), func(p program) bool {
		_, err := os.Stat(filepath.Join(filepath.Dir(p.path), "initdb"))
		return err != nil
	})
	var versions []string
	for _, one := range installed {
		versions = append(versions, one.version)
	}
	content, err := os.ReadFile(filepath.Join(dir, "PG_VERSION"))
	if errors.Is(err, os.ErrNotExist) {
		for _, one := range installed {
			if one.major >= OldestMajor {
				return filepath.Dir(one.path), nil
			}
		}
		if len(installed) > 0 {
			return "", fmt.Errorf("this machine has PostgreSQL %s, but Wending needs version %d or later",
				strings.Join(versions, ", "), OldestMajor)
		}
		return "", ErrNoPostgres
	}
	if err != nil {
		return "", fmt.Errorf("read the database's version: %w", err)
	}
	made := strings.TrimSpace(string(content))
	for _, one := range installed {
		if one.major == majorOf(made) && one.major >= OldestMajor {
			return filepath.Dir(one.path), nil
		}
	}
	has := "no PostgreSQL server"
	if len(versions) > 0 {
		has = "only " + strings.Join(versions, ", ")
	}
	return "", fmt.Errorf("the database in %s was created by PostgreSQL %s, but this machine has %s; "+
		"install PostgreSQL %s again (Debian, Ubuntu: apt-get install postgresql-%s), which is found beside other versions, "+
		"or move the data to another version with pg_upgrade", dir, made, has, made, made)
}

// CheckServer returns an error unless the binaries for the database in dir, which may not exist yet, are installed.
func CheckServer(ctx context.Context, dir string) error {
	_, err := serverFor(ctx, dir)
	return err
}

// NewestTool returns the path of the newest version of one of PostgreSQL's client programs, which can read the output
// of all versions.
func NewestTool(ctx context.Context, name string) (string, error) {
	newest := 0
	for _, one := range programs(ctx, name) {
		newest = max(newest, one.major)
	}
	return FindTool(ctx, name, newest)
}

// FindTool returns the path of one of PostgreSQL's client programs for a server of a major version. It is of the same
// version or, if that is not installed, of the next newer one, because older programs refuse newer servers.
func FindTool(ctx context.Context, name string, major int) (string, error) {
	installed := programs(ctx, name)
	slices.SortStableFunc(installed, func(a, b program) int { return a.major - b.major })
	var versions []string
	for _, one := range installed {
		if one.major >= major {
			return one.path, nil
		}
		versions = append(versions, one.version)
	}
	if len(versions) == 0 {
		return "", fmt.Errorf("%s is not installed: it comes with PostgreSQL's client (Debian, Ubuntu: apt-get install "+
			"postgresql-client)", name)
	}
	return "", fmt.Errorf("the server is PostgreSQL %d, but this machine has %s %s only: install PostgreSQL's client of "+
		"version %d or later", major, name, strings.Join(versions, ", "), major)
}
