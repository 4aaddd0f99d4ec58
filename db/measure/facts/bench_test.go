package facts_test

import (
	"strings"
	"testing"

	"wending/db/measure/facts"
)

func thousandCharacters(b testing.TB) (string, string) {
	var x, y strings.Builder
	for _, base := range readLines[base](b, "bases.jsonl") {
		if len([]rune(x.String())) < 1000 {
			x.WriteString(base.Text)
			x.WriteString("\n")
			y.WriteString(base.Paraphrase1)
			y.WriteString("\n")
		}
	}
	return string([]rune(x.String())[:1000]), string([]rune(y.String())[:1000])
}

func BenchmarkCompare(b *testing.B) {
	x, y := thousandCharacters(b)
	for b.Loop() {
		facts.Compare(x, y)
	}
}

func BenchmarkLong(b *testing.B) {
	x, y := thousandCharacters(b)
	x, y = strings.Repeat(x, 100), strings.Repeat(y, 100)
	for b.Loop() {
		facts.Compare(x, y)
	}
}
