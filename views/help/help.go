// Package help holds the user's guide: chapters in every language, a search, and the mapping from pages to the
// chapters that explain them.
package help

import (
	"embed"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"wending/static"
	"wending/views/markdown"
	"wending/views/paths"
	"wending/views/text"
)

//go:embed zh-CN/*.md en/*.md
var files embed.FS

// order lists the chapters by the names of their files.
var order = []string{
	"start", "agents", "datasets", "tasks", "answers", "review", "report", "compare", "evaluators", "judges",
	"conversations",
	"replay", "schedules", "library", "programs", "accounts", "system",
}

// Chapter is a chapter of the guide in one language.
type Chapter struct {
	Name, Title string
	// Lead is the chapter's first paragraph as text.
	Lead     string
	Sections []Section
}

// Section is a part of a chapter with a heading that links can point to.
type Section struct {
	ID, Title string
	// HTML is the content, and words is the text that is searched.
	HTML, words string
}

// Chapters returns all chapters in a language.
func Chapters(lang string) []Chapter { return chapters()[lang] }

// Find returns a chapter in a language.
func Find(lang, name string) (chapter Chapter, found bool) {
	at := slices.IndexFunc(Chapters(lang), func(chapter Chapter) bool { return chapter.Name == name })
	if at < 0 {
		return Chapter{}, false
	}
	return Chapters(lang)[at], true
}

// chapters returns all chapters, keyed by language; they are parsed once. A missing file panics, which cannot happen at
// run time: the files are compiled in, and a test parses all of them.
var chapters = sync.OnceValue(func() map[string][]Chapter {
	all := map[string][]Chapter{}
	for _, lang := range text.Languages {
		for _, name := range order {
			content, err := files.ReadFile(path.Join(lang, name+".md"))
			if err != nil {
				panic(err)
			}
			all[lang] = append(all[lang], parse(lang, name, string(content)))
		}
	}
	return all
})

// parse parses a chapter: "# Title", its lead, then sections that begin with "## Title {#id}".
func parse(lang, name, content string) Chapter {
	head, rest, _ := strings.Cut(content, "\n## ")
	title, lead, _ := strings.Cut(strings.TrimPrefix(head, "# "), "\n")
	chapter := Chapter{Name: name, Title: strings.TrimSpace(title), Lead: plain(lead)}
	for part := range strings.SplitSeq(rest, "\n## ") {
		heading, body, _ := strings.Cut(part, "\n")
		title, id, _ := strings.Cut(heading, " {#")
		chapter.Sections = append(chapter.Sections, Section{
			ID: strings.TrimSuffix(strings.TrimSpace(id), "}"), Title: title,
			HTML: markdown.Trusted(body, address(lang)), words: plain(body),
		})
	}
	return chapter
}

// address returns a function that resolves the destination of a link or picture in a chapter: another chapter
// (tasks#stop), a picture of the guide in the language, or another site.
func address(lang string) func(destination string) string {
	return func(destination string) string {
		switch {
		case strings.Contains(destination, "://"):
			return destination
		case path.Ext(destination) == ".png":
			return static.URL(path.Join("help", lang, destination))
		}
		chapter, section, _ := strings.Cut(destination, "#")
		return paths.HelpChapter(chapter, section)
	}
}

// links matches Markdown links with their texts.
var links = regexp.MustCompile(`!?\[([^\]]*)\]\([^)]*\)`)

// plain returns a text on one line, without the marks of Markdown.
func plain(body string) string {
	var words []string
	for line := range strings.Lines(links.ReplaceAllString(body, "$1")) {
		line = strings.TrimLeft(strings.TrimSpace(line), "#>-| ")
		if line = strings.NewReplacer("**", "", "`", "", "|", " ").Replace(line); strings.Trim(line, "- ") != "" {
			words = append(words, strings.Fields(line)...)
		}
	}
	return strings.Join(words, " ")
}

// Hit is a section that a search found.
type Hit struct {
	Chapter Chapter
	Section Section
	// Excerpt is the text around the first hit.
	Excerpt []Part
}

// Part is a piece of an excerpt.
type Part struct {
	Text string
	// IsHit reports that the piece is one of the searched words.
	IsHit bool
}

// maxQuery is the maximum length of a query, in characters; the rest is ignored. around is the number of characters
// that an excerpt shows before the first hit; in total it shows three times as many.
const (
	maxQuery = 100
	around   = 60
)

// Search finds the sections that contain every word of a query; those with all words in their titles come first.
func Search(lang, query string) (hits []Hit) {
	if utf8.RuneCountInString(query) > maxQuery {
		query = string([]rune(query)[:maxQuery])
	}
	words := strings.Fields(fold(query))
	if len(words) == 0 {
		return nil
	}
	var inTitles, inText []Hit
	for _, chapter := range Chapters(lang) {
		for _, section := range chapter.Sections {
			title, content := fold(chapter.Title+" "+section.Title), fold(section.words)
			isInTitle, isFound := true, true
			for _, word := range words {
				hasTitle := strings.Contains(title, word)
				isInTitle = isInTitle && hasTitle
				isFound = isFound && (hasTitle || strings.Contains(content, word))
			}
			hit := Hit{chapter, section, excerpt(section.words, words)}
			if isInTitle {
				inTitles = append(inTitles, hit)
			} else if isFound {
				inText = append(inText, hit)
			}
		}
	}
	return append(inTitles, inText...)
}

// fold returns a text in a form for comparison, in which width and case make no difference.
func fold(s string) string { return strings.ToLower(norm.NFKC.String(s)) }

// excerpt returns the part of a text around the first occurrence of any of the words, with all their occurrences in it
// marked.
func excerpt(content string, words []string) (parts []Part) {
	folded := make([]string, 0, len(content)) // character by character, so that positions are the same in the original
	runes := []rune(content)
	for _, r := range runes {
		folded = append(folded, fold(string(r)))
	}
	wordAt := func(at int) (length int) {
		for _, word := range words {
			rest, n := word, at
			for n < len(folded) && rest != "" && strings.HasPrefix(rest, folded[n]) {
				rest, n = rest[len(folded[n]):], n+1
			}
			if rest == "" {
				length = max(length, n-at)
			}
		}
		return length
	}
	first := 0
	for at := range runes {
		if wordAt(at) > 0 {
			first = max(0, at-around)
			break
		}
	}
	last := min(len(runes), first+3*around)
	if first > 0 {
		parts = append(parts, Part{Text: "…"})
	}
	for at := first; at < last; {
		length := wordAt(at)
		isHit := length > 0
		length = max(1, length)
		piece := string(runes[at:min(at+length, len(runes))])
		if n := len(parts); n > 0 && !isHit && !parts[n-1].IsHit {
			parts[n-1].Text += piece
		} else {
			parts = append(parts, Part{piece, isHit})
		}
		at += length
	}
	if last < len(runes) {
		parts = append(parts, Part{Text: "…"})
	}
	return parts
}

// places maps prefixes of routes to the chapters and sections that explain their pages. The longest match wins.
var places = map[string]string{
	"/":                             "tasks#create",
	"/tasks":                        "tasks#list",
	"/tasks/:taskId":                "tasks#overview",
	"/tasks/:taskId/settings":       "tasks#page",
	"/tasks/:taskId/launches":       "tasks#launches",
	"/tasks/:taskId/results":        "answers#read",
	"/tasks/:taskId/results/print":  "report#print",
	"/tasks/:taskId/runs":           "answers#run",
	"/tasks/:taskId/review":         "review#sign-off",
	"/tasks/:taskId/review/same":    "review#one",
	"/tasks/:taskId/review/:number": "review#one",
	"/tasks/:taskId/pairs":          "review#pairs",
	"/tasks/:taskId/pairs/:number":  "review#pairs",
	"/tasks/:taskId/sign-off":       "review#sign-off",
	"/tasks/:taskId/report":         "report#summary",
	"/tasks/:taskId/variants":       "compare#variants",
	"/tasks/:taskId/units":          "replay#live",
	"/tasks/:taskId/replay":         "replay#again",
	"/tasks/:taskId/gallery":        "replay#files",
	"/files":                        "replay#files",
	"/tasks/:taskId/shares":         "accounts#share",
	"/compare":                      "compare#create",
	"/answers":                      "tasks#answers",
	"/dataset-template":             "datasets#columns",
	"/comparison":                   "compare#two",
	"/tasks/:taskId/review/carry":   "compare#carry",
	"/library":                      "library#kinds",
	"/library/providers":            "library#models",
	"/library/models":               "library#models",
	"/library/agents":               "library#agents",
	"/library/prompts":              "library#prompts",
	"/library/datasets":             "library#datasets",
	"/library/evaluators":           "evaluators#try",
	"/library/schedules":            "schedules#create",
	"/library/channels":             "schedules#channels",
	"/workers":                      "system#workers",
	"/storage":                      "system#storage",
	"/login":                        "accounts#sign-in",
	"/logout":                       "accounts#sign-in",
	"/setup":                        "accounts#sign-in",
	"/account":                      "accounts#own",
	"/admin/users":                  "accounts#roles",
	"/admin/audit":                  "accounts#audit",
	"/projects":                     "accounts#projects",
	"/shared":                       "accounts#share",
	"/metrics":                      "system#workers",
}

// Page returns the address at which the guide explains the page of a route, or its first page if no chapter does.
func Page(route string) string {
	for route != "" {
		if place, isKnown := places[route]; isKnown {
			chapter, section, _ := strings.Cut(place, "#")
			return paths.HelpChapter(chapter, section)
		}
		route = route[:max(0, strings.LastIndexByte(route, '/'))]
	}
	return paths.Help
}
