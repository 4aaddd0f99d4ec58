package passage

import (
	_ "embed" // for wordList
	"math"
	"strings"
	"sync"
)

// wordList has common Chinese words of up to four characters, the most frequent first. It is a part of the dictionary
// of github.com/go-ego/gse, under the Apache License 2.0: without names, numbers, rare words and negated words (不能 is
// two words, so that 不 can be marked alone), and with some customer service words added. The whole dictionary would
// take tens of megabytes of memory. A + marks words that name nothing: adverbs, adjectives, conjunctions,
// prepositions, pronouns, the commonest verbs, and nouns that are as general as these; a ~ marks other verbs.
//
//go:embed words.txt
var wordList string

// listed is the information about a word in the list.
type listed struct {
	cost      float32 // the cost of cutting a text at both ends of the word: the rarer the word, the higher
	isJoining bool
	isVerb    bool // a verb for a specific action
}

var lexicon = sync.OnceValue(func() map[string]listed {
	all := make(map[string]listed, strings.Count(wordList, "\n"))
	for line := range strings.Lines(wordList) {
		word, mark, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		all[word] = listed{float32(perWord + math.Log(float64(len(all)+20))), mark == "+", mark == "~"}
	}
	return all
})

const (
	// perWord is an additional cost of each word, so that fewer words are better.
	perWord = 3
	// unknownWord is the cost of a character that is not a word in the list.
	unknownWord = 11
	// longestWord is the length of the longest words in the list, in characters.
	longestWord = 4
)

// bytesPerHan is the length of a Chinese character in bytes.
const bytesPerHan = 3

// AppendWords appends the words of a run of Chinese characters: it chooses the division with the lowest total cost.
func AppendWords(tokens []string, run string) []string {
	count := len(run) / bytesPerHan
	if count < 2 {
		if run != "" {
			tokens = append(tokens, run)
		}
		return tokens
	}
	words := lexicon()
	best := make([]float32, count+1) // for each character: the lowest cost of the text that begins with it
	length := make([]int, count)     // for each character: the length of the word that begins with it
	for i := count - 1; i >= 0; i-- {
		for n := 1; n <= min(longestWord, count-i); n++ {
			word, isKnown := words[run[bytesPerHan*i:bytesPerHan*(i+n)]]
			if !isKnown && n > 1 {
				continue
			}
			if !isKnown {
				word.cost = unknownWord
			}
			if cost := word.cost + best[i+n]; n == 1 || cost < best[i] {
				best[i], length[i] = cost, n
			}
		}
	}
	for i := 0; i < count; i += length[i] {
		tokens = append(tokens, run[bytesPerHan*i:bytesPerHan*(i+length[i])])
	}
	return tokens
}

// IsVerb reports whether a Chinese word is a verb for a specific action.
func IsVerb(word string) bool { return lexicon()[word].isVerb }

// IsListed reports whether a Chinese word is in the list.
func IsListed(word string) bool {
	_, isListed := lexicon()[word]
	return isListed
}

// IsJoining reports whether a word names nothing, so that another word in its place hardly changes a fact unless the
// two are opposites. English words must be in lower case.
func IsJoining(word string) bool {
	if word == "" {
		return true
	}
	if word[0] >= 0x80 {
		return lexicon()[word].isJoining
	}
	if functionWords[word] || joiningWords[word] {
		return true
	}
	for _, ending := range [...]string{"s", "es", "d", "ed", "ing"} {
		if base, isFound := strings.CutSuffix(word, ending); isFound && len(base) >= 2 {
			twice := len(base) > 3 && base[len(base)-1] == base[len(base)-2] // permitted
			if joiningWords[base] || joiningWords[base+"e"] || twice && joiningWords[base[:len(base)-1]] {
				return true
			}
		}
	}
	if base, isFound := strings.CutSuffix(word, "ied"); isFound && joiningWords[base+"y"] {
		return true
	}
	if base, isFound := strings.CutSuffix(word, "ies"); isFound && joiningWords[base+"y"] {
		return true
	}
	return len(word) > 5 && strings.HasSuffix(word, "ly") && !howOften[word]
}

// IsFunction reports whether a word only joins other words, or consists of Chinese characters that only join others.
func IsFunction(word string) bool {
	return functionWords[word] || !strings.ContainsFunc(word, func(r rune) bool { return !IsFunctionCharacter(r) })
}

// howOften contains words in -ly that, unlike most adverbs, state a fact: adverbs of frequency, and nouns.
var howOften = map[string]bool{"hourly": true, "nightly": true, "weekly": true, "monthly": true, "quarterly": true,
	"yearly": true, "family": true, "supply": true, "assembly": true, "italy": true}

// joiningWords are the commonest English words that name nothing.
var joiningWords = func() map[string]bool {
	all := map[string]bool{}
	for _, word := range strings.Fields(`
		accept accomplish acquire act adapt add adjust advise affect agree aid aim allow announce answer appear apply approach
		arrange arrive ask assess assist
		assume assure attempt avoid be become begin behave believe belong bring build buy call carry cause change check choose
		cite claim clarify collect come
		commence communicate compare complete comprise concern conclude conduct confirm connect consider consist contact
		contain continue control convert cover
		create deal decide deem define deliver demand demonstrate deploy derive describe design designate desire detail detect
		determine develop direct discover
		discuss display do draw edit effect employ encounter end ensure enter establish estimate evaluate examine exceed
		execute exist expect experience explain
		express extend face facilitate fall feature feel fetch file fill find finish fit fix follow forget form furnish gain
		gather get give go govern grant guarantee
		guide handle happen have head hear help highlight hold identify illustrate imagine impact implement imply improve
		include incorporate indicate inform inspect
		install instruct intend introduce involve issue join keep know last launch lead learn leave let like list live locate
		look maintain make manage mark match
		matter mean measure meet mention modify monitor move name need notice notify observe obtain obey occur offer operate
		organize ought outline own participate
		pass perform pick place plan possess prefer prepare present preserve prevent proceed process produce prompt propose
		prove provide publish purchase pursue put
		question raise reach read realize reboot recall receive recognize recommend record refer reflect regard register
		relate rely remain remember remind remove
		render repeat replace reply report represent request require resemble resolve respect respond restart result retain
		retrieve return reveal review run safeguard
		save say see seek seem select serve set settle share show signify simplify sit solve sort speak specify spend stand
		start state stay stipulate store
		strive submit substitute succeed suffer suggest suit supply support suppose surpass suspect tackle take talk tell tend
		think track transfer transform treat trigger try
		turn understand undergo undertake update upgrade use utilize validate verify view wait want warn watch wish work write
		did done gave given goes gone got had has held kept knew known led left let made meant met paid put ran read said saw
		seen sent shown sold spent stood
		taken taught told took went won wrote written brought bought built chosen came found felt fell
		able additional adequate appropriate apparent available aware basic brief certain clear close common comparable
		complex comprehensive considerable convenient
		correct crucial current definite detailed difficult easy entire essential evident exact excellent familiar feasible
		fine frequent further general good great handy
		happy helpful huge ideal identical important infrequent key likely logical main major many much necessary nice notable
		numerous obvious occasional ordinary
		original other overall particular perfect possible potential practical precise present previous prime principal
		probable prominent proper quick ready real
		reasonable relevant reliable respective responsible rare right scarce serious several severe significant similar
		simple small smooth sole special specific standard straightforward
		strict substantial such sufficient suitable sure thorough tough typical uncommon unusual useful usual valuable various
		vital whole worth
		accordingly afterwards almost already alternatively although amid amidst among amongst anyway apart around because
		before besides beyond beforehand
		consequently despite during else enough especially etc ever example fast finally firstly furthermore hence here herein
		how however indeed
		instance instead just kindly lastly later likewise little lot maybe meanwhile merely mostly moreover namely
		nevertheless nonetheless now obviously often once
		otherwise overall own particularly perhaps please presumably pretty prior quite rather really regarding same secondly
		seldom shortly simply since sometimes soon
		still summary though thoroughly thus therefore throughout thereby thereafter together too toward towards typically
		unless upon usually very via well whenever where whereas
		wherever whether which while within yet short addition general case cases way ways manner thing things order fact
		terms purpose purposes regard`) {
		all[word] = true
	}
	return all
}()
