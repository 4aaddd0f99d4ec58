package taskpages

import (
	"strings"

	"wending/db"
	"wending/db/measure"
	"wending/db/report"
	"wending/views/paths"
	"wending/views/results"
	"wending/views/text"
	"wending/views/ui"
)

// Board has the state of each of a task's questions in compact form: one letter each, in the order of their numbers.
// The letter of a finished question stands for its level; a capital means that one of its runs has no answer. The
// page's script uses the same letters to repaint the squares that have changed.
type Board struct {
	States string
	// Variant is the number of the variant whose levels the letters show; 0, in a task with several variants, shows
	// only states.
	Variant int
}

// The letters of questions that have no level.
const (
	waiting = 'w'
	running = 'r'
	done    = 'd'
)

// levelLetters are the letters of levels.
var levelLetters = map[measure.Level]byte{
	measure.Identical: 'i', measure.FormatOnly: 'o', measure.Facts: 'c', measure.Wording: 'm', measure.Different: 'x',
	measure.Empty: 'e', measure.Unknown: 'u',
}

// States are the states of questions, by their numbers from 1 to Len.
type States interface {
	Len() int
	State(number int) report.ItemState
}

// NewBoard returns the board of questions in the given states. levels holds their levels in the same order; a level is
// empty while it is unknown, and levels is empty if there are several variants and none is chosen.
func NewBoard(states States, levels []measure.Level) Board {
	letters := make([]byte, states.Len())
	for n := range letters {
		state := states.State(n + 1)
		letter, isKnown := byte(done), false
		if n < len(levels) {
			letter, isKnown = levelLetters[levels[n]]
		}
		switch {
		case state == report.ItemWaiting:
			letter = waiting
		case state == report.ItemRunning:
			letter = running
		case !isKnown:
			letter = done
		}
		if state == report.ItemFailed {
			letter -= 'a' - 'A'
		}
		letters[n] = letter
	}
	return Board{States: string(letters)}
}

// key is an entry of the board's legend; the levels have their own legend above the board.
type key struct {
	letter, name string
	count        int
}

// keys returns the legend of the board: the number of questions in each state. Until all are done, each state keeps its
// place; then there is nothing to tell apart.
func (b Board) keys(locale text.Locale) (keys []key) {
	counts := map[rune]int{}
	for _, letter := range b.States {
		if letter != waiting && letter != running {
			letter = done
		}
		counts[letter]++
	}
	for _, one := range []struct {
		letter rune
		name   string
	}{{waiting, "board.waiting"}, {running, "board.running"}, {done, "board.done"}} {
		if counts[done] < len(b.States) {
			keys = append(keys, key{string(one.letter), locale.Text(one.name), counts[one.letter]})
		}
	}
	return keys
}

// levels returns the levels on the board of a variant, with the number of questions at each. Until all are done, each
// level keeps its place.
func (b Board) levels(locale text.Locale) (levels []key) {
	for _, level := range measure.ByRisk {
		letter := string(levelLetters[level])
		count := strings.Count(strings.ToLower(b.States), letter)
		if count > 0 || strings.ContainsAny(b.States, string(waiting)+string(running)) {
			levels = append(levels, key{string(level), ui.LevelName(locale, level), count})
		}
	}
	return levels
}

// questionHref returns the address of a question on the board, with the variant's answers open.
func (b Board) questionHref(task db.Task, number int) string {
	return paths.WithQuery(paths.Question(task.ID, number), results.Query{Variant: b.Variant}.Values())
}

// livePath returns the address of the changing part of the page, with the board of the same variant.
func (b Board) livePath(task db.Task) string {
	return paths.WithQuery(paths.TaskLive(task.ID), results.Query{Variant: b.Variant}.Values())
}

// failed returns the number of questions that have a run without an answer.
func (b Board) failed() (count int) {
	for _, letter := range b.States {
		if isFailed(letter) {
			count++
		}
	}
	return count
}

func isFailed(letter rune) bool { return letter >= 'A' && letter <= 'Z' }

// squareClass returns the CSS class of a question's square.
func squareClass(letter rune) string {
	if isFailed(letter) {
		return "b-" + strings.ToLower(string(letter)) + " b-f"
	}
	return "b-" + string(letter)
}

// words returns what the letters stand for, keyed by letter, for the titles of squares.
func (b Board) words(locale text.Locale) map[string]string {
	words := map[string]string{
		string(waiting): locale.Text("board.waiting"), string(running): locale.Text("board.running"),
		string(done): locale.Text("board.done"), "F": locale.Text("board.failed"),
	}
	for level, letter := range levelLetters {
		words[string(letter)] = ui.LevelName(locale, level)
	}
	return words
}

// squareTitle names a question with its state.
func squareTitle(number int, letter rune, words map[string]string) string {
	title := text.Number(number) + " " + words[strings.ToLower(string(letter))]
	if isFailed(letter) {
		title += " · " + words["F"]
	}
	return title
}

// smallBoard is the number of questions above which squares are small and contain no number.
const smallBoard = 300

// boardSize returns the CSS class of a board, which depends on its number of questions.
func (b Board) boardSize() string {
	if len(b.States) > smallBoard {
		return "is-small"
	}
	return ""
}
