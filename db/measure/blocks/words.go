package blocks

import (
	_ "embed" // for the list of words
	"math"
	"strings"
	"sync"
	"unicode/utf8"

	"wending/db/measure"
)

// wordList has common Chinese words of up to four characters, the most frequent first. It is a part of the dictionary of
// github.com/go-ego/gse, under the Apache License 2.0: without names, numbers, rare words and negated ones – 不能 is two words,
// so that a 不 is marked alone –, and with some words of customer service added. The whole dictionary would take tens of megabytes of
// memory.
//
//go:embed words.txt
var wordList string

// rarity has for each word of the list the cost of cutting a text at both of its ends: the rarer a word, the higher.
var rarity = sync.OnceValue(func() map[string]float32 {
	all := make(map[string]float32, strings.Count(wordList, "\n"))
	for word := range strings.Lines(wordList) {
		all[strings.TrimSuffix(word, "\n")] = float32(perWord + math.Log(float64(len(all)+20)))
	}
	return all
})

const (
	// perWord is what each word costs besides: the fewer words a text has, the better.
	perWord = 3
	// unknownWord is the cost of a character that is no word of the list.
	unknownWord = 11
	// longestWord is the length of the longest words of the list.
	longestWord = 4
)

// words cuts a text into the words by which it is compared: those of UAX #29, and Chinese by the list.
func words(text string) (tokens []string) {
	from := 0 // of a run of Chinese characters
	at := 0
	for _, token := range measure.Words(text) {
		if r, size := utf8.DecodeRuneInString(token); !isHan(r) || size != len(token) {
			tokens = append(appendWords(tokens, text[from:at]), token)
			from = at + len(token)
		}
		at += len(token)
	}
	return appendWords(tokens, text[from:])
}

func isHan(r rune) bool { return r >= 0x4E00 && r <= 0x9FFF }

// bytesPerHan is how many bytes a Chinese character has.
const bytesPerHan = 3

// appendWords appends the words of a run of Chinese characters: those that together cost least.
func appendWords(tokens []string, run string) []string {
	count := len(run) / bytesPerHan
	if count < 2 {
		if run != "" {
			tokens = append(tokens, run)
		}
		return tokens
	}
	costs := rarity()
	best := make([]float32, count+1) // by character: the cost of what is behind it
	length := make([]int, count)     // by character: of the word that begins with it
	for i := count - 1; i >= 0; i-- {
		for n := 1; n <= min(longestWord, count-i); n++ {
			cost, isKnown := costs[run[bytesPerHan*i:bytesPerHan*(i+n)]]
			if !isKnown && n > 1 {
				continue
			}
			if !isKnown {
				cost = unknownWord
			}
			if cost += best[i+n]; n == 1 || cost < best[i] {
				best[i], length[i] = cost, n
			}
		}
	}
	for i := 0; i < count; i += length[i] {
		tokens = append(tokens, run[bytesPerHan*i:bytesPerHan*(i+length[i])])
	}
	return tokens
}
