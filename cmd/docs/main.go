// Command docs writes the generated parts of the repository's documents: the list of packages from their doc
// comments, and the results of benchmarks and of the chaos and hostile suites. Each part is enclosed in <!-- name
// --> and <!-- /name -->.
package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"
)

const usage = `usage: docs packages FILE                    lists the packages below the current folder
       docs output FILE NAME VERSION < text     keeps what a suite printed
       docs benchmarks FILE NAME VERSION < text keeps what go test -bench printed, as a table`

func main() {
	if err := run(os.Args[1:], ".", os.Stdin, time.Now()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string, root string, input io.Reader, now time.Time) error {
	if len(args) == 2 && args[0] == "packages" {
		list, err := packages(root)
		if err != nil {
			return err
		}
		return rewrite(args[1], "packages", list)
	}
	if len(args) != 4 || args[0] != "output" && args[0] != "benchmarks" {
		return errors.New(usage)
	}
	printed, err := io.ReadAll(input)
	if err != nil {
		return err
	}
	text := strings.TrimSpace(string(printed))
	if args[0] == "output" && text != "" {
		text = "```\n" + text + "\n```"
	}
	if args[0] == "benchmarks" {
		if text, err = benchmarks(root, text); err != nil {
			return err
		}
	}
	if text == "" {
		return errors.New("nothing was printed, so the document is left unchanged")
	}
	stamp := fmt.Sprintf("Version `%s`, %s, %d cores.", args[3], now.UTC().Format(time.DateOnly), runtime.NumCPU())
	return rewrite(args[1], args[2], stamp+"\n\n"+text)
}

// rewrite replaces the named part of the document at path with text.
func rewrite(path, name, text string) error {
	document, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	begin, end := "<!-- "+name+" -->\n", "<!-- /"+name+" -->"
	before, rest, hasBegin := strings.Cut(string(document), begin)
	_, after, hasEnd := strings.Cut(rest, end)
	if !hasBegin || !hasEnd {
		return fmt.Errorf("%s has no part %q", path, name)
	}
	return os.WriteFile(path, []byte(before+begin+"\n"+text+"\n\n"+end+after), 0o644) //nolint:gosec // a document of the repository
}

// sources returns the hand-written files below root: Go code and templates, without tests.
func sources(root string) (paths []string, err error) {
	err = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := entry.Name()
		if entry.IsDir() && path != root && (strings.HasPrefix(name, ".") || name == "testdata" || name == "node_modules") {
			return fs.SkipDir
		}
		isOurs := filepath.Ext(name) == ".templ" || filepath.Ext(name) == ".go" && !strings.HasSuffix(name, "_templ.go")
		if isOurs && !strings.HasSuffix(name, "_test.go") {
			paths = append(paths, path)
		}
		return nil
	})
	return paths, err
}

var packageComment = regexp.MustCompile(`(?m)((?:^//.*\n)+)^package \w+$`)

// packages lists the packages below root, by folder, with the first sentence of their doc comments.
func packages(root string) (string, error) {
	files, err := sources(root)
	if err != nil {
		return "", err
	}
	about := map[string]string{}
	for _, path := range files {
		content, err := os.ReadFile(path)
		if err != nil {
			return "", err
		}
		folder, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			return "", err
		}
		if _, isKnown := about[folder]; !isKnown {
			about[folder] = ""
		}
		if comment := packageComment.FindSubmatch(content); comment != nil && about[folder] == "" {
			about[folder] = sentence(string(comment[1]), filepath.Base(folder))
		}
	}
	var list strings.Builder
	top := ""
	for _, folder := range sortedKeys(about) {
		if about[folder] == "" {
			return "", fmt.Errorf("%s has no package comment", folder)
		}
		if first, _, _ := strings.Cut(folder, "/"); first != top {
			if top != "" {
				list.WriteString("\n")
			}
			top = first
			list.WriteString("| " + top + " | |\n| --- | --- |\n")
		}
		list.WriteString("| `" + folder + "` | " + strings.ReplaceAll(about[folder], "|", `\|`) + " |\n")
	}
	return strings.TrimSpace(list.String()), nil
}

// sentence returns the first sentence of a package comment, without the words that name the package.
func sentence(comment, name string) string {
	lines := strings.Split(strings.TrimSpace(comment), "\n")
	for n, line := range lines {
		lines[n] = strings.TrimSpace(strings.TrimPrefix(line, "//"))
	}
	text, _, _ := strings.Cut(strings.Join(lines, " ")+" ", ". ")
	text = strings.TrimSuffix(strings.TrimSpace(text), ".")
	text = strings.TrimPrefix(text, "Package "+name+" ")
	return strings.TrimPrefix(text, "Command "+name+" ")
}

var (
	benchmarkLine    = regexp.MustCompile(`(?m)^(Benchmark\S+)\s+\d+\s+(.+)$`)
	benchmarkComment = regexp.MustCompile(`(?m)((?:^//.*\n)*)^func (Benchmark\w+)\(`)
	processors       = regexp.MustCompile(`-\d+$`)
)

// benchmarks returns the printed output of benchmarks as a table, with the first sentence of each benchmark's doc
// comment.
func benchmarks(root, printed string) (string, error) {
	about := map[string]string{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		content, err := os.ReadFile(path)
		for _, found := range benchmarkComment.FindAllSubmatch(content, -1) {
			about[string(found[2])] = sentence(string(found[1]), "")
		}
		return err
	})
	if err != nil {
		return "", err
	}
	var table strings.Builder
	last := ""
	for _, line := range benchmarkLine.FindAllStringSubmatch(printed, -1) {
		name, part, _ := strings.Cut(processors.ReplaceAllString(line[1], ""), "/")
		if table.Len() == 0 {
			table.WriteString("| benchmark | what it measures | part | measured |\n| --- | --- | --- | --- |\n")
		}
		shown := []string{"`" + name + "`", about[name]}
		if name == last {
			shown = []string{"", ""}
		}
		last = name
		figures := slices.DeleteFunc(strings.Split(line[2], "\t"), func(figure string) bool {
			return strings.TrimSpace(figure) == ""
		})
		for n, figure := range figures {
			figures[n] = strings.Join(strings.Fields(figure), " ")
		}
		table.WriteString("| " + strings.Join(append(shown, strings.ReplaceAll(part, "_", " "), strings.Join(figures, " · ")),
			" | ") + " |\n")
	}
	return strings.TrimSpace(table.String()), nil
}

func sortedKeys(of map[string]string) (keys []string) {
	for key := range of {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}
