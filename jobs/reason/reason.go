// Package reason stores explanations for people independently of their language: as the key of a sentence and
// the values inserted in it.
package reason

import (
	"encoding/json"
	"strings"
)

// Reason is an explanation (of a verdict, a missing verdict or a file that was not copied), as the key of a sentence
// and the values inserted in it.
type Reason struct {
	Key string
	// Values are the values of the names that Sentences lists, in order. If the last name is a list, it takes all
	// remaining values.
	Values []string
}

// Lists are the names in Sentences that stand for several values.
var Lists = []string{"Values", "Names"}

// Sentences maps the keys of all reasons to the names that their sentences insert.
var Sentences = map[string][]string{
	"differs":           {"Is", "Should"},
	"contains.missing":  {"Values"},
	"contains.none":     {"Values"},
	"contains.found":    {"Values"},
	"regex":             {"Pattern"},
	"number.none":       {"Should"},
	"number.differs":    {"Is", "Should"},
	"number.absent":     {"Should"},
	"json.none":         {"Text"},
	"path.none":         {"Path"},
	"path.differs":      {"Path", "Is", "Should"},
	"similarity":        {"Is", "Limit"},
	"expression.false":  {},
	"expression.below":  {"Is", "Limit"},
	"latency":           {"Is", "Limit"},
	"schema.type":       {"Path", "Got", "Want"},
	"schema.required":   {"Path", "Names"},
	"schema.extra":      {"Path", "Names"},
	"schema.choice":     {"Path", "Names"},
	"schema.format":     {"Path", "Got", "Want"},
	"schema.pattern":    {"Path", "Got", "Want"},
	"schema.short":      {"Path", "Got", "Want"},
	"schema.long":       {"Path", "Got", "Want"},
	"schema.few":        {"Path", "Got", "Want"},
	"schema.many":       {"Path", "Got", "Want"},
	"schema.small":      {"Path", "Got", "Want"},
	"schema.large":      {"Path", "Got", "Want"},
	"schema.false":      {"Path"},
	"schema.other":      {"Path", "Detail"},
	"expected.number":   {"Text"},
	"expected.blank":    {"Text"},
	"expression.kind":   {"Kind"},
	"expression.number": {},
	"judge.unreadable":  {"Text"},

	"expression.unknown": {"Line", "Column", "Name"},
	"expression.ends":    {"Line", "Column"},
	"expression.token":   {"Line", "Column", "Text"},
	"expression.types":   {"Line", "Column", "Is", "Should"},
	"expression.convert": {"Line", "Column", "Text"},
	"expression.index":   {"Line", "Column", "Got", "Want"},
	"expression.zero":    {"Line", "Column"},
	"expression.absent":  {"Line", "Column", "Name"},
	"expression.json":    {"Line", "Column"},
	"expression.regex":   {"Line", "Column"},
	"expression.fails":   {"Line", "Column", "Text"},
	"expression.fault":   {},

	"schema.not":        {"Path"},
	"schema.oneof":      {"Path"},
	"schema.depends":    {"Path", "Got", "Names"},
	"schema.name":       {"Path", "Got"},
	"schema.unique":     {"Path", "Got", "Want"},
	"schema.contains":   {"Path"},
	"schema.fewfields":  {"Path", "Got", "Want"},
	"schema.manyfields": {"Path", "Got", "Want"},
	"schema.atmost":     {"Path", "Got", "Want"},
	"schema.atleast":    {"Path", "Got", "Want"},
	"schema.multiple":   {"Path", "Got", "Want"},
	"schema.fails":      {"Path"},
	"schema.refers":     {"Text"},
	"schema.reference":  {"Text"},
	"schema.regex":      {"Pattern"},
	"schema.draft":      {"Text"},
	"schema.unusable":   {},

	"path.invalid":  {"Column", "Text"},
	"regex.closing": {"Text"},
	"regex.repeat":  {"Text"},
	"regex.escape":  {"Text"},
	"regex.perl":    {"Text"},
	"regex.class":   {"Text"},
	"regex.large":   {},
	"regex.other":   {"Text"},

	"config.field":  {"Name"},
	"config.long":   {"Want"},
	"config.size":   {"Want"},
	"config.object": {},
	"config.json":   {},
	"config.kind":   {"Kind"},
	"config.costly": {},
	"limit":         {},

	"judge.call":     {"Code"},
	"judge.answered": {"Code", "Text"},
	"judge.withheld": {"Pattern"},

	"file.address":    {},
	"file.redirects":  {"Want"},
	"file.refused":    {"Text", "Name"},
	"file.unreached":  {},
	"file.http":       {"Code"},
	"file.compressed": {"Text"},
	"file.large":      {"Want"},
	"file.empty":      {},
	"file.cut":        {},
	"file.kind":       {"Is", "Should"},
	"file.store":      {},
	"file.archive":    {},
}

// IsOfCall reports whether a reason explains that a judge's call returned no reply: its sentence is shown without an
// introduction.
func (r Reason) IsOfCall() bool {
	return r.Key == "judge.call" || r.Key == "judge.answered" || r.Key == "judge.withheld"
}

// Because returns a reason in its stored form: a JSON list of the key and the values, each cut to MaxShown characters.
func Because(key string, values ...string) string {
	list := []string{key}
	for _, value := range values {
		list = append(list, Cut(strings.TrimSpace(value), MaxShown))
	}
	var text strings.Builder
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(list); err != nil {
		return key
	}
	return strings.TrimSpace(text.String())
}

// Read parses a reason that Because wrote. isOne is false for any other text, such as a judge's own words or a text
// stored by earlier versions.
func Read(stored string) (reason Reason, isOne bool) {
	var list []string
	if !strings.HasPrefix(stored, `["`) || json.Unmarshal([]byte(stored), &list) != nil {
		return reason, false
	}
	names, isKnown := Sentences[list[0]]
	if !isKnown || len(list)-1 < len(names) {
		return reason, false
	}
	return Reason{list[0], list[1:]}, true
}

// MaxShown is the maximum number of characters of a text that a reason shows.
const MaxShown = 200

// Cut cuts a text after the given number of characters, and marks the cut with an ellipsis. Invalid UTF-8 is replaced.
func Cut(text string, most int) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if runes := []rune(text[:min(len(text), 4*most+4)]); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return text
}
