package main

import (
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
	"unicode"

	"wending/db/measure/facts"
)

// numbered matches each answer, with its number, in a prompt that asks for groups.
var numbered = regexp.MustCompile(`(?s)Answer (\d+):\n<data-\w+>\n(.*?)\n</data-\w+>`)

// concluded matches the conclusion of one of the demo's answers.
var concluded = regexp.MustCompile(`(?:结论：|答案：|答案是)([^。\n]+)`)

// groupDemo groups answers: those with the same conclusion, or with about the same words and no contradicting facts. It
// always groups the same answers in the same way.
func groupDemo(user string) string {
	var firsts []string
	groups, notes := [][]int{}, []string{}
	for _, match := range numbered.FindAllStringSubmatch(user, -1) {
		number, _ := strconv.Atoi(match[1])
		said, at := conclusion(match[2]), -1
		for n, first := range firsts {
			if saysTheSame(first, said) {
				at = n
				break
			}
		}
		if at < 0 {
			at = len(firsts)
			firsts, groups, notes = append(firsts, said), append(groups, nil),
				append(notes, "说的是："+string([]rune(said)[:min(len([]rune(said)), 40)]))
		}
		groups[at] = append(groups[at], number)
	}
	reply, _ := json.Marshal(map[string]any{"groups": groups, "notes": notes})
	return string(reply)
}

// conclusion returns the conclusion of an answer, or the whole answer if no conclusion is found.
func conclusion(answer string) string {
	if found := concluded.FindStringSubmatch(answer); found != nil {
		return strings.TrimSpace(found[1])
	}
	return strings.TrimSpace(answer)
}

// saysTheSame reports whether two texts use about the same words and contain no contradicting facts.
func saysTheSame(a, b string) bool {
	for _, difference := range facts.Compare(a, b) {
		if difference.IsConflict {
			return false
		}
	}
	ofA, ofB := pairsOf(a), pairsOf(b)
	shared := 0
	for pair := range ofA {
		if ofB[pair] {
			shared++
		}
	}
	return len(ofA)+len(ofB) == 0 || 10*shared >= 3*(len(ofA)+len(ofB))
}

// pairsOf returns the pairs of neighbouring characters of a text, without white space and punctuation.
func pairsOf(text string) map[[2]rune]bool {
	pairs, before := map[[2]rune]bool{}, rune(0)
	for _, r := range strings.ToLower(text) {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			pairs[[2]rune{before, r}] = true
			before = r
		}
	}
	return pairs
}
