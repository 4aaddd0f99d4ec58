package static_test

import (
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var isUpdate = flag.Bool("update", false, "write the style library's used part")

// The style library as published, and the part of it that pages use.
const (
	wholeLibrary = "testdata/basecoat-1.0.2.min.css"
	usedLibrary  = "assets/vendor/basecoat-1.0.2.used.css"
)

// Pages load only those rules of the style library that can apply to them: the whole library is more than twice as
// large, and every first visit waits for it. After a change of classes, `make generate` writes the file.
func TestTheStyleLibraryHasWhatPagesUse(t *testing.T) {
	t.Parallel()
	whole, err := os.ReadFile(wholeLibrary)
	require.NoError(t, err)
	used := newUsage(t)
	want := used.prune(string(whole))
	if *isUpdate {
		require.NoError(t, os.WriteFile(usedLibrary, []byte(want), 0o600))
	}
	got, err := os.ReadFile(usedLibrary)
	require.NoError(t, err)
	if want != string(got) { // the difference would be one long line
		t.Fatal("classes have changed: run make generate, and commit " + usedLibrary)
	}
	require.Less(t, len(want), len(whole)/2)
	for _, kept := range []string{".btn", ".input", ".table", "@layer utilities", ".dark{", "[data-variant=outline]"} {
		require.Contains(t, want, kept)
	}
	require.NotContains(t, want, ".accordion")
	for _, block := range regexp.MustCompile(`(?:^|\})(?::root|\.dark)\{[^}]*\}`).FindAllString(want, -1) {
		_, declarations, _ := strings.Cut(strings.TrimSuffix(block, "}"), "{")
		require.Regexp(t, `^(?:--?[\w-]+:(?:"(?:[^"\\]|\\.)*"|[^;"])*(?:;|$)|color-scheme:\w+;?)+$`, declarations)
	}
}

// usage is what pages use: words are the words in string literals of templates and scripts, classes those on lines
// that contain “class”, and own are the style sheets that do not belong to the library.
type usage struct {
	words, classes map[string]bool
	own            string
}

var (
	quoted = regexp.MustCompile("\"(?:[^\"\\\\\n]|\\\\.)*\"|`[^`]*`|'[^'\n]*'")
	word   = regexp.MustCompile(`[A-Za-z_][\w-]*`)
)

// newUsage reads the sources of pages.
func newUsage(t *testing.T) usage {
	t.Helper()
	used := usage{words: map[string]bool{}, classes: map[string]bool{}}
	for folder, endings := range map[string][]string{"../views": {".templ", ".go"}, "assets": {".js", ".css"}} {
		require.NoError(t, filepath.WalkDir(folder, func(file string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || !slices.Contains(endings, filepath.Ext(file)) ||
				strings.HasSuffix(file, "_templ.go") || strings.HasSuffix(file, "_test.go") || file == usedLibrary {
				return err
			}
			content, err := os.ReadFile(file)
			if filepath.Ext(file) == ".css" {
				used.own += string(content)
				return err
			}
			for line := range strings.Lines(string(content)) {
				isClass := strings.Contains(strings.ToLower(line), "class")
				for _, one := range word.FindAllString(strings.Join(quoted.FindAllString(line, -1), " "), -1) {
					used.words[one] = true
					used.classes[one] = used.classes[one] || isClass
				}
			}
			for _, name := range regexp.MustCompile(`\s((?:data|aria)-[\w-]+)`).FindAllStringSubmatch(string(content), -1) {
				used.words[name[1]] = true
			}
			return err
		}))
	}
	return used
}

// declared matches the declaration of a custom property; a value in quotes may contain semicolons.
var declared = regexp.MustCompile(`(--[\w-]+):(?:"(?:[^"\\]|\\.)*"|'[^']*'|[^;{}"'])*;?`)

// prune returns the rules that can apply, with the properties that they need.
func (u usage) prune(css string) string {
	css = u.rules(css)
	for {
		before := len(css)
		css = regexp.MustCompile(`@property (--[\w-]+)\{[^}]*\}`).ReplaceAllStringFunc(css, func(rule string) string {
			name := regexp.MustCompile(`--[\w-]+`).FindString(rule)
			if strings.Count(css, name) == strings.Count(rule, name) {
				return ""
			}
			return rule
		})
		css = declared.ReplaceAllStringFunc(css, func(declaration string) string {
			name, _, _ := strings.Cut(declaration, ":")
			if !isRead(css, name) && !isRead(u.own, name) {
				return ""
			}
			return declaration
		})
		css = u.rules(css)
		if len(css) == before {
			return css + "\n"
		}
	}
}

// isRead reports whether a style sheet reads a custom property.
func isRead(css, name string) bool {
	return regexp.MustCompile(`var\(\s*` + regexp.QuoteMeta(name) + `[\s,)]`).MatchString(css)
}

// rules returns the rules of a style sheet, or of a block, that can apply and are not empty.
func (u usage) rules(css string) string {
	var kept strings.Builder
	for css != "" {
		at := strings.IndexAny(css, "{;")
		if at < 0 {
			return kept.String() + css
		}
		if css[at] == ';' {
			kept.WriteString(css[:at+1])
			css = css[at+1:]
			continue
		}
		head, end := css[:at], closing(css, at)
		body := css[at+1 : end]
		css = css[end+1:]
		name := strings.TrimSpace(head[strings.LastIndex(head, "*/")+1:])
		name = strings.TrimPrefix(name, "/")
		switch {
		case strings.HasPrefix(name, "@media"), strings.HasPrefix(name, "@supports"), strings.HasPrefix(name, "@layer"):
			if body = u.rules(body); body == "" && !strings.HasPrefix(name, "@layer") {
				continue
			}
		case strings.HasPrefix(name, "@"):
		default:
			if head = u.selectors(name); head == "" || strings.TrimSpace(body) == "" {
				continue
			}
		}
		kept.WriteString(head + "{" + strings.TrimSuffix(body, ";") + "}")
	}
	return kept.String()
}

// closing returns the index of the bracket that closes the bracket at index at; brackets in quotes do not count.
func closing(text string, at int) int {
	depth := 0
	for n := at; n < len(text); n++ {
		switch text[n] {
		case '"', '\'':
			n = unquoted(text, n)
		case '{', '(':
			depth++
		case '}', ')':
			if depth--; depth == 0 {
				return n
			}
		case '\\':
			n++
		}
	}
	return len(text)
}

// unquoted returns the index of the quote that closes the quote at index at.
func unquoted(text string, at int) int {
	for n := at + 1; n < len(text); n++ {
		switch text[n] {
		case '\\':
			n++
		case text[at]:
			return n
		}
	}
	return len(text) - 1
}

// selectors returns the selectors of a list that can match.
func (u usage) selectors(list string) string {
	return strings.Join(slices.DeleteFunc(split(list), func(one string) bool { return !u.canMatch(one) }), ",")
}

// split divides a list at its commas outside of brackets and quotes.
func split(list string) (parts []string) {
	from := 0
	for n := 0; n < len(list); n++ {
		switch list[n] {
		case '(':
			n = closing(list, n)
		case '"', '\'':
			n = unquoted(list, n)
		case '[':
			n += strings.IndexByte(list[n:], ']')
		case ',':
			parts, from = append(parts, list[from:n]), n+1
		}
	}
	return append(parts, list[from:])
}

var (
	named     = regexp.MustCompile(`^[.#]((?:[\w-]|\\.)+)`)
	attribute = regexp.MustCompile(`^\[([\w-]+)(?:[~|^$*]?=["']?([^"'\]]*)["']?)?[^\]]*\]`)
	function  = regexp.MustCompile(`^:([\w-]+)\(`)
)

// canMatch reports whether pages have what a selector names: its classes and ids, and the values of its attributes.
// What :not() excludes does not matter.
func (u usage) canMatch(selector string) bool {
	for selector != "" {
		if found := named.FindStringSubmatch(selector); found != nil {
			name := strings.ReplaceAll(found[1], `\`, "")
			if found[0][0] == '.' && !u.classes[name] || !u.words[name] {
				return false
			}
			selector = selector[len(found[0]):]
			continue
		}
		if found := attribute.FindStringSubmatch(selector); found != nil {
			isOwn := strings.HasPrefix(found[1], "data-")
			if isOwn && !u.words[found[1]] || found[2] != "" && (isOwn || found[1] == "role") && !u.words[found[2]] {
				return false
			}
			selector = selector[len(found[0]):]
			continue
		}
		if found := function.FindStringSubmatch(selector); found != nil {
			end := closing(selector, len(found[0])-1)
			if slices.Contains([]string{"is", "where", "has"}, found[1]) &&
				!slices.ContainsFunc(split(selector[len(found[0]):end]), u.canMatch) {
				return false
			}
			selector = selector[end+1:]
			continue
		}
		selector = selector[1:]
	}
	return true
}
