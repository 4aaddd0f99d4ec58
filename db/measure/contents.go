package measure

import (
	"slices"
	"strings"
	"unicode/utf8"

	"wending/db/measure/facts"
)

// Contents numbers texts: texts that differ at most in their format (FormatOnly) have the same number. The numbers
// begin at 0, in the order of first appearance. Texts that contradict each other on a fact never share a number.
func Contents(texts []string) (contents []int, count int) {
	contents = make([]int, len(texts))
	byForm := map[string][]int{} // maps a form to the first text of each content with that form
	for n, text := range texts {
		contents[n] = -1
		forms := formsOf(text)
		for _, form := range forms {
			if at := slices.IndexFunc(byForm[form], func(first int) bool { return !contradict(texts[first], text) }); at >= 0 {
				contents[n] = contents[byForm[form][at]]
				break
			}
		}
		if contents[n] < 0 {
			contents[n] = count
			count++
			for _, form := range forms {
				byForm[form] = append(byForm[form], n)
			}
		}
	}
	return contents, count
}

// formsOf returns the forms of a text: texts that differ only in format have a form in common, as have all empty texts.
// A text of more than MaxCompared characters has none.
func formsOf(text string) (forms []string) {
	if strings.TrimSpace(text) == "" {
		return []string{""}
	}
	if utf8.RuneCountInString(text) > MaxCompared {
		return nil
	}
	for kind, form := range map[string]string{"plain ": Plain(text), "json ": CanonicalJSON(text)} {
		if form != "" {
			forms = append(forms, kind+form)
		}
	}
	slices.Sort(forms)
	return forms
}

// contradict reports whether two texts contradict each other on a fact.
func contradict(a, b string) bool {
	return slices.ContainsFunc(facts.Compare(a, b), func(d facts.Difference) bool { return d.IsConflict })
}
