package evaluate

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"

	"wending/jobs/agent/wire"
)

// CodeMeaningUnreadable marks a question for which no reply contained a readable grouping.
const CodeMeaningUnreadable = "MEANING_UNREADABLE"

// saidGroups are the groups of a reply, as places of answers in the prompt, from 0.
type saidGroups struct {
	groups []saidGroup
	unsure []int
	// isConfused reports that the reply names an answer that does not exist, so nothing in it is certain.
	isConfused bool
	// begins reports that the reply begins with this object.
	begins bool
}

type saidGroup struct {
	members []int
	note    string
}

// readGroups returns the groups that a reply makes of count answers. They are in a JSON object or list, in any notation
// that wire.Passages accepts, or else in lines such as "Group 1: 1, 3". The last object with groups wins, because
// models quote before they conclude; a reply that ends with different groups than it began with contradicts itself.
func readGroups(text string, count int) (said saidGroups, isRead bool) {
	text = strings.TrimSpace(wire.AfterThoughts(text[max(0, len(text)-maxRead):]))
	if inner, isJSON := wire.Loosely(wire.Unfenced(text)); isJSON && inner.Kind == wire.String { // JSON in a JSON text
		text = strings.TrimSpace(string(inner.Text))
	}
	var first, last *saidGroups
	var loose []wire.Value // lists of numbers, each of which is a group
	for _, passage := range wire.Passages(text) {
		r := groupReader{count: count}
		if !r.whole(passage.Value, 0) {
			if passage.Value.Kind == wire.Array && len(passage.Value.Items) > 0 {
				loose = append(loose, passage.Value)
			}
			continue
		}
		r.said.begins = strings.Trim(text[:passage.From], "`json \t\r\n") == ""
		if last = &r.said; first == nil {
			first = last
		}
	}
	switch {
	case last == nil:
		r := groupReader{count: count}
		if len(loose) == 0 || !r.list(loose) {
			r = groupReader{count: count}
			r.lines(text)
		}
		return r.said, len(r.said.groups) > 0
	case first.begins && !slices.EqualFunc(first.groups, last.groups, func(a, b saidGroup) bool {
		return slices.Equal(a.members, b.members)
	}):
		return said, false
	}
	return *last, true
}

// groupReader reads the groups of count answers from JSON values.
type groupReader struct {
	count int
	said  saidGroups
}

// The names that models use for the parts of a grouping.
var (
	groupNames = []string{"groups", "group", "clusters", "grouping", "classes", "result", "results", "分组", "组",
		"类别", "分类"}
	memberNames = []string{"members", "answers", "answer", "items", "numbers", "ids", "indices", "成员", "回答", "答案", "编号"}
	noteNames   = []string{"note", "notes", "reason", "summary", "description", "meaning", "label", "name", "line", "说明",
		"理由", "意思", "概括", "备注"}
	unsureNames = []string{"unsure", "uncertain", "unclear", "不确定", "存疑"}
)

// whole reads a grouping, and reports whether the value is one: an object with a member "groups" (which some models
// wrap in another object), or a list of groups.
func (r *groupReader) whole(value wire.Value, depth int) bool {
	if depth > maxNesting {
		return false
	}
	if value.Kind == wire.Array {
		isOfGroups := len(value.Items) > 0 && !slices.ContainsFunc(value.Items, func(item wire.Value) bool {
			return item.Kind <= wire.String
		})
		return isOfGroups && r.list(value.Items)
	}
	isRead := r.inMember(value, depth)
	for _, field := range value.Fields {
		switch name := plainName(field.Name); {
		case slices.Contains(unsureNames, name):
			r.said.unsure = append(r.said.unsure, r.members(field.Value)...)
		case isRead && slices.Contains(noteNames, name):
			r.notes(field.Value)
		case !isRead && field.Value.Kind == wire.Object && !slices.Contains(groupNames, name):
			isRead = r.whole(field.Value, depth+1)
		}
	}
	return isRead || len(r.said.groups) == 0 && r.named(value)
}

// inMember reads the groups in an object's member "groups", and reports whether there are any.
func (r *groupReader) inMember(value wire.Value, depth int) (isRead bool) {
	for _, field := range value.Fields {
		if !slices.Contains(groupNames, plainName(field.Name)) || field.Value.Kind <= wire.String {
			continue
		}
		before := r.said
		r.said = saidGroups{unsure: before.unsure, isConfused: before.isConfused}
		if field.Value.Kind == wire.Array && r.list(field.Value.Items) || field.Value.Kind == wire.Object &&
			r.whole(field.Value, depth+1) {
			isRead = true
		} else {
			r.said = before
		}
	}
	return isRead
}

// list reads a list of groups, which are lists of numbers, or objects with members and a note. It reports whether there
// are any.
func (r *groupReader) list(items []wire.Value) bool {
	for _, item := range items {
		var group saidGroup
		switch item.Kind {
		case wire.Object:
			for _, field := range item.Fields {
				switch name := plainName(field.Name); {
				case slices.Contains(memberNames, name):
					group.members = append(group.members, r.members(field.Value)...)
				case slices.Contains(noteNames, name):
					group.note = noteOf(textIn(field.Value))
				}
			}
		default:
			group.members = r.members(item)
		}
		if len(group.members) > 0 {
			r.said.groups = append(r.said.groups, group)
		}
	}
	return len(r.said.groups) > 0
}

// named reads an object whose members are groups, {"A": [1, 3], "B": [2]}, or answers, {"1": "A", "2": "B"}. It reports
// whether there are any.
func (r *groupReader) named(value wire.Value) bool {
	byName := map[string]int{}
	for _, field := range value.Fields {
		if slices.Contains(unsureNames, plainName(field.Name)) || slices.Contains(noteNames, plainName(field.Name)) {
			continue
		}
		if field.Value.Kind == wire.Array {
			if slices.ContainsFunc(field.Value.Items, func(item wire.Value) bool { return item.Kind > wire.String }) {
				r.list(field.Value.Items)
			} else if members := r.members(field.Value); len(members) > 0 {
				r.said.groups = append(r.said.groups, saidGroup{members: members})
			}
			continue
		}
		place, isNumber := r.place(field.Name)
		if group := string(field.Value.Text); isNumber && field.Value.Kind <= wire.String && group != "" {
			at, isKnown := byName[group]
			if !isKnown {
				at, byName[group] = len(r.said.groups), len(r.said.groups)
				r.said.groups = append(r.said.groups, saidGroup{})
			}
			r.said.groups[at].members = append(r.said.groups[at].members, place)
		}
	}
	return len(r.said.groups) > 0
}

// notes assigns notes to the groups: a list in their order, or an object by their numbers.
func (r *groupReader) notes(value wire.Value) {
	for n, item := range value.Items {
		if n < len(r.said.groups) {
			r.said.groups[n].note = noteOf(textIn(item))
		}
	}
	for n, field := range value.Fields {
		if at, err := strconv.Atoi(numbers.FindString(field.Name)); err == nil {
			n = at - 1
		}
		if n >= 0 && n < len(r.said.groups) {
			r.said.groups[n].note = noteOf(textIn(field.Value))
		}
	}
}

// members returns the places of the answers that a value names; the value can be a number, a text with numbers, or a
// list of these. An answer that occurs twice in one list is returned once.
func (r *groupReader) members(value wire.Value) (places []int) {
	switch value.Kind {
	case wire.Number:
		if place, isNumber := r.place(string(value.Text)); isNumber {
			places = append(places, place)
		}
	case wire.String:
		for _, number := range numbers.FindAllString(norm.NFKC.String(string(value.Text)), -1) {
			if place, isNumber := r.place(number); isNumber {
				places = append(places, place)
			}
		}
	case wire.Array:
		for _, item := range value.Items {
			places = append(places, r.members(item)...)
		}
		slices.Sort(places)
		places = slices.Compact(places)
	case wire.Object:
		for _, field := range value.Fields {
			if name := plainName(field.Name); slices.Contains(memberNames, name) || name == "id" || name == "number" {
				places = append(places, r.members(field.Value)...)
			}
		}
	default:
	}
	return places
}

// numbers matches a number in a text.
var numbers = regexp.MustCompile(`\d+(?:\.\d+)?`)

// place returns the place of the answer whose number is in a text. If there is no such answer, the reply is marked as
// confused.
func (r *groupReader) place(text string) (place int, isNumber bool) {
	number, err := strconv.ParseFloat(numbers.FindString(norm.NFKC.String(text)), 64)
	if err != nil {
		return 0, false
	}
	if number != float64(int(number)) || number < 1 || int(number) > r.count || strings.Contains(text, "-") {
		r.said.isConfused = true
		return 0, false
	}
	return int(number) - 1, true
}

// aGroup matches a line that names a group and its answers: "- **Group A**: 1, 3 – they name 30 days".
var aGroup = regexp.MustCompile(
	`(?i)^[\s*_#>•-]*(?:group|cluster|第?\s*[0-9a-z一二三四五六七八九十]*\s*(?:组|类))\s*[0-9a-z一二三四五六七八九十]*[*_"\s]*[:：=]\s*(.+)$`)

// theMembers matches the numbers at the beginning of the text that aGroup captured.
var theMembers = regexp.MustCompile(
	`(?i)^[\s\[(（{]*((?:(?:answers?|回答|答案|and|和|与|、|,|，|&|#|\s)*\d+)+)[\s\])）}]*[-–—:：,，.。;；]*\s*(.*)$`)

// lines adds the groups in lines such as "Group 1: 1, 3".
func (r *groupReader) lines(text string) {
	for line := range strings.Lines(norm.NFKC.String(text)) {
		match := aGroup.FindStringSubmatch(strings.TrimSpace(line))
		if match == nil {
			continue
		}
		if of := theMembers.FindStringSubmatch(match[1]); of != nil {
			members := r.members(wire.Value{Kind: wire.String, Text: []byte(of[1])})
			r.said.groups = append(r.said.groups, saidGroup{members, noteOf(of[2])})
		}
	}
}

// noteOf returns a note as one line of at most MaxNote characters.
func noteOf(text string) string {
	line := strings.Join(strings.FieldsFunc(text, func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r)
	}), " ")
	if runes := []rune(line); len(runes) > MaxNote {
		return string(runes[:MaxNote-1]) + "…"
	}
	return line
}
