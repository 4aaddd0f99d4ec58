package people

import (
	"context"
	"errors"
	"regexp"
	"regexp/syntax"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/lib/pq"
	"golang.org/x/text/unicode/norm"

	"wending/db/pg"
)

// The limits of a list of sensitive patterns: their number, and the length of one in characters.
const (
	MaxPatterns      = 100
	MaxPatternLength = 200
	// maxInstructions is the maximum size of a compiled pattern, which determines how long it takes per character.
	maxInstructions = 300
)

// ErrPattern means that a text is not a valid pattern: it is empty or too long, or the text between its slashes is not
// an RE2 expression, is too complex, or matches the empty string.
var ErrPattern = errors.New("invalid pattern")

// Pattern finds content that must not be sent: a word, in upper or lower case, full or half width, or an RE2 pattern.
type Pattern struct {
	// Text is the pattern as it was typed.
	Text       string
	word       string
	expression *regexp.Regexp
}

// ParsePattern reads a pattern: an RE2 pattern between slashes, or a word. It returns ErrPattern.
func ParsePattern(text string) (Pattern, error) {
	text = strings.TrimSpace(text)
	if text == "" || utf8.RuneCountInString(text) > MaxPatternLength || strings.ContainsAny(text, "\x00\r\n") {
		return Pattern{}, ErrPattern
	}
	inner, begins := strings.CutPrefix(text, "/")
	inner, ends := strings.CutSuffix(inner, "/")
	if !begins || !ends || inner == "" {
		return Pattern{Text: text, word: folded(text)}, nil
	}
	expression, err := compile(inner)
	if err != nil || expression.MatchString("") {
		return Pattern{}, ErrPattern
	}
	return Pattern{Text: text, expression: expression}, nil
}

// compile compiles an expression. It returns ErrPattern if the expression is invalid or could take too long to match.
func compile(text string) (*regexp.Regexp, error) {
	parsed, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return nil, ErrPattern
	}
	program, err := syntax.Compile(parsed.Simplify())
	if err != nil || len(program.Inst) > maxInstructions {
		return nil, ErrPattern
	}
	return regexp.Compile(text)
}

// folded returns a text without differences of case and width, and without invisible characters.
func folded(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.Is(unicode.Cf, r) {
			return -1
		}
		return r
	}, strings.ToLower(norm.NFKC.String(text)))
}

// Finder finds patterns in texts.
type Finder []Pattern

// Find returns the patterns that a text contains, regardless of the width of characters and, for words, of case and
// invisible characters. It stops when ctx ends.
func (f Finder) Find(ctx context.Context, text string) (found []string) {
	if len(f) == 0 || text == "" {
		return nil
	}
	plain := folded(text)
	narrow := norm.NFKC.String(text)
	for _, one := range f {
		if ctx.Err() != nil {
			return found
		}
		isFound := false
		if one.expression != nil {
			isFound = one.expression.MatchString(text) || narrow != text && one.expression.MatchString(narrow)
		} else {
			isFound = strings.Contains(plain, one.word)
		}
		if isFound {
			found = append(found, one.Text)
		}
	}
	return found
}

// Finder returns the finder of a project's sensitive patterns. usual are the texts of the installation's patterns,
// which apply to projects without a list of their own.
func (p People) Finder(ctx context.Context, projectID uuid.UUID, usual []string) (finder Finder, err error) {
	var own pq.StringArray
	err = p.db.GetContext(ctx, &own, `SELECT sensitive_patterns FROM projects WHERE id = $1`, projectID)
	if err != nil {
		return nil, pg.Classify("read a project's sensitive patterns", err)
	}
	texts := []string(own)
	if own == nil {
		texts = usual
	}
	for _, text := range texts {
		pattern, err := ParsePattern(text)
		if err != nil {
			return nil, err
		}
		finder = append(finder, pattern)
	}
	return finder, nil
}
