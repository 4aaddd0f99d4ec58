package people

import (
	"context"
	"errors"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/lib/pq"
	"golang.org/x/text/unicode/norm"

	"wending/db/pg"
)

// Limits on a list of sensitive patterns: their number, and the length of each in characters.
const (
	MaxPatterns      = 100
	MaxPatternLength = 200
	// maxInstructions is the maximum size of a compiled pattern, which determines how long matching takes per character.
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

// ParsePattern parses a pattern: an RE2 pattern between slashes, or a word. It returns ErrPattern if the text is
// neither.
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

// SensitiveAction is what happens when a launch would send content that matches a project's patterns.
type SensitiveAction string

// The actions: the launch is refused, or it starts once a person has confirmed what was found.
const (
	SensitiveRefuse  SensitiveAction = "refuse"
	SensitiveConfirm SensitiveAction = "confirm"
)

// SensitiveActions are all actions.
var SensitiveActions = []SensitiveAction{SensitiveRefuse, SensitiveConfirm}

// guarded holds the sensitive patterns that apply to a project or a launch, and what to do when they match.
type guarded struct {
	Patterns   pq.StringArray  `db:"sensitive_patterns"`
	Action     SensitiveAction `db:"sensitive_action"`
	Confirmed  pq.StringArray  `db:"confirmed_patterns"`
	AsksNobody bool            `db:"asks_nobody"`
}

// finder returns the finder of all patterns that are not in except. usual are the texts of the installation's patterns.
func (g guarded) finder(usual, except []string) (finder Finder, err error) {
	texts := []string(g.Patterns)
	if g.Patterns == nil {
		texts = usual
	}
	for _, text := range texts {
		pattern, err := ParsePattern(text)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(except, pattern.Text) {
			finder = append(finder, pattern)
		}
	}
	return finder, nil
}

// Finder returns the finder of a project's sensitive patterns, and what happens when they match. usual are the texts of
// the installation's patterns, which apply to projects without a list of their own.
func (p People) Finder(ctx context.Context, projectID uuid.UUID,
	usual []string) (finder Finder, action SensitiveAction, err error) {
	const query = `SELECT sensitive_patterns, sensitive_action FROM projects WHERE id = $1`
	var found guarded
	if err := p.db.GetContext(ctx, &found, query, projectID); err != nil {
		return nil, "", pg.Classify("read a project's sensitive patterns", err)
	}
	finder, err = found.finder(usual, nil)
	return finder, found.Action, err
}

// LaunchFinders returns the finders for what a launch sends to the models that judge and group answers: one for
// questions and prompts, and one for answers. The finder for questions leaves out the patterns that somebody has
// confirmed for the task. The finder for answers has all patterns, because nobody has seen new answers; but if the
// launch only assesses existing answers, it leaves out the same patterns, because the confirmation covered them.
func (p People) LaunchFinders(ctx context.Context, launchID uuid.UUID,
	usual []string) (questions, answers Finder, err error) {
	const query = `
		SELECT p.sensitive_patterns, p.sensitive_action, t.confirmed_patterns,
			l.kind IN ('EVALUATE', 'MEANING') AS asks_nobody
		FROM launches l
		JOIN evaluation_tasks t ON t.id = l.task_id
		JOIN projects p ON p.id = t.project_id
		WHERE l.id = $1`
	var found guarded
	if err := p.db.GetContext(ctx, &found, query, launchID); err != nil {
		return nil, nil, pg.Classify("read a launch's sensitive patterns", err)
	}
	if found.Action != SensitiveConfirm {
		found.Confirmed = nil
	}
	if questions, err = found.finder(usual, found.Confirmed); err != nil || found.AsksNobody {
		return questions, questions, err
	}
	answers, err = found.finder(usual, nil)
	return questions, answers, err
}

// ConfirmPatterns adds patterns to those that somebody has confirmed for a task of a project.
func (p People) ConfirmPatterns(ctx context.Context, projectID, taskID uuid.UUID, patterns []string) error {
	if len(patterns) == 0 {
		return nil
	}
	const add = `
		UPDATE evaluation_tasks
		SET confirmed_patterns = ARRAY(SELECT DISTINCT unnest(confirmed_patterns || $2::text[]) ORDER BY 1)
		WHERE id = $1 AND project_id = $3`
	_, err := p.db.ExecContext(ctx, add, taskID, pq.StringArray(patterns), projectID)
	return pg.Classify("confirm sensitive patterns", err)
}
