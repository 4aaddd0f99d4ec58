package main

import (
	"strings"
	"sync/atomic"
)

// demoLetter is a long answer of the demo task. Of every five answers, one contains a wrong number, which reviewers
// have to find, and two end differently, which does not matter.
type demoLetter struct {
	right, wrong string // a text that occurs once in the standard answer, and its replacement in the wrong answer
	calls        atomic.Uint32
}

// demoLetters are the long answers, keyed by the beginning of their questions.
var demoLetters = map[string]*demoLetter{
	"我买的晨星 H200": {right: "签收之日起 30 日内", wrong: "签收之日起 35 日内"},
	"社区体检怎么预约":   {right: "空腹 8 小时以上", wrong: "空腹 6 小时以上"},
}

// letterTo returns the long answer to a question, if it has one.
func letterTo(question string) *demoLetter {
	for beginning, letter := range demoLetters {
		if strings.HasPrefix(question, beginning) {
			return letter
		}
	}
	return nil
}

// next returns the next answer, made from the standard answer.
func (l *demoLetter) next(known string) string {
	switch l.calls.Add(1) % 5 {
	case 2, 4:
		return known + "\n\n希望以上说明对您有帮助，祝您生活愉快！"
	case 3:
		return strings.Replace(known, l.right, l.wrong, 1)
	}
	return known
}
