package evaluate

import (
	"encoding/json"
	"strconv"
	"strings"
)

// Reason is why an answer has its verdict: the key of a sentence and what is inserted in it. It is stored in this form and
// told in the reader's language.
type Reason struct {
	Key string
	// Values are those of the sentence's names, in the order of Sentences. The last name of a list takes all that are left.
	Values []string
}

// Lists are the names of sentences that take several values.
var Lists = []string{"Values", "Names"}

// Sentences are the keys of all reasons, each with the names that its sentence inserts.
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
}

// Because is a reason in the form in which it is stored: a list of JSON with the key and the values, cut to what is shown.
func Because(key string, values ...string) string {
	list := []string{key}
	for _, value := range values {
		list = append(list, cut(strings.TrimSpace(value), maxShown))
	}
	var text strings.Builder
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(list); err != nil {
		return key
	}
	return strings.TrimSpace(text.String())
}

// ReadReason reads a reason that Because wrote. isOne is false for any other text: a judge's own words, or what earlier
// versions stored.
func ReadReason(stored string) (reason Reason, isOne bool) {
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

// most is how many of several texts a reason shows.
const most = 5

func firstFew(texts []string) []string { return texts[:min(len(texts), most)] }

// figure is a number as a reason holds it: exact, so that it is shown with as many digits as it takes.
func figure(number float64) string { return strconv.FormatFloat(number, 'g', -1, 64) }

// ThresholdOf returns from which number on a verdict of this configuration passes, on the evaluator's own scale: a judge's
// ends at 100, others at 1. isThere is false for kinds without a threshold.
func ThresholdOf(kind Kind, config json.RawMessage) (threshold float64, isThere bool) {
	for _, field := range Fields[kind] {
		if field.Name != "threshold" {
			continue
		}
		var c struct {
			Threshold *float64 `json:"threshold"`
		}
		if json.Unmarshal(config, &c) == nil && c.Threshold != nil {
			return *c.Threshold, true
		}
		usual, err := strconv.ParseFloat(field.Default, 64)
		return usual, err == nil
	}
	return 0, false
}
