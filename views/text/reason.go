package text

import (
	"slices"
	"strconv"
	"strings"

	"wending/jobs/reason"
)

// Reason returns, as a sentence, why an answer has its verdict. Texts that are not stored as a key (a judge's own
// words, and texts from earlier versions) are returned unchanged.
func (l Locale) Reason(stored string) string {
	told, isOne := reason.Read(stored)
	if !isOne {
		return stored
	}
	args := map[string]any{}
	for n, name := range reason.Sentences[told.Key] {
		if slices.Contains(reason.Lists, name) {
			quoted := make([]string, len(told.Values)-n)
			for place, value := range told.Values[n:] {
				quoted[place] = l.Text("reason.quoted", "Text", value)
			}
			args[name] = strings.Join(quoted, l.Text("word.list"))
			continue
		}
		args[name] = told.Values[n]
	}
	if limit, hasLimit := args["Limit"].(string); hasLimit {
		is, _ := strconv.ParseFloat(args["Is"].(string), 64)
		of, _ := strconv.ParseFloat(limit, 64)
		if told.Key != "latency" {
			args["Is"], args["Limit"] = Apart(is, of, 2)
		}
	}
	return l.TextWith("reason."+told.Key, args)
}

// maxDecimals is the maximum number of decimals with which a number is shown.
const maxDecimals = 12

// Apart formats two numbers with the given number of decimals, and with more if they would otherwise look equal
// without being equal.
func Apart(a, b float64, decimals int) (one, other string) {
	for ; decimals <= maxDecimals; decimals++ {
		one, other = strconv.FormatFloat(a, 'f', decimals, 64), strconv.FormatFloat(b, 'f', decimals, 64)
		if a == b || one != other {
			break
		}
	}
	return one, other
}
