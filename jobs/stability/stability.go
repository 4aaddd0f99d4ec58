// Package stability tells how alike the answers to one question are.
package stability

import (
	"bytes"
	"crypto/sha256"

	"golang.org/x/text/unicode/norm"
)

// Key returns a key that is equal for answers that count as equal: the same text when both are trimmed of
// white space and brought to Unicode's normal form C. Bytes that are no UTF-8 count as they are.
func Key(answer []byte) []byte {
	sum := sha256.Sum256(norm.NFC.Bytes(bytes.TrimSpace(answer)))
	return sum[:16]
}

// Group is a set of equal answers.
type Group struct {
	Letter string
	Count  int
}

// Letters names equal answers by the same letter, in the order in which they first appear: A to Z, then
// AA and so on. A nil key is a run without an answer; its letter is empty.
func Letters(keys [][]byte) (letters []string, groups []Group) {
	letters = make([]string, len(keys))
	groupOf := map[string]int{}
	for n, key := range keys {
		if key == nil {
			continue
		}
		group, known := groupOf[string(key)]
		if !known {
			group = len(groups)
			groupOf[string(key)] = group
			groups = append(groups, Group{Letter: letter(group)})
		}
		groups[group].Count++
		letters[n] = groups[group].Letter
	}
	return letters, groups
}

func letter(n int) string {
	name := string(rune('A' + n%26))
	if n >= 26 {
		return letter(n/26-1) + name
	}
	return name
}
