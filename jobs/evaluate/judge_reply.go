package evaluate

import (
	"cmp"
	"encoding/json"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"wending/jobs/agent/protocol"
	"wending/jobs/agent/wire"
	"wending/jobs/reason"
)

// CodeJudgeUnreadable marks ratings that could not be read from the model's reply.
const CodeJudgeUnreadable = "JUDGE_UNREADABLE"

// CodeWithheld marks an answer that was not sent to a model, because it matches a pattern that its project forbids. The
// pattern is the message of the call's outcome.
const CodeWithheld = "SENSITIVE_CONTENT"

// JudgeUnanswered returns why a judge's call gave no reply, in the form of reason.Because: the call's code, and the
// message of the model's server if there is one.
func JudgeUnanswered(code, message string) string {
	if code == CodeWithheld {
		return reason.Because("judge.withheld", message)
	}
	if _, words, hasWords := strings.Cut(message, ": "); hasWords &&
		(strings.HasPrefix(code, "HTTP_") || code == protocol.CodeAgent) {
		return reason.Because("judge.answered", code, words)
	}
	return reason.Because("judge.call", code)
}

// JudgeUnreadable returns why a reply gives no rating, in the form of reason.Because.
func JudgeUnreadable(reply []byte) string {
	return reason.Because("judge.unreadable", strings.ToValidUTF8(string(wire.Cut(reply, wire.ExcerptBytes)), "\uFFFD"))
}

// Vote holds the ratings in one of a model's replies.
type Vote struct {
	// Ratings maps dimensions to ratings from 0 to 100; dimensions that the model left out are missing.
	Ratings map[string]float64
	Reason  string
}

// overall returns the rating that decides: Overall or, without it, the mean.
func (v Vote) overall() float64 {
	if rating, isThere := v.Ratings[Overall]; isThere {
		return rating
	}
	sum := 0.0
	for _, rating := range v.Ratings {
		sum += rating
	}
	return sum / float64(len(v.Ratings))
}

// Score returns the rating that decides, from 0 to 1.
func (v Vote) Score() float64 { return v.overall() / MaxRating }

// maxRead is the number of bytes that are read at the end of a reply.
const maxRead = 200_000

// Read returns the ratings in a model's reply. They are in a JSON object, in any notation that wire.Passages accepts,
// or else in lines such as "overall: 90". The last object with a rating wins, because models quote before they
// conclude; a reply that begins with one rating and ends with another is ambiguous. isRead is false if there is no
// rating, if the reply is ambiguous about Overall, or if Overall is present but is not a number from 0 to 100: no other
// dimension replaces it.
func (j LLMJudge) Read(text string) (vote Vote, isRead bool) {
	text = strings.TrimSpace(wire.AfterThoughts(text[max(0, len(text)-maxRead):]))
	// The reply may be a JSON string that contains the JSON.
	if said, isJSON := wire.Loosely(wire.Unfenced(text)); isJSON && said.Kind == wire.String {
		text = strings.TrimSpace(string(said.Text))
	}
	var first, last *reading
	for _, passage := range wire.Passages(text) {
		found := j.read(passage.Value, 0)
		if !found.isAny() {
			continue
		}
		found.begins = strings.Trim(text[:passage.From], "`json \t\r\n") == ""
		if last = &found; first == nil {
			first = last
		}
	}
	if first == nil {
		lines := j.readLines(text)
		first, last = &lines, &lines
	}
	if first.begins && first.ratings[Overall] != last.ratings[Overall] {
		return vote, false
	}
	return last.vote(), last.isReadable()
}

// reading holds the ratings read from a reply or a part of it.
type reading struct {
	ratings map[string]float64
	// isInvalid reports that Overall is present but is not a single number from 0 to 100.
	isInvalid bool
	reason    string
	// reasons are the reasons for single dimensions.
	reasons []string
	// begins reports that the reply begins with this object.
	begins bool
}

func (r *reading) isAny() bool      { return r.isInvalid || len(r.ratings) > 0 }
func (r *reading) isReadable() bool { return !r.isInvalid && len(r.ratings) > 0 }

func (r *reading) vote() Vote {
	if r.reason == "" {
		r.reason = strings.Join(r.reasons, "\n")
	}
	return Vote{Ratings: r.ratings, Reason: r.reason}
}

// rate records the rating of a dimension.
func (r *reading) rate(dimension string, value wire.Value) {
	rating, isRating := ratingOf(value)
	before, isRepeated := r.ratings[dimension]
	switch {
	case dimension == Overall && (!isRating || isRepeated && before != rating):
		r.isInvalid = true
	case isRating:
		r.ratings[dimension] = rating
	}
}

// add adds the ratings of a part, except for dimensions that r has already rated.
func (r *reading) add(part reading) {
	if _, isThere := r.ratings[Overall]; !isThere && part.isInvalid {
		r.isInvalid = true
	}
	for dimension, rating := range part.ratings {
		if _, isThere := r.ratings[dimension]; !isThere {
			r.ratings[dimension] = rating
		}
	}
	if r.reason == "" {
		r.reason = part.reason
	}
	r.reasons = append(r.reasons, part.reasons...)
}

// The names that models use for the parts of a rating, and for quotations, which contain no rating.
var (
	scores   = []string{"score", "rating", "value", "points", "分数", "得分", "评分"}
	subjects = []string{"name", "dimension", "criterion", "metric", "维度", "名称"}
	reasons  = []string{"reason", "reasons", "reasoning", "rationale", "explanation", "comment", "理由", "原因"}
	quotes   = regexp.MustCompile(`answer|response|question|expected|reference|history|quot|example|回答|答案|问题|引用`)
)

// maxNesting is the maximum nesting of objects and lists in which ratings are searched for.
const maxNesting = 4

// read returns the ratings in a value. They may be under the names of the dimensions, in a list of names with scores,
// or, because some models wrap them, in an object or list inside the value.
func (j LLMJudge) read(value wire.Value, depth int) reading {
	found, within := reading{ratings: map[string]float64{}}, reading{ratings: map[string]float64{}}
	if depth > maxNesting {
		return found
	}
	for _, item := range value.Items {
		if dimension, isNamed := j.named(item); isNamed {
			j.rateWith(&found, dimension, item)
		} else {
			within.merge(j.read(item, depth+1))
		}
	}
	for _, field := range value.Fields {
		name := plainName(field.Name)
		dimension, isDimension := j.dimension(name)
		switch {
		case isDimension:
			j.rateWith(&found, dimension, field.Value)
		case slices.Contains(reasons, name):
			found.reason = textIn(field.Value)
		case field.Value.Kind > wire.String && !quotes.MatchString(name):
			within.merge(j.read(field.Value, depth+1))
		}
	}
	found.add(within)
	return found
}

// merge adds the ratings of another part of the same reply. If the two parts contradict each other about Overall, the
// ratings are invalid.
func (r *reading) merge(part reading) {
	before, isThere := r.ratings[Overall]
	if now, isAgain := part.ratings[Overall]; isThere && isAgain && now != before {
		r.isInvalid = true
	}
	r.isInvalid = r.isInvalid || part.isInvalid
	r.add(part)
}

// rateWith records a dimension's rating from a value, which may be an object with a score and a reason.
func (j LLMJudge) rateWith(r *reading, dimension string, value wire.Value) {
	score := value
	for _, field := range value.Fields {
		switch name := plainName(field.Name); {
		case slices.Contains(scores, name):
			score = field.Value
		case slices.Contains(reasons, name):
			r.reasons = append(r.reasons, dimension+": "+textIn(field.Value))
		}
	}
	r.rate(dimension, score)
}

// named returns the dimension that an item of a list names.
func (j LLMJudge) named(item wire.Value) (dimension string, isNamed bool) {
	for _, field := range item.Fields {
		if field.Value.Kind == wire.String && slices.Contains(subjects, plainName(field.Name)) {
			return j.dimension(plainName(string(field.Value.Text)))
		}
	}
	return "", false
}

// dimension returns the dimension that has the given name, in lower case.
func (j LLMJudge) dimension(name string) (dimension string, isOne bool) {
	place := slices.IndexFunc(j.Dimensions, func(one string) bool { return strings.ToLower(one) == name })
	if place < 0 {
		return "", false
	}
	return j.Dimensions[place], true
}

func plainName(name string) string { return strings.ToLower(strings.TrimSpace(name)) }

// textIn returns a value as text: lists and objects with one line per value.
func textIn(value wire.Value) string {
	var lines []string
	switch value.Kind {
	case wire.Null:
	case wire.Array:
		for _, item := range value.Items {
			lines = append(lines, textIn(item))
		}
	case wire.Object:
		for _, field := range value.Fields {
			lines = append(lines, field.Name+": "+textIn(field.Value))
		}
	default:
		return string(value.Text)
	}
	return strings.Join(lines, "\n")
}

// aLine matches a line that names a dimension and its rating: "- **overall**: 90".
var aLine = regexp.MustCompile(
	`^\s*(?:[-*•]\s+)?[*_"'“‘]*([^:：=*_"'“”‘’]{1,40}?)[*_"'”’]*\s*[:：=]\s*[*_"'“‘]*(.+?)[*_"'”’,;，；。\s]*$`)

// maxWord is the maximum length, in characters, of a rating that is a word: a longer text without a digit is prose.
const maxWord = 20

// readLines returns the ratings in lines such as "overall: 90".
func (j LLMJudge) readLines(text string) reading {
	found := reading{ratings: map[string]float64{}}
	for line := range strings.Lines(text) {
		match := aLine.FindStringSubmatch(line)
		if match == nil {
			continue
		}
		name := plainName(match[1])
		isProse := utf8.RuneCountInString(match[2]) > maxWord && !strings.ContainsFunc(match[2], unicode.IsDigit)
		if dimension, isDimension := j.dimension(name); isDimension && !isProse {
			found.rate(dimension, wire.Value{Kind: wire.String, Text: []byte(match[2])})
		} else if slices.Contains(reasons, name) {
			found.reason = match[2]
		}
	}
	return found
}

// rated matches a rating in a text: 85, 85/100, 85分, 85 %.
var rated = regexp.MustCompile(`^\s*\+?(\d+(?:\.\d+)?)\s*(?:分?\s*/\s*100\s*分?|out of 100|分|%|points?)?\s*$`)

// ratingOf parses a rating from 0 to 100; its digits may be full-width.
func ratingOf(value wire.Value) (rating float64, isRating bool) {
	switch value.Kind {
	case wire.Number:
		if json.Unmarshal(value.Text, &rating) != nil {
			return 0, false
		}
	case wire.String:
		match := rated.FindStringSubmatch(norm.NFKC.String(string(value.Text)))
		if match == nil {
			return 0, false
		}
		rating, _ = strconv.ParseFloat(match[1], 64)
	default:
		return 0, false
	}
	return rating, rating >= 0 && rating <= MaxRating
}

// JudgeVerdict is the result of a judge's votes.
type JudgeVerdict struct {
	// Ratings maps each rated dimension to its median rating, from 0 to 100.
	Ratings map[string]float64
	// Score is Overall or, without it, the mean of the dimensions, from 0 to 1. Passed is nil if IsDefault is set.
	Score  float64
	Passed *bool
	// Reason is taken from the vote whose overall rating is nearest to the median.
	Reason string
	// IsDefault reports that no vote could be read: every dimension is DefaultRating.
	IsDefault bool
}

// JudgeUnrated returns the verdict on an answer that a judge with this configuration never rated: its score and its
// ratings by dimension. If a later version wrote the configuration, the dimensions are unknown and left out.
func JudgeUnrated(config json.RawMessage) (score float64, ratings map[string]float64) {
	asked, err := ParseJudge(config)
	if err != nil {
		asked = LLMJudge{}
	}
	verdict := asked.Decide(nil)
	return verdict.Score, verdict.Ratings
}

// BetweenReplies separates a model's replies, one for each vote, in the text in which they are stored together.
const BetweenReplies = "\n\n———\n\n"

// VotesIn returns the score of each readable vote, from 0 to 1, in the stored text of a judge's replies; none if a
// reply contains the separator, because the votes cannot be told apart then.
func (j LLMJudge) VotesIn(replies string) (scores []float64) {
	all := strings.Split(replies, BetweenReplies)
	if len(all) > j.Votes {
		return nil
	}
	for _, reply := range all {
		if vote, isRead := j.Read(reply); isRead {
			scores = append(scores, vote.Score())
		}
	}
	return scores
}

// Decide combines the readable votes into a verdict; without votes, every rating is DefaultRating.
func (j LLMJudge) Decide(votes []Vote) JudgeVerdict {
	if len(votes) == 0 {
		verdict := JudgeVerdict{Ratings: map[string]float64{}, Score: float64(DefaultRating) / MaxRating, IsDefault: true}
		for _, dimension := range j.Dimensions {
			verdict.Ratings[dimension] = DefaultRating
		}
		return verdict
	}
	median := Vote{Ratings: map[string]float64{}}
	for _, dimension := range j.Dimensions {
		var ratings []float64
		for _, vote := range votes {
			if rating, isThere := vote.Ratings[dimension]; isThere {
				ratings = append(ratings, rating)
			}
		}
		if len(ratings) > 0 {
			median.Ratings[dimension] = medianOf(ratings)
		}
	}
	overall := median.overall()
	passed := overall >= *j.Threshold
	nearest := slices.MinFunc(votes, func(a, b Vote) int {
		return cmp.Compare(math.Abs(a.overall()-overall), math.Abs(b.overall()-overall))
	})
	return JudgeVerdict{Ratings: median.Ratings, Score: overall / MaxRating, Passed: &passed, Reason: nearest.Reason}
}

func medianOf(numbers []float64) float64 {
	slices.Sort(numbers)
	middle := len(numbers) / 2
	if len(numbers)%2 == 1 {
		return numbers[middle]
	}
	return (numbers[middle-1] + numbers[middle]) / 2
}
