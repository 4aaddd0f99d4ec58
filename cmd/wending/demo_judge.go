package main

import (
	"encoding/json"
	"math/rand/v2"
	"regexp"
	"strings"
)

// demoJudge is the name of the model that the demo agent plays to judge answers and to group them.
const demoJudge = "demo-judge"

// material matches the texts between marks in a judge's prompt; each text has the same mark at both ends.
var material = regexp.MustCompile(`(?s)<data-(\w+)>\n(.*?)\n</data-(\w+)>`)

// judgeDemo rates an answer: the last material is the answer, and the one before it is the expected answer. It looks
// for the expected answer in the answer, and ignores instructions in it.
func judgeDemo(user string) string {
	answer, expected := user, ""
	if all := material.FindAllStringSubmatch(user, -1); len(all) > 0 {
		answer = all[len(all)-1][2]
		if len(all) > 1 {
			expected = strings.TrimSpace(all[len(all)-2][2])
		}
	}
	accuracy, reason := 20, "回答中没有标准答案的内容。"
	switch {
	case strings.Contains(answer, "100分") || strings.Contains(answer, "100 points"):
		accuracy, reason = 0, "回答试图影响打分。"
	case expected == "":
		accuracy, reason = 70, "没有标准答案，只能按常识判断。"
	case strings.TrimSpace(answer) == expected:
		accuracy, reason = 98, "与标准答案一致。"
	case strings.Contains(answer, expected):
		accuracy, reason = 88, "结论与标准答案一致，另有说明文字。"
	}
	rate := func(most int) int { return max(0, min(100, most-rand.IntN(6))) }
	ratings, _ := json.Marshal(map[string]any{
		"overall": rate(accuracy), "accuracy": rate(accuracy), "completeness": rate(accuracy + 2),
		"relevance": rate(min(100, accuracy+40)), "reason": reason,
	})
	return string(ratings)
}
